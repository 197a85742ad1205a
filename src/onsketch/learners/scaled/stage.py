"""The stage before a learner that scales its rows and labels, and decides when the scales change.

Scales change between two rows only. The first rows are kept: after 1, 2, 4, … of them scales are chosen anew, and the
learner learns the rows kept from the start, as if these scales had always been known. That is exact for every method.
Later, whenever the rows are half as many more, scales that are off by a factor of ``LEAP`` follow. Weights are
rewritten then, so that predictions stay; a metric stays as it is, in the scales of its rows. Where weights are computed
from sums or points (dual averaging, means of iterates, kernels), scales stay as they are.

Scales can be *held*: then none changes any more, and new features have one scale in common. Learners with the same
scales can be merged, and so are the figures of features.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onsketch.core import scaling, state
from onsketch.core.arrays import LONGEST_COUNT, Arrays, require, require_within, take
from onsketch.core.scaling import CENTRE, CUT, SCALE, STATISTICS, VALUES
from onsketch.core.tolerances import LARGEST
from onsketch.jit.calling import Prepared
from onsketch.jit.chain import Step
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.merging import SIGNS
from onsketch.learners.rows import Rows, Slotted
from onsketch.learners.scaled.law import (
    CENTRED,
    CLOCK,
    EARLY,
    HELD,
    LATER,
    LEAST_SCALE,
    LENGTH,
    LENGTHS,
    RUNNING,
    USED,
    Floats,
    Law,
    choose,
    follow_rows,
    scale_labels,
    scale_rows,
)
from onsketch.learners.single import OneRow, Stages

EARLY_ROWS, EARLY_ENTRIES = 256, 1 << 18
"""So many first rows are kept, or as many as have so many entries."""

DOUBT = 4.0
"""The typical length counts as many rows of entries ±1: the first rows may be nearly the same, and 0 when centred."""

LEAP, MOVED = 1.5, 0.5
"""Later, scales follow when they are off by this factor, and centres when they are off by so many scales."""


class Owner(Protocol):
    """A learner behind the stage."""

    @property
    def rounds(self) -> int:
        """Rows learned."""

    @property
    def n_features(self) -> int:
        """Width of the rows."""

    @property
    def _rewritable(self) -> bool:
        """True if its weights are state, not computed from sums or points."""

    def _play(self, rows: Rows, y: Floats, weights: Floats, out: Floats) -> int:
        """Learn scaled rows; return how many were learned."""

    def _restart(self) -> None:
        """Forget all rows."""

    def _inside(self) -> tuple[NDArray[np.int64], Floats]:
        """Return features and their weights, (features, outputs), for scaled rows and labels."""

    def _shift(self, change: Floats) -> None:
        """Add to these weights."""


@dataclass
class Early:
    """The first rows, as they came."""

    free = ("ends", "entries", "rows", "outputs")

    indptr: Annotated[NDArray[np.int64], state.Array("ends", "i8", within=(0, LONGEST_COUNT))]
    slots: Annotated[NDArray[np.int32], state.Array("entries", "i4")]
    values: Annotated[Floats, state.Array("entries")]
    labels: Annotated[Floats, state.Array("rows outputs")]
    weights: Annotated[Floats, state.Array("rows")]

    @property
    def rows(self) -> Slotted:
        """The rows in slots."""
        return self.indptr, self.slots, self.values

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError for rows that are none."""
        ends, fit = self.indptr, len(self.indptr) == len(self.weights) + 1
        fit = fit and ends[0] == 0 and ends[-1] == len(self.slots) and bool((np.diff(ends) >= 0).all())
        require(fit, "its first rows are impossible", f"{prefix}.indptr")


NO_ROWS: Early = state.new(Early, ends=1, entries=0, rows=0, outputs=0)


class Stage:
    """Scales of features and labels, and the first rows.

    Args:
        constant: True if there is an intercept, without which nothing can be centred.
        targets: number of labels that have scales; 0 for signs and counts.
        shared: True if the learner has the stage's map of features; it is given rows in slots then.
    """

    _law: Annotated[Law, state.Part(free=("slots",))]
    _early: Annotated[Early, state.Part()]

    def __init__(self, constant: bool, targets: int, shared: bool) -> None:
        self.map, self.shared = FeatureMap(), shared
        self._constant = constant
        self._law, self._early = state.new(Law, slots=0, targets=targets), NO_ROWS
        self._listed = np.zeros(0, np.int64)

    @property
    def rounds(self) -> int:
        """Rows learned."""
        return int(self._law.clock[CLOCK.rounds])

    @property
    def units(self) -> tuple[Floats, Floats]:
        """Return the centres and the scales of labels."""
        labels = self._law.labels
        if not len(labels):
            return np.zeros(1), np.ones(1)
        return labels[:, CENTRE], np.where(labels[:, SCALE] > 0.0, labels[:, SCALE], 1.0)

    def in_units(self, margins: Floats) -> Floats:
        """Return margins (…, outputs) in the units of the labels."""
        centres, units = self.units
        return margins * units + centres

    def _of(self, features: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the centres and the divisors of features; 0 and 1 for the constant one and for those not met."""
        centres, scales = np.zeros((len(features), 1)), np.ones((len(features), 1))
        met: NDArray[Any] = features != INTERCEPT
        if not np.array_equal(features, self.map.features):
            met &= np.isin(features, self.map.features)
        figures = self._law.figures[self.map.find(features[met])]
        centres[met], scales[met] = figures[:, [CENTRE]], figures[:, [SCALE]] * self._law.lengths[LENGTH.used]
        return centres, scales

    def bounds(self, features: NDArray[np.int64]) -> Floats:
        """Return the least and the largest value of each feature: others are cut, (2, features)."""
        centres, scales = self._of(features)
        reach = scales * (CUT / max(float(self._law.lengths[LENGTH.used]), 1e-300))
        return np.hstack([centres - reach, centres + reach]).T

    def unscaled(self, features: NDArray[np.int64], weights: Floats) -> Floats:
        """Return weights (features, outputs) for rows as they come."""
        centres, scales = self._of(features)
        middle, unit = self.units
        raw = weights * unit / scales
        raw[features == INTERCEPT] += middle - (centres * raw).sum(axis=0)
        return raw

    def _rewrite(self, owner: Owner) -> None:
        """Choose scales, and let the weights of rows as they come stay."""
        features, inside = owner._inside()
        raw, law, listed, changed = self.unscaled(features, inside), self._law, self._listed, False
        try:
            self._law = state.copy(law)
            if self._choose(LEAP, MOVED):
                centres, scales = self._of(features)
                middle, unit = self.units
                weights = raw * scales / unit
                weights[features == INTERCEPT] += ((centres * raw).sum(axis=0) - middle) / unit
                owner._shift(weights - inside)
                changed = True
        finally:
            if not changed:  # all are near enough, or there is no memory
                self._law, self._listed = law, listed

    # Learning ---------------------------------------------------------------------------------------------

    def learn(self, owner: Owner, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        """Let the owner learn these rows in scales; return how many were learned."""
        start = 0
        while start < rows.count:
            self._settle(owner)  # if there was no memory when they were due
            stop = int(min(rows.count, start + self._law.clock[CLOCK.due] - self.rounds))
            part = slice(start, stop)
            start += self._learn_block(owner, rows.part(start, stop), labels[part], weights[part], out[part])
            if start < stop:
                break
            with suppress(MemoryError):
                self._settle(owner)
        return start

    def _learn_block(self, owner: Owner, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        known, before, done = self.map.count, owner.rounds, 0
        try:
            slotted = self._admit(rows)
            scaled = self._scaled(slotted, rows.n_features, shared=self.shared)
            owner._play(scaled, self.scaled_labels(labels), weights, out)
        finally:
            done = owner.rounds - before
            if done:
                self._follow(slotted, labels, weights, done)
                self.map.keep_learned(known, slotted, done)
            else:
                self.map.forget(known)
            if done < rows.count:
                self._law.figures[self._law.figures[:, VALUES] == 0.0] = 0.0
                self._law.lengths[:] *= self.rounds > 0 or self._law.clock[CLOCK.phase] == HELD
        out[:done] = self.in_units(out[:done])
        return done

    def _admit(self, rows: Rows) -> Slotted:
        """Return the rows in slots, the constant feature being the first."""
        if self._constant and not self.map.count:
            self.map.add(np.array([INTERCEPT]))
        known, slotted = self.map.count, self.map.translate(rows, learn=True)
        if self.map.room > len(self._law.figures):
            self._law = state.grow(self._law, slots=self.map.room)  # with the learner's tables
        self._law.figures[known : self.map.count] = 0.0
        return slotted

    def _scaled(self, slotted: Slotted, n_features: int, *, shared: bool) -> Rows:
        """Return the rows in the scales in use; in slots, with the constant feature, if the learner shares the map."""
        size = slotted[1].size + (len(slotted[0]) - 1) * (self._listed.size + 1)
        ends, slots, x = np.zeros(len(slotted[0]), np.int64), np.empty(size, np.int32), np.empty(size)
        scale_rows(self._law, self._listed, self._marks, int(self._constant and shared) - 1, slotted, ends, slots, x)
        slots, x = slots[: ends[-1]], x[: ends[-1]]
        if shared:
            return Rows(ends, slots, x, n_features, dense=False, slotted=(ends, slots, x))
        width = max(n_features, 1 + int(self.map.features[self._listed].max(initial=INTERCEPT)))  # rows may lack these
        return Rows(ends, self.map.parts[2][slots], x, width, dense=False)

    @property
    def _marks(self) -> NDArray[np.int8]:
        return np.zeros(max(len(self._law.figures), 1), np.int8)

    def scaled(self, rows: Rows, *, shared: bool) -> Rows:
        """Return the rows in the scales in use; features not seen so far are left out."""
        slotted = self.map.translate(rows, learn=False)
        return self._scaled(slotted, rows.n_features, shared=shared and self.map.count > 0)

    def scaled_labels(self, labels: Floats) -> Floats:
        """Return labels (…, outputs) in the units in use."""
        y = labels.copy()
        scale_labels(self._law, labels, y)
        return y

    def _follow(self, slotted: Slotted, labels: Floats, weights: Floats, done: int) -> None:
        """Take in the first of these rows."""
        if self._law.clock[CLOCK.phase] == EARLY:
            early, (ends, slots, values), end = self._early, slotted, slotted[0][done]
            self._early = Early(
                np.append(early.indptr, early.indptr[-1] + ends[1 : done + 1]),
                np.append(early.slots, slots[:end]),
                np.append(early.values, values[:end]),
                np.append(early.labels, labels[:done]).reshape(-1, labels.shape[1]),
                np.append(early.weights, weights[:done]),
            )
        follow_rows(self._law, self._listed, self._marks, slotted, labels, done)

    # Scales -----------------------------------------------------------------------------------------------

    def _settle(self, owner: Owner) -> None:
        """Choose scales if they are due."""
        rounds, clock = self.rounds, self._law.clock
        if rounds < clock[CLOCK.due]:
            return
        if clock[CLOCK.phase] == LATER:
            if owner._rewritable:
                self._rewrite(owner)
        elif not self._relearned(owner) or rounds >= EARLY_ROWS or len(self._early.values) >= EARLY_ENTRIES:
            self._law.clock[CLOCK.phase], self._early = LATER, NO_ROWS
        more = rounds if self._law.clock[CLOCK.phase] == EARLY else max(rounds // 2, 1)
        self._law.clock[CLOCK.due] = min(rounds + more, LONGEST_COUNT)

    def _choose(self, leap: float, moved: float) -> bool:
        """Choose scales; return whether some have changed."""
        law = self._law
        count = choose(law.figures, float(self.rounds), self._constant, leap, moved)
        count += choose(law.labels, 0.0, self._constant, leap * leap, 2.0 * moved)  # each moves all predictions
        length = max(law.lengths[LENGTH.typical] ** 0.5, LENGTHS[0])
        if law.lengths[LENGTH.typical] > 0.0 and not 1.0 / leap < length / law.lengths[LENGTH.used] < leap:
            law.lengths[LENGTH.used] = length
            count += 1
        self._list()
        return bool(count)

    def _list(self) -> None:
        self._listed = np.flatnonzero(self._law.figures[:, CENTRED] == 1.0)

    def _relearned(self, owner: Owner) -> bool:
        """Choose scales by the first rows and learn these anew; return False, and change nothing, if one is refused."""
        before, theirs, learned = dict(vars(self)), dict(vars(owner)), False
        try:
            self._law, self.map, early = state.copy(self._law), self.map.copy(), self._early
            self._measure()
            rows = self._scaled(self._whole(), owner.n_features, shared=self.shared)
            owner._restart()
            out = np.empty(early.labels.shape)
            learned = owner._play(rows, self.scaled_labels(early.labels), early.weights, out) == self.rounds
        finally:
            if not learned:
                vars(self).update(before)
                vars(owner).update(theirs)
        return learned

    def _measure(self) -> None:
        """Choose scales by the first rows."""
        law, rows, rounds = self._law, self._early.rows, self.rounds
        self._choose(1.0, 0.0)  # decides which features are centred; the figures of these count rows without them, too
        law.figures[:, RUNNING] = law.labels[:, RUNNING] = 0.0
        for i in reversed(range(rounds)):  # the first rows are what figures rely on: not always the same ones
            row = rows[0][i : i + 2], *rows[1:]
            follow_rows(law, self._listed, self._marks, row, self._early.labels[i : i + 1], 1)
        law.clock[CLOCK.rounds] = rounds
        self._choose(1.0, 0.0)
        law.lengths[LENGTH.used] = 1.0
        scaled = self._scaled(rows, 0, shared=False)
        squares = np.add.reduceat(np.append(scaled.values**2, 0.0), scaled.indptr[:-1]) * (np.diff(scaled.indptr) > 0)
        if squares.any():
            mean, entries = np.mean(squares[squares > 0.0] ** 0.125) ** 8, scaled.values.size / rounds
            law.lengths[LENGTH.typical] = (rounds * mean + DOUBT * entries) / (rounds + DOUBT)
            law.lengths[LENGTH.used] = law.lengths[LENGTH.typical] ** 0.5

    def _whole(self) -> Slotted:
        """Return the first rows, the very first one with all features, so that the learner meets these in order."""
        indptr, slots, values = self._early.rows
        start, count, end = int(self._constant), self.map.count, int(indptr[1])
        first = np.zeros(count)
        first[slots[:end]] = values[:end]
        ends = np.append(0, indptr[1:] + count - start - end)
        features = np.arange(start, count, dtype=np.int32)
        return ends, np.append(features, slots[end:]), np.append(first[start:], values[end:])

    # Merging and saving -----------------------------------------------------------------------------------

    def hold(self, measured: Stage) -> None:
        """Take the scales of ``measured`` as they are now, and keep them; new features get their geometric mean."""
        self._law, self.map = state.copy(measured._law), measured.map.copy()
        self._choose(1.0, 0.0)
        law, self.shared, self._early = self._law, False, NO_ROWS
        law.clock[:] = 0, LONGEST_COUNT, HELD
        scales = law.figures[law.figures[:, SCALE] > 0.0, SCALE]
        law.lengths[LENGTH.common] = np.exp(np.log(scales).mean()) if scales.size else 1.0
        law.lengths[LENGTH.used] = law.lengths[LENGTH.used] or 1.0
        law.labels[:, SCALE] = self.units[1]

    def take_in(self, other: Stage, base: Stage | None) -> bool:
        """Add the figures of other rows, if both hold the same scales; return whether they do."""
        parts = [self, other, *([] if base is None else [base])]
        union = self.map.copy()
        slots = [union.add(part.map.features) for part in parts]
        figures = np.zeros((3, union.count, STATISTICS))
        for table, part, at in zip(figures, parts, slots, strict=False):
            table[at] = part._law.figures[: part.map.count]
        met = figures[0][:, [SCALE]] > 0.0
        used = np.where(met, figures[0], figures[1])[:, USED]
        laws = [part._law for part in parts]
        rest = [[law.clock[CLOCK.phase], *law.lengths[LENGTH.used :], *law.labels[:, USED].flat] for law in laws]
        differ = rest != rest[:1] * len(rest) or (used[slots[1]] != figures[1][slots[1]][:, USED]).any()
        if differ or rest[0][0] != HELD:
            return False
        merged = scaling.merged(list(figures), SIGNS, float(self.rounds + other.rounds))
        merged[:, USED] = used
        clock = self._law.clock.copy()
        clock[CLOCK.rounds] = sum(int(n) * part.rounds for n, part in zip(SIGNS, parts, strict=False))
        self.map, self._law = union, laws[0]._replace(figures=merged, clock=clock)
        return True

    def resize(self, outputs: int) -> None:
        """As many outputs; new targets have no scale yet, and new classes no row."""
        if len(self._law.labels):
            self._law = state.resize(self._law, targets=outputs)
        more = np.full((len(self._early.labels), max(outputs - self._early.labels.shape[1], 0)), -1.0)
        self._early = replace(self._early, labels=np.hstack([self._early.labels, more])[:, :outputs])

    def arrays(self) -> Arrays:
        """The state, for a model file."""
        features = {"features": self.map.features}
        return features | state.pack(self._law, "law", slots=self.map.count) | state.pack(self._early, "early")

    def restore(self, arrays: Arrays) -> None:
        """Take the state from a model file."""
        self.map = FeatureMap()
        self.map.refill(take(arrays, "features", np.int64, (None,)), None, self._constant)
        law = self._law = state.unpack(self._law, arrays, "law", free=("slots",))
        self._early = state.unpack(replace(NO_ROWS), arrays, "early")
        start, count, kept = int(self._constant), self.map.count, self.rounds if law.clock[CLOCK.phase] == EARLY else 0
        require(len(arrays["law.figures"]) == count, "its features are others", "law.figures")
        require((law.figures[start:count, SCALE] > 0.0).all(), "a feature has no scale", "law.figures")
        if self.rounds:
            require_within(law.labels[:, SCALE], LEAST_SCALE, 2.0 * LARGEST, "law.labels")
        if law.lengths[LENGTH.used] != 0.0:
            require_within(law.lengths[LENGTH.used], *LENGTHS, "law.lengths")
        require(law.clock[CLOCK.phase] <= HELD and law.clock[CLOCK.due] > 0, "its clock is impossible", "law.clock")
        require(len(self._early.weights) == kept, "its first rows are others", "early.weights")
        require_within(self._early.slots, start, count - 1, "early.slots")
        self.shared = self.shared and law.clock[CLOCK.phase] != HELD
        self._list()

    # Single rows ------------------------------------------------------------------------------------------

    def prepared(self, row: OneRow, *, learn: bool) -> tuple[OneRow, Stages]:
        """Return a prepared row as the learner gets it, and the stages after those of the learner."""
        law, listed, marks, labels = self._law, self._listed, self._marks, row.label[:, None]
        y, after = np.zeros((1, 1)), []

        def translated(room: int | None) -> tuple[Slotted, Stages, Callable[[], bool]]:
            slotted, steps, same = row.translated(self.map, False, room and min(room, len(law.figures)))
            size = slotted[2].size + listed.size + 1
            scaled = np.zeros(2, np.int64), np.zeros(size, np.int32), np.zeros(size)
            steps.append(Step(Prepared(scale_rows, law, listed, marks, int(self._constant) - 1, slotted, *scaled)))
            if learn:
                steps.append(Step(Prepared(scale_labels, law, labels, y), 1))
                after.append(Step(Prepared(follow_rows, law, listed, marks, slotted, labels, 1)))
            return scaled, steps, lambda: self._law is law and self._listed is listed and same()

        return row._replace(translator=translated, label=y[:, 0]), after
