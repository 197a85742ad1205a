"""Figures 5 to 11: the share of mistakes so far."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onsketch.experiments.checks import curves, groups, in_each, percent, pick
from onsketch.experiments.design import Chart, Claim, Conditions, Experiment, Results, Row
from onsketch.experiments.luo2019.learners import AS_PRINTED, GRID, NOTES, cells, contests, largest
from onsketch.experiments.luo2019.paper import PAPER, SETS


def _rows(conditions: Conditions, results: Results) -> list[Row]:
    keep = ("learner", "data", "method", "setting", "error", "error_sd")
    rows = []
    for contest in contests(conditions):
        for row in contest.rows(results, ["error"]):
            kept = {name: row[name] for name in keep}
            marks, spread = row["curve_x"], row["curve_mistakes_sd"]
            kept["curve_x"] = marks
            kept["curve_error"] = [round(m / x, 5) for m, x in zip(row["curve_mistakes"], marks, strict=True)]
            kept["curve_error_sd"] = spread and [round(m / x, 5) for m, x in zip(spread, marks, strict=True)]
            rows.append(kept)
    return rows


def _charts(rows: Sequence[Row]) -> list[Chart]:
    found = []
    for data in groups(rows, "data"):
        size, mine = largest(pick(rows, data=data))
        title = f"{data}, m = {size}: online error"
        found.append(Chart(data, title, curves(mine, "error"), "rows", "share of mistakes so far"))
    return found


@in_each("data", trend=False)
def _free_online(rows: Sequence[Row]) -> tuple[bool, str]:
    finished = [row for row in rows if row["error"] is not None]
    free = [row["error"] for row in finished if "ridge 0" in row["learner"] and AS_PRINTED in row["learner"]]
    least = min(row["error"] for row in finished if "ridge 0" not in row["learner"])
    most = max(free, default=math.nan)
    return most < least + 0.02, f"at most {percent(most)}, the best tuned learner {percent(least)}"


EXPERIMENT = Experiment(
    "luo2019-fig5", PAPER, "Figures 5 to 11", "Online error at the chosen α₀", GRID, cells, _rows, _charts,
    (Claim("RFD₀-SON can perform well without tuning the hyperparameter (online error).", _free_online,
           rule="within two points of the best tuned learner, at every sketch size."),),
    {"data": "data", "learner": "learner", "error": "online error", "error_sd": "±", "setting": "setting"},
    needs=SETS, notes=(*NOTES, "The paper draws every α₀; the grid is in luo2019-fig3."),
)  # fmt: skip
