"""A sketch that chooses its own size (``sketch_size="auto"``), for frequent directions in any learner.

Every ``CHECK`` rows the learner compares the energy absorbed since the size last changed with the energy that escaped:
each shrink takes ρ off m directions, so that m·Σρ is lost. If the lost share exceeds ``GROW``, m is doubled, up to
``CEILING``. If less than ``HALVE`` escaped and the lower half of the directions has almost no energy, m is halved. A
spectrum that decays fast is thus learned at the cost of a small sketch, a flat one with a large sketch. The checks are
at fixed rounds, so that any split of a stream into blocks gives the same learner.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays, require, take
from onsketch.core.errors import OptionError
from onsketch.learners.base import Learner
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Linear, Rows
from onsketch.learners.sketch_table import SKETCHES
from onsketch.learners.sketched.learner import SketchedLearner
from onsketch.learners.sketched.resizing import resized
from onsketch.learners.sketched.state import COUNT, SQUARE

START, CEILING, CHECK = 10, 80, 256
"""The first size, the largest, and how many rows pass between two looks."""
GROW, HALVE, FAINT = 0.3, 0.02, 0.01
"""Shares of the energy: more escapes than this, double; less, and the lower half holds less than ``FAINT``, halve."""


class SelfSizingLearner(Learner):
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

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
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
        self._inner = SketchedLearner(method, replace(options, sketch_size=START))
        self._mark = np.zeros(2)

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return self._inner.rounds

    @property
    def sketch_size(self) -> int:
        """The size m as it is now."""
        return int(self._inner.options.sketch_size)

    @property
    def ridge(self) -> float:
        """The ridge as it is now."""
        return self._inner.ridge

    @property
    def escaped(self) -> float:
        """Σρ: what the sketch has shrunk away so far."""
        return self._inner.escaped

    def _energy(self) -> NDArray[np.float64]:
        """m·Σρ and the trace of the sketch: what escaped, and what is kept."""
        sketch, n = self._inner._sketch, int(self._inner._sketch.counts[COUNT.rows])
        trace = float(np.trace(sketch.squares[SQUARE.gram, :n, :n]))
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
            spectrum = self._inner.spectrum()
            if spectrum[size // 2 - 1 :].sum() < FAINT * spectrum.sum():
                self._resize(size // 2)

    def _resize(self, size: int) -> None:
        self._inner = resized(self._inner, size)
        self._mark = self._energy()

    def _learn(
        self, rows: Rows, labels: NDArray[np.float64], weights: NDArray[np.float64], out: NDArray[np.float64]
    ) -> int:
        start, self._inner._width = 0, self._width
        while start < rows.count:
            stop = min(rows.count, start + CHECK - self.rounds % CHECK)
            piece, part = rows.part(start, stop), slice(start, stop)
            done = self._inner._learn(piece, labels[part], weights[part], out[part])
            if done < stop - start:
                return start + done
            if self.rounds % CHECK == 0:
                self._choose_size()
            start = stop
        return start

    def _divide_labels(self, unit: float) -> None:
        self._inner._divide_labels(unit)

    def _predict(self, rows: Rows) -> NDArray[np.float64]:
        return self._inner._predict(rows)

    def _linear(self) -> Linear | None:
        return self._inner._linear()

    def _leverage(self, rows: Rows) -> NDArray[np.float64]:
        return self._inner._leverage(rows)

    def _coefficients(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._inner._coefficients()

    def spectrum(self) -> NDArray[np.float64]:
        """The eigenvalues of the sketch, descending."""
        return self._inner.spectrum()

    def state_bytes(self) -> dict[str, int]:
        """Memory: packed rows and index of the features seen; and everything."""
        return self._inner.state_bytes()

    def _merge(self, other: Any, base: Any) -> None:
        """At the larger of the sizes, where both keep all they have."""
        parts = [part for part in (self, other, base) if part is not None]
        size = max(part.sketch_size for part in parts)
        mine, *others = (
            part._inner if part.sketch_size == size else resized(part._inner.fork(), size) for part in parts
        )
        mine._merge(others[0], others[1] if len(others) > 1 else None)
        self._inner = mine
        self._mark = self._energy()

    def _arrays(self) -> Arrays:
        return self._inner._arrays() | {"size": np.array([self.sketch_size]), "mark": self._mark}

    def _restore(self, arrays: Arrays) -> None:
        size = int(take(arrays, "size", np.int64, (1,))[0])
        require(size in [START << k for k in range(20) if START << k <= CEILING], "its sketch has an impossible size")
        mark = take(arrays, "mark", np.float64, (2,))
        require(bool(np.isfinite(mark).all()), "its marks are not finite")
        self._inner = SketchedLearner(self.method, replace(self.options, sketch_size=size))
        self._inner._width = self._width
        self._inner._restore({name: array for name, array in arrays.items() if name not in ("size", "mark")})
        self._mark = mark.copy()
