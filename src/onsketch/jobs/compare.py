"""A race of learners over the same streams, in one pass, knowing nothing of terminals.

Every contender brings a few settings (ridges, or step sizes). All of them learn the same blocks side by side, in
threads (the compiled loops hold no lock), and at any moment a contender is judged by whichever setting has the least
progressive loss (or error) so far. Several streams may run in step, to show how each contender bears the difference.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import onsketch
from onsketch.core.errors import OptionError, UpdateError
from onsketch.core.losses import LOSSES, loss_values
from onsketch.data.task import Task, find_task
from onsketch.data.usable import labelled_rows, labels, refuse_nothing
from onsketch.jobs.evaluation import new_progress
from onsketch.jobs.models import one_of
from onsketch.jobs.standings import Point, Score, Setting, Standing
from onsketch.jobs.tally import Course, Progress

Block = tuple[Any, NDArray[np.float64], NDArray[np.float64] | None]
"""Rows, labels and sample weights (None: all 1)."""


class Track(NamedTuple):
    """A stream to race on, and what to call it."""

    name: str
    blocks: Iterable[Block]


class Contender(NamedTuple):
    """A method and the settings it may choose among."""

    name: str
    settings: tuple[Setting, ...] = ({},)
    sketched: bool = True
    label: str = ""
    """Name in the standings, if not that of the method."""


_POINTS = 512
"""Most points of a curve; beyond that every second one is dropped."""


@dataclass
class _Trial:
    """One learner with one setting on one stream."""

    learner: Any
    setting: Setting
    progress: Progress
    seconds: float = 0.0
    finite: bool = True
    curve: list[Point] = field(default_factory=list)
    course: Course = field(default_factory=Course)

    def feed(self, X: Any, y: NDArray[np.float64], weights: NDArray[np.float64] | None) -> None:
        if not self.finite:
            return
        began = thread_time()
        many = hasattr(self.learner, "add_class")
        while many and self.learner.n_classes <= y.max(initial=-1.0):
            self.learner.add_class()
        try:
            margins = self.learner.learn(X, y.astype(np.int64) if many else y, weights)
        except UpdateError:
            self.finite = False
            return
        self.seconds += thread_time() - began
        self.progress.add(self.progress.judged(y, margins, weights), X, course=self.course)
        if len(self.curve) >= _POINTS:
            del self.curve[::2]
        progress = self.progress
        self.curve.append(Point(progress.rows, self.seconds, progress.mean_loss, progress.error))


def _ladder(option: str, *values: float, **fixed: float) -> tuple[Setting, ...]:
    return tuple({option: value, **fixed} for value in values)


CONTENDERS: Mapping[str, Contender] = {
    entry.name: entry
    for entry in (
        Contender("ogd", _ladder("step_size", 1.0, 3.0, 10.0, 30.0), sketched=False),
        Contender("adagrad", _ladder("step_size", 0.3, 1.0, 2.0, 5.0), sketched=False),
        Contender("oja-son", _ladder("ridge", 5.0, 10.0, 20.0, 50.0)),
        Contender("rfd-son", _ladder("ridge", 0.1, 1.0, 3.0, 10.0)),
        Contender("auto"),
    )
}
"""The usual field on the embedded streams: rivals with four settings each, for rows of length 1, and `auto` without."""

PUBLISHED: Mapping[str, Contender] = {
    entry.name: entry
    for entry in (
        Contender("ogd", _ladder("step_size", 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), sketched=False),
        Contender("adagrad", _ladder("step_size", 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), sketched=False),
        Contender("oja-son", _ladder("ridge", 100.0, 300.0, 1e3, 3e3, 1e4, 3e4)),
        Contender("rfd-son", _ladder("ridge", 0.0, 100.0, 300.0, 1e3, 3e3, 1e4)),
        Contender("auto"),
    )
}
"""The same field with the papers' defaults: six ridges or step sizes each, for rows as they are."""


def clipped(entry: Contender, clip: float) -> Contender:
    """Return a contender with the same settings, whose predictions are clipped at ±``clip``."""
    settings = tuple({**setting, "clip": clip} for setting in entry.settings)
    return entry._replace(settings=settings, label=f"{entry.name}, clip {clip:g}")


def contender(
    name: str, grid: Mapping[str, Sequence[Any]] | None = None, usual: Mapping[str, Contender] = CONTENDERS
) -> Contender:
    """The method with every combination of the grid that concerns it; without a grid, its usual settings.

    >>> contender("adagrad", {"step_size": [0.1, 1.0], "sketch_size": [5]}).settings
    ({'step_size': 0.1}, {'step_size': 1.0})
    """
    concerns = _concerns(name)
    sketched = "sketch_size" in concerns
    if grid is None:
        return usual.get(name, Contender(name, sketched=sketched))
    names = [option for option in grid if option in concerns]
    combinations = itertools.product(*(grid[option] for option in names))
    return Contender(name, tuple(dict(zip(names, values, strict=True)) for values in combinations), sketched)


def _concerns(name: str) -> frozenset[str]:
    from onsketch.learners.methods import METHODS

    return METHODS[name].concerns


def embedded(rows: int, dimension: int, conditions: Sequence[float], seed: int = 0) -> list[Track]:
    """The ill-conditioned streams of Luo et al. (2016), the easiest first: same labels, other coordinates."""
    from onsketch.data.synthetic import ill_conditioned

    def blocks(condition: float) -> Iterator[Block]:
        X, y = ill_conditioned(rows, dimension, condition, top=min(10, dimension), seed=seed)
        for part in np.array_split(np.arange(rows), min(40, rows)):
            yield X[part], y[part], None

    return [Track(f"{kappa:g}", blocks(kappa)) for kappa in sorted(set(conditions))]


class Labelled:
    """The blocks of files, labels as learners take them, with what the labels mean and how much was skipped."""

    def __init__(self, files: list[str], reading: dict[str, Any], task: str | None) -> None:
        from onsketch.data import stream

        self._files = files
        self._skipping = reading.get("on_error") == "skip"
        self._blocks = stream(files, **{"everyday": True, **reading})
        self._first = next(self._blocks, None)
        if self._first is None:
            refuse_nothing(files, self._blocks.skipped)
        first = labelled_rows(self._first, self._skipping).y
        self.task: Task = find_task(first, task, reading.get("positive"), self._blocks.classes)
        self._passed_over, self._rows, self._due = 0, 0, 64

    @property
    def names(self) -> dict[int, str]:
        """Names of features, as far as the files have given them."""
        return dict(self._blocks.names)

    @property
    def schema(self) -> dict[str, Any] | None:
        """Schema of a table's columns."""
        return self._blocks.schema

    @property
    def format(self) -> str | None:
        """Format of the files."""
        return self._blocks.format

    @property
    def skipped(self) -> int:
        """Bad lines, and rows that cannot be learned."""
        return self._blocks.skipped + self._passed_over

    def __iter__(self) -> Iterator[Any]:
        for block in itertools.chain([self._first], self._blocks):
            assert block is not None
            rows = labelled_rows(block, self._skipping)
            self._passed_over += rows.passed_over
            X, y = rows.X, labels(block, rows, self.task, self._blocks.classes)
            for part in self._parts(y.size):
                yield X[part], y[part], None if rows.sample_weight is None else rows.sample_weight[part]
        if not self._rows:
            refuse_nothing(self._files, self.skipped)

    def _parts(self, count: int) -> Iterator[slice]:
        """Cuts at growing counts of rows, so that the curves of small files have points, too."""
        start = 0
        while start < count:
            stop = min(count, start + self._due - self._rows)
            self._rows += stop - start
            if self._rows == self._due:
                self._due += self._due // 4
            yield slice(start, stop)
            start = stop


class Race:
    """A comparison of learners over the same streams.

    Args:
        tracks: the streams, read in step.
        contenders: the learners with their grids of settings.
        options: options for all learners; each is passed to those that have it.
        make: function of a name and options that returns a learner; default: ``onsketch.learner``.
        threads: number of trials that learn at a time; default: the number of cores.
        signs: True if labels are −1 and +1, so that errors are counted; default: by the loss.
        by: "loss" or "error": the criterion for choosing settings and sorting.
    """

    def __init__(
        self,
        tracks: Sequence[Track],
        contenders: Sequence[Contender],
        options: Mapping[str, Any] | None = None,
        make: Callable[..., Any] | None = None,
        threads: int | None = None,
        signs: bool | None = None,
        by: str = "loss",
    ) -> None:
        self._tracks = tracks
        self._make = make or onsketch.learner
        self._options = dict(options or {})
        for option in self._options:
            if not any(option in _concerns(entry.name) for entry in contenders):
                raise OptionError(f"the option {option} concerns none of {', '.join(e.name for e in contenders)}.")
        self._threads = threads or os.cpu_count() or 1
        self._signs = signs
        self._by = by
        self.rows = 0
        """Rows run so far."""
        self._field = [
            (contender, [[self._trial(contender, s) for s in contender.settings] for _ in tracks])
            for contender in contenders
        ]

    def _trial(self, contender: Contender, setting: Setting) -> _Trial:
        common = {name: value for name, value in self._options.items() if name in _concerns(contender.name)}
        learner = self._make(contender.name, **{**common, **setting})
        return _Trial(learner, setting, new_progress(learner, self._signs))

    @property
    def remark(self) -> str:
        """Name learners whose clip keeps predictions so small that their loss cannot fall far.

        >>> runners = [Contender("adagrad"), Contender("rfd-son")]
        >>> print(Race([Track("", iter(()))], runners, {"loss": "logistic"}).remark)
        rfd-son keeps predictions within ±1 (clip): a logistic loss of 0.313 at least. Compare errors, or widen it.
        """
        clipped: dict[tuple[float, str], list[str]] = {}
        for contender, by_track in self._field:
            options = one_of(by_track[0][0].learner).options
            if isinstance(options.clip, float) and LOSSES[options.loss].labels == "sign":
                clipped.setdefault((options.clip, options.loss), []).append(contender.name)
        remarks = []
        for (clip, loss), names in clipped.items():
            least = float(loss_values(loss, [clip], [1.0])[0])
            if least > 0.01:
                who = f"{', '.join(names)} keep{'s' if len(names) == 1 else ''}"
                remarks.append(
                    f"{who} predictions within ±{clip:g} (clip): a {loss} loss of {least:.3g} at least. "
                    "Compare errors, or widen it."
                )
        return " ".join(remarks)

    def _warm_up(self, X: Any, y: NDArray[np.float64], rows: int = 64) -> None:
        """Compile each contender's kernels on throw-away learners, so that the race is timed without it."""
        for contender, _ in self._field:
            self._trial(contender, contender.settings[0]).feed(X[:rows], y[:rows], None)

    def run(self) -> Iterator[tuple[int, list[Standing]]]:
        """Let everyone learn block after block; yields the rows so far and the standings."""
        with ThreadPoolExecutor(self._threads) as pool:
            for blocks in zip(*(track.blocks for track in self._tracks), strict=True):
                if self.rows == 0:
                    self._warm_up(*blocks[0][:2])
                jobs = [
                    pool.submit(trial.feed, *block)
                    for _, by_track in self._field
                    for block, trials in zip(blocks, by_track, strict=True)
                    for trial in trials
                ]
                for job in jobs:
                    job.result()
                self.rows += len(blocks[0][1])
                yield self.rows, self.standings()

    def standings(self) -> list[Standing]:
        """Every contender with its best setting on each stream, the best on the last stream first."""
        standings = (self._standing(*entry) for entry in self._field)
        return sorted(standings, key=lambda standing: getattr(standing.scores[-1], self._by))

    def winner(self) -> _Trial | None:
        """The trial that leads on the last stream: its learner, setting and tally; None where all diverged."""
        trials = (trial for _, by_track in self._field for trial in by_track[-1])
        finite = [trial for trial in trials if trial.finite and trial.progress.rows]
        return min(finite, key=lambda trial: _merit(trial, self._by), default=None)

    def _standing(self, contender: Contender, by_track: list[list[_Trial]]) -> Standing:
        scores = tuple(
            _best(track.name, trials, self._by) for track, trials in zip(self._tracks, by_track, strict=True)
        )
        return Standing(contender.label or contender.name, contender.sketched, len(contender.settings), scores)


def _merit(trial: _Trial, by: str) -> float:
    """Return the figure to be minimised: mistakes or summed loss."""
    return trial.progress.mistakes if by == "error" else trial.progress.loss_sum


def _score(track: str, trial: _Trial) -> Score:
    """Return how a setting did; infinite: an update was not finite."""
    tally = trial.progress
    if not trial.finite:
        return Score(track, math.inf, math.inf if tally.signs else None, trial.setting, math.nan)
    cost, sums = 1e6 * trial.seconds / tally.rows, tuple(trial.course.sums)
    return Score(track, tally.mean_loss, tally.error, trial.setting, cost, tuple(trial.curve), tally.loss_sum, sums)


def _best(track: str, trials: list[_Trial], by: str) -> Score:
    """Return the score of the trial with the least loss (or error) among those that stayed finite."""
    ranked = sorted((trial for trial in trials if trial.progress.rows), key=lambda t: (not t.finite, _merit(t, by)))
    tried = tuple(_score(track, trial) for trial in ranked)
    if not ranked or not ranked[0].finite:
        error = math.inf if trials[0].progress.signs else None
        return Score(track, math.inf, error, None, math.nan, tried=tried)
    return tried[0]._replace(tried=tried)
