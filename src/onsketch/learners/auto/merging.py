"""Merging ``auto`` learners that have seen different rows.

Two learners and the base that both started from (a fresh one, unless given) are written out over the features that any
of them has met, in the scales of the merged learner: means and scales by the counts of their features, lengths, labels
and losses by sums, the base counted once. A weight per unit of one scale becomes one per unit of the other, a row of
the sketch likewise, so that no prediction changes. Then every expert is merged by what it knows:

Newton experts (as ``sketched/merging.py``, with a diagonal E)

    (M_0 + K_1 + K_2)(w − w_0) = (M_0 + K_1)(w_1 − w_0) + (M_0 + K_2)(w_2 − w_0),    K_i = Δ_i + E_i

with Δ_i what the sketch has gained, and E_i what it does not show: per feature with columns the energy let go, per
feature without them that of its gradients. The diagonal Laplace expert has the same rule with precisions 1/v.

The root expert and the AdaGrads go as far as they can, so that their displacements are averaged: by √E gained per
feature, or by A^{1/2} times how often a feature was met. Calibration and stacking are Laplace approximations: their
precisions add, and so do precisions times coefficients. Mixing weights follow from the sums of losses.

Merging with a learner that has learned nothing since the base changes nothing; the order does not matter but for
rounding. It is an approximation of learning one stream, not the same: docs/explanation/auto.md has the figures.
O(m²) per feature with sketch columns, O(1) per feature without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError
from onsketch.core.losses import HUBER, POISSON, SQUARED, slope_unit
from onsketch.core.state import grow
from onsketch.core.tolerances import CUTOFF
from onsketch.core.weighting import exponential_weights
from onsketch.learners.auto.counting import own_or_common
from onsketch.learners.auto.directions import ridge_with
from onsketch.learners.auto.mixing import EXPERTS, FEATURES, PRECISION, PRIORS, RATE, STAGES, set_mix
from onsketch.learners.auto.passes import seen_by
from onsketch.learners.auto.reading import fill_sketch, new_room
from onsketch.learners.auto.scaling import MIXED, next_regime
from onsketch.learners.auto.state import (
    FIGURE,
    FIRST_ROW,
    HEADS,
    LAPLACE,
    LIGHT,
    OWN_ADAGRAD,
    ROOT,
    SKETCHED,
    TALLY,
    WIDTH,
    Mixture,
    beyond_float32,
    light_of,
    rows_of,
)
from onsketch.learners.features import INTERCEPT
from onsketch.learners.merging import added, less_base, spectrum
from onsketch.learners.sketched.packed import CLOCK

if TYPE_CHECKING:
    from onsketch.learners.auto.learner import AutoLearner

Array = NDArray[np.float64]

LANE = LAPLACE - SKETCHED
"""The Laplace expert among those with two numbers per feature."""


class Spread(NamedTuple):
    """A learner written out over a common list of features."""

    light: Array
    """(features, WIDTH): the light rows, in which weights are whole."""
    columns: NDArray[np.bool_]
    """Which features have sketch columns."""
    rows: Array
    """(n, features that have columns in any of the learners): the sketch."""


def merge_auto(one: AutoLearner, two: AutoLearner, base: AutoLearner) -> None:
    """Merge ``two`` into ``one``, both of which started from ``base`` and have learned rows since."""
    parts = (one, two, base)
    union = one._map.copy()
    slots = [union.add(part._map.features) for part in parts]
    columns = [_with_columns(part, union.count, at) for part, at in zip(parts, slots, strict=True)]
    heavy = np.flatnonzero(np.logical_or.reduce(columns))
    constant = int(np.flatnonzero(union.features == INTERCEPT)[0]) if one.options.fit_intercept else -1
    spreads = [_spread(part, union.count, at, has, heavy) for part, at, has in zip(parts, slots, columns, strict=True)]
    small, light = _figures(parts, spreads, constant)
    spreads = [_in_units_of(small, light, part, s, heavy, constant) for part, s in zip(parts, spreads, strict=True)]
    energies = [spread.light[:, LIGHT.energy : LIGHT.energy + 4].T for spread in spreads]
    light[:, :EXPERTS] = _weights(parts, small, spreads, heavy, energies).T
    merged = np.maximum(less_base(energies), 0.0)
    merged[LANE] = 1.0 / merged[LANE]
    light[:, LIGHT.energy : LIGHT.energy + 4] = merged.T
    rows = _shrunk(one, small, added([spread.rows for spread in spreads]))
    _mix(parts, small)
    _install(one, small, light, heavy, rows, round(less_base(part.rounds for part in parts)))
    one._map = union


# What a learner holds ------------------------------------------------------------------------------------


def _with_columns(part: AutoLearner, count: int, slots: NDArray[np.int32]) -> NDArray[np.bool_]:
    has = np.zeros(count, dtype=bool)
    has[slots] = (part._light.places[: slots.size] > 0) & (part._settings.size >= 2)
    return has


def sketch_of_learner(part: AutoLearner) -> Array:
    """Heads and entries of S of warm features, by place; place 0 has none."""
    out = np.zeros((int(part._small.counts[TALLY.warm]) + 1, FIRST_ROW + part._settings.capacity))
    fill_sketch(part._light, part._table, part._small, out, new_room(part._table, part._small))
    return out


def _spread(
    part: AutoLearner, count: int, slots: NDArray[np.int32], has: NDArray[np.bool_], heavy: NDArray[np.int64]
) -> Spread:
    light = np.zeros((count, WIDTH))
    light[slots] = rows_of(part._light, slots.size)
    places = np.zeros(count, dtype=np.int64)
    places[slots] = np.maximum(part._light.places[: slots.size], 0)
    mine = sketch_of_learner(part)[places[heavy]] * has[heavy, None]
    n = int(part._small.counts[TALLY.rows])
    rows = mine[:, FIRST_ROW : FIRST_ROW + n].T
    for k in range(SKETCHED):
        light[heavy, k] += mine[:, HEADS[k]] + part._small.a[k, :n] @ rows
    return Spread(light, has, rows)


# Scales, lengths, labels ---------------------------------------------------------------------------------


def _mean(values: Iterable[Any], counts: Iterable[Any]) -> Any:
    """The mean of all, the base counted once; 0 where there is nothing."""
    values, counts = list(values), list(counts)
    total = less_base(counts)
    return less_base(v * c for v, c in zip(values, counts, strict=True)) / np.where(total > 0.0, total, 1.0)


def _typical(lengths: Iterable[float], rounds: list[float]) -> float:
    """As ``scaling.typical``: a part that has met no feature yet says nothing."""
    known = list(lengths)
    counts = [n if length > 0.0 else 0.0 for n, length in zip(rounds, known, strict=True)]
    return float(_mean((length**0.125 for length in known), counts)) ** 8


def _figures(parts: tuple[AutoLearner, ...], spreads: list[Spread], constant: int) -> tuple[Mixture, Array]:
    """The merged learner's figures, and light rows with its means and scales."""
    one, two, _ = parts
    small = Mixture.empty(one._settings.capacity, one._table.running.shape[1] - 1)
    numbers = small.numbers
    given = [part._small.numbers for part in parts]
    rounds = [float(part.rounds) for part in parts]
    small.counts[TALLY.constant], small.counts[TALLY.seen] = constant, len(spreads[0].light)
    light = np.zeros_like(spreads[0].light)
    met = [spread.light[:, LIGHT.met] for spread in spreads]
    light[:, LIGHT.met] = less_base(met)
    light[:, LIGHT.mean] = np.maximum(_mean((spread.light[:, LIGHT.mean] for spread in spreads), met), 0.0)
    first, second = (spread.light[:, LIGHT.scale] for spread in spreads[:2])
    alone = np.where(met[1] == met[2], first, second)
    light[:, LIGHT.scale] = np.where((met[0] == met[2]) | (met[1] == met[2]), alone, light[:, LIGHT.mean])
    if constant >= 0:
        light[constant, LIGHT.scale] = 1.0
    np.log(light[:, LIGHT.scale], out=light[:, LIGHT.log], where=light[:, LIGHT.scale] > 0.0)
    for place in (FIGURE.logs, FIGURE.squared_logs):
        numbers[place] = _mean((g[place] for g in given), (g[FIGURE.values] for g in given))
    for place in (FIGURE.values, FIGURE.weight):
        numbers[place] = less_base(g[place] for g in given)
    numbers[FIGURE.common] = numbers[FIGURE.logs]
    numbers[FIGURE.own_length] = _typical((g[FIGURE.own_length] for g in given), rounds)
    lengths = (
        g[FIGURE.common_length] * math.exp(2.0 * (g[FIGURE.common] - numbers[FIGURE.common])) if n else 0.0
        for g, n in zip(given, rounds, strict=True)
    )
    numbers[FIGURE.common_length] = _typical(lengths, rounds)
    regimes = {int(part._small.counts[TALLY.regime]) for part in (one, two)}
    variance = float(numbers[FIGURE.squared_logs] - numbers[FIGURE.logs] ** 2)
    regime = next_regime.py_func(regimes.pop() if len(regimes) == 1 else MIXED, variance)
    small.counts[TALLY.regime] = regime
    squares = own_or_common.py_func(regime, numbers[FIGURE.own_length], numbers[FIGURE.common_length])
    for place, square in zip((FIGURE.norm, FIGURE.wide_norm), squares, strict=True):
        numbers[place] = square if square > 0.0 else max(given[0][place], given[1][place])
    if one._settings.loss.code == POISSON:  # the centre is of margins, the mean of counts
        numbers[FIGURE.mean_label] = _mean((g[FIGURE.mean_label] for g in given), rounds)
        means = [g[FIGURE.centre] for g in given]
    else:
        means = [g[FIGURE.centre] + g[FIGURE.mean_label] for g in given]
    numbers[FIGURE.centre] = _mean(means, rounds)
    # a mean deviation, merged as roots of mean squares are: that of several means needs the distance between them
    variances = (g[FIGURE.unit] ** 2 + (m - numbers[FIGURE.centre]) ** 2 for g, m in zip(given, means, strict=True))
    real = one._settings.real
    numbers[FIGURE.unit] = math.sqrt(max(_mean(variances, rounds), 0.0)) if real else given[0][FIGURE.unit]
    numbers[FIGURE.low] = min(given[0][FIGURE.low], given[1][FIGURE.low])
    for place in (FIGURE.high, FIGURE.heaviest):
        numbers[place] = max(given[0][place], given[1][place])
    numbers[FIGURE.escaped] = max(less_base(_escaped(part, small) for part in parts), 0.0)
    numbers[FIGURE.credit] = min(max(less_base(g[FIGURE.credit] for g in given), 0.0), one._settings.told)
    return small, light


def _escaped(part: AutoLearner, small: Mixture) -> float:
    """Σρ of a learner where rows have the merged one's length."""
    numbers = part._small.numbers
    norm = numbers[FIGURE.norm]
    return float(numbers[FIGURE.escaped] * small.numbers[FIGURE.norm] / norm) if norm > 0.0 else 0.0


def _units(small: Mixture, light: Array, constant: int) -> Array:
    """(EXPERTS, features): what a value is multiplied by for each expert; 1 where there is no scale."""
    own = 1.0 / np.where(light[:, LIGHT.scale] > 0.0, light[:, LIGHT.scale], np.nan)
    common = np.full_like(own, math.exp(-small.numbers[FIGURE.common]))
    sketched, wide = seen_by.py_func(int(small.counts[TALLY.regime]), own, common)
    units = np.array([sketched] * (OWN_ADAGRAD + 1) + [wide] * (EXPERTS - OWN_ADAGRAD - 1))
    if constant >= 0:
        units[:, constant] = 1.0
        units[:SKETCHED, constant] = math.sqrt(small.numbers[FIGURE.norm]) or 1.0
    return units


def _in_units_of(
    small: Mixture, scales: Array, part: AutoLearner, spread: Spread, heavy: NDArray[np.int64], constant: int
) -> Spread:
    """The learner in the merged one's scales and around its centre, the variances as precisions."""
    numbers = part._small.numbers
    by = _units(small, scales, constant) / _units(part._small, spread.light, constant)
    by = np.where(np.isfinite(by), by, 1.0)  # never met
    light = spread.light.copy()
    light[:, :EXPERTS] /= by.T
    if constant >= 0 and part.rounds:
        size = math.sqrt(small.numbers[FIGURE.norm])
        shift = numbers[FIGURE.centre] - small.numbers[FIGURE.centre]
        light[constant, :EXPERTS] += shift / np.where(np.arange(EXPERTS) < SKETCHED, size, 1.0)
    energies = light[:, LIGHT.energy : LIGHT.energy + 4]
    least = part._settings.precision * small.numbers[FIGURE.wide_norm]
    energies[:, LANE] = 1.0 / np.where(energies[:, LANE] > 0.0, energies[:, LANE], np.inf)
    energies *= by[SKETCHED:].T ** 2
    energies[:, LANE] = np.maximum(energies[:, LANE], least)
    return Spread(light, spread.columns, spread.rows * by[0, heavy])


# Experts -------------------------------------------------------------------------------------------------


def _weights(
    parts: tuple[AutoLearner, ...],
    small: Mixture,
    spreads: list[Spread],
    heavy: NDArray[np.int64],
    energies: list[Array],
) -> Array:
    """(EXPERTS, features): the merged weights."""
    settings, base = parts[0]._settings, parts[2]
    start = spreads[2].light[:, :EXPERTS].T
    moved = [spread.light[:, :EXPERTS].T - start for spread in spreads[:2]]
    known = spreads[2].rows
    gained = [added([spread.rows, known]) for spread in spreads[:2]]
    before = energies[2][OWN_ADAGRAD - SKETCHED]
    hidden = [_hidden(parts[i], base, small, spreads[i].columns, energies[i][OWN_ADAGRAD - SKETCHED] - before)
              for i in range(2)]  # fmt: skip
    weights = start.copy()
    for k in range(ROOT):
        ridge = ridge_with.py_func(settings, small.numbers, k, _escaped(base, small))
        metrics = [(ridge + flat, np.vstack([known, rows])) for flat, rows in zip(hidden, gained, strict=True)]
        whole = ridge + hidden[0] + hidden[1], np.vstack([known, *gained])
        weights[k] += _solve(whole, _target(metrics, [m[k] for m in moved], heavy), heavy)
    metrics = []
    for part, spread in zip(parts, spreads[:2], strict=False):
        ridge = ridge_with.py_func(settings, small.numbers, ROOT, _escaped(part, small))
        values, directions = spectrum(spread.rows)
        seen = spread.light[:, LIGHT.met] - spreads[2].light[:, LIGHT.met]
        roots = np.sqrt((part.rounds - base.rounds) * (np.sqrt(ridge + values) - math.sqrt(ridge)))
        metrics.append((seen * math.sqrt(ridge), roots[:, None] * directions))
    whole = metrics[0][0] + metrics[1][0], np.vstack([rows for _, rows in metrics])
    weights[ROOT] += _solve(whole, _target(metrics, [m[ROOT] for m in moved], heavy), heavy)
    for lane in range(4):
        k = SKETCHED + lane
        before = energies[2][lane] if lane == LANE else np.sqrt(energies[2][lane])
        after = [e[lane] if lane == LANE else np.sqrt(e[lane]) for e in energies[:2]]
        first, second = (np.maximum(e - before, 0.0) for e in after)
        floor = before if lane == LANE else 0.0
        total = floor + first + second
        step = (floor + first) * moved[0][k] + (floor + second) * moved[1][k]
        weights[k] += step / np.where(total > 0.0, total, 1.0)
    return np.asarray(weights)


def _hidden(part: AutoLearner, base: AutoLearner, small: Mixture, columns: NDArray[np.bool_], slopes: Array) -> Array:
    """Per feature, the energy that a learner has met since the base and its sketch does not show."""
    escaped = max(_escaped(part, small) - _escaped(base, small), 0.0)
    lost = escaped * min(1.0, part._settings.capacity / max(int(columns.sum()), 1))
    unit = float(part._small.numbers[FIGURE.unit])
    loss = part._settings.loss
    curved = loss.code in (SQUARED, HUBER) and unit > 0.0
    curvature = 1.0 / (2.0 * unit * slope_unit.py_func(loss, unit)) if curved else 1.0
    return np.where(columns, lost, np.maximum(slopes, 0.0) * curvature)


def _target(metrics: list[tuple[Array, Array]], moved: list[Array], heavy: NDArray[np.int64]) -> Array:
    """Σ (E + RᵀR)·moved."""
    total = np.zeros_like(moved[0])
    for (flat, rows), by in zip(metrics, moved, strict=True):
        total += flat * by
        total[heavy] += rows.T @ (rows @ by[heavy])
    return total


def _solve(metric: tuple[Array, Array], target: Array, heavy: NDArray[np.int64]) -> Array:
    """(E + RᵀR)⁻¹·target; where nothing is known, nothing moves."""
    flat, rows = metric
    inverse = np.where(flat > 0.0, 1.0 / np.where(flat > 0.0, flat, 1.0), 0.0)
    moved = inverse * target
    if rows.size:
        wide = rows * inverse[heavy]
        small = np.linalg.solve(np.eye(len(rows)) + wide @ rows.T, rows @ moved[heavy])
        moved[heavy] -= wide.T @ small
    return np.asarray(moved)


def _shrunk(one: AutoLearner, small: Mixture, rows: Array) -> Array:
    """The merged sketch, turned and shrunk, with all that is small set to it."""
    settings = one._settings
    kept = max(settings.size - 1, 0)
    values, directions = spectrum(rows)
    rho = float(values[kept]) if values.size > kept else 0.0
    small.numbers[FIGURE.escaped] += rho
    energy = np.maximum(values[:kept] - rho, 0.0)
    n = energy.size
    small.counts[TALLY.rows] = small.counts[TALLY.turned] = kept
    small.spectrum[:n] = energy
    small.gram[:kept, :kept] = np.diag(small.spectrum[:kept])
    for k in range(2):
        ridge = ridge_with.py_func(settings, small.numbers, k, small.numbers[FIGURE.escaped])
        small.inverses[k, :kept, :kept] = np.diag(1.0 / (ridge + small.spectrum[:kept]))
    merged = np.zeros((kept, rows.shape[1]))
    merged[:n] = np.sqrt(energy)[:, None] * directions[:n]
    return merged


# The mixture ---------------------------------------------------------------------------------------------


def _mix(parts: tuple[AutoLearner, ...], small: Mixture) -> None:
    """Losses and precisions add up; shares follow."""
    states = [part._small for part in parts]
    small.sums[:] = less_base(state.sums for state in states)
    if parts[0]._settings.loss.code != POISSON:  # whose values may be negative
        np.maximum(small.sums, 0.0, out=small.sums)
    started = [bool(state.covariance[0, 0] > 0.0) for state in states]
    precision = [np.where(on, state.calibration[1], PRECISION) for state, on in zip(states, started, strict=True)]
    small.calibration[1] = np.maximum(less_base(precision), PRECISION)
    factors = [state.calibration[0] for state in states]
    small.calibration[0] = less_base(p * f for p, f in zip(precision, factors, strict=True)) / small.calibration[1]
    prior = np.eye(FEATURES) / PRECISION
    known = [_inverse(s.covariance if on else prior, 0.0) for s, on in zip(states, started, strict=True)]
    small.covariance[:] = _inverse(less_base(known), PRECISION)
    small.stack[:] = small.covariance @ less_base(p @ s.stack for p, s in zip(known, states, strict=True))
    loss, weight = parts[0]._settings.loss, float(small.numbers[FIGURE.weight])
    rate = RATE / small.numbers[FIGURE.heaviest]
    for sums, shares, priors in zip(small.sums, small.shares, (PRIORS, PRIORS, (1.0,) * STAGES), strict=True):
        exponential_weights(sums, priors, loss.degree, weight, rate, shares)
    set_mix.py_func(small.shares, small.calibration, small.stack, small.mix)


def _inverse(matrix: Array, least: float) -> Array:
    """Of a positive matrix, whose eigenvalues are no less than ``least`` (nor than rounding lets them be)."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.maximum(values, max(least, CUTOFF * values[-1]))) @ vectors.T)


def _install(
    one: AutoLearner, small: Mixture, light: Array, heavy: NDArray[np.int64], rows: Array, rounds: int
) -> None:
    """Give the learner fresh tables with this state."""
    warm = (np.arange(len(light)) < one._settings.free) | (light[:, LIGHT.met] >= one._settings.patience)
    warm[heavy] = True
    warm |= beyond_float32(light)
    if small.counts[TALLY.constant] >= 0:
        warm[small.counts[TALLY.constant]] = True
    with np.errstate(over="ignore"):
        tables = light_of(one._new_light(), small.counts, light, warm)
    if not (np.isfinite(tables.rows).all() and np.isfinite(rows).all()):
        raise OptionError("merge: what the learners know together is beyond what their type of number can hold.")
    places = tables.places[heavy]
    table = one._new_table(int(warm.sum()) + 1)
    table.clock[CLOCK.rounds] = rounds
    if one._settings.size >= 2:
        table.rows[places, FIRST_ROW : FIRST_ROW + len(rows)] = rows.T
        table.clock[CLOCK.seen] = warm.sum() + 1
        tables = grow(tables, warm=table.rows.shape[0])
    one._small, one._light, one._table = small, tables, table
