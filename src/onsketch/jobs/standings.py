"""The standings of a race: scores, tables of them for terminals and pages, and how sure a difference is.

Losses of two learners on the same rows rise and fall together, so that their difference is known far better than
either. With D_b the difference of the summed losses over block b of B, the standard error of the total is
``√(B/(B − 1)·Σ (D_b − D̄)²)``. The estimate is valid if blocks are long enough for neighbours to be almost independent.
The first rows, on which all learners improve fast, widen it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Setting = Mapping[str, Any]


class Point(NamedTuple):
    """A moment of a trial: rows learned, CPU seconds spent, loss and error so far."""

    rows: int
    seconds: float
    loss: float
    error: float | None


class Score(NamedTuple):
    """A contender on one stream so far, by one setting: the best, or None if not one of them stayed finite."""

    track: str
    loss: float
    error: float | None
    setting: Setting | None
    microseconds: float
    curve: tuple[Point, ...] = ()
    total: float = math.inf
    """The sum of losses, to take the best fixed weights' from."""
    sums: tuple[tuple[int, float, float, float], ...] = ()
    """Rows, and the sums of losses, weights and mistakes over them, at the same rows for every contender."""
    tried: tuple[Score, ...] = ()
    """Every setting, the best first."""


class Standing(NamedTuple):
    """A contender's scores, one for each stream in their order, and how many settings it tried."""

    name: str
    sketched: bool
    tried: int
    scores: tuple[Score, ...]

    @property
    def loss(self) -> float:
        """The loss on the last stream."""
        return self.scores[-1].loss

    @property
    def microseconds(self) -> float:
        """The mean CPU time to learn one example, over the streams."""
        return sum(score.microseconds for score in self.scores) / len(self.scores)


def as_table(standings: Sequence[Standing]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the standings."""
    tracks = [score.track for score in standings[0].scores]
    ends = [f", cond. {track}" for track in tracks] if len(tracks) > 1 else [""]
    signs = any(score.error is not None for standing in standings for score in standing.scores)
    figures = [f"{kind}{end}" for end in ends for kind in (("loss", "error") if signs else ("loss",))]
    return ["learner", *figures, "µs/example", "setting kept"], [
        [
            standing.name,
            *(cell for score in standing.scores for cell in _figures(score, signs)),
            f"{standing.microseconds:.1f}" if math.isfinite(standing.microseconds) else "-",
            _setting(standing),
        ]
        for standing in standings
    ]


def _figures(score: Score, signs: bool) -> list[str]:
    loss = f"{score.loss:.5g}" if math.isfinite(score.loss) else "diverged"
    return [loss, percent(score.error)] if signs else [loss]


def _setting(standing: Standing) -> str:
    """The best setting on each stream, and among how many it was chosen.

    >>> kept = [Score("10", 0.1, 0.1, {"ridge": 3e3}, 1.0), Score("200", 0.2, 0.1, {"ridge": 1e3}, 1.0)]
    >>> _setting(Standing("fd-son", True, 6, tuple(kept)))
    'ridge 3000 | ridge 1000, best of 6'
    """
    texts = [
        "none" if score.setting is None else ", ".join(f"{k} {v:g}" for k, v in score.setting.items())
        for score in standing.scores
    ]
    text = " | ".join(dict.fromkeys(texts)) or "defaults"
    return f"{text}, best of {standing.tried}" if standing.tried > 1 else f"{text}, not tuned"


def verdict(standings: Sequence[Standing]) -> str:
    """One sentence on what the final standings of the embedded streams show, in their own numbers.

    >>> def standing(name, sketched, *errors):
    ...     return Standing(name, sketched, 6, tuple(Score(k, e, e, {}, 1.0) for k, e in zip(("10", "200"), errors)))
    >>> print(verdict([standing("fd-son", True, 0.1, 0.11), standing("adagrad", False, 0.08, 0.2)]))
    What to see: for accuracy, fd-son errs least at condition number 200 (11.0%), and adagrad least without a sketch
    (20.0%); for invariance, as the condition number goes from 10 to 200, the error of fd-son changes least (from 10.0%
    to 11.0%), and that of adagrad goes from 8.0% to 20.0%.
    """
    by_error = sorted(standings, key=lambda standing: standing.scores[-1].error or 0.0)
    best, plain = by_error[0], next((s for s in by_error if not s.sketched), by_error[0])
    first, last = (standings[0].scores[place].track for place in (0, -1))

    def at_end(standing: Standing) -> str:
        return percent(standing.scores[-1].error)

    def course(standing: Standing) -> str:
        return f"from {percent(standing.scores[0].error)} to {at_end(standing)}"

    def growth(standing: Standing) -> float:
        return (standing.scores[-1].error or 0.0) / max(standing.scores[0].error or 0.0, 1e-12)

    said = f"What to see: for accuracy, {best.name} errs least at condition number {last} ({at_end(best)})"
    if plain is not best:
        said += f", and {plain.name} least without a sketch ({at_end(plain)})"
    if first != last:
        steady = min(by_error[: by_error.index(plain) + 1], key=growth)  # no worse than without a sketch
        said += (
            f"; for invariance, as the condition number goes from {first} to {last}, the error of {steady.name} "
            f"changes least ({course(steady)})"
        )
        if plain is not steady:
            said += f", and that of {plain.name} goes {course(plain)}"
    return f"{said}."


def percent(error: float | None) -> str:
    """An error rate in words: ``12.5%``, or ``diverged`` where no setting stayed finite."""
    if error is None:
        return "-"
    return f"{error:.1%}" if math.isfinite(error) else "diverged"


BLOCKS = 40
"""Blocks that a stream is cut into, at most."""


class Gap(NamedTuple):
    """Difference of a learner to another: mean loss and error, each with its standard error (NaN: too few blocks)."""

    loss: float
    loss_error: float
    ratio: float
    """Of the losses; NaN where the other's is not above 0."""
    ratio_error: float
    error: float
    error_error: float


def gap(one: Score, other: Score) -> Gap | None:
    """Return the gap between two contenders; None if they have no rows in common.

    >>> sums = [(k, 1.0 * k, k, 0.0) for k in range(11)], [(k, 0.5 * k, k, 0.0) for k in range(11)]
    >>> one, other = (Score("", 1.0, None, {}, 1.0, sums=tuple(each)) for each in sums)
    >>> found = gap(one, other)
    >>> found.ratio, found.loss, found.loss_error
    (2.0, 0.5, 0.0)
    """
    theirs = {row[0]: row for row in other.sums}
    common = [(row, theirs[row[0]]) for row in one.sums if row[0] in theirs]
    if len(common) < 2:
        return None
    edges = np.unique(np.linspace(0, len(common) - 1, min(BLOCKS + 1, len(common))).round().astype(int))
    mine, their = (np.array([common[k][side] for k in edges]) for side in (0, 1))
    mass = mine[-1, 2]
    if not mass > 0.0:
        return None
    loss, loss_error = _total(mine[:, 1] - their[:, 1])
    wrong, wrong_error = _total(mine[:, 3] - their[:, 3])
    base = their[-1, 1]
    ratio, ratio_error = (mine[-1, 1] / base, loss_error / base) if base > 0.0 else (math.nan, math.nan)
    figures = loss / mass, loss_error / mass, ratio, ratio_error, wrong / mass, wrong_error / mass
    return Gap(*map(float, figures))


def _total(sums: np.ndarray) -> tuple[float, float]:
    """The total of differences, given as running sums, and its standard error."""
    each = np.diff(sums)
    total = float(sums[-1] - sums[0])
    if each.size < 4:
        return total, math.nan
    return total, math.sqrt(each.size / (each.size - 1.0) * float(((each - each.mean()) ** 2).sum()))
