"""Whole data sets in memory: rows and labels −1 and +1 from the catalogue's files, and the stand-in for gisette."""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError

if TYPE_CHECKING:
    from onsketch.data.catalogue import DataSet

Array = NDArray[np.float64]


def read(known: DataSet, paths: list[Path]) -> tuple[Any, Array]:
    """Return the rows and labels of a set in format libsvm, csv or idx."""
    if known.form == "idx":
        images, digits_ = digits(paths)
        return images / 255.0, np.where(np.isin(digits_, known.positive or ()), 1.0, -1.0)
    if known.form == "libsvm":
        return _libsvm(known, paths[0])
    if known.name == "covtype":
        table = _table(paths[0])
        widest = np.maximum(np.abs(table[:, :-1]).max(axis=0), 1.0)
        return table[:, :-1] / widest, np.where(table[:, -1] == 2.0, 1.0, -1.0)
    if known.name == "ionosphere":
        return _ionosphere(paths[0], known)
    raise InputError(f"{known.name}: {known.note or 'this set is not loaded here'}.")


def rows_digest(X: Any, y: Array) -> str:
    """Return the SHA-256 of rows and labels, independent of the format: sparse, dense, with or without zeros.

    >>> from scipy.sparse import csr_array
    >>> rows_digest(np.eye(2), np.ones(2)) == rows_digest(csr_array(np.eye(2)), np.ones(2))
    True
    """
    from scipy.sparse import csr_array

    found = csr_array(X, copy=True)
    found.sum_duplicates()
    found.eliminate_zeros()
    total = sha256(y.astype("<f8").tobytes())
    for part, kind in ((found.indptr, "<i8"), (found.indices, "<i8"), (found.data, "<f8")):
        total.update(part.astype(kind).tobytes())
    return total.hexdigest()


def _libsvm(known: DataSet, path: Path) -> tuple[Any, Array]:
    from onsketch.data.block import stacked
    from onsketch.data.reading import stream

    with stream([str(path)], "libsvm", zero_based=False, n_features=known.features) as blocks:
        X, y, _ = stacked((block.X, block.y, None) for block in blocks)
    if known.positive is not None:
        y = np.where(np.isin(y, np.array(known.positive, dtype=np.float64)), 1.0, -1.0)
    elif set(np.unique(y)) == {0.0, 1.0}:
        y = 2.0 * y - 1.0
    if X.nnz > 0.5 * X.shape[0] * X.shape[1]:
        return X.toarray(), y
    return X, y


def _text(path: Path) -> list[str]:
    from onsketch.data.sources import Bytes

    source = Bytes(str(path))
    try:
        parts = []
        while part := source.read(1 << 20):
            parts.append(bytes(part))
    finally:
        source.close()
    return b"".join(parts).decode().splitlines()


def _table(path: Path) -> Array:
    """Return comma-separated numbers, with or without a header line."""
    lines = _text(path)
    start = 0 if lines[0][:1].isdigit() else 1
    return np.array([np.fromstring(line, sep=",") for line in lines[start:] if line], dtype=np.float64)


def _ionosphere(path: Path, known: DataSet) -> tuple[Any, Array]:
    rows, labels = [], []
    for line in _text(path):
        *values, label = (field.strip().strip('"') for field in line.split(","))
        if label in ("good", "bad", "g", "b"):
            rows.append([float(value) for value in values[-known.features :]])
            labels.append(1.0 if label in (known.positive or ()) else -1.0)
    return np.array(rows), np.array(labels)


def digits(paths: list[Path]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images, one row of pixels each, and their labels, from two files in MNIST's format."""
    images, labels = (_idx(path) for path in paths)
    return images.reshape(len(images), -1), labels


def _idx(path: Path) -> NDArray[np.uint8]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    shape = [int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "big") for k in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def gisette_like(
    images: NDArray[np.uint8], labels: NDArray[np.uint8], test: bool = False, features: int = 5_000, seed: int = 0
) -> tuple[Array, Array]:
    """Return a stand-in for gisette, made in the same way: handwritten 4 against 9, dense, half of the features noise.

    Half of the features are pixels and products of pairs of pixels, drawn among pixels that are inked at least now
    and then; the other half are probes: the same features with the rows of each permuted, so that they have the right
    law and say nothing. Columns are scaled to −1..1 and shuffled. The first 6,000 rows are for training, the next 1,000
    for testing, disjoint, drawn from one shuffle. It is *not* gisette, and is never shown as it.

    >>> pictures = np.random.default_rng(0).integers(0, 256, size=(40_000, 12), dtype=np.uint8)
    >>> X, y = gisette_like(pictures, (np.arange(40_000) % 10).astype(np.uint8), features=40)
    >>> X.shape, float(X.min()), float(X.max()), sorted(set(y.tolist()))
    ((6000, 40), -1.0, 1.0, [-1.0, 1.0])
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero((labels == 4) | (labels == 9)))[:7_000]
    pixels = images[rows].astype(np.float64) / 255.0
    inked = np.flatnonzero((pixels > 0.1).mean(axis=0) > 0.02)
    real = features // 2
    singles = rng.permutation(inked)[: min(inked.size, real // 4)]
    pairs = rng.choice(inked, size=(real - singles.size, 2))
    informative = np.hstack([pixels[:, singles], pixels[:, pairs[:, 0]] * pixels[:, pairs[:, 1]]])
    columns = rng.choice(informative.shape[1], size=features - real)
    probes = np.stack([rng.permutation(informative[:, column]) for column in columns], axis=1)
    X = np.hstack([informative, probes])[:, rng.permutation(features)]
    low, high = X.min(axis=0), X.max(axis=0)
    X = 2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0
    y = np.where(labels[rows] == 4, 1.0, -1.0)
    part = slice(6_000, 7_000) if test else slice(0, 6_000)
    return X[part].copy(), y[part]
