"""Merge what two learners have learned from different rows, starting from a common base or from nothing.

All parts are brought to one affine law per feature, that of the merged figures, which rewrites weights and metrics
exactly. Then, with the base's knowledge counted once,

    metrics      A = A_base + Σ (A_i − A_base)
    Newton       w solves A w = A_base w_base + Σ (A_i w_i − A_base w_base); only then is a sketch shrunk
    AdaGrads     means weighed by the energy that each part has met
    mixture      means weighed by precision, and sums of losses
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import scaling
from onsketch.core import state as states
from onsketch.core.scaling import CENTRE, SCALE
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import kernel
from onsketch.jit.vectors import padded
from onsketch.learners.auto import pool as pools
from onsketch.learners.auto import upkeep
from onsketch.learners.auto.metric import change
from onsketch.learners.auto.pool import Pool
from onsketch.learners.auto.state import (
    COOLEST,
    FIRST,
    HOTTEST,
    LONG,
    NEWTON,
    OWN,
    PRIOR,
    RUN,
    STACK_PRIOR,
    STACKED,
    Mixture,
    State,
    new_scratch,
)
from onsketch.learners.sketched.packed import new_table

if TYPE_CHECKING:
    from onsketch.learners.auto.learner import Core

Floats = NDArray[np.float64]
SIGNS = (1.0, 1.0, -1.0)
"""How the two learners and their base count in sums."""
ADDED = ("values", "pending", "alpha", "weight", "lost", "squares")
"""Running figures that add up."""


@kernel
def rewrite(state, scratch, exact, size, classes, before, after):
    """Bring the Newton experts' knowledge of every feature from the scales and centres before to those after."""
    for j in range(1, len(after)):
        used, scale = before[j, SCALE], after[j, SCALE]
        if used > 0.0 and scale > 0.0:
            move = (before[j, CENTRE] - after[j, CENTRE]) / scale
            change(state, scratch, exact, size, classes, j, used / scale, move)


def merge(one: Core, two: Core, base: Core) -> None:
    """Let ``one`` take in what ``two`` has learned since ``base``; nothing changes if this fails."""
    features = np.append(one.map.features, np.setdiff1d(two.map.features, one.map.features))
    count = features.size + 1
    whole = one.exact and two.exact and one.fits(count)
    parts = [_aligned(part, features, whole) for part in (one, two, base)]
    rounds = np.array([state.running[RUN.rounds] for state in parts])
    rows_seen = rounds[0] + rounds[1] - rounds[2] if one.setup.intercept else np.inf
    figures = scaling.merged([upkeep.statistics(part) for part in parts], SIGNS, rows_seen)
    running = _running(one, parts, rounds)
    for state in parts:
        _to_law(one, state, figures, running)
    columns = [upkeep.columns_of(part)[0] for part in parts] if not whole else []
    hidden = [_hidden(*part) for part in zip(parts, columns, strict=not whole)]
    merged = parts[0]
    listed = scaling.mostly(figures, rows_seen)
    room = padded(listed.size, 8)
    merged = states.resize(merged, centred=room)
    merged.figures[:], merged.centred[:] = scaling.parted(figures, listed, room)
    merged.running[:], merged.listed[: listed.size], merged.running[RUN.listed] = running, listed, listed.size
    weights = _first_order(parts)
    for e in range(NEWTON):
        for k in range(max(int(running[RUN.classes]), 1)):
            weights[:, FIRST + e, k] = _newton(parts, columns, hidden, e, k)
    merged.weights[:] = weights
    merged.factors[:] = sum(s * part.factors for s, part in zip(SIGNS, parts, strict=True))
    rows = _shrunk(merged, columns, one.directions) if not whole else None
    mixture, pool = _mixture([one.mixture, two.mixture, base.mixture], rounds), _pool(one.pool, two.pool, rounds)
    new_map = type(one.map)()
    new_map.refill(features, None, False)
    real = one.state.weights.dtype
    merged = merged._replace(
        weights=merged.weights.astype(real), energies=merged.energies.astype(real),
        buffer=merged.buffer.astype(real), table=new_table(0, 0, real),
    )  # fmt: skip
    if rows is not None:
        merged = upkeep.with_columns(merged, rows)
    one.map, one.state, one.mixture, one.pool = new_map, merged, mixture, pool


def _aligned(part: Core, features: NDArray[np.int64], exact: bool) -> State:
    """Return the part's state on these features, exact or with a sketch."""
    state = part.state
    while int(state.running[RUN.status]) > LONG:
        state = upkeep.kept_up(state)
    state = upkeep.sketched(state, part.directions) if not exact and part.exact else upkeep.settled(state)
    have, seen = states.sizes(state), part.map.count + 1
    order = {feature: slot for slot, feature in enumerate(features.tolist(), 1)}
    to = np.array([0, *(order[feature] for feature in part.map.features.tolist())])
    size = features.size + 1
    fresh: State = states.new(
        State, slots=size, centred=have["centred"], classes=have["classes"], places=size, width=have["width"],
        square=padded(size, 8) if exact else 0, buffered=0, since=0, table=new_table(0, 0, np.float64),
        real=np.float64,
    )  # fmt: skip
    columns = np.zeros((0, 0))
    if not exact:
        state, columns = upkeep.unpacked(state._replace(weights=state.weights.astype(np.float64)))
    for name in ("figures", "weights", "energies"):
        getattr(fresh, name)[to] = getattr(state, name)[:seen]
    fresh.listed[:], fresh.centred[:] = to[state.listed], state.centred
    fresh.running[:] = state.running
    for name in ("coefficients", "gram", "inverses", "factors"):
        getattr(fresh, name)[...] = getattr(state, name)
    if exact:
        ridges = upkeep.ridges(state)
        for e in range(NEWTON if have["square"] else 0):
            if ridges[e] > 0.0:
                fresh.metrics[e, :, range(size), range(size)] = 1.0 / ridges[e]
            fresh.metrics[e][:, to[:, None], to] = state.metrics[e, :, :seen, :seen]
    else:  # every feature has a column
        fresh.places[:], fresh.slot_of[:] = np.arange(size), np.arange(size)
        moved = np.zeros((size, columns.shape[1]))
        moved[to[state.slot_of[: len(columns)]]] = columns
        fresh = upkeep.with_columns(fresh, moved)
    fresh.running[RUN.seen] = size - 1
    return fresh


def _mean(values: Any, counts: Any) -> Any:
    """The mean of the parts, the base's share taken off."""
    total = sum(s * n for s, n in zip(SIGNS, counts, strict=True))
    summed = sum(s * n * v for s, n, v in zip(SIGNS, counts, values, strict=True))
    return summed / np.where(np.abs(total) > 0.0, total, 1.0)


def _running(one: Core, parts: list[State], rounds: Floats) -> Floats:
    """The running figures of the stream of all rows."""
    given = [part.running for part in parts]
    run = given[0].copy()
    for name in ADDED:
        place = getattr(RUN, name)
        run[place] = max(sum(s * g[place] for s, g in zip(SIGNS, given, strict=True)), 0.0)
    run[RUN.rounds] = rounds[0] + rounds[1] - rounds[2]
    for place in (RUN.norm, RUN.wide):
        met = [n * (g[place] > 0.0) for n, g in zip(rounds, given, strict=True)]
        run[place] = max(_mean([g[place] ** 0.125 for g in given], met), 0.0) ** 8
    run[RUN.used] = run[RUN.before] = run[RUN.norm]
    run[RUN.common] = _mean([g[RUN.common] for g in given], [g[RUN.values] for g in given])
    means = [g[RUN.centre] + (0.0 if one.setup.counts else g[RUN.mean]) for g in given]
    run[RUN.centre] = _mean(means, rounds)
    run[RUN.mean] = _mean([g[RUN.mean] for g in given], rounds) if one.setup.counts else 0.0
    spread = [g[RUN.unit] ** 2 + (mean - run[RUN.centre]) ** 2 for g, mean in zip(given, means, strict=True)]
    run[RUN.unit] = np.sqrt(max(_mean(spread, rounds), 0.0))
    run[RUN.low], run[RUN.high] = min(g[RUN.low] for g in given), max(g[RUN.high] for g in given)
    run[RUN.heaviest] = max(g[RUN.heaviest] for g in given)
    run[RUN.start] = 0.0
    return run


def _to_law(one: Core, state: State, figures: Floats, running: Floats) -> None:
    """Rewrite a part in the merged scales, centres, typical length and centre of labels."""
    statistics = upkeep.statistics(state)
    before, after = upkeep.units(statistics, state.running), upkeep.units(figures, running)
    run, classes = state.running, max(int(running[RUN.classes]), 1)
    by = np.where(
        after[:, :FIRST] > 0.0, before[:, :FIRST] / np.where(after[:, :FIRST] > 0.0, after[:, :FIRST], 1.0), 0.0
    )
    by[0] = 1.0
    moved = figures[:, CENTRE] - statistics[:, CENTRE]
    moved[statistics[:, SCALE] == 0.0] = 0.0
    state.weights[0, OWN] += (state.weights[:, OWN] * (before[:, OWN] * moved)[:, None])[1:].sum(axis=0)
    state.weights[:, :FIRST] *= by[:, :, None]
    state.energies[:] /= np.where(by > 0.0, by, 1.0) ** 2
    kept = state.energies.copy(), state.weights[:, OWN].copy()
    scratch = new_scratch(state, 8)
    rewrite(state, scratch, state.gram.shape[0] == 0, len(figures), classes, statistics, figures)
    state.energies[:], state.weights[:, OWN] = kept
    if run[RUN.used] > 0.0:
        state.weights[0, FIRST:] *= np.sqrt(run[RUN.used] / running[RUN.used])
        run[RUN.before], run[RUN.used] = run[RUN.used], running[RUN.used]
        if state.gram.shape[0] == 0:
            upkeep.exchange(state, faded=False)
        else:
            upkeep.add_sketch(state, upkeep.columns_of(state)[0])
            state.coefficients[:] = 0.0
    elif state.gram.shape[0] == 0:  # nothing is known but the ridge
        for e in range(NEWTON):
            state.metrics[e, :, : len(figures), : len(figures)] = np.eye(len(figures)) / upkeep.ridge(running, True, e)
    shift = run[RUN.centre] - running[RUN.centre]
    if one.lanes and run[RUN.rounds] and one.setup.intercept:
        state.weights[0, :FIRST] += shift
        state.weights[0, FIRST:] += shift / np.sqrt(running[RUN.used]) if running[RUN.used] > 0.0 else 0.0
    run[RUN.used] = running[RUN.used]


def _first_order(parts: list[State]) -> Floats:
    """The weights, those of the AdaGrads merged by the energy that each part has met."""
    energies = [part.energies.astype(np.float64) for part in parts]
    weights = parts[0].weights.astype(np.float64)
    known = [energies[0] - energies[2], energies[1] - energies[2], energies[2]]
    known = [np.maximum(k, 0.0) for k in known]
    total = known[0] + known[1] + known[2]
    for o in range(FIRST):
        summed = sum((known[i][:, o] + known[2][:, o] / 2.0)[:, None] * parts[i].weights[:, o] for i in range(2))
        weights[:, o] = summed / np.where(total[:, o] > 0.0, total[:, o], 1.0)[:, None]
    parts[0].energies[:] = total
    return weights


def _newton(parts: list[State], rows: list[Floats], hidden: list[Floats], e: int, k: int) -> Floats:
    """The merged weights of a Newton expert; in exact metrics, which hide no curvature, also the merged metric."""
    exact = not hidden
    ridge = upkeep.ridge(parts[0].running, exact, e)
    start = parts[2].weights[:, FIRST + e, k]
    moved = [part.weights[:, FIRST + e, k] - start for part in parts[:2]]
    if exact:
        size = len(start)
        metrics = [np.linalg.inv(part.metrics[e, k, :size, :size]) for part in parts]
        whole = metrics[0] + metrics[1] - metrics[2]
        target = metrics[0] @ moved[0] + metrics[1] @ moved[1]
        inverse = np.linalg.inv((whole + whole.T) / 2.0)
        parts[0].metrics[e, k, :size, :size] = (inverse + inverse.T) / 2.0
        return np.asarray(start + inverse @ target)
    flat = [ridge + more for more in hidden]
    target = np.zeros_like(start)
    for i, move in enumerate(moved):
        target += flat[i] * move + rows[i] @ (rows[i].T @ move)
    basis, inner = _summed(rows)
    whole = np.maximum(flat[0] + flat[1] - flat[2], ridge)
    wide = basis * np.sqrt(np.diag(inner))
    solved = target / whole
    small = np.eye(len(inner)) + wide.T @ (wide / whole[:, None])
    return np.asarray(start + solved - wide @ np.linalg.solve(small, wide.T @ solved) / whole)


def _hidden(state: State, columns: Floats) -> Floats:
    """The curvature of each feature that the sketch does not show, from the squared slopes that AdaGrad has met.

    All together it is not more than what the sketch has lost.
    """
    run = state.running
    slope = 2.0 * run[RUN.squares] / run[RUN.weight] if run[RUN.squares] > 0.0 else 1.0
    shown = np.square(columns).sum(axis=1)
    flat = np.maximum(state.energies[:, OWN] / max(slope, 1e-290) - shown, 0.0)
    return np.asarray(flat * min(run[RUN.lost] * state.gram.shape[0] / max(float(flat.sum()), 1e-290), 1.0))


def _summed(rows: list[Floats]) -> tuple[Floats, Floats]:
    """A basis of all rows, and SᵀS of the first two less that of the base in it, without negative parts."""
    basis, _ = np.linalg.qr(np.hstack(rows)) if sum(r.shape[1] for r in rows) else (np.zeros((len(rows[0]), 0)), None)
    inside = [basis.T @ r for r in rows]
    inner = sum(s * (r @ r.T) for s, r in zip(SIGNS, inside, strict=True)) + np.zeros((basis.shape[1],) * 2)
    values, vectors = np.linalg.eigh((inner + inner.T) / 2.0)
    return basis @ vectors, np.diag(np.maximum(values, 0.0))


def _shrunk(merged: State, columns: list[Floats], size: int) -> Floats:
    """Return the sketch of all rows, shrunk, whose small matrices are written to the state."""
    basis, inner = _summed(columns)
    values = np.diag(inner)[::-1]
    rho = float(values[size - 1]) if values.size >= size else 0.0
    kept = min(size - 1, int(np.count_nonzero(values > rho + CUTOFF * values.max(initial=0.0))))
    left = values[:kept] - rho
    merged.gram[:] = 0.0
    merged.gram[range(kept), range(kept)] = left
    merged.coefficients[:] = 0.0
    merged.running[RUN.lost] += rho
    merged.running[RUN.rows] = kept
    upkeep.invert(merged)
    return np.asarray(basis[:, ::-1][:, :kept] * np.sqrt(left))


def _mixture(parts: list[Mixture], rounds: Floats) -> Mixture:
    """The mixture: factors by their curvature, the stack by its Hessian, losses added."""
    merged = states.copy(parts[0])
    summed = {name: sum(s * getattr(part, name) for s, part in zip(SIGNS, parts, strict=True))
              for name in ("hardness", "losses", "hessian", "costs")}  # fmt: skip
    temperatures = _mean([part.temperatures for part in parts], [part.hardness for part in parts])
    merged.temperatures[:] = np.clip(temperatures, COOLEST, HOTTEST)
    merged.hardness[:] = np.maximum(summed["hardness"], PRIOR)
    merged.losses[:] = np.maximum(summed["losses"], 0.0)
    merged.hessian[:] = summed["hessian"]
    prior = STACK_PRIOR * np.eye(STACKED)
    target = sum(s * (part.hessian + prior) @ part.stack for s, part in zip(SIGNS, parts, strict=True))
    merged.stack[:] = np.clip(np.linalg.solve(merged.hessian + prior, target), -HOTTEST, HOTTEST)
    merged.costs[:] = np.maximum(summed["costs"], 0.0)
    merged.ways[:] = np.clip(_mean([part.ways for part in parts], rounds), 0.0, 1.0)
    merged.shares[:] = np.clip(_mean([part.shares for part in parts], rounds), 0.0, 1.0)
    merged.mix[:] = _mean([part.mix for part in parts], rounds)
    return merged


def _pool(one: Pool, two: Pool, rounds: Floats) -> Pool:
    """The pool of several classes, likewise; late rows count most in it, so a common base is not taken off."""
    parts = one, two
    summed = {name: getattr(one, name) + getattr(two, name) for name in ("losses", "hessian", "gaps")}
    merged = {name: _weighed(parts, name, rounds) for name in ("shares", "mix")}
    for name, firm in (("temperatures", "hardness"), ("biases", "firmness")):
        precisions = [getattr(part, firm) for part in parts]
        merged[name], merged[firm] = _weighed(parts, name, precisions), precisions[0] + precisions[1] - pools.PRIOR
    prior = pools.PRIOR * np.eye(len(one.stack))
    start = np.eye(len(one.stack))[0]
    target = sum((part.hessian + prior) @ (part.stack - start) for part in parts)
    stack = start + np.linalg.solve(summed["hessian"] + prior, target)
    return Pool(**merged, **summed, stack=np.clip(stack, -pools.HOTTEST, pools.HOTTEST))


def _weighed(parts: tuple[Pool, Pool], name: str, counts: Any) -> Any:
    """The mean of a figure of the pools."""
    one, two = (getattr(part, name) for part in parts)
    return (counts[0] * one + counts[1] * two) / np.maximum(counts[0] + counts[1], 1.0)


def reordered(core: Core, places: NDArray[np.int64]) -> Core:
    """Return a copy whose class k is the core's class ``places[k]``, with room for no more."""
    twin = copy.deepcopy(core)
    state, columns = (core.state, None) if core.exact else upkeep.unpacked(core.state)
    axes = {name: array.axes for name, array in states.declared(State).items() if "classes" in array.axes}
    taken: dict[str, Any] = {
        name: np.ascontiguousarray(np.take(getattr(state, name), places, axis=found.index("classes")))
        for name, found in axes.items()
    }
    state = state._replace(**taken)
    twin.state = state if columns is None else upkeep.with_columns(state, columns)
    twin.pool = core.pool._replace(biases=core.pool.biases[places], firmness=core.pool.firmness[places])
    return twin
