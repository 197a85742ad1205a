"""The sets of the study: unmodified real ones from a folder of files, and the synthetic ones of luo2016.

Multiclass sets become one class against the rest: the most frequent class (covtype's is 2, as in LIBSVM's binary
version). Features are raw. A set is shuffled by its seed, then cut to so many rows and so many non-zeros.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class Set(NamedTuple):
    """Rows and labels −1 and +1."""

    name: str
    X: Any
    y: np.ndarray


def _bytes(path: Path) -> bytes:
    raw = path.read_bytes()
    return {".xz": lzma.decompress, ".gz": gzip.decompress}.get(path.suffix, bytes)(raw)


def _libsvm(path: Path) -> tuple[Any, np.ndarray]:
    labels, indices, values, indptr = [], [], [], [0]
    for line in _bytes(path).decode().splitlines():
        words = line.split("#")[0].split()
        if words:
            labels.append(float(words[0]))
            pairs = [word.split(":") for word in words[1:]]
            indices += [int(key) - 1 for key, _ in pairs]
            values += [float(value) for _, value in pairs]
            indptr.append(len(indices))
    return sparse.csr_array((np.array(values), np.array(indices, dtype=np.int32), np.array(indptr))), np.array(labels)


def _csv(path: Path, label: int, first: int = 0) -> tuple[Any, np.ndarray]:
    cells = [line.split(",") for line in _bytes(path).decode().splitlines()[1:]]
    label %= len(cells[0])
    columns = [k for k in range(first, len(cells[0])) if k != label]
    rows = [row for row in cells if all(row[k] not in ("", "NA", "nan") for k in columns)]
    return np.array([[float(row[k]) for k in columns] for row in rows]), np.array([row[label] for row in rows])


def _idx(path: Path) -> np.ndarray:
    raw = _bytes(path)
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def _images(folder: Path, stem: str) -> tuple[Any, np.ndarray]:
    X = _idx(folder / f"{stem}-images-idx3-ubyte.gz")
    return sparse.csr_array(X.reshape(len(X), -1).astype(float)), _idx(folder / f"{stem}-labels-idx1-ubyte.gz")


def _npz(path: Path) -> tuple[Any, np.ndarray]:
    arrays = np.load(io.BytesIO(_bytes(path)))
    return arrays["X"].astype(float), arrays["y"]


def _cifar(folder: Path) -> tuple[Any, np.ndarray]:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    tiles = np.array(Image.open(folder / "cifar10-data_batch_1.webp").convert("RGB"))
    X = tiles.reshape(100, 32, 100, 32, 3).transpose(0, 2, 1, 3, 4).reshape(10000, -1)
    return X.astype(float), np.array(json.loads(_bytes(folder / "cifar10-train_labels.json.xz"))[:10000])


def _covtype(path: Path) -> tuple[Any, np.ndarray]:
    table = np.loadtxt(io.BytesIO(_bytes(path)), delimiter=",", skiprows=1, dtype=np.int32)
    return table[:, :54].astype(float), table[:, 54]


LIBSVM = {
    name.split(".xz")[0]: name
    for name in [
        "a9a.xz",
        "australian.xz",
        "breast-cancer.xz",
        "cod-rna.30k.xz",
        "diabetes.xz",
        "epsilon100.xz",
        "farm-ads.xz",
        "german.numer.xz",
        "german.numer_scale.xz",
        "heart.xz",
        "hiva.xz",
        "ijcnn1.xz",
        "isolet.xz",
        "letter.scale.xz",
        "madelon.xz",
        "mushrooms.xz",
        "news20.xz",
        "phishing.8404.xz",
        "rcv1_small.xz",
        "reuters.trn.xz",
        "skin_nonskin.30k.xz",
        "splice.xz",
        "svmguide1.xz",
    ]
}
CSV = {"BreastCancer": (-1, 1), "DNA": (-1, 0), "Ionosphere": (-1, 0), "LetterRecognition": (0, 0),
       "PimaIndiansDiabetes": (-1, 0)}  # fmt: skip


def readers(folder: Path) -> dict[str, Callable[[], tuple[Any, np.ndarray]]]:
    """Every real set by name; those whose files are not there are left out."""
    found = {name: (folder / file, _libsvm) for name, file in LIBSVM.items()}
    for name, (label, first) in CSV.items():
        found[name] = folder / f"mlbench_{name}.csv.xz", partial(_csv, label=label, first=first)
    found["covtype"] = folder / "covtype.csv.xz", _covtype
    found["usps"] = folder / "usps.npz.xz", _npz
    whole = {name: partial(read, path) for name, (path, read) in found.items() if path.exists()}
    for name, stem in (("mnist", "mnist-train"), ("fashion", "fashion-train")):
        if (folder / f"{stem}-images-idx3-ubyte.gz").exists():
            whole[name] = partial(_images, folder, stem)
    if (folder / "cifar10-data_batch_1.webp").exists():
        whole["cifar10"] = partial(_cifar, folder)
    return whole


SYNTHETIC = (1, 10, 100, 1000)
"""Condition numbers of luo2016's synthetic rows."""


def _synthetic(condition: float, seed: int) -> Set:
    from onsketch.data.synthetic import ill_conditioned

    return Set(f"luo2016 κ={condition:g}", *ill_conditioned(10_000, 100, condition, seed=seed))


@cache
def _read(folder: Path, name: str) -> tuple[Any, np.ndarray]:
    X, labels = readers(folder)[name]()
    classes, counts = np.unique(labels, return_counts=True)
    return X, np.where(labels == classes[np.argmax(counts)], 1.0, -1.0)


def sets(folder: Path, seed: int, rows: int, values: int, only: list[str] | None = None) -> Iterator[Set]:
    """All sets, shuffled by the seed and cut to ``rows`` rows and about ``values`` non-zeros (0: no bound)."""
    for name in readers(folder):
        if not only or name in only:
            X, y = _read(folder, name)
            order = np.random.default_rng(seed).permutation(len(y))
            per_row = (X.nnz if sparse.issparse(X) else np.count_nonzero(X)) / len(y)
            keep = min(rows or len(y), int(values / per_row) if values else len(y))
            yield Set(name, X[order[:keep]], y[order[:keep]])
    for condition in SYNTHETIC:
        made = _synthetic(condition, seed)
        if not only or made.name in only:
            yield made
