"""Rare work between rows, in NumPy: new ridges of exact metrics, and sketches in another form.

Every public function returns a new state and leaves the given one as it was: an interrupted call changes nothing.
"""

from __future__ import annotations

import math

import numpy as np

from onsketch.core import scaling
from onsketch.core import state as states
from onsketch.core.scaling import SCALE, SIZE, VALUES
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.vectors import padded
from onsketch.learners.auto.columns import IN_BUFFER, fill_columns, ridge_of
from onsketch.learners.auto.state import (
    BROADEST,
    EXACT_RIDGES,
    FADED,
    FIRST,
    FREE,
    NEWTON,
    PATIENCE,
    PLACES,
    RARITY,
    RUN,
    Floats,
    State,
)
from onsketch.learners.sketched.packed import CLOCK, COLUMN, further_heads, new_table, roomy


def kept_up(state: State) -> State:
    """Return the state after what its loop has asked for, which has exact metrics."""
    faded = int(state.running[RUN.status]) == FADED
    state = settled(state)
    state = state._replace(weights=state.weights.copy(), running=state.running.copy())
    exchange(state, faded=faded)
    return state


def settled(state: State) -> State:
    """Return the state with all that waits written into exact metrics of their own; spare room changes no rounding."""
    metrics, size = state.metrics.copy(), int(state.running[RUN.seen]) + 1
    for e, k in np.argwhere(state.waiting > 0):
        n = state.waiting[e, k]
        u = state.delayed[e, k, :n, :size].copy()
        metrics[e, k, :size, :size] -= (u.T * state.delayed_by[e, k, :n]) @ u
    return state._replace(metrics=metrics, waiting=np.zeros_like(state.waiting))


def ridge(running: Floats, exact: bool, e: int) -> float:
    """Return the ridge of a Newton expert."""
    return float(ridge_of.py_func(running, exact, e))


def ridges(state: State) -> list[float]:
    """Return the ridges of the Newton experts."""
    return [ridge(state.running, state.gram.shape[0] == 0, e) for e in range(NEWTON)]


def statistics(state: State) -> Floats:
    """Return all statistics of each feature, (slots, STATISTICS)."""
    return scaling.whole(state.figures, state.centred, state.listed[: int(state.running[RUN.listed])])


def units(figures: Floats, running: Floats) -> Floats:
    """Return the factors of weights in the units of the data, (slots, OUTPUTS); 0 where there is no scale."""
    t, scale, size = max(float(running[RUN.rounds]), 1.0), figures[:, SCALE], figures[:, SIZE]
    own = np.where(scale > 0.0, 1.0 / np.where(scale > 0.0, scale, 1.0), 0.0)
    rare = own * (1.0 + RARITY * np.log(np.maximum(t / np.maximum(figures[:, VALUES], 1.0), 1.0)))
    broad = np.clip(size / math.exp(running[RUN.common]), 1.0 / BROADEST, BROADEST)
    wide = np.where(size > 0.0, broad / np.where(size > 0.0, size, 1.0), 0.0)
    return np.stack([rare, wide, wide, own, own], axis=1)


def _inverted(metric: Floats, ridge: float) -> Floats:
    """Return the inverse of an exact metric; where rounding has made it singular, that of its ridge alone."""
    try:
        return np.asarray(np.linalg.inv(metric), np.float64)
    except np.linalg.LinAlgError:
        return ridge * np.eye(len(metric))


def exchange(state: State, *, faded: bool) -> None:
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
            grown = _inverted(part[k], EXACT_RIDGES[e] * (run[RUN.used] if faded else run[RUN.before]))
            w = state.weights[:size, FIRST + e, k].astype(np.float64)
            target = grown @ w
            grown[np.diag_indices(size)] += more
            inverse = _inverted(grown, 1.0 / (EXACT_RIDGES[e] * run[RUN.used]))
            if not faded:
                state.weights[:size, FIRST + e, k] = inverse @ target
            else:
                inverse /= fade
            part[k] = (inverse + inverse.T) / 2.0
    run[RUN.before] = run[RUN.used]
    if faded:
        run[RUN.fade] = 1.0


def invert(state: State) -> None:
    """The inverses over the sketch from the Gram matrix."""
    m = int(state.running[RUN.rows])
    for e, ridge in enumerate(ridges(state)):
        state.inverses[e, :m, :m] = np.linalg.inv(state.gram[:m, :m] + ridge * np.eye(m))


def columns_of(state: State) -> tuple[Floats, Floats]:
    """Return S, (places, rows), and what logged shrinks add to the Newton experts' weights, (places, NEWTON, K)."""
    table, rows = state.table, int(state.running[RUN.rows])
    classes = max(further_heads.py_func(*table.running.shape[1:]) // NEWTON, 1)
    places, width = int(table.clock[CLOCK.seen]), table.rows.shape[1]
    out = np.zeros((places, NEWTON * classes + rows))
    fill_columns(state, np.zeros((1, width)), np.zeros(width), out)
    return out[:, NEWTON * classes :], out[:, : NEWTON * classes].reshape(places, NEWTON, classes)


def unpacked(state: State) -> tuple[State, Floats]:
    """Return the state with all shrinks in its weights, and S, for ``with_columns``."""
    columns, heads = columns_of(state)
    weights = state.weights.copy()
    known = min(heads.shape[2], weights.shape[2])
    weights[state.slot_of[: len(columns)], FIRST:, :known] += heads[:, :, :known]
    return state._replace(weights=weights), columns


def with_columns(state: State, columns: Floats) -> State:
    """Return the state with a table of these columns, (places, rows)."""
    kept, classes, real = state.gram.shape[0] // 2 - 1, int(state.running[RUN.classes]), state.weights.dtype
    table = roomy(new_table(kept, kept, real, NEWTON * classes if classes > 1 else 0), len(state.slot_of))
    places, first = len(columns), COLUMN.sketch
    since = columns[:, kept:]
    table.clock[CLOCK.seen] = places
    table.rows[:places, first : first + kept][:, : columns.shape[1]] = columns[:, :kept]
    state = state._replace(table=table, buffer=np.zeros((0, 0), real))
    state = states.resize(state, buffered=places if since.size else 0, since=padded(kept + 2, 8))
    if since.size:
        state.buffer[:, : since.shape[1]] = since
        table.clock[CLOCK.touched], table.touched[:places] = places, np.arange(places)
        table.rows[:places, COLUMN.epoch], table.rows[:places, IN_BUFFER] = 0.5, np.arange(1, places + 1)
    return state


def written(state: State) -> Floats:
    """Return the weights of all experts, (slots, OUTPUTS, K), with the sketch's part in them."""
    weights = state.weights.astype(np.float64)
    if state.gram.shape[0] == 0:
        return weights
    state, columns = unpacked(state._replace(weights=weights))
    add_sketch(state, columns)
    return np.asarray(state.weights)


def add_sketch(state: State, columns: Floats) -> None:
    """Add Sᵀa to the weights."""
    for e in range(NEWTON):
        state.weights[state.slot_of[: len(columns)], FIRST + e] += columns @ state.coefficients[e, : columns.shape[1]]


def curvature_rows(state: State) -> Floats:
    """Return rows B (rows, features seen + 1) with BᵀB the curvature that one output has met, as far as it is kept."""
    run, seen = state.running, int(state.running[RUN.seen]) + 1
    if state.gram.shape[0]:
        columns, _ = columns_of(state)
        rows = np.zeros((columns.shape[1], seen))
        rows[:, state.slot_of[: len(columns)]] = columns.T
        return rows
    if run[RUN.used] == 0.0:
        return np.zeros((0, seen))
    ridge = ridges(state)[0]
    values, vectors = np.linalg.eigh(_inverted(settled(state).metrics[0, 0, :seen, :seen], ridge))
    return np.asarray((vectors * np.sqrt(np.maximum(values - ridge, 0.0))).T)


def with_heads(state: State) -> State:
    """Return the state with heads for all its classes."""
    return with_columns(*unpacked(state))


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
        centred=len(state.listed), buffered=0, since=0, table=state.table, real=state.weights.dtype,
    )  # fmt: skip
    for name in ("figures", "centred", "weights", "energies", "listed", "running"):
        getattr(fresh, name)[...] = getattr(state, name)
    run = fresh.running
    if used > 0.0:
        for e in range(NEWTON):
            for k in range(classes):
                ridge = EXACT_RIDGES[e] * used
                added = _inverted(state.metrics[e, k, :seen, :seen], ridge) - ridge * np.eye(seen)
                fresh.factors[k] += max(float(np.trace(added)), 0.0) / (2.0 * used) / NEWTON
                total += added / (NEWTON * max(classes - 1, 1))
        run[RUN.alpha] = fresh.factors.sum()
    slots = np.arange(1, seen)
    due = (slots < FREE) | (fresh.figures[1:seen, VALUES] >= PATIENCE)
    slots = np.append(0, slots[due][: PLACES - 1])
    fresh.places[slots], fresh.slot_of[: len(slots)] = np.arange(len(slots)), slots
    values, vectors = np.linalg.eigh((total + total.T) / 2.0)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    rho = float(values[size - 1]) if seen >= size else 0.0
    kept = min(size - 1, int(np.count_nonzero(values > rho + CUTOFF * values[0])))
    left: Floats = values[:kept] - rho
    columns = (vectors[slots, :kept] * np.sqrt(left)).astype(state.weights.dtype).astype(np.float64)
    fresh.gram[:kept, :kept] = columns.T @ columns
    run[RUN.lost], run[RUN.rows] = rho, kept
    invert(fresh)
    return with_columns(fresh, columns)
