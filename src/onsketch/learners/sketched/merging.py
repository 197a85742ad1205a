"""Merging sketched learners that have seen different rows.

Weights are merged by the rules of ``learners.merging``; only then is the sum of the sketches shrunk.

For Newton learners ``K_i = s_i (Δ_i + e_i I)``: ``Δ_i`` is the gain of the sketch, ``B_iᵀB_i − B_0ᵀB_0`` cut off at
zero, s_i its weight (``setup.knowledge``), and e_i the energy in a direction that the sketch has lost
(``_lost``). With curvature rows on squared loss, s = 1, the rule is exact as long as nothing was lost and the ridge was
not raised. Without s and e, learners would overshoot in directions that each has moved along and no sketch contains: by
a factor of the number of learners, and without bound under repeated merges.

For the AdaGrad family each metric is weighted by the rounds of its learner since the base: the best rule we know,
without a theorem. Dual averaging keeps Σg, which adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onsketch.core.errors import OptionError
from onsketch.core.geometry import geometry_of
from onsketch.core.shrinking import ridge_growth
from onsketch.learners.features import FeatureMap
from onsketch.learners.merging import Array, Metric, added, by_fisher_weight, by_mean, less_base, spectrum
from onsketch.learners.setup import fisher_weight
from onsketch.learners.sketched.packed import CLOCK, COLUMN, new_table, roomy
from onsketch.learners.sketched.reading import fill_rows
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER

if TYPE_CHECKING:
    from onsketch.learners.sketched.learner import SketchedLearner


Parts = tuple["SketchedLearner", "SketchedLearner", "SketchedLearner"]
"""Two learners and their base."""


class Spread(NamedTuple):
    """A learner written out over a common list of features."""

    rows: Array
    """The sketch rows S, (n, features)."""
    head: Array
    weights: Array
    total: Array
    """Sum of the iterates."""


def spread_of(learner: SketchedLearner, count: int, slots: Any) -> Spread:
    """Return a learner written out over ``count`` features, of which it has seen those of these slots."""
    packed = np.empty((learner._map.count, learner._table.rows.shape[1]))
    fill_rows(learner._table, packed)
    sketch = learner._sketch
    n = int(sketch.counts[COUNT.rows])
    rows, head, total = np.zeros((n, count)), np.zeros(count), np.zeros(count)
    rows[:, slots] = packed[:, COLUMN.sketch : COLUMN.sketch + n].T
    head[slots] = packed[:, COLUMN.head]
    total[slots] = packed[:, COLUMN.sum] + sketch.numbers[NUMBER.base_sum] * packed[:, COLUMN.head]
    total += sketch.lines[LINE.a_sum, :n] @ rows
    weights = sketch.numbers[NUMBER.base] * head + sketch.lines[LINE.a, :n] @ rows
    return Spread(rows, head, weights, total)


def merge_sketched(one: SketchedLearner, two: SketchedLearner, base: SketchedLearner) -> None:
    """Merge ``two`` into ``one``, both of which started from ``base``."""
    if one.method.kind.independent and one.options.sketch_size and one.options.seed == two.options.seed:
        raise OptionError(
            "merge: random projections must come from different seeds; both have the same. "
            "Give each learner its own seed, or fork(seed=...) a common start.",
            seed=...,
        )
    parts = (one, two, base)
    union = one._map.copy()
    slots = [union.add(part._map.features) for part in parts]
    spreads = [spread_of(part, union.count, at) for part, at in zip(parts, slots, strict=True)]
    energies = [part._sketch.true_rows(s.rows) for part, s in zip(parts, spreads, strict=True)]
    raised = [_raised(part) for part in parts]  # all have the largest one, which counts once, like the base
    ridges = [part._sketch.numbers[NUMBER.ridge] + max(raised) - own for part, own in zip(parts, raised, strict=True)]
    dual = one.options.update == "dual"
    if dual:
        head = np.asarray(less_base(s.head for s in spreads))
    elif one.rounds + two.rounds == 2 * base.rounds:
        head = spreads[2].weights
    elif geometry_of(one.method.geometry).newton and one.options.sketch_size:
        head = _by_fisher_weight(parts, spreads, energies, float(ridges[2]))
    else:
        head = _mixed(parts, spreads)
    rounds = round(less_base(part.rounds for part in parts))
    base_sum = float(less_base(part._sketch.numbers[NUMBER.base_sum] for part in parts))
    total = np.asarray(less_base(s.total for s in spreads))
    for number in (NUMBER.escaped, NUMBER.lengths):
        one._sketch.numbers[number] = less_base(part._sketch.numbers[number] for part in parts)
    one._sketch.numbers[NUMBER.ridge] = less_base(ridges)
    rows = one._sketch.set_merged(parts, [s.rows for s in spreads], energies)
    install(one, union, rows, head, total - base_sum * head)
    one._sketch.numbers[NUMBER.base_sum] = base_sum
    one._table.clock[CLOCK.rounds] = rounds
    if dual:
        _form_dual(one, rows, head)


def _by_fisher_weight(parts: Parts, spreads: list[Spread], energies: list[Array], ridge: float) -> Array:
    """Return the weights of Newton learners, on the ridge of the base."""
    *learners, base = parts
    start, known = spreads[2].weights, energies[2]
    gained = []
    for learner, rows in zip(learners, energies, strict=False):
        worth = fisher_weight(learner._setup, base.rounds, learner.rounds)
        gained.append(Metric(worth * _lost(learner, base, rows), np.sqrt(worth) * added([rows, known])))
    moved = [spread.weights - start for spread in spreads[:2]]
    return np.asarray(start + by_fisher_weight(Metric(ridge, known), gained, moved))


def _lost(learner: SketchedLearner, base: SketchedLearner, rows: Array) -> float:
    """Return the energy that the sketch has lost since the base."""
    if learner.rounds == base.rounds:
        return 0.0
    features = max(learner._map.count, 1)
    return learner._sketch.lost(base._sketch, rows, features, learner._setup.capacity)


def _mixed(parts: Parts, spreads: list[Spread]) -> Array:
    """Return the base's weights moved by the mean of both displacements, each in its metric times its rounds."""
    *learners, base = parts
    start = spreads[2].weights
    metrics = []
    for learner, spread in zip(learners, spreads, strict=False):
        flat, rows = _metric_rows(learner, learner._sketch.energy_rows(spread.rows))
        rounds = learner.rounds - base.rounds
        metrics.append(Metric(rounds * flat, np.sqrt(rounds) * rows))
    moved = [spread.weights - start for spread in spreads[:2]]
    return np.asarray(start + by_mean(metrics, moved))


def _raised(learner: SketchedLearner) -> float:
    """Return the growth of the ridge due to long rows: the ridge less its start and RFD's growth."""
    if learner._setup.share == 0.0:
        return 0.0
    ridge, escaped = (float(number) for number in learner._sketch.numbers[[NUMBER.ridge, NUMBER.escaped]])
    return ridge - learner._setup.ridge - ridge_growth(learner._setup.rule, escaped)


def _metric_rows(learner: SketchedLearner, rows: Array) -> tuple[float, Array]:
    """The metric of a learner as c·I + BᵀB."""
    ridge, escaped = (float(number) for number in learner._sketch.numbers[[NUMBER.ridge, NUMBER.escaped]])
    if geometry_of(learner.method.geometry).newton:
        return ridge, rows
    values, directions = spectrum(rows)
    inverses = geometry_of(learner.method.geometry).inverses([0.0, *values], ridge, escaped)
    flat, *metric = (1.0 / p for p in inverses)
    return flat, np.sqrt(np.maximum(np.array(metric) - flat, 0.0))[:, None] * directions


def _form_dual(learner: SketchedLearner, rows: Array, head: Array) -> None:
    """Set base and a of the merged sketch to ``w = −step·P ḡ``."""
    sketch, setup = learner._sketch, learner._setup
    n = rows.shape[0]
    sketch.lines[LINE.dual, :n] = rows @ head
    values, directions = spectrum(sketch.energy_rows(rows))
    ridge, escaped = (float(number) for number in sketch.numbers[[NUMBER.ridge, NUMBER.escaped]])
    flat, *inverses = geometry_of(learner.method.geometry).inverses([0.0, *values], ridge, escaped)
    weights = np.array(inverses) - flat
    along = directions.T @ (weights * (directions @ head))  # is in the span of the rows
    sketch.numbers[NUMBER.base] = -setup.step * flat
    if n:
        sketch.lines[LINE.a, :n] = -setup.step * np.linalg.lstsq(rows.T, along, rcond=None)[0]


def install(
    learner: SketchedLearner, union: FeatureMap, rows: Array, head: Array, total: Array, diagonal: Any = 0.0
) -> None:
    """Give a learner a new table with these rows; its small arrays are set already."""
    old = learner._table
    kept = old.running.shape[1]
    table = new_table(old.rows.shape[1] - COLUMN.sketch, kept, old.rows.dtype)
    table = roomy(table, union.count)._replace(features=union.parts[2])
    count, n = union.count, rows.shape[0]
    table.rows[:count, COLUMN.head] = head
    table.rows[:count, COLUMN.sum] = total
    table.rows[:count, COLUMN.diagonal] = diagonal
    table.rows[:count, COLUMN.sketch : COLUMN.sketch + n] = rows.T
    table.clock[CLOCK.seen] = count
    if n > kept and learner._logs:  # rows in the buffer: every slot has to be on the list
        table.rows[:count, COLUMN.epoch] = 0.5
        table.touched[:count] = np.arange(count)
        table.clock[CLOCK.touched] = count
    learner._map, learner._table = union, table
    sketch = learner._sketch
    sketch.lines[[LINE.a, LINE.a_sum]] = 0.0
