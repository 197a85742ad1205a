"""The weights of a model by name: the largest, all of them as a table, and what they amount to on data."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError

Array = NDArray[np.float64]

WIDEST = 1 << 24
"""Columns of X whose scale is kept while reading."""


class Weight(NamedTuple):
    """One weight of one class ("" where there are no classes)."""

    feature: int
    name: str
    of_class: str
    weight: float
    scale: float | None
    """Root of the feature's mean square over the rows of a file."""

    @property
    def effect(self) -> float:
        """Weight × scale: how far a usual value of the feature moves the margin."""
        return self.weight if self.scale is None else self.weight * self.scale


class Scales:
    """The root mean square of each column, counted block by block.

    >>> scales = Scales()
    >>> scales.add(np.array([[3.0, 0.0], [4.0, 0.0]]))
    >>> float(scales.of(0)), float(scales.of(1)), float(scales.of(99))
    (3.5355339059327378, 0.0, 0.0)
    """

    def __init__(self) -> None:
        self.rows = 0
        self.values = 0
        self._squares = np.zeros(0)

    @property
    def width(self) -> int:
        """Columns so far."""
        return self._squares.size

    def add(self, rows: Any) -> None:
        """Count these rows."""
        self.rows += rows.shape[0]
        self.values += rows.data.size if hasattr(rows, "indptr") else int(np.count_nonzero(rows))
        if hasattr(rows, "indptr"):
            width = min(int(rows.shape[1]), WIDEST)
            near = rows.indices < width
            found = np.bincount(rows.indices[near], rows.data[near] ** 2, width)
        else:
            found = np.einsum("ij,ij->j", rows, rows)
        if found.size > self._squares.size:
            self._squares = np.concatenate([self._squares, np.zeros(found.size - self._squares.size)])
        self._squares[: found.size] += found

    def of(self, features: Any) -> Any:
        """Return the scale of features; 0 for unseen ones."""
        place = np.asarray(features)
        known = place < self._squares.size
        squares = np.where(known, self._squares[np.where(known, place, 0)], 0.0) if self._squares.size else 0.0 * place
        return np.sqrt(squares / max(self.rows, 1))


def weights_of(
    learner: Any,
    classes: list[str] | None,
    names: Mapping[int, str],
    scales: Scales | None = None,
    top: int | None = None,
) -> list[Weight]:
    """The weights by falling size (times scale, where it is known); of each class where there are many."""
    parts = [("", learner)] if classes is None else list(zip(classes, learner.learners, strict=False))
    found: list[Weight] = []
    for of_class, one in parts:
        features, values = one.coefficients()
        scale = None if scales is None else scales.of(features)
        size = np.abs(values if scale is None else values * scale)
        order = np.argsort(-size, kind="stable")[:top]
        for k in order.tolist():
            feature = int(features[k])
            name = names.get(feature, str(feature))
            found.append(Weight(feature, name, of_class, float(values[k]), None if scale is None else float(scale[k])))
        if one.intercept and top is None:
            found.append(Weight(-1, "(intercept)", of_class, float(one.intercept), None if scale is None else 1.0))
    return found


def write_weights(path: Path, weights: list[Weight]) -> None:
    """All weights as a table."""
    scaled = any(weight.scale is not None for weight in weights)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["feature", "name", "class", "weight", *(["scale", "effect"] if scaled else [])])
        for one in weights:
            more = [repr(one.scale), repr(one.effect)] if scaled else []
            writer.writerow([one.feature, one.name, one.of_class, repr(one.weight), *more])


def scales_of(files: list[str], reading: dict[str, Any]) -> Scales:
    """The scales of the columns of these files."""
    from onsketch.data import stream

    scales = Scales()
    with stream(files, **reading) as blocks:
        for block in blocks:
            scales.add(block.rows)
    if not scales.rows:
        raise InputError(f"{', '.join(files)}: there is not a single row.")
    return scales
