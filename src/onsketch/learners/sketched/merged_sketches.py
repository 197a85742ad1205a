"""The sketch of two learners together: what both stand for less what their base does, shrunk to the size of one.

Works on rows B written out over a common list of features, with ``BᵀB`` what a sketch stands for (``energy_rows``).
Once a sketch has shrunk, it may hold less of a direction than the base did: the sum less the base is then cut off at
zero, an error of at most the mass that the shrinks let escape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.geometry import inverse_metric
from onsketch.core.tolerances import CUTOFF
from onsketch.learners.sketched.frequent_directions import COMPENSATIVE, ROBUST, Directions, shrink
from onsketch.learners.sketched.oja import ENERGY, FACTOR, START, Subspace
from onsketch.learners.sketched.random_projection import Projection
from onsketch.learners.sketched.rank_counting import LOWER, SMALL, RankedDirections
from onsketch.learners.sketched.state import (
    AGE,
    BASE,
    DUAL,
    ESCAPED,
    GRAM,
    INVERSE,
    KEEP,
    RANK,
    RIDGE,
    ROWS,
    VALUES,
    VECTORS,
    A,
)

if TYPE_CHECKING:
    from onsketch.learners.sketched.learner import SketchedLearner

Array = NDArray[np.float64]
Parts = tuple["SketchedLearner", "SketchedLearner", "SketchedLearner"]
"""Two learners and their base."""

SIGNS = (1.0, 1.0, -1.0)
"""Two learners count; their base is taken off."""


def less_base(values: Iterable[Any]) -> Any:
    """What both have, the base counted once."""
    return sum(sign * value for sign, value in zip(SIGNS, values, strict=True))


def _difference(stack: list[Array]) -> tuple[Array, Array]:
    """The positive eigenvalues λ of ``B_1ᵀB_1 + … − B_0ᵀB_0``, descending, and T with directions ``T·stack``.

    With the Gram matrix ``G = UDUᵀ`` of all rows and J their signs, the small matrix ``D^{1/2}UᵀJUD^{1/2}`` has the
    same spectrum.
    """
    rows = np.vstack(stack)
    J = np.repeat(SIGNS[-len(stack) :], [len(part) for part in stack])
    energy, U = np.linalg.eigh(rows @ rows.T)
    top = max(energy.max(initial=0.0), 0.0)
    known = energy > CUTOFF * top
    U, root = U[:, known], np.sqrt(energy[known])
    values, W = np.linalg.eigh((root[:, None] * (U.T * J) @ U) * root)
    values, W = values[::-1], W[:, ::-1]
    kept = values > CUTOFF * top
    return values[kept], (W[:, kept].T / root) @ U.T


def added(stack: list[Array]) -> Array:
    """Rows R with ``RᵀR`` the sum less the base, the last; the rows themselves where the base has none."""
    if not len(stack[-1]):
        return np.vstack(stack)
    values, T = _difference(stack)
    return np.asarray((np.sqrt(values)[:, None] * T) @ np.vstack(stack))


def spectrum(rows: Array) -> tuple[Array, Array]:
    """λ (descending, cut off) and orthonormal directions V of ``rowsᵀ rows``, by way of the small Gram matrix."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > CUTOFF * max(values[0], 0.0) if values.size else np.zeros(0, dtype=bool)
    values, vectors = values[kept], vectors[:, kept]
    return values, (vectors.T @ rows) / np.sqrt(values)[:, None]


def energy_rows(sketch: Any, rows: Array) -> Array:
    """Rows B with BᵀB what the sketch stands for."""
    n = rows.shape[0]
    if isinstance(sketch, Subspace):
        weighed: Array = np.sqrt(sketch.lines[ENERGY, :n])[:, None] * (sketch.squares[FACTOR, :n, :n] @ rows)
        return weighed
    if isinstance(sketch, RankedDirections):
        root = np.sqrt(sketch.lines[VALUES, :n])[:, None] * sketch.squares[VECTORS, :n, :n]
        return root @ np.linalg.solve(sketch.squares[LOWER, :n, :n], rows) if n else rows
    return rows


def true_rows(sketch: Any, rows: Array) -> Array:
    """The same without what CFD adds to the directions it shows."""
    if isinstance(sketch, Directions):
        return np.asarray(sketch.lines[KEEP, : len(rows), None] * rows)
    return energy_rows(sketch, rows)


def set_merged(parts: Parts, stored: list[Array], energies: list[Array]) -> Array:
    """Set the small state of the first to that of the merged sketch; returns its rows.

    Args:
        parts: with the ridge and the escaped mass of the first merged already.
        stored: the rows S of each.
        energies: the rows B of each (``true_rows``).
    """
    one, *_ = parts
    sketch = one._sketch
    if isinstance(sketch, Projection):
        rows: Array = less_base(stored)
        _set_projection(one, rows)
    elif isinstance(sketch, Subspace):
        rows = _set_subspace([part._sketch for part in parts], energies)
    elif isinstance(sketch, RankedDirections):
        rows = _set_ranked(one, added(energies))
    else:
        rows = _set_directions(one, added(energies))
    return rows


def _set_projection(one: Any, rows: Array) -> None:
    sketch: Projection = one._sketch
    n = rows.shape[0]
    sketch.squares[GRAM, :n, :n] = rows @ rows.T
    values, vectors = np.linalg.eigh(sketch.squares[GRAM, :n, :n])
    sketch.lines[VALUES, :n] = np.where(values > CUTOFF * max(values.max(initial=0.0), 0.0), values, 0.0)[::-1]
    sketch.squares[VECTORS, :n, :n] = turned = vectors[:, ::-1].T
    if one.method.geometry == "newton":
        sketch.squares[INVERSE, :n, :n] = (turned.T / (sketch.numbers[RIDGE] + sketch.lines[VALUES, :n])) @ turned


def _set_subspace(sketches: list[Any], energies: list[Array]) -> Array:
    one: Subspace = sketches[0]
    m = int(one.counts[ROWS])
    values, turn = _difference(energies)
    alive = np.arange(m) < values.size
    energy, T = np.zeros(m), np.zeros((m, turn.shape[1]))
    energy[: min(m, values.size)], T[: min(m, values.size)] = values[:m], turn[:m]
    turned = [s.squares[FACTOR, :m, :m] @ s.squares[START, :m, :m].T for s in sketches]
    starts = [np.sqrt(s.lines[ENERGY, :m])[:, None] * start for s, start in zip(sketches, turned, strict=True)]
    one.squares[START, :m, :m] = np.where(alive[:, None], T @ np.vstack(starts), np.eye(m)).T
    one.lines[ENERGY, :m] = energy
    one.squares[FACTOR, :m, :m] = one.squares[GRAM, :m, :m] = np.diag(alive.astype(float))
    one.counts[RANK] = int(alive.sum())
    return np.asarray(T @ np.vstack(energies))


def _set_ranked(one: Any, rows: Array) -> Array:
    sketch: RankedDirections = one._sketch
    size, capacity = one._setup.size, one._setup.capacity
    values, directions = spectrum(rows)
    energy = values.copy()
    if values.size >= capacity:
        sigma = values[size - 1]
        sketch.numbers[ESCAPED] += sigma
        values, directions = values[: size - 1], directions[: size - 1]
        energy = values - sigma
    n = values.size
    sketch.squares[[LOWER, SMALL]] = 0.0
    sketch.squares[LOWER, :n, :n] = np.diag(np.sqrt(values))
    sketch.squares[SMALL, :n, :n] = np.diag(energy)
    sketch.squares[VECTORS] = np.eye(sketch.squares.shape[1])
    sketch.lines[VALUES, :n] = energy
    sketch.counts[[ROWS, AGE]] = n, 0
    merged: Array = np.sqrt(values)[:, None] * directions
    return merged


def _set_directions(one: Any, rows: Array) -> Array:
    sketch: Directions = one._sketch
    setup = one._setup
    sketch.lines[KEEP] = 1.0
    compensate = setup.rule == COMPENSATIVE and sketch.numbers[ESCAPED] > 0.0
    if rows.shape[0] >= setup.capacity or compensate:
        values, directions = spectrum(rows)
        padded = np.zeros(max(setup.capacity, values.size))
        padded[: values.size] = values
        energy, kept_energy = np.zeros(setup.size - 1), np.zeros(setup.size - 1)
        rho = shrink.py_func(
            setup.rule,
            setup.size,
            setup.fraction,
            float(sketch.numbers[ESCAPED]),
            padded,
            energy,
            kept_energy,
        )
        sketch.numbers[ESCAPED] += rho
        if setup.rule == ROBUST:
            sketch.numbers[RIDGE] += 0.5 * rho
        n = min(setup.size - 1, values.size)
        rows = np.zeros((setup.size - 1, rows.shape[1]))
        rows[:n] = np.sqrt(energy[:n])[:, None] * directions[:n]
        shown = energy > 0.0
        sketch.lines[KEEP, : setup.size - 1][shown] = np.sqrt(kept_energy[shown] / energy[shown])
    n = rows.shape[0]
    sketch.counts[ROWS] = n
    sketch.squares[[GRAM, INVERSE]] = 0.0
    sketch.squares[GRAM, :n, :n] = rows @ rows.T
    values, vectors = np.linalg.eigh(sketch.squares[GRAM, :n, :n])
    top = max(values.max(initial=0.0), 0.0)
    sketch.lines[VALUES, :n] = np.where(values > CUTOFF * top, values, 0.0)[::-1]
    sketch.squares[VECTORS, :n, :n] = vectors[:, ::-1].T
    if sketch.numbers[RIDGE] > 0.0:
        sketch.squares[INVERSE, :n, :n] = (vectors / (sketch.numbers[RIDGE] + np.maximum(values, 0.0))) @ vectors.T
    return rows


def form_dual(learner: SketchedLearner, rows: Array, head: Array) -> None:
    """``w = −step·P ḡ`` for the merged sketch."""
    sketch, setup = learner._sketch, learner._setup
    n = rows.shape[0]
    sketch.lines[DUAL, :n] = rows @ head
    values, directions = spectrum(energy_rows(sketch, rows))
    ridge, escaped = (float(number) for number in sketch.numbers[[RIDGE, ESCAPED]])
    flat = inverse_metric.py_func(setup.geometry, 0.0, ridge, escaped)
    weights = np.array([inverse_metric.py_func(setup.geometry, value, ridge, escaped) - flat for value in values])
    along = directions.T @ (weights * (directions @ head))  # lies in the span of the rows
    sketch.numbers[BASE] = -setup.step * flat
    if n:
        sketch.lines[A, :n] = -setup.step * np.linalg.lstsq(rows.T, along, rcond=None)[0]
