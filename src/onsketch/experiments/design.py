"""What an experiment is: cells to run, rows made of them, charts of the rows, and claims that the rows bear out or not.

A *cell* is one independent run: a function and what it is given, both of which name it, so that a finished cell is
found again. Everything shown is made of the *rows* alone, which are what is written to CSV and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from onsketch.experiments.streams import Sources
    from onsketch.report.plots import Curve

T = TypeVar("T")
Row = dict[str, Any]
Result = Mapping[str, Any]


class Effort(NamedTuple):
    """How much to run.

    >>> QUICK.of(quick=100, short=2_000, full=10_000)
    100
    """

    name: str

    def of(self, quick: T, short: T, full: T) -> T:
        """What is declared for this effort."""
        return {"quick": quick, "short": short, "full": full}[self.name]


QUICK, SHORT, FULL = Effort("quick"), Effort("short"), Effort("full")
EFFORTS = {effort.name: effort for effort in (QUICK, SHORT, FULL)}
"""A test that everything runs; an evening; the papers' own sizes."""


class Paper(NamedTuple):
    """Where the experiments come from."""

    name: str
    citation: str


@dataclass(frozen=True)
class Cell:
    """One independent run: ``run(sources, **given)`` returns what JSON can hold."""

    run: Callable[..., Result]
    given: Mapping[str, Any]

    @property
    def key(self) -> str:
        """A name made of what is run, the same in every process.

        >>> Cell(len, {"a": 1}).key == Cell(len, {"a": 1}).key != Cell(len, {"a": 2}).key
        True
        """
        text = json.dumps([self.run.__name__, self.given], sort_keys=True)
        return f"{self.run.__name__.strip('_')}-{sha256(text.encode()).hexdigest()[:16]}"


class Results:
    """What the finished cells gave."""

    def __init__(self) -> None:
        self._found: dict[str, Result] = {}

    def __contains__(self, cell: Cell) -> bool:
        return cell.key in self._found

    def __getitem__(self, cell: Cell) -> Result:
        return self._found[cell.key]

    def put(self, cell: Cell, result: Result) -> None:
        """Remember a result."""
        self._found[cell.key] = result


@dataclass(frozen=True)
class Conditions:
    """What an experiment runs under: how much, and on which data."""

    effort: Effort
    sources: Sources


STAND_INS = frozenset({"gisette-like", "hiva", "reuters", "fashion", "fashion-fine-tuned"})
"""Sets that no paper names: they stand in for ones that are not at hand."""


class Verdict(NamedTuple):
    """Whether a claim holds here, and the figures that say so."""

    holds: bool | None
    """None: it cannot be told from these rows."""
    words: str
    stand_in: bool = False
    """Judged on stand-ins alone."""

    @property
    def head(self) -> str:
        """One of four: holds, holds on a stand-in, does not hold, cannot be told."""
        if self.holds is None:
            return "Cannot be told"
        return ("Holds on a stand-in" if self.stand_in else "Holds") if self.holds else "Does not hold"

    def __str__(self) -> str:
        return f"{self.head}: {self.words}"


class Claim(NamedTuple):
    """A sentence of the paper and the function that checks it on the rows."""

    text: str
    check: Callable[[Sequence[Row]], Verdict]
    why: str = ""
    """Why it does not hold here, as far as that is known; told only then."""

    def judge(self, rows: Sequence[Row]) -> Verdict:
        """The verdict on these rows: on those of the paper's own sets where there are any, else on stand-ins.

        >>> Claim("one row", lambda rows: Verdict(len(rows) == 1, f"{len(rows)} rows"), "none was given").judge([])
        Verdict(holds=False, words='0 rows. Why: none was given', stand_in=False)
        """
        verdict = self._weighed(rows)
        told = verdict.holds is False and self.why
        return verdict._replace(words=f"{verdict.words}. Why: {self.why}") if told else verdict

    def _weighed(self, rows: Sequence[Row]) -> Verdict:
        own = [row for row in rows if row.get("data") not in STAND_INS]
        others = [row for row in rows if row.get("data") in STAND_INS]
        if not others:
            return self.check(rows)
        if not own:
            return self.check(rows)._replace(stand_in=True)
        verdict, beside = self.check(own), self.check(others)
        if verdict.holds is None:
            return beside._replace(stand_in=True)
        if beside.holds is None:
            return verdict
        also = "holds" if beside.holds else "does not hold"
        return verdict._replace(words=f"{verdict.words}. On stand-ins it {also}: {beside.words}")


@dataclass(frozen=True)
class Chart:
    """A figure to draw: curves (or points) over common axes."""

    name: str
    title: str
    lines: Sequence[Curve]
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    points: bool = False
    """Points with names instead of curves, with the diagonal drawn."""


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a paper."""

    name: str
    paper: Paper
    shows: str
    """Which figure or table."""
    title: str
    setup: str
    """Data, methods, grids, repeats and metric in words."""
    cells: Callable[[Conditions, Results], Iterable[Cell]]
    """The cells wanted, given those that are finished; asked again until no new ones come."""
    rows: Callable[[Conditions, Results], list[Row]]
    charts: Callable[[Sequence[Row]], list[Chart]]
    claims: tuple[Claim, ...]
    columns: Mapping[str, str]
    """Columns of the rows to show in the table, with their headings."""
    needs: tuple[str, ...] = ()
    """Data sets without any of which it cannot run."""
    notes: tuple[str, ...] = field(default=())
    """What differs from the paper."""
