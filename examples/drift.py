"""Drift: a stream whose relation changes.

The weights of a relation stand still for 4,000 rows, then turn to their opposite, and then jump back. A learner that
averages over all rows falls behind. `forget=0.995` remembers about 200 rows. `forget="auto"` mixes three rates of
forgetting, so that none has to be chosen. Errors are those of predictions made before a row was learned.
"""

import matplotlib.pyplot as plt
import numpy as np

import onsketch

rng = np.random.default_rng(0)
n, d = 12_000, 10
X = rng.normal(size=(n, d))
start, end = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
angle = np.concatenate([np.zeros(n // 3), np.linspace(0, np.pi, n // 3), np.zeros(n // 3)])
weights = np.cos(angle)[:, None] * start + np.sin(angle)[:, None] * end
y = np.where((X * weights).sum(axis=1) + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)

figure, axes = plt.subplots(figsize=(6, 4))
for forget in (1.0, 0.995, "auto"):
    learner = onsketch.learner("auto", loss="logistic", forget=forget)
    wrong = learner.learn(X, y) * y <= 0
    after = slice(8_000, 8_500)
    print(f"forget={forget!r}: {wrong.mean():.1%} errors, {wrong[after].mean():.1%} in 500 rows after the jump")
    axes.plot(np.arange(100, n + 1, 100), wrong.reshape(-1, 100).mean(axis=1), label=f"forget={forget!r}")
axes.set(xlabel="row", ylabel="errors in 100 rows", title="Still, turning, still again after a jump")
axes.legend()
figure.savefig("drift.svg", bbox_inches="tight")
