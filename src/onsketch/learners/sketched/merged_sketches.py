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
from onsketch.learners.sketched.state import LINE, NUMBER

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


def difference(stack: list[Array]) -> tuple[Array, Array]:
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
    values, T = difference(stack)
    return np.asarray((np.sqrt(values)[:, None] * T) @ np.vstack(stack))


def spectrum(rows: Array) -> tuple[Array, Array]:
    """λ (descending, cut off) and orthonormal directions V of ``rowsᵀ rows``, by way of the small Gram matrix."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > CUTOFF * max(values[0], 0.0) if values.size else np.zeros(0, dtype=bool)
    values, vectors = values[kept], vectors[:, kept]
    return values, (vectors.T @ rows) / np.sqrt(values)[:, None]


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
