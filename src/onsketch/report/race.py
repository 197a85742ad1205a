"""The page of a comparison: the standings, and loss against examples and against time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onsketch.jobs.standings import sheet
from onsketch.report.charts import Line, line_chart
from onsketch.report.page import Page

if TYPE_CHECKING:
    from onsketch.jobs.compare import Standing


def race_page(about: str, standings: Sequence[Standing], best_fixed: float | None, remark: str = "") -> str:
    """The page, as HTML; ``best_fixed`` is the total loss of the best fixed weights, where it was solved for."""
    page = Page("Learners compared").text(about)
    headings, rows = sheet(standings)
    if best_fixed is not None:
        headings.insert(-1, "regret")
        for row, standing in zip(rows, standings, strict=True):
            total = standing.scores[-1].total
            row.insert(-1, f"{total - best_fixed:,.1f}" if math.isfinite(total) else "-")
    page.table(headings, rows)
    for k, score in enumerate(standings[0].scores):
        end = f", condition number {score.track}" if len(standings[0].scores) > 1 else ""
        curves = [(s.name, s.scores[k].curve) for s in standings if s.scores[k].curve]
        page.heading(f"Loss against examples{end}")
        by_rows = [Line(name, [p.rows for p in curve], [p.loss for p in curve]) for name, curve in curves]
        page.chart(line_chart(by_rows, "examples", "mean loss so far", log_x=True), f"loss against examples{end}")
        page.heading(f"Loss against time{end}")
        by_time = [Line(name, [p.seconds for p in curve], [p.loss for p in curve]) for name, curve in curves]
        page.chart(
            line_chart(by_time, "CPU seconds of the learner", "mean loss so far", log_x=True),
            f"loss against time{end}",
        )
    page.note(
        "Progressive loss: every row is predicted before it is learned. Each learner is shown by the best of the "
        f"settings it tried in the same pass; the time is that of this one setting. {remark}".rstrip()
    )
    return page.html()
