"""A sketch that chooses its own size (``sketch_size="auto"``), for frequent directions in any learner.

Every ``CHECK`` rows the learner compares the energy absorbed since the size last changed with the energy that escaped:
each shrink takes ρ off m directions, so that m·Σρ is lost. If the lost share exceeds ``GROW``, m is doubled, up to
``CEILING``. If less than ``HALVE`` escaped and the lower half of the directions has almost no energy, m is halved. A
spectrum that decays fast is thus learned at the cost of a small sketch, a flat one with a large sketch. The checks are
at fixed rounds, so that any split of a stream into blocks gives the same learner.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import Arrays, require, take
from onsketch.core.errors import OptionError
from onsketch.core.shrinking import ridge_growth, shrunk
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows
from onsketch.learners.single import OneRow
from onsketch.learners.sketch_table import SKETCHES
from onsketch.learners.sketched.learner import SketchedLearner
from onsketch.learners.sketched.merging import install, spread_of
from onsketch.learners.sketched.packed import CLOCK, COLUMN
from onsketch.learners.sketched.state import COUNT, NUMBER, SQUARE
from onsketch.sketches.spectral import change_of_basis, spectrum

START, CEILING, CHECK = 10, 80, 256
"""The first size, the largest, and how many rows pass between two looks."""
GROW, HALVE, FAINT = 0.3, 0.02, 0.01
"""Shares of the energy: more escapes than this, double; less, and the lower half holds less than ``FAINT``, halve."""


class SelfSizingLearner(SketchedLearner):
    """A frequent-directions learner that chooses the size of its sketch; see ``SketchedLearner``.

    >>> import numpy as np, onsketch
    >>> rng = np.random.default_rng(0)
    >>> flat = rng.normal(size=(2000, 100))  # energy in every direction
    >>> steep = flat[:, :4] @ rng.normal(size=(4, 100))  # energy in four
    >>> sizes = []
    >>> for X in (steep, flat):
    ...     model = onsketch.learner("rfd-son", sketch_size="auto", summary="data")
    ...     _ = model.learn(X, np.sign(X[:, 0]))
    ...     sizes.append(model.sketch_size)
    >>> sizes
    [10, 80]
    """

    _mark: Annotated[NDArray[np.float64], state.Array("2")]
    """The energy escaped and kept when the size last changed."""

    def __init__(self, method: Method, options: Options) -> None:
        able = [name for name, kind in SKETCHES.items() if kind.sizes_itself]
        if not (method.kind.sizes_itself and method.steps):
            raise OptionError(
                f"{method.name}: sketch_size='auto' is for frequent directions ({', '.join(able)}), whose shrinking "
                "measures the lost energy; give a number.",
                sketch_size="auto",
            )
        if options.update == "dual":
            raise OptionError(
                "sketch_size='auto' does not go with update='dual'; give a number.", sketch_size="auto", update="dual"
            )
        super().__init__(method, options)
        self._mark = np.zeros(2)

    def _begin(self, size: Any) -> None:
        super()._begin(START if size == "auto" else size)

    @property
    def sketch_size(self) -> int:
        """The size m as it is now."""
        return self._setup.size

    def _energy(self) -> NDArray[np.float64]:
        """m·Σρ and the trace of the sketch: what escaped, and what is kept."""
        n = int(self._sketch.counts[COUNT.rows])
        trace = float(np.trace(self._sketch.squares[SQUARE.gram, :n, :n]))
        return np.array([self.sketch_size * self.escaped, trace])

    def _choose_size(self) -> None:
        """Choose the size for the rows to come."""
        size = self.sketch_size
        escaped, kept = self._energy() - self._mark
        total = escaped + max(float(kept), 0.0)
        share = escaped / total if total > 0.0 else 0.0
        if share > GROW and size < CEILING:
            self._resize(2 * size)
        elif share < HALVE and size > START:
            spectrum = self.spectrum()
            if spectrum[size // 2 - 1 :].sum() < FAINT * spectrum.sum():
                self._resize(size // 2)

    def _resize(self, size: int) -> None:
        resize(self, size)
        self._mark = self._energy()

    def _learn(
        self, rows: Rows, labels: NDArray[np.float64], weights: NDArray[np.float64], out: NDArray[np.float64]
    ) -> int:
        start = 0
        while start < rows.count:
            stop = min(rows.count, start + CHECK - self.rounds % CHECK)
            part = slice(start, stop)
            done = super()._learn(rows.part(start, stop), labels[part], weights[part], out[part])
            if done < stop - start:
                return start + done
            if self.rounds % CHECK == 0:
                self._choose_size()
            start = stop
        return start

    def learning_row(self, row: OneRow) -> None:  # type: ignore[override]
        """Rows take the general path, because the size may change after any of them."""

    def _merge(self, other: Any, base: Any) -> None:
        """At the larger of the sizes, where both keep all they have."""
        theirs = copy.deepcopy(other)
        start = type(self)(self.method, self.options) if base is None else copy.deepcopy(base)
        size = max(part.sketch_size for part in (self, theirs, start))
        for part in (self, theirs, start):
            if part.sketch_size != size:
                part._resize(size)
        super()._merge(theirs, start)
        self._mark = self._energy()

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Return the bytes of a learner with the largest sketch."""
        return super().room(method, replace(options, sketch_size=CEILING))

    def _arrays(self) -> Arrays:
        return super()._arrays() | {"size": np.array([self.sketch_size])}

    def _restore(self, arrays: Arrays) -> None:
        size = int(take(arrays, "size", np.int64, (1,))[0])
        require(size in [START << k for k in range(20) if START << k <= CEILING], "its sketch has an impossible size")
        self._begin(size)
        super()._restore(arrays)


def resize(learner: SketchedLearner, size: int) -> None:
    """Give a learner a sketch of this size, with everything it has learned; O(features·m²).

    The rows of the sketch are turned into their principal directions, as a shrink does. A larger sketch keeps them
    all; in a smaller one the rule takes its size-th eigenvalue off, and what escapes is counted as in any shrink.
    The weights stay as they are: the coefficients on the old rows go to the head.
    """
    seen, rounds, loss, numbers = learner._map.count, learner.rounds, learner._setup.loss, learner._sketch.numbers
    old, diagonal = spread_of(learner, seen, slice(seen)), learner._table.rows[:seen, COLUMN.diagonal]
    n = len(old.rows)
    energies, directions = spectrum(learner._sketch.squares[SQUARE.gram, :n, :n])
    left, _, lost = shrunk(energies, size, learner._setup.rule)
    turn = change_of_basis(energies, directions, left)
    before = dict(vars(learner))
    try:
        learner._begin(size)
        total = old.total - numbers[NUMBER.base_sum] * old.weights
        install(learner, learner._map, turn.T @ old.rows, old.weights, total, diagonal)
    except MemoryError:
        vars(learner).update(before)
        raise
    learner._table.clock[CLOCK.rounds] = rounds
    learner._setup = learner._setup._replace(loss=loss)
    learner._sketch.numbers[:] = numbers
    learner._sketch.numbers[NUMBER.escaped] += lost
    learner._sketch.numbers[NUMBER.ridge] += ridge_growth(learner._setup.rule, lost)
    learner._sketch.set_gram(np.diag(left))
