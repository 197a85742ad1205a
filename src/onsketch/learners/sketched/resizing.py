"""A frequent-directions learner of another sketch size, with everything it has learned.

The rows of the sketch are turned into their principal directions, as a shrink does. A larger sketch keeps them all; in
a smaller one the rule of the sketch takes its size-th eigenvalue off, and what escapes is counted as in any shrink.
The weights stay as they are: the coefficients on the old rows go to the head.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onsketch.core.shrinking import ridge_growth, shrunk
from onsketch.core.tolerances import CUTOFF
from onsketch.learners.sketched.learner import SketchedLearner
from onsketch.learners.sketched.packed import CLOCK, COLUMN, roomy
from onsketch.learners.sketched.reading import fill_rows
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE


def resized(old: SketchedLearner, size: int) -> SketchedLearner:
    """The learner with a sketch of this size, for sketches fd and rfd; O(features·m²), the old one is used up."""
    new = SketchedLearner(old.method, replace(old.options, sketch_size=size))
    sketch, n = old._sketch, int(old._sketch.counts[COUNT.rows])
    energies, directions = np.linalg.eigh(sketch.squares[SQUARE.gram, :n, :n])
    energies, directions = energies[::-1], directions[:, ::-1]
    energies = np.where(energies > CUTOFF * energies[:1].sum(), energies, 0.0)
    left, _, lost = shrunk(energies, size, old._setup.rule)
    kept = left.size
    turn = directions[:, :kept] * np.sqrt(left / np.where(energies[:kept] > 0.0, energies[:kept], 1.0))

    new._map, new._width = old._map, old._width
    new._setup = new._setup._replace(loss=old._setup.loss)
    rows = np.empty((old._map.count, old._table.rows.shape[1]))
    fill_rows(old._table, rows)
    S = rows[:, COLUMN.sketch : COLUMN.sketch + n]
    a, a_sum = sketch.lines[LINE.a, :n], sketch.lines[LINE.a_sum, :n]
    table = roomy(new._table, old._map.count)._replace(features=old._map.parts[2])
    seen = len(rows)
    table.rows[:seen, COLUMN.head] = rows[:, COLUMN.head] + S @ a
    table.rows[:seen, COLUMN.sum] = rows[:, COLUMN.sum] + S @ (a_sum - sketch.numbers[NUMBER.base_sum] * a)
    table.rows[:seen, COLUMN.diagonal] = rows[:, COLUMN.diagonal]
    table.rows[:seen, COLUMN.sketch : COLUMN.sketch + kept] = S @ turn
    table.clock[CLOCK.rounds], table.clock[CLOCK.seen] = old.rounds, seen
    new._table = table

    state = new._sketch
    state.numbers[:] = sketch.numbers
    state.numbers[NUMBER.escaped] += lost
    state.numbers[NUMBER.ridge] += ridge_growth(old._setup.rule, lost)
    state.set_gram(np.diag(left))
    return new
