"""Six small problems to train: an MLP, the papers' CNN, a ResNet-18, two transformers and an MLP on a table.

A task says what a model is, what a batch costs and how good the model is on what it has not seen. Pictures are read by
``examples/papers_cnn.py``; the characters are those of Python's own library, which every machine has.
"""

from __future__ import annotations

import itertools
import lzma
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("examples", "src")]

import torch
from papers_cnn import PapersCNN, as_input, load
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Batch = tuple[Tensor, ...]


@dataclass
class Task:
    """A problem; everything random comes from the generator given."""

    name: str
    steps: int
    model: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], Batch]
    held_out: list[Batch]

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        x, y = batch
        return cross_entropy(model(x).flatten(0, -2), y.flatten())

    @torch.no_grad()
    def test_loss(self, model: nn.Module) -> float:
        """The mean loss on what is held out."""
        model.eval()
        total = sum(float(self.loss(model, batch)) * len(batch[0]) for batch in self.held_out)
        model.train()
        return total / sum(len(batch[0]) for batch in self.held_out)


def pictures(name: str, folder: Path, device: str, limit: int | None, model: Callable[[Tensor], nn.Module]) -> Task:
    """Batches of 128; of CIFAR-10 mirrored and shifted at random."""
    dataset = "cifar10" if name == "resnet" else "fashion"
    data = load(folder, dataset, limit).to(device)
    scaled = as_input(data.train_x)
    mean, spread = scaled.mean((0, 2, 3), keepdim=True), scaled.std((0, 2, 3), keepdim=True)
    train, test = (scaled - mean) / spread, (as_input(data.test_x[:5000]) - mean) / spread
    labels = data.train_y

    def batch(generator: torch.Generator) -> Batch:
        chosen = torch.randint(len(train), (128,), generator=generator).to(device)
        x = train[chosen]
        if name == "resnet":
            flip, down, right = (int(k) for k in torch.randint(0, 9, (3,), generator=generator))
            x = x.flip(3) if flip % 2 else x
            x = nn.functional.pad(x, (4, 4, 4, 4))[:, :, down : down + 32, right : right + 32]
        return x, labels[chosen]

    held_out = list(zip(test.split(1000), data.test_y[:5000].split(1000), strict=True))
    return Task(name, STEPS[name], lambda: model(train), batch, held_out)


def mlp(example: Tensor) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(example[0].numel(), 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inside: int, width: int) -> None:
        super().__init__()
        stride = 1 if inside == width else 2
        self.main = nn.Sequential(
            nn.Conv2d(inside, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip
        around = [nn.Conv2d(inside, width, 1, stride, bias=False), nn.BatchNorm2d(width)] if stride == 2 else []
        self.around = nn.Sequential(*around)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.main(x) + self.around(x))


def resnet18(widths: tuple[int, ...] = (64, 64, 64, 128, 128, 256, 256, 512, 512)) -> nn.Module:
    """A ResNet-18 for pictures of 32×32 in ten classes."""
    first = widths[0]
    return nn.Sequential(
        nn.Conv2d(3, first, 3, 1, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU(),
        *[Block(a, b) for a, b in zip(widths, widths[1:], strict=False)],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10),
    )  # fmt: skip


class Attention(nn.Module):
    """A layer of a transformer, norms first."""

    def __init__(self, width: int, heads: int, causal: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        h = self.before(x)
        q, k, v = (f(h).unflatten(2, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.dense(self.between(x))


class Transformer(nn.Module):
    """Predicts the next character."""

    def __init__(self, characters: int, context: int, width: int, layers: int, heads: int = 4) -> None:
        super().__init__()
        self.embedding, self.place = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*[Attention(width, heads) for _ in range(layers)], nn.LayerNorm(width))
        self.head = nn.Linear(width, characters, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(x) + self.place.weight[: x.shape[1]]))


class VisionTransformer(nn.Module):
    """Predicts the class of a picture from its patches."""

    def __init__(self, example: Tensor, patch: int = 4, width: int = 96, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        _, channels, height, across = example.shape
        self.patches = nn.Unfold(patch, stride=patch)
        self.embedding = nn.Linear(channels * patch * patch, width)
        self.place = nn.Parameter(0.02 * torch.randn(height // patch * (across // patch), width))
        self.layers = nn.Sequential(
            *[Attention(width, heads, causal=False) for _ in range(layers)], nn.LayerNorm(width)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(self.patches(x).mT) + self.place).mean(1))


def table(folder: Path, device: str, rows: int = 60_000) -> Task:
    """Kinds of forest from 54 columns, scaled by the training part; a tenth of the rows drawn is held out."""
    with lzma.open(folder / "covtype.csv.xz", "rt") as file:
        lines = file.readlines()[1:]
    drawn = torch.randperm(len(lines), generator=torch.Generator().manual_seed(0))[:rows].tolist()
    whole = torch.tensor([[float(cell) for cell in lines[k].split(",")] for k in drawn], device=device)
    x, y = whole[:, :-1], whole[:, -1].long() - 1
    cut = rows * 9 // 10
    x = (x - x[:cut].mean(0)) / x[:cut].std(0).clamp(min=1e-6)

    def batch(generator: torch.Generator) -> Batch:
        chosen = torch.randint(cut, (128,), generator=generator).to(device)
        return x[chosen], y[chosen]

    def model() -> nn.Module:
        widths = (54, 256, 256, 256)
        hidden = [layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(widths[-1], 7))

    return Task("table", STEPS["table"], model, batch, list(zip(x[cut:].split(1000), y[cut:].split(1000), strict=True)))


def characters(device: str, context: int = 128, width: int = 256, layers: int = 4, rows: int = 32) -> Task:
    """Python's standard library as a text; the last tenth is held out."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text = "".join(file.read_text("utf-8", errors="ignore") for file in files[:60]).encode("ascii", "ignore")
    whole = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    whole = torch.unique(whole, return_inverse=True)[1].to(device)
    cut = len(whole) * 9 // 10
    train, test = whole[:cut], whole[cut:]

    def windows(of: Tensor, starts: Tensor) -> Batch:
        window = of[starts[:, None] + torch.arange(context + 1, device=device)]
        return window[:, :-1], window[:, 1:]

    def batch(generator: torch.Generator) -> Batch:
        return windows(train, torch.randint(cut - context - 1, (rows,), generator=generator).to(device))

    starts = torch.arange(0, len(test) - context - 1, max(1, len(test) // 256), device=device)[:256]
    held_out = [windows(test, part) for part in starts.split(64)]
    count = int(whole.max()) + 1
    return Task("characters", STEPS["characters"], lambda: Transformer(count, context, width, layers), batch, held_out)


def task(name: str, folder: Path, device: str, limit: int | None = None) -> Task:
    """A task by name."""
    if name == "characters":
        return characters(device)
    if name == "table":
        return table(folder, device)
    makers: dict[str, Callable[[Tensor], nn.Module]] = {
        "mlp": mlp, "cnn": lambda x: PapersCNN(x.shape[1], x.shape[2]), "resnet": lambda x: resnet18(),
        "vit": VisionTransformer,
    }  # fmt: skip
    return pictures(name, folder, device, limit, makers[name])


STEPS = {"mlp": 1000, "cnn": 1000, "resnet": 800, "vit": 1000, "table": 1000, "characters": 1000}
TASKS = tuple(STEPS)
