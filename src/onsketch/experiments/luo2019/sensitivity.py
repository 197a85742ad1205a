"""Figures 3 and 4: test error against α₀."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from onsketch.experiments.checks import against, groups, in_each, percent, pick, value
from onsketch.experiments.contest import score
from onsketch.experiments.design import Cell, Chart, Claim, Conditions, Experiment, Results, Row, Verdict
from onsketch.experiments.luo2019.learners import AS_PRINTED, GRID, NOTES, SKETCHED, contests, largest
from onsketch.experiments.luo2019.paper import PAPER, SETS


def _cells(conditions: Conditions, results: Results) -> Iterable[Cell]:
    return [c for contest in contests(conditions) for entry in contest.entries for c in contest.grid(entry)]


def _rows(conditions: Conditions, results: Results) -> list[Row]:
    rows = []
    for contest in contests(conditions):
        for entry in contest.entries:
            for cell in contest.grid(entry):
                test, online = (score(results[cell], metric) for metric in ("test_error", "error"))
                rows.append({
                    **contest.about, "learner": entry.label, "method": entry.method,
                    "ridge": cell.given["options"].get("ridge"),
                    "test_error": test if math.isfinite(test) else None,
                    "error": online if math.isfinite(online) else None,
                })  # fmt: skip
    return rows


def _range(rows: Sequence[Row], data: str, learner: str) -> float:
    """Return the worst minus the best test error over the ridges; a learner that diverged counts as random guessing."""
    errors = [
        row["test_error"] if row["test_error"] is not None else 0.5 for row in pick(rows, data=data, learner=learner)
    ]
    return max(errors) - min(errors) if errors else math.nan


def _stable(rows: Sequence[Row]) -> Verdict:
    parts, holds = [], []
    for data in groups(rows, "data"):
        sizes = [name[7:] for name in groups(pick(rows, data=data), "learner") if name.startswith("rfd-son, m")]
        for size in sizes:
            spread = {name: _range(rows, data, f"{name}{size}") for name in SKETCHED}
            printed = _range(rows, data, f"rfd-son, {AS_PRINTED}{size}")
            holds.append(printed <= min(s for name, s in spread.items() if name != "rfd-son"))
            text = ", ".join(f"{name} {percent(s)}" for name, s in spread.items())
            parts.append(f"{data}{size}: rfd-son by {AS_PRINTED} {percent(printed)}, {text}")
    return Verdict(all(holds), "; ".join(parts))


@in_each("data", trend=False)
def _free_is_good(rows: Sequence[Row]) -> tuple[bool | None, str]:
    errors = {row["learner"]: row["test_error"] for row in rows if row["test_error"] is not None}
    free = [name for name in errors if "ridge 0" in name]
    printed = [errors[name] for name in free if AS_PRINTED in name]
    ours = [errors[name] for name in free if AS_PRINTED not in name]
    if not printed:
        return None, ""
    best = min(row["test_error"] for row in rows if row["test_error"] is not None)
    words = f"untuned {percent(min(printed))} to {percent(max(printed))} over the sketch sizes"
    theirs = f", the library's {percent(min(ours))} to {percent(max(ours))}" if ours else ""
    return max(printed) < best + 0.02, f"{words}{theirs}, the best of all tuned {percent(best)}"


def _charts(rows: Sequence[Row]) -> list[Chart]:
    found = []
    for data in groups(rows, "data"):
        size, mine = largest(pick(rows, data=data))
        lines = against([row for row in mine if "ridge 0" not in row["learner"]], "ridge", "test_error")
        free = value(mine, "test_error", learner=f"rfd-son, ridge 0, {AS_PRINTED}")
        if lines and not math.isnan(free):
            ends = [min(lines[0].x), max(lines[0].x)]
            lines.append(lines[0]._replace(name=f"rfd-son, ridge 0, {AS_PRINTED}", x=ends, y=[free, free], spread=None))
        title = f"{data}, m = {size}: test error against the ridge"
        found.append(Chart(data, title, lines, "ridge α₀", "test error", log_x=True))
    return found


EXPERIMENT = Experiment(
    "luo2019-fig3", PAPER, "Figures 3 and 4", "Sensitivity to α₀", GRID, _cells, _rows, _charts,
    (
        Claim("All baseline methods are very sensitive to the value of α₀, RFD-SON is not.", _stable,
              rule="the difference between the worst and the best test error over the grid is smallest for RFD-SON."),
        Claim("Only RFD₀-SON can perform well without tuning the hyperparameter.", _free_is_good,
              rule="its test error is within two points of the best tuned learner's, at every sketch size."),
    ),
    {"data": "data", "learner": "learner", "ridge": "α₀", "test_error": "test error", "error": "online error"},
    needs=SETS, notes=NOTES,
)  # fmt: skip
