"""Train the papers' network on MNIST, Fashion-MNIST or CIFAR-10 with an optimizer of onsketch.torch, or a peer.

The network of Wan and Zhang (2018, 2021): two 3×3 convolutions of 32 and 64 channels, 2×2 pooling, dropout, a dense
layer of 128, dropout, a dense layer of 10. As in the papers the convolutions are sketched, and the dense layers are
trained by diagonal AdaGrad with the same learning rate (with ``--decay`` below 1 of averaged squares, not of sums).

    python examples/papers_cnn.py --data FOLDER --dataset mnist --optimizer AdaFFD --lr 0.1 --epochs 3

The folder holds the files as they are distributed: IDX files for MNIST and Fashion-MNIST (plain or .gz, with the
prefix ``mnist-`` or ``fashion-``, or none), and CIFAR-10's ``cifar-10-batches-bin``, or tiled pictures
``cifar10-data_batch_1.webp`` with the labels in ``cifar10-train_labels.json.xz`` (these need Pillow).
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from onsketch import torch as sketched

BATCH = 128
SKETCHED = ("AdaFD", "AdaFFD", "SAdaGrad", "AdaGP", "RadaGrad", "FDSON", "RFDSON")
FIRST_ORDER = ("Adagrad", "Adam", "OGD")


class Data(NamedTuple):
    """Pictures as bytes, (n, channels, height, width), and labels."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor

    def to(self, device: torch.device | str) -> Data:
        """All parts on this device."""
        return Data(*(part.to(device) for part in self))


# Reading ----------------------------------------------------------------------------------------------------------


def load(folder: Path, dataset: str, limit: int | None = None) -> Data:
    """A data set of the folder, or the first ``limit`` pictures of its parts."""
    if dataset in ("mnist", "fashion"):
        names = ("train-images", "train-labels", "t10k-images", "t10k-labels")
        parts = [_idx(_find(folder, dataset, name)) for name in names]
        train_x, train_y, test_x, test_y = (torch.from_numpy(part.copy()) for part in parts)
        train_x, test_x = train_x.unsqueeze(1), test_x.unsqueeze(1)
    elif (folder / "cifar-10-batches-bin").is_dir():
        train_x, train_y = _binary_batches(sorted((folder / "cifar-10-batches-bin").glob("data_batch_*.bin")))
        test_x, test_y = _binary_batches([folder / "cifar-10-batches-bin" / "test_batch.bin"])
    else:
        train_x, train_y = _tiled_batches(folder, "train")
        test_x, test_y = _tiled_batches(folder, "test")
    limit = limit or len(train_x)
    return Data(train_x[:limit], train_y[:limit].long(), test_x[:limit], test_y[:limit].long())


def _find(folder: Path, dataset: str, name: str) -> Path:
    kind = "idx3" if name.endswith("images") else "idx1"
    names = [f"{prefix}{name}-{kind}-ubyte{end}" for prefix in (f"{dataset}-", "") for end in (".gz", "")]
    for candidate in names:
        if (folder / candidate).is_file():
            return folder / candidate
    raise FileNotFoundError(f"{dataset}: none of {', '.join(names)} is in {folder}")


def _idx(path: Path) -> np.ndarray:
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def _binary_batches(paths: list[Path]) -> tuple[Tensor, Tensor]:
    records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, 3073) for path in paths])
    return torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(records[:, 0].copy())


def _tiled_batches(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    labels = np.array(json.loads(lzma.decompress((folder / f"cifar10-{part}_labels.json.xz").read_bytes())))
    pictures, chosen = [], []
    for number in range(1, 6) if part == "train" else [1]:
        path = folder / ("cifar10-test_batch.webp" if part == "test" else f"cifar10-data_batch_{number}.webp")
        if path.is_file():
            tiles = np.array(Image.open(path).convert("RGB")).reshape(100, 32, 100, 32, 3)
            pictures.append(tiles.transpose(0, 2, 4, 1, 3).reshape(10_000, 3, 32, 32))
            chosen.append(labels[10_000 * (number - 1) : 10_000 * number])
    if not pictures:
        raise FileNotFoundError(f"cifar10: no cifar10-*_batch*.webp and no cifar-10-batches-bin in {folder}")
    return torch.from_numpy(np.concatenate(pictures)), torch.from_numpy(np.concatenate(chosen))


# Model and optimizer ----------------------------------------------------------------------------------------------


class PapersCNN(nn.Sequential):
    """The 4-layer network of the papers, as in the Keras examples."""

    def __init__(self, channels: int, side: int) -> None:
        pooled = (side - 4) // 2
        super().__init__(
            nn.Conv2d(channels, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.Flatten(),
            nn.Linear(64 * pooled * pooled, 128),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(128, 10),
        )


def make_optimizer(name: str, model: nn.Module, lr: float, **options: object) -> torch.optim.Optimizer:
    """The papers' setting: sketches on the convolutions, the diagonal elsewhere; or a first-order method."""
    if name == "Adam":
        return torch.optim.Adam(model.parameters(), lr=lr, foreach=True)
    if name == "Adagrad":
        return torch.optim.Adagrad(model.parameters(), lr=lr, eps=1e-8, foreach=True)
    if name == "OGD":
        return torch.optim.SGD(model.parameters(), lr=lr, foreach=True)
    convolutions = [p for layer in model.modules() if isinstance(layer, nn.Conv2d) for p in layer.parameters()]
    theirs = {id(p) for p in convolutions}
    others = [p for p in model.parameters() if id(p) not in theirs]
    groups = [{"params": convolutions}, {"params": others, "diagonal_above": 0}]
    return getattr(sketched, name).paper(groups, lr=lr, **options)


def set_rate(optimizer: torch.optim.Optimizer, name: str, lr: float, step: int) -> None:
    """OGD's η/√t; the others keep theirs."""
    if name == "OGD":
        for group in optimizer.param_groups:
            group["lr"] = lr / math.sqrt(step)


def as_input(pictures: Tensor) -> Tensor:
    """Bytes as numbers from 0 to 1."""
    return pictures.float() / 255.0


# Training ---------------------------------------------------------------------------------------------------------


class Training:
    """Fast epochs of one model: data on the device, forward and backward pass as one CUDA graph where there is one."""

    def __init__(self, data: Data, name: str, lr: float, seed: int, **options: object) -> None:
        torch.manual_seed(seed)
        self.data, self.name, self.lr = data, name, lr
        self.device = data.train_x.device
        self.model = PapersCNN(data.train_x.shape[1], data.train_x.shape[2]).to(self.device)
        self.optimizer = make_optimizer(name, self.model, lr, **options)
        self.steps = 0
        self.x = as_input(data.train_x[:BATCH]).clone()
        self.y = data.train_y[:BATCH].clone()
        self.graph: torch.cuda.CUDAGraph | None = None
        if self.device.type == "cuda":
            self._capture()

    def _capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                nn.functional.cross_entropy(self.model(self.x), self.y).backward()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = nn.functional.cross_entropy(self.model(self.x), self.y)
            self.loss.backward()

    def epoch(self) -> float:
        """One pass; returns the mean training loss, dropout in force."""
        self.model.train()
        order = torch.randperm(len(self.data.train_x), device=self.device)
        total, batches = torch.zeros((), device=self.device), len(order) // BATCH
        for batch in order[: batches * BATCH].view(batches, BATCH):
            self.x.copy_(as_input(self.data.train_x[batch]))
            self.y.copy_(self.data.train_y[batch])
            if self.graph is not None:
                self.graph.replay()
            else:
                self.optimizer.zero_grad()
                self.loss = nn.functional.cross_entropy(self.model(self.x), self.y)
                self.loss.backward()
            self.steps += 1
            set_rate(self.optimizer, self.name, self.lr, self.steps)
            self.optimizer.step()
            total += self.loss.detach()
        return float(total) / batches

    @torch.no_grad()
    def accuracy(self) -> float:
        """On the test pictures."""
        self.model.eval()
        right = 0
        for start in range(0, len(self.data.test_x), 1000):
            part = slice(start, start + 1000)
            right += int((self.model(as_input(self.data.test_x[part])).argmax(1) == self.data.test_y[part]).sum())
        return right / len(self.data.test_x)

    def run(self, epochs: int) -> Iterator[dict[str, float]]:
        """Loss, accuracy and seconds of training after each epoch; ends early once the loss is not finite."""
        seconds = 0.0
        for number in range(1, epochs + 1):
            start = time.perf_counter()
            loss = self.epoch()
            seconds += time.perf_counter() - start
            yield {"epoch": number, "loss": loss, "accuracy": self.accuracy(), "seconds": seconds}
            if not math.isfinite(loss):
                return


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data files")
    parser.add_argument("--dataset", choices=("mnist", "fashion", "cifar10"), default="mnist")
    parser.add_argument("--optimizer", choices=(*SKETCHED, *FIRST_ORDER), default="AdaFFD")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--ridge", type=float, help="of the sketched methods")
    parser.add_argument("--sketch-size", type=int)
    parser.add_argument("--decay", type=float)
    parser.add_argument("--graft", action="store_true", default=None)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="use this many pictures only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    names = ("ridge", "sketch_size", "decay", "graft")
    options = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if options and args.optimizer in FIRST_ORDER:
        parser.error(f"{', '.join(options)}: for the sketched methods only, not for {args.optimizer}")
    data = load(args.data, args.dataset, args.limit).to(args.device)
    training = Training(data, args.optimizer, args.lr, args.seed, **options)
    if args.optimizer in SKETCHED:
        print(training.optimizer.memory_plan())  # type: ignore[attr-defined]
    for line in training.run(args.epochs):
        outcome = f"loss {line['loss']:.4f}, test accuracy {line['accuracy']:.4f}"
        print(f"epoch {line['epoch']}: {outcome}, {line['seconds']:.1f} s")


if __name__ == "__main__":
    main()
