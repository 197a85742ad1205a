"""Parts of claims: selection of rows, and figures in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onsketch.experiments.design import Chart, Row, Verdict
from onsketch.report.plots import Curve


def pick(rows: Sequence[Row], **match: Any) -> list[Row]:
    """Return the rows whose columns have these values.

    >>> pick([{"a": 1}, {"a": 2}], a=2)
    [{'a': 2}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in match.items())]


def value(rows: Sequence[Row], column: str, **match: Any) -> float:
    """Return the value of a column in the first row that matches, or NaN if there is none (absent, or diverged)."""
    found = pick(rows, **match)
    return float(found[0][column]) if found and found[0].get(column) is not None else math.nan


def groups(rows: Sequence[Row], column: str) -> list[Any]:
    """Return the distinct values of a column, in their order."""
    return list(dict.fromkeys(row[column] for row in rows if column in row))


Check = Callable[[Sequence[Row]], Verdict]


def in_each(column: str | None, named: str = "{}: ", trend: bool = True) -> Callable[[Callable[..., Any]], Check]:
    """Return a decorator of checks of one group, which makes them check each value of ``column``.

    The check of a group returns whether the claim holds there (None: not decided) and its figures in words. The claim
    holds if it holds in every group. Its trend holds if that is so in more than half of them.
    """

    def decorated(judge: Callable[[Sequence[Row]], tuple[bool | None, str]]) -> Check:
        def check(rows: Sequence[Row]) -> Verdict:
            parts: dict[str, Sequence[Row]] = {"": rows}
            if column is not None:
                parts = {named.format(group): pick(rows, **{column: group}) for group in groups(rows, column)}
            judged = [(name, *judge(mine)) for name, mine in parts.items()]
            holds = [held for _, held, _ in judged if held is not None]
            if not holds:
                return Verdict(None, "none of the learners compared finished")
            words = "; ".join(f"{name}{detail}" for name, held, detail in judged if held is not None)
            return Verdict(all(holds), words, trend=trend and 2 * sum(holds) > len(holds))

        return check

    return decorated


def ahead(
    metric: str, winners: Sequence[str], losers: Sequence[str], within: str | None = None, slack: float = 1.0
) -> Check:
    """Return a check that every winner's metric is below every loser's (times ``slack``), in each group of ``within``.

    The trend holds if that is so in more than half of the groups.
    """

    @in_each(within)
    def check(rows: Sequence[Row]) -> tuple[bool | None, str]:
        found = {name: value(rows, metric, learner=name) for name in (*winners, *losers)}
        best, others = ([found[name] for name in names if not math.isnan(found[name])] for names in (winners, losers))
        holds = max(best) < slack * min(others) if best and others else None
        return holds, ", ".join(f"{name} {number:.4g}" for name, number in found.items() if not math.isnan(number))

    return check


def curves(rows: Sequence[Row], column: str, label: str = "learner") -> list[Curve]:
    """Return a line for each row that has a curve, with its spread."""
    lines = []
    for row in rows:
        if row.get("curve_x") and row.get(f"curve_{column}"):
            spread = row.get(f"curve_{column}_sd")
            lines.append(Curve(str(row[label]), row["curve_x"], row[f"curve_{column}"], spread=spread))
    return lines


def against(rows: Sequence[Row], x: str, y: str) -> list[Curve]:
    """Return a line for each learner: one column against another."""
    lines = []
    for name in groups(rows, "learner"):
        mine = [row for row in pick(rows, learner=name) if row.get(y) is not None and math.isfinite(row[y])]
        if not mine:
            continue
        sds = [row.get(f"{y}_sd") for row in mine]
        half = [float(sd) for sd in sds if sd is not None]
        band = half if len(half) == len(mine) else None
        lines.append(Curve(str(name), [float(row[x]) for row in mine], [float(row[y]) for row in mine], spread=band))
    return lines


@dataclass(frozen=True)
class Figure:
    """A chart of a column, described: one of all rows, or one for each value of the column ``by``.

    Name and title may contain ``{group}``, the value of that column, ``{number}``, its place, ``{key}``, its short
    name in ``keys``, and columns of the first row drawn.
    """

    name: str
    title: str
    y: str
    y_label: str
    x: str = ""
    """The column to draw against; left out, the curves of the rows are drawn."""
    x_label: str = "rows"
    by: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The values of ``by`` to draw, with their short names; left out, all that the rows have."""
    only: Callable[[Row], bool] = lambda row: True
    """Which rows to draw."""
    chosen: Callable[[Sequence[Row]], Sequence[Row]] = lambda rows: rows
    """Which rows of a group to draw, and how they are named."""
    pair: tuple[str, str] = ("", "")
    """Two learners, to draw one against the other in percent: a point for each data set."""
    log_x: bool = False
    log_y: bool = False

    def charts(self, rows: Sequence[Row]) -> Iterator[Chart]:
        """Draw the charts."""
        rows = [row for row in rows if self.only(row)]
        for number, group in enumerate(self.keys or groups(rows, self.by) if self.by else [None], 1):
            mine = self.chosen(pick(rows, **{self.by: group}) if self.by else rows)
            if any(self.pair):
                lines = self._points(mine)
            else:
                lines = against(mine, self.x, self.y) if self.x else curves(mine, self.y)
            said = {**(mine[0] if mine else {}), "group": group, "number": number}
            said["key"] = self.keys.get(str(group), group)
            title, name = self.title.format(**said), self.name.format(**said)
            yield Chart(name, title, lines, self.x_label, self.y_label, self.log_x, self.log_y, any(self.pair))

    def _points(self, rows: Sequence[Row]) -> list[Curve]:
        """Return a point for each data set on which both learners of the pair finished."""
        pairs = {
            name: [100.0 * value(rows, self.y, data=name, learner=learner) for learner in self.pair]
            for name in groups(rows, "data")
        }
        return [Curve(name, [x], [y]) for name, (x, y) in pairs.items() if x > 0.0 and y > 0.0]


def figures(*described: Figure) -> Callable[[Sequence[Row]], list[Chart]]:
    """Return the function that draws these figures, for an experiment."""
    return lambda rows: [c for figure in described for c in figure.charts(rows) if c.lines or not c.points]


def percent(number: float) -> str:
    """Format a share as a percentage."""
    return "diverged" if math.isnan(number) else f"{100 * number:.2f}%"


def powers(base: float, low: int, high: int, step: int = 1) -> list[float]:
    """Return ``base^low … base^high``.

    >>> powers(10.0, -2, 1)
    [0.01, 0.1, 1.0, 10.0]
    """
    return [float(base**k) for k in range(low, high + 1, step)]
