"""The parts of an experiment: cells to run, rows made of them, charts of the rows, and claims checked on the rows.

A *cell* is one independent run: a function and its arguments. Both enter its key, so that a finished cell is found
again. Charts, tables and verdicts are made of the *rows* alone, which are also written to CSV and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from onsketch.experiments.streams import Sources
    from onsketch.report.plots import Curve

T = TypeVar("T")
Row = dict[str, Any]
Result = Mapping[str, Any]


class Effort(NamedTuple):
    """The size of the runs.

    >>> QUICK.of(quick=100, short=2_000, full=10_000)
    100
    """

    name: str

    def of(self, quick: T, short: T, full: T) -> T:
        """Return the value declared for this effort."""
        return {"quick": quick, "short": short, "full": full}[self.name]


QUICK, SHORT, FULL = Effort("quick"), Effort("short"), Effort("full")
EFFORTS = {effort.name: effort for effort in (QUICK, SHORT, FULL)}
"""Seconds, to see that everything runs; an evening; the papers' own sizes."""


class Paper(NamedTuple):
    """The paper that an experiment comes from."""

    name: str
    citation: str


@dataclass(frozen=True)
class Cell:
    """One independent run: ``run(sources, **given)`` returns a result that JSON can hold."""

    run: Callable[..., Result]
    given: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """Return a name made of the function and its arguments, the same in every process.

        >>> Cell(len, {"a": 1}).key == Cell(len, {"a": 1}).key != Cell(len, {"a": 2}).key
        True
        """
        text = json.dumps([self.run.__name__, self.given], sort_keys=True)
        return f"{self.run.__name__.strip('_')}-{sha256(text.encode()).hexdigest()[:16]}"

    def __hash__(self) -> int:
        return hash(self.key)


Results = dict[Cell, Result]
"""The results of finished cells."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of a run: its size and its data."""

    effort: Effort
    sources: Sources


STAND_INS = frozenset({"gisette-like", "hiva", "reuters", "fashion", "fashion-fine-tuned"})
"""Data sets that no paper uses. They stand in for unavailable sets."""

REPRODUCED, IN_TREND, NOT_REPRODUCED, NOT_JUDGED = "Reproduced", "Reproduced in trend", "Not reproduced", "Not judged"
GRADES = (REPRODUCED, IN_TREND, NOT_REPRODUCED, NOT_JUDGED)
"""The sentence holds as stated; its direction and ordering hold, its size differs; neither; the rows cannot decide."""


class Verdict(NamedTuple):
    """The outcome of checking a claim, with the figures that decide it."""

    holds: bool | None
    """None if the rows cannot decide."""
    words: str
    stand_in: bool = False
    """True if judged on stand-ins alone."""
    trend: bool = False
    """True if the direction and ordering of the claim hold, whatever the size."""

    @property
    def grade(self) -> str:
        """Return one of ``GRADES``."""
        if self.holds is None:
            return NOT_JUDGED
        return REPRODUCED if self.holds else IN_TREND if self.trend else NOT_REPRODUCED

    def __str__(self) -> str:
        return f"{self.grade}{' on a stand-in' if self.stand_in else ''}: {self.words}"


class Claim(NamedTuple):
    """A sentence of a paper and the function that checks it on the rows."""

    text: str
    """The paper's sentence."""
    check: Callable[[Sequence[Row]], Verdict]
    why: str = ""
    """Why it does not hold here, as far as that is known. Shown only then."""
    rule: str = ""
    """Comparison that decides the sentence, if the sentence leaves that open."""
    printed: str = ""
    """The figures that the paper prints for it. Most papers draw curves and print none."""

    def judge(self, rows: Sequence[Row]) -> Verdict:
        """Return the verdict on the paper's own data sets, or on stand-ins if there are no others.

        >>> Claim("one row", lambda rows: Verdict(len(rows) == 1, f"{len(rows)} rows"), "none was given").judge([])
        Verdict(holds=False, words='0 rows. Likely reason: none was given', stand_in=False, trend=False)
        """
        verdict = self._judged(rows)
        if verdict.holds is False and self.why:
            return verdict._replace(words=f"{verdict.words}. Likely reason: {self.why}")
        return verdict

    def _judged(self, rows: Sequence[Row]) -> Verdict:
        own = [row for row in rows if row.get("data") not in STAND_INS]
        others = [row for row in rows if row.get("data") in STAND_INS]
        if not others:
            return self.check(rows)
        if not own:
            return self.check(rows)._replace(stand_in=True)
        verdict, on_others = self.check(own), self.check(others)
        if verdict.holds is None:
            return on_others._replace(stand_in=True)
        if on_others.holds is None:
            return verdict
        return verdict._replace(words=f"{verdict.words}. On stand-ins ({on_others.grade.lower()}): {on_others.words}")


@dataclass(frozen=True)
class Chart:
    """A figure: curves or points over common axes."""

    name: str
    title: str
    lines: Sequence[Curve]
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    points: bool = False
    """True for named points with the diagonal, instead of curves."""


Case = tuple[Row, Sequence[Cell]]
"""Columns that say what a row is about, and the runs that it summarises."""


def of_cases(
    cases: Callable[[Conditions], Iterable[Case]], summary: Callable[[list[Result]], Row]
) -> tuple[Callable[[Conditions, Results], list[Cell]], Callable[[Conditions, Results], list[Row]]]:
    """Return the ``cells`` and the ``rows`` of an experiment that has a row for each case."""

    def rows(conditions: Conditions, results: Results) -> list[Row]:
        return [{**about, **summary([results[run] for run in runs])} for about, runs in cases(conditions)]

    return lambda conditions, results: [run for _, runs in cases(conditions) for run in runs], rows


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper."""

    name: str
    paper: Paper
    shows: str
    """The figure or table of the paper."""
    title: str
    setup: str
    """Data, methods, grids, repeats and metric in words."""
    cells: Callable[[Conditions, Results], Iterable[Cell]]
    """Return the cells to run, given the finished ones. Called again until it returns no new ones."""
    rows: Callable[[Conditions, Results], list[Row]]
    charts: Callable[[Sequence[Row]], list[Chart]]
    claims: tuple[Claim, ...]
    columns: Mapping[str, str]
    """Columns shown in the table, with their headings."""
    needs: tuple[str, ...] = ()
    """Data sets of which at least one must be available."""
    notes: tuple[str, ...] = field(default=())
    """Differences from the paper."""
