"""What happens between rows now and then, in NumPy: shrinks, new ridges, forgetting, from exact metrics to a sketch.

Every public function returns a new state and leaves the given one as it was: an interrupted call changes nothing.
"""

from __future__ import annotations

import math

import numpy as np

from onsketch.core import state as states
from onsketch.core.scaling import MAGNITUDE_USED, SCALE, VALUES
from onsketch.core.tolerances import CUTOFF
from onsketch.learners.untuned.metric import ridge_of
from onsketch.learners.untuned.state import (
    BROADEST,
    EXACT_RIDGES,
    FADED,
    FIRST,
    FREE,
    FULL,
    NEWTON,
    PATIENCE,
    PLACES,
    RARITY,
    RUN,
    Floats,
    State,
)


def kept_up(state: State) -> State:
    """Return the state after what its loop has asked for."""
    status = int(state.running[RUN.status])
    changed = ("weights", "sketch", "coefficients", "gram", "inverses", "running")
    state = settled(state)._replace(**{name: getattr(state, name).copy() for name in changed})
    if state.gram.shape[0] == 0:
        _exchange(state, faded=status == FADED)
        return state
    if status == FADED:
        _fade(state)
    if status == FULL:
        _shrink(state)
    _invert(state)
    return state


def settled(state: State) -> State:
    """Return the state with all that waits written into exact metrics of their own."""
    metrics = state.metrics.copy()
    for e, k in np.argwhere(state.waiting > 0):
        n = state.waiting[e, k]
        u = state.delayed[e, k, :n]
        metrics[e, k] -= (u.T * state.delayed_by[e, k, :n]) @ u
    return state._replace(metrics=metrics, waiting=np.zeros_like(state.waiting))


def ridge(running: Floats, exact: bool, e: int) -> float:
    """Return the ridge of a Newton expert."""
    return float(ridge_of.py_func(running, exact, e))


def ridges(state: State) -> list[float]:
    """Return the ridges of the Newton experts."""
    return [ridge(state.running, state.gram.shape[0] == 0, e) for e in range(NEWTON)]


def units(figures: Floats, running: Floats) -> Floats:
    """Return the factors of weights in the units of the data, (slots, OUTPUTS); 0 where there is no scale."""
    t, scale, size = max(float(running[RUN.rounds]), 1.0), figures[:, SCALE], figures[:, MAGNITUDE_USED]
    own = np.where(scale > 0.0, 1.0 / np.where(scale > 0.0, scale, 1.0), 0.0)
    rare = own * (1.0 + RARITY * np.log(np.maximum(t / np.maximum(figures[:, VALUES], 1.0), 1.0)))
    broad = np.clip(size / math.exp(running[RUN.common]), 1.0 / BROADEST, BROADEST)
    wide = np.where(size > 0.0, broad / np.where(size > 0.0, size, 1.0), 0.0)
    return np.stack([rare, wide, wide, own, own], axis=1)


def _exchange(state: State, *, faded: bool) -> None:
    """Exact metrics: A' = A + (new − old)·I when the typical length has moved, such that A w stays the same.

    With forgetting, A' = φ·Ã + (1 − φ)·ridge·I is written out; the weights stay as they are then.
    """
    run, size = state.running, int(state.running[RUN.seen]) + 1
    fade = run[RUN.fade]
    for e in range(NEWTON):
        part = state.metrics[e, :, :size, :size]
        if not faded:  # ridges moved from those of ``before``
            more = EXACT_RIDGES[e] * (run[RUN.used] - run[RUN.before])
            if more == 0.0:
                continue
        else:
            more = EXACT_RIDGES[e] * run[RUN.used] * (1.0 / fade - 1.0)
        for k in range(max(int(run[RUN.classes]), 1)):
            grown = np.linalg.inv(part[k])
            w = state.weights[:size, FIRST + e, k].astype(np.float64)
            target = grown @ w
            grown[np.diag_indices(size)] += more
            inverse = np.linalg.inv(grown)
            if not faded:
                state.weights[:size, FIRST + e, k] = inverse @ target
            else:
                inverse /= fade
            part[k] = (inverse + inverse.T) / 2.0
    run[RUN.before] = run[RUN.used]
    if faded:
        run[RUN.fade] = 1.0


def _invert(state: State) -> None:
    """The inverses over the sketch from the Gram matrix."""
    m = int(state.running[RUN.rows])
    for e, ridge in enumerate(ridges(state)):
        state.inverses[e, :m, :m] = np.linalg.inv(state.gram[:m, :m] + ridge * np.eye(m))


def _fold(state: State) -> None:
    """Write the coefficients into the weights: w ← w + Sᵀa, a ← 0."""
    m, places = int(state.running[RUN.rows]), int(state.running[RUN.places])
    rows, slots = state.sketch[:places, :m], state.slot_of[:places]
    for e in range(NEWTON):
        state.weights[slots, FIRST + e] += rows @ state.coefficients[e, :m]
    state.coefficients[:] = 0.0


def _fade(state: State) -> None:
    """Write what forgetting has left into the sketch."""
    run = state.running
    _fold(state)
    state.sketch[:] *= np.sqrt(run[RUN.fade])
    state.gram[:] *= run[RUN.fade]
    run[RUN.lost] *= run[RUN.fade]
    run[RUN.fade] = 1.0


def _shrink(state: State) -> None:
    """Robust frequent directions: 2m rows become m − 1, and each loses the m-th energy."""
    run, width = state.running, state.gram.shape[0]
    places, m = int(run[RUN.places]), width // 2
    _fade(state)
    rows = state.sketch[:places].astype(np.float64)
    values, vectors = np.linalg.eigh(rows.T @ rows if state.sketch.dtype != np.float64 else state.gram)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    rho = values[m - 1]
    left = np.where(values[: m - 1] > CUTOFF * values[0], np.maximum(values[: m - 1] - rho, 0.0), 0.0)
    scale = np.sqrt(left / np.where(left > 0.0, values[: m - 1], 1.0))
    state.sketch[:places, : m - 1] = rows @ (vectors[:, : m - 1] * scale)
    state.sketch[:places, m - 1 :] = 0.0
    state.gram[:] = 0.0
    state.gram[np.arange(m - 1), np.arange(m - 1)] = left
    run[RUN.lost] += rho
    run[RUN.rows] = m - 1


def curvature_rows(state: State) -> Floats:
    """Return rows B (rows, features seen + 1) with BᵀB the curvature that one output has met, as far as it is kept."""
    run, seen = state.running, int(state.running[RUN.seen]) + 1
    if state.gram.shape[0]:
        rows = np.zeros((int(run[RUN.rows]), seen))
        placed = np.flatnonzero(state.places[:seen] >= 0)
        rows[:, placed] = state.sketch[state.places[placed], : len(rows)].T
        return rows
    if run[RUN.used] == 0.0:
        return np.zeros((0, seen))
    values, vectors = np.linalg.eigh(np.linalg.inv(settled(state).metrics[0, 0, :seen, :seen]))
    return np.asarray((vectors * np.sqrt(np.maximum(values - ridges(state)[0], 0.0))).T)


def with_width(state: State, width: int) -> State:
    """Return the state with a sketch of more rows."""
    sizes = {**states.sizes(state), "width": width}
    wider: State = states.new(State, real=state.weights.dtype, **sizes)
    for name in State._fields:
        held = getattr(state, name)
        getattr(wider, name)[tuple(map(slice, held.shape))] = held
    return wider


def sketched(state: State, size: int) -> State:
    """Return the state with one sketch of ``size`` directions for all outputs, from exact metrics of each.

    The sum of the classes' curvatures is K − 1 times what they share, since p(1 − p) has the sum 1 − Σp².
    """
    run, seen = state.running, int(state.running[RUN.seen]) + 1
    classes = max(int(run[RUN.classes]), 1)
    state = settled(state)
    used, total = float(run[RUN.used]), np.zeros((seen, seen))
    fresh: State = states.new(
        State, slots=len(state.places), classes=state.weights.shape[2], places=seen + 64, width=2 * size, square=0,
        real=state.weights.dtype,
    )  # fmt: skip
    for name in ("figures", "weights", "energies", "listed", "running"):
        getattr(fresh, name)[...] = getattr(state, name)
    run = fresh.running
    if used > 0.0:
        for e in range(NEWTON):
            for k in range(classes):
                added = np.linalg.inv(state.metrics[e, k, :seen, :seen]) - EXACT_RIDGES[e] * used * np.eye(seen)
                fresh.factors[k] += max(float(np.trace(added)), 0.0) / (2.0 * used) / NEWTON
                total += added / (NEWTON * max(classes - 1, 1))
        run[RUN.alpha] = fresh.factors.sum()
    fresh.places[0], run[RUN.places] = 0, 1.0
    for j in range(1, seen):
        if (j < FREE or fresh.figures[j, VALUES] >= PATIENCE) and run[RUN.places] < PLACES:
            place = int(run[RUN.places])
            fresh.places[j], fresh.slot_of[place] = place, j
            run[RUN.places] += 1.0
    places = int(run[RUN.places])
    values, vectors = np.linalg.eigh((total + total.T) / 2.0)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    rho = float(values[size - 1]) if seen >= size else 0.0
    kept = min(size - 1, int(np.count_nonzero(values > rho + CUTOFF * values[0])))
    left: Floats = values[:kept] - rho
    fresh.sketch[:places, :kept] = vectors[fresh.slot_of[:places], :kept] * np.sqrt(left)
    rows = fresh.sketch[:places, :kept].astype(np.float64)
    fresh.gram[:kept, :kept] = rows.T @ rows
    run[RUN.lost], run[RUN.rows] = rho, kept
    _invert(fresh)
    return fresh
