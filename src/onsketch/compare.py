"""A race of learners over the same streams, in one pass, knowing nothing of terminals.

Every contender brings a few settings (ridges, or step sizes). All of them learn side by side, and at any
moment a contender is judged by whichever has erred least so far. The streams run in step too, so that the
standings show at once how each contender bears a worse condition number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import onsketch
from onsketch.errors import UpdateError

Setting = Mapping[str, float]


class Learner(Protocol):
    """What the race asks of a learner: the margins it predicts before each update."""

    def learn(self, X: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """The margins of the rows, each predicted before it is learned."""
        ...


class Stream(NamedTuple):
    """Rows with labels -1 and +1, and the condition number of their covariance."""

    condition: float
    X: NDArray[np.float64]
    y: NDArray[np.float64]


class Contender(NamedTuple):
    """A method and the settings it may choose among; ``sketched`` ones are given the sketch size."""

    name: str
    settings: tuple[Setting, ...] = ({},)
    sketched: bool = True


class Score(NamedTuple):
    """A contender on one stream so far, by its best setting (None: not one of them stayed finite)."""

    condition: float
    error: float
    setting: Setting | None
    microseconds: float


class Standing(NamedTuple):
    """A contender's scores, one for each stream in their order, and how many settings it tried."""

    name: str
    sketched: bool
    tried: int
    scores: tuple[Score, ...]

    @property
    def error(self) -> float:
        """The error on the last stream, by which the standings are sorted."""
        return self.scores[-1].error

    @property
    def microseconds(self) -> float:
        """The mean time to learn one example, over the streams."""
        return sum(score.microseconds for score in self.scores) / len(self.scores)


@dataclass
class _Trial:
    """One learner with one setting on one stream."""

    learner: Learner
    setting: Setting
    rows: int = 0
    mistakes: int = 0
    seconds: float = 0.0
    finite: bool = True

    def feed(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        if not self.finite:
            return
        began = perf_counter()
        try:
            margins = self.learner.learn(X, y)
        except UpdateError:
            self.finite = False
            return
        self.seconds += perf_counter() - began
        self.rows += len(y)
        self.mistakes += int(np.count_nonzero(~(margins * y > 0)))


def _ladder(option: str, *values: float, **fixed: float) -> tuple[Setting, ...]:
    return tuple({option: value, **fixed} for value in values)


CONTENDERS: Mapping[str, Contender] = {
    entry.name: entry
    for entry in (
        Contender("ogd", _ladder("step_size", 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), sketched=False),
        Contender("adagrad", _ladder("step_size", 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), sketched=False),
        Contender(
            "ada-ffd",
            _ladder("step_size", 0.003, 0.01, 0.03, ridge=1.0) + _ladder("step_size", 0.003, 0.01, 0.03, ridge=10.0),
        ),
        Contender("oja-son", _ladder("ridge", 100.0, 300.0, 1e3, 3e3, 1e4, 3e4)),
        Contender("fd-son", _ladder("ridge", 100.0, 300.0, 1e3, 3e3, 1e4, 3e4)),
        Contender("rfd-son", ({"ridge": 0.0},)),
    )
}
"""The usual field. RFD-SON starts at ridge 0, so that it has nothing to choose."""


def contender(name: str) -> Contender:
    """The method with its usual settings, or else with its defaults alone."""
    from onsketch.linear.methods import METHODS

    sketched = name in METHODS and "sketch_size" in METHODS[name].concerns
    return CONTENDERS.get(name, Contender(name, sketched=sketched))


def streams(rows: int, dimension: int, conditions: Sequence[float], seed: int = 0) -> list[Stream]:
    """The ill-conditioned streams of Luo et al. (2016), the easiest first: same labels, other coordinates."""
    from onsketch.data.synthetic import ill_conditioned

    return [
        Stream(kappa, *ill_conditioned(rows, dimension, kappa, top=min(10, dimension), seed=seed))
        for kappa in sorted(set(conditions))
    ]


class Race:
    """Contenders side by side over the same streams.

    ``make`` turns a name and options into a learner; it is ``onsketch.learner`` unless given.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        contenders: Sequence[Contender],
        sketch_size: int = 20,
        make: Callable[..., Learner] | None = None,
    ) -> None:
        self._streams = streams
        self._make = make or onsketch.learner
        self._sketch_size = sketch_size
        self._field = [
            (contender, [[self._trial(contender, s) for s in contender.settings] for _ in streams])
            for contender in contenders
        ]

    def _trial(self, contender: Contender, setting: Setting) -> _Trial:
        options: dict[str, Any] = {"n_features": self._streams[0].X.shape[1], **setting}
        if contender.sketched:
            options["sketch_size"] = self._sketch_size
        return _Trial(self._make(contender.name, **options), setting)

    def warm_up(self, rows: int = 64) -> Iterator[str]:
        """Compile each contender's kernels on throw-away learners, so that the race is timed without it.

        Yields the name of each contender before its turn.
        """
        _, X, y = self._streams[0]
        for contender, _ in self._field:
            yield contender.name
            self._trial(contender, contender.settings[0]).feed(X[:rows], y[:rows])

    def run(self, chunk: int) -> Iterator[tuple[int, list[Standing]]]:
        """Learn ``chunk`` rows of every stream at a time; yield the rows so far and the standings."""
        rows = len(self._streams[0].y)
        for start in range(0, rows, chunk):
            stop = min(start + chunk, rows)
            for _, by_stream in self._field:
                for (_, X, y), trials in zip(self._streams, by_stream, strict=True):
                    for trial in trials:
                        trial.feed(X[start:stop], y[start:stop])
            yield stop, self.standings()

    def standings(self) -> list[Standing]:
        """Every contender with its best setting on each stream, sorted by the error on the last."""
        return sorted((self._standing(*entry) for entry in self._field), key=lambda standing: standing.error)

    def _standing(self, contender: Contender, by_stream: list[list[_Trial]]) -> Standing:
        scores = tuple(_best(stream.condition, trials) for stream, trials in zip(self._streams, by_stream, strict=True))
        return Standing(contender.name, contender.sketched, len(contender.settings), scores)


def _best(condition: float, trials: list[_Trial]) -> Score:
    """The score of the trial with the fewest mistakes among those that stayed finite."""
    finite = [trial for trial in trials if trial.finite and trial.rows]
    if not finite:
        return Score(condition, math.inf, None, math.nan)
    best = min(finite, key=lambda trial: trial.mistakes)
    return Score(condition, best.mistakes / best.rows, best.setting, 1e6 * best.seconds / best.rows)


def verdict(standings: Sequence[Standing]) -> str:
    """One sentence on what the final standings show, in their own numbers.

    >>> def standing(name, sketched, *errors):
    ...     return Standing(name, sketched, 6, tuple(Score(k, e, {}, 1.0) for k, e in zip((10, 200), errors)))
    >>> print(verdict([standing("fd-son", True, 0.1, 0.11), standing("adagrad", False, 0.08, 0.2)]))
    What to see: as the condition number goes from 10 to 200, the error of adagrad, the best without a sketch,
    goes from 8.0% to 20.0%; that of fd-son, the best with one, goes from 10.0% to 11.0%.
    """
    plain = next((s for s in standings if not s.sketched), None)
    sketched = next((s for s in standings if s.sketched), None)
    conditions = [f"{score.condition:g}" for score in standings[0].scores]
    if len(conditions) == 1:
        opening, course = f"at condition number {conditions[0]}", "is {1}"
    else:
        opening = f"as the condition number goes from {conditions[0]} to {conditions[-1]}"
        course = "goes from {0} to {1}"

    def told(standing: Standing) -> str:
        return course.format(percent(standing.scores[0].error), percent(standing.error))

    if plain is None or sketched is None:
        return f"What to see: {opening}, the error of {standings[0].name}, the best, {told(standings[0])}."
    return (
        f"What to see: {opening}, the error of {plain.name}, the best without a sketch, {told(plain)}; "
        f"that of {sketched.name}, the best with one, {told(sketched)}."
    )


def percent(error: float) -> str:
    """An error rate in words: ``12.5%``, or ``diverged`` where no setting stayed finite."""
    return f"{error:.1%}" if math.isfinite(error) else "diverged"
