"""A PyTorch training: Sketchy in place of AdamW.

`Sketchy` is an optimizer like any other of `torch.optim`. On top of Adam's moments it keeps a small sketch for each
axis of a layer. That helps where inputs are correlated, as here. Both optimizers train the same small network for the
same number of steps, each at the best of four learning rates. On the handwritten digits of scikit-learn, whose inputs
are hardly correlated, the two end level.
"""

import matplotlib.pyplot as plt
import torch

from onsketch.torch import Sketchy

torch.manual_seed(0)
x = torch.randn(4096, 32) @ torch.randn(32, 32)  # correlated inputs
y = torch.tanh(x @ torch.randn(32, 1) / 10)
x_train, y_train, x_test, y_test = x[:3072], y[:3072], x[3072:], y[3072:]


def training(kind, rate):
    """Train for 400 steps and return the losses on the test rows, every 20 steps."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = kind(model.parameters(), lr=rate)
    losses = []
    for step in range(400):
        batch = torch.randint(len(x_train), (64,))
        optimizer.zero_grad()
        (model(x_train[batch]) - y_train[batch]).square().mean().backward()
        optimizer.step()
        if step % 20 == 19:
            with torch.no_grad():
                losses.append((model(x_test) - y_test).square().mean().item())
    return losses


figure, axes = plt.subplots(figsize=(6, 4))
for name, kind in (("AdamW", torch.optim.AdamW), ("Sketchy", Sketchy)):
    runs = {rate: training(kind, rate) for rate in (1e-3, 3e-3, 1e-2, 3e-2)}
    rate, losses = min(runs.items(), key=lambda run: run[1][-1])
    print(f"{name}: test loss {losses[4]:.3f} after 100 steps, {losses[-1]:.4f} after 400, at rate {rate}")
    axes.semilogy(range(20, 401, 20), losses, label=f"{name}, rate {rate}")
axes.set(xlabel="step", ylabel="test loss", title="Regression on correlated inputs")
axes.legend()
figure.savefig("pytorch_training.svg", bbox_inches="tight")
