"""The sketch of two learners together: what both stand for less what their base does, shrunk to the size of one.

Works on rows B written out over a common list of features, ``BᵀB`` being what a sketch stands for (``energy_rows``).
Once a sketch has shrunk, it may hold less of a direction than the base did: the sum less the base is then cut off at
zero, an error of at most the mass that the shrinks let escape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.geometry import geometry_of
from onsketch.core.tolerances import CUTOFF
from onsketch.learners.sketched.frequent_directions import COMPENSATIVE, ROBUST, Directions, shrink
from onsketch.learners.sketched.oja import OJA_SQUARE, Subspace
from onsketch.learners.sketched.random_projection import Projection
from onsketch.learners.sketched.rank_counting import FFD_SQUARE, RankedDirections
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE

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


def set_merged(parts: Parts, stored: list[Array], energies: list[Array]) -> Array:
    """Set the small state of the first to that of the merged sketch; returns its rows.

    Args:
        parts: with the ridge and the escaped mass of the first merged already.
        stored: the rows S of each.
        energies: the rows B of each (``State.true_rows``).
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
    sketch.squares[SQUARE.gram, :n, :n] = rows @ rows.T
    values, vectors = np.linalg.eigh(sketch.squares[SQUARE.gram, :n, :n])
    sketch.lines[LINE.values, :n] = np.where(values > CUTOFF * max(values.max(initial=0.0), 0.0), values, 0.0)[::-1]
    sketch.squares[SQUARE.vectors, :n, :n] = turned = vectors[:, ::-1].T
    if geometry_of(one.method.geometry).newton:
        sketch.squares[SQUARE.inverse, :n, :n] = (
            turned.T / (sketch.numbers[NUMBER.ridge] + sketch.lines[LINE.values, :n])
        ) @ turned


def _set_subspace(sketches: list[Any], energies: list[Array]) -> Array:
    one: Subspace = sketches[0]
    m = int(one.counts[COUNT.rows])
    values, turn = _difference(energies)
    alive = np.arange(m) < values.size
    energy, T = np.zeros(m), np.zeros((m, turn.shape[1]))
    energy[: min(m, values.size)], T[: min(m, values.size)] = values[:m], turn[:m]
    turned = [s.squares[OJA_SQUARE.factor, :m, :m] @ s.squares[OJA_SQUARE.start, :m, :m].T for s in sketches]
    starts = [np.sqrt(s.lines[LINE.values, :m])[:, None] * start for s, start in zip(sketches, turned, strict=True)]
    one.squares[OJA_SQUARE.start, :m, :m] = np.where(alive[:, None], T @ np.vstack(starts), np.eye(m)).T
    one.lines[LINE.values, :m] = energy
    one.squares[OJA_SQUARE.factor, :m, :m] = one.squares[SQUARE.gram, :m, :m] = np.diag(alive.astype(float))
    one.counts[COUNT.rank] = int(alive.sum())
    return np.asarray(T @ np.vstack(energies))


def _set_ranked(one: Any, rows: Array) -> Array:
    sketch: RankedDirections = one._sketch
    size, capacity = one._setup.size, one._setup.capacity
    values, directions = spectrum(rows)
    energy = values.copy()
    if values.size >= capacity:
        sigma = values[size - 1]
        sketch.numbers[NUMBER.escaped] += sigma
        values, directions = values[: size - 1], directions[: size - 1]
        energy = values - sigma
    n = values.size
    sketch.squares[[FFD_SQUARE.lower, FFD_SQUARE.small]] = 0.0
    sketch.squares[FFD_SQUARE.lower, :n, :n] = np.diag(np.sqrt(values))
    sketch.squares[FFD_SQUARE.small, :n, :n] = np.diag(energy)
    sketch.squares[FFD_SQUARE.vectors] = np.eye(sketch.squares.shape[1])
    sketch.lines[LINE.values, :n] = energy
    sketch.counts[[COUNT.rows, COUNT.rank]] = n, 0
    merged: Array = np.sqrt(values)[:, None] * directions
    return merged


def _set_directions(one: Any, rows: Array) -> Array:
    sketch: Directions = one._sketch
    setup = one._setup
    sketch.lines[LINE.keep] = 1.0
    compensate = setup.rule == COMPENSATIVE and sketch.numbers[NUMBER.escaped] > 0.0
    if rows.shape[0] >= setup.capacity or compensate:
        values, directions = spectrum(rows)
        padded = np.zeros(max(setup.capacity, values.size))
        padded[: values.size] = values
        energy, kept_energy = np.zeros(setup.size - 1), np.zeros(setup.size - 1)
        rho = shrink.py_func(
            setup.rule,
            setup.size,
            setup.fraction,
            float(sketch.numbers[NUMBER.escaped]),
            padded,
            energy,
            kept_energy,
        )
        sketch.numbers[NUMBER.escaped] += rho
        if setup.rule == ROBUST:
            sketch.numbers[NUMBER.ridge] += 0.5 * rho
        n = min(setup.size - 1, values.size)
        rows = np.zeros((setup.size - 1, rows.shape[1]))
        rows[:n] = np.sqrt(energy[:n])[:, None] * directions[:n]
        shown = energy > 0.0
        sketch.lines[LINE.keep, : setup.size - 1][shown] = np.sqrt(kept_energy[shown] / energy[shown])
    n = rows.shape[0]
    sketch.counts[COUNT.rows] = n
    sketch.squares[[SQUARE.gram, SQUARE.inverse]] = 0.0
    sketch.squares[SQUARE.gram, :n, :n] = rows @ rows.T
    values, vectors = np.linalg.eigh(sketch.squares[SQUARE.gram, :n, :n])
    top = max(values.max(initial=0.0), 0.0)
    sketch.lines[LINE.values, :n] = np.where(values > CUTOFF * top, values, 0.0)[::-1]
    sketch.squares[SQUARE.vectors, :n, :n] = vectors[:, ::-1].T
    if sketch.numbers[NUMBER.ridge] > 0.0:
        sketch.squares[SQUARE.inverse, :n, :n] = (
            vectors / (sketch.numbers[NUMBER.ridge] + np.maximum(values, 0.0))
        ) @ vectors.T
    return rows


def form_dual(learner: SketchedLearner, rows: Array, head: Array) -> None:
    """``w = −step·P ḡ`` for the merged sketch."""
    sketch, setup = learner._sketch, learner._setup
    n = rows.shape[0]
    sketch.lines[LINE.dual, :n] = rows @ head
    values, directions = spectrum(sketch.energy_rows(rows))
    ridge, escaped = (float(number) for number in sketch.numbers[[NUMBER.ridge, NUMBER.escaped]])
    flat, *inverses = geometry_of(learner.method.geometry).inverses([0.0, *values], ridge, escaped)
    weights = np.array(inverses) - flat
    along = directions.T @ (weights * (directions @ head))  # lies in the span of the rows
    sketch.numbers[NUMBER.base] = -setup.step * flat
    if n:
        sketch.lines[LINE.a, :n] = -setup.step * np.linalg.lstsq(rows.T, along, rcond=None)[0]
