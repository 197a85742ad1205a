"""A sketch that the package does not know, as another package would add it: this file is all there is to it.

It keeps the last m rows. ``LastRows`` is the public sketch, with which dense learners run; ``PackedLastRows`` is the
form for sparse rows, at the cost of the non-zeros. The second entry has no packed form, and runs in dense learners.
"""

from typing import Annotated, Any

import numpy as np

from onsketch.core import state
from onsketch.core.secular import LINES
from onsketch.core.spectral_step import inverse_metric, spectral_weight
from onsketch.jit.decorators import inner
from onsketch.learners.clip import limited_step
from onsketch.learners.sketch_table import SketchKind, register
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import VERDICT, register_parts
from onsketch.learners.sketched.passes import write_buffer
from onsketch.learners.sketched.small_gram import decompose
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE, State
from onsketch.sketches.base import Sketch, whole_number
from onsketch.sketches.rows import dense_chunks


class LastRows(Sketch):
    """The last ``size`` rows as they came."""

    _rows: Annotated[Any, state.Array("kept n_features")]
    free = ("kept",)

    def __init__(self, n_features, size):
        super().__init__(n_features)
        self.size = whole_number("size", size, at_least=0)
        self._rows = np.zeros((0, self.n_features))

    @property
    def matrix(self):
        return self._rows.copy()

    def _keep(self, rows):
        self._rows = rows[max(len(rows) - self.size, 0) :]

    def _absorb(self, block):
        for chunk in dense_chunks(block):
            self._keep(np.vstack([self._rows, chunk]))

    def _merge(self, other):
        self._keep(np.vstack([self._rows, other._rows]))

    def _settings(self):
        return {**super()._settings(), "size": self.size}


class PackedLastRows(State):
    """The same for sparse rows: the oldest row goes by a change of basis before a new one comes."""

    @classmethod
    def shape(cls, size, doubling):
        return size - 1, size


@inner
def _weigh(setup, sketch, source, start, q):
    """``P x = c·x + Sᵀq`` from Sx, which starts at ``start`` of source; returns c."""
    n, ridge = sketch.counts[COUNT.rows], sketch.numbers[NUMBER.ridge]
    vectors = sketch.squares[SQUARE.vectors]
    for i in range(n):
        q[i] = 0.0
    for e in range(n):
        along = 0.0
        for j in range(n):
            along += vectors[e, j] * source[start + j]
        along *= spectral_weight(setup, sketch.lines[LINE.values, e], ridge, 0.0)
        for j in range(n):
            q[j] += along * vectors[e, j]
    return inverse_metric(setup, 0.0, ridge, 0.0)


@inner
def _drop_oldest(setup, sketch, p):
    """The first row goes, what it gave to the weights stays in the head; the others move up."""
    n, gram, lines, transform = sketch.counts[COUNT.rows], sketch.squares[SQUARE.gram], sketch.lines, sketch.transform
    for i in range(n):
        for e in range(transform.shape[1]):
            transform[i, e] = 1.0 if e == i - 1 else 0.0
    transform[0, n - 1] = 0.0 if setup.dual else lines[LINE.a, 0]
    transform[0, n] = lines[LINE.a_sum, 0] - sketch.numbers[NUMBER.base_sum] * transform[0, n - 1]
    for i in range(n - 1):
        p[COLUMN.sketch + i] = p[COLUMN.sketch + i + 1]
        for line in (LINE.a, LINE.a_sum, LINE.dual):
            lines[line, i] = lines[line, i + 1]
        for j in range(n - 1):
            gram[i, j] = gram[i + 1, j + 1]
    sketch.counts[COUNT.closed] = n
    sketch.counts[COUNT.rows] = n - 1


def _metric(setup, sketch, p, square, q):
    return _weigh(setup, sketch, p, COLUMN.sketch, q)


def _absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    gram, lines, q = sketch.squares[SQUARE.gram], sketch.lines, sketch.work[LINES]
    if not rho * rho * square <= limit * limit:
        return VERDICT.refused
    verdict = VERDICT.absorbed
    if sketch.counts[COUNT.rows] == setup.capacity:
        _drop_oldest(setup, sketch, p)
        verdict = VERDICT.full_before
    n = sketch.counts[COUNT.rows]
    for i in range(n):
        gram[n, i] = gram[i, n] = rho * p[COLUMN.sketch + i]
    gram[n, n] = rho * rho * square
    lines[LINE.a, n] = lines[LINE.a_sum, n] = 0.0
    lines[LINE.dual, n] = rho * p[COLUMN.head]
    p[COLUMN.sketch + n] = rho * square
    change[COLUMN.sketch + n] = rho
    sketch.counts[COUNT.column] = COLUMN.sketch + n if rho != 0.0 else 0
    sketch.counts[COUNT.rows] = n + 1
    decompose(gram, n + 1, lines[LINE.values], sketch.squares[SQUARE.vectors], sketch.room[0])
    if setup.dual:
        for i in range(n + 1):
            lines[LINE.dual, i] += g * p[COLUMN.sketch + i]
        change[COLUMN.head] = g
        sketch.numbers[NUMBER.base] = -setup.step * _weigh(setup, sketch, lines[LINE.dual], 0, q)
        for i in range(n + 1):
            lines[LINE.a, i] = -setup.step * q[i]
        return verdict
    flat = _weigh(setup, sketch, p, COLUMN.sketch, q)
    lever = flat * square
    for i in range(n + 1):
        lever += q[i] * p[COLUMN.sketch + i]
    step = limited_step(setup, margin, g, lever)
    change[COLUMN.head] -= step * flat
    for i in range(n + 1):
        lines[LINE.a, i] -= step * q[i]
    return verdict


register_parts(PackedLastRows, metric=_metric, absorb=_absorb, write=write_buffer)


def _make(width, options, ridge):
    return LastRows(width, options.sketch_size)


LAST = register(SketchKind("last", "the last m rows", "O(ms + m³)", make=_make, public=LastRows, packed=PackedLastRows))
DENSE = register(SketchKind("last, dense", "the last m rows", "O(m²d)", make=_make))
