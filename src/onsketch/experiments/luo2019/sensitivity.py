"""Figures 3 to 11: test error against α₀, and the share of mistakes so far at the chosen one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from onsketch.experiments.checks import Figure, figures, groups, in_each, percent, pick
from onsketch.experiments.contest import score
from onsketch.experiments.design import Case, Claim, Conditions, Experiment, Result, Results, Row, Verdict, of_cases
from onsketch.experiments.luo2019.paper import AS_PRINTED, GRID, NOTES, PAPER, SETS, SKETCHED, cells, contests, largest


def _cases(conditions: Conditions) -> Iterator[Case]:
    for contest in contests(conditions):
        for entry in contest.entries:
            for cell in contest.grid(entry):
                about = {"learner": entry.label, "method": entry.method, "ridge": cell.given["options"].get("ridge")}
                yield {**contest.about, **about}, [cell]


def _errors(runs: list[Result]) -> Row:
    found = {name: score(runs[0], name) for name in ("test_error", "error")}
    return {name: error if math.isfinite(error) else None for name, error in found.items()}


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


def _with_level(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the largest size, those without a ridge as a level over all ridges."""
    rows = largest(rows)
    tuned = [row for row in rows if "ridge 0" not in row["learner"]]
    ridges = [row["ridge"] for row in tuned]
    free = pick(rows, learner=f"rfd-son, ridge 0, {AS_PRINTED}")
    return tuned + [row | {"ridge": end(ridges)} for row in free for end in (min, max)]


EXPERIMENT = Experiment(
    "luo2019-fig3", PAPER, "Figures 3 and 4", "Sensitivity to α₀", GRID,
    *of_cases(_cases, _errors),
    figures(Figure("{group}", "{group}, m = {m}: test error against the ridge", "test_error", "test error", "ridge",
                   "ridge α₀", by="data", chosen=_with_level, log_x=True)),
    (
        Claim("All baseline methods are very sensitive to the value of α₀, RFD-SON is not.", _stable,
              rule="the difference between the worst and the best test error over the grid is smallest for RFD-SON."),
        Claim("Only RFD₀-SON can perform well without tuning the hyperparameter.", _free_is_good,
              rule="its test error is within two points of the best tuned learner's, at every sketch size."),
    ),
    {"data": "data", "learner": "learner", "ridge": "α₀", "test_error": "test error", "error": "online error"},
    needs=SETS, notes=NOTES,
)  # fmt: skip


# Figures 5 to 11 ------------------------------------------------------------


def _online_rows(conditions: Conditions, results: Results) -> list[Row]:
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


@in_each("data", trend=False)
def _free_online(rows: Sequence[Row]) -> tuple[bool, str]:
    finished = [row for row in rows if row["error"] is not None]
    free = [row["error"] for row in finished if "ridge 0" in row["learner"] and AS_PRINTED in row["learner"]]
    least = min(row["error"] for row in finished if "ridge 0" not in row["learner"])
    most = max(free, default=math.nan)
    return most < least + 0.02, f"at most {percent(most)}, the best tuned learner {percent(least)}"


ONLINE = Experiment(
    "luo2019-fig5", PAPER, "Figures 5 to 11", "Online error at the chosen α₀", GRID, cells, _online_rows,
    figures(Figure("{group}", "{group}, m = {m}: online error", "error", "share of mistakes so far", by="data",
                   chosen=largest)),
    (Claim("RFD₀-SON can perform well without tuning the hyperparameter (online error).", _free_online,
           rule="within two points of the best tuned learner, at every sketch size."),),
    {"data": "data", "learner": "learner", "error": "online error", "error_sd": "±", "setting": "setting"},
    needs=SETS, notes=(*NOTES, "The paper draws every α₀; the grid is in luo2019-fig3."),
)  # fmt: skip
