"""Shards on disk for the tests of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def write_svm(path: Path, X: Any, y: Any) -> None:
    lines = (
        f"{label:.17g} " + " ".join(f"{j}:{v:.17g}" for j, v in enumerate(row) if v) + "\n"
        for row, label in zip(X, y, strict=True)
    )
    path.write_text("".join(lines))


def cut(n: int, parts: int, seed: int = 0) -> list[slice]:
    """A stretch of n rows in so many pieces of unequal length, empty ones among them."""
    edges = np.sort(np.random.default_rng(seed).integers(0, n + 1, parts - 1))
    edges = np.concatenate([[0], edges, [n]])
    return [slice(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def shards_of(folder: Path, X: Any, y: Any, parts: int, seed: int = 0) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for k, piece in enumerate(cut(len(y), parts, seed)):
        paths.append(folder / f"{k:04d}.svm")
        write_svm(paths[-1], X[piece], y[piece])
    return [str(path) for path in paths]
