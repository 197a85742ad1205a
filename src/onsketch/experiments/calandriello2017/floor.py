"""Theorem 2: cost and savings of the floor of Sketched-KONS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from onsketch.experiments.calandriello2017.paper import COLUMNS, PAPER, kernel_regret
from onsketch.experiments.checks import Figure, figures
from onsketch.experiments.design import (
    Case,
    Cell,
    Claim,
    Conditions,
    Experiment,
    Result,
    Results,
    Row,
    Verdict,
    of_cases,
)


def _cases(conditions: Conditions) -> Iterator[Case]:
    effort = conditions.effort
    given = {"method": "sketched-kons", "rows": effort.of(150, 2_000, 6_000), "gamma": 1.0}
    for floor in effort.of([1.0, 0.5, 0.25], [1.0, 0.5, 0.25, 0.1, 0.05], [1.0, 0.5, 0.25, 0.125, 0.0625]):
        seeds = range(effort.of(1, 3, 5))
        runs = [Cell(kernel_regret, {**given, "seed": seed, "floor": floor}) for seed in seeds]
        yield {"learner": "sketched-kons", "floor": floor, "square": floor**2}, runs


def _summary(runs: list[Result]) -> Row:
    regrets = [run["regret"][-1] for run in runs]
    return {
        "repeats": len(runs), "regret": fmean(regrets),
        "regret_sd": float(np.std(regrets)) if len(runs) > 1 else None,
        "kept": round(fmean(run["kept"] for run in runs)),
        "microseconds": fmean(run["microseconds"] for run in runs),
    }  # fmt: skip


_cells, _measured = of_cases(_cases, _summary)


def _rows(conditions: Conditions, results: Results) -> list[Row]:
    """Return regret and time, also in units of the exact learner's."""
    rows = _measured(conditions, results)
    for row in rows:
        row["regret_ratio"], row["time_ratio"] = (row[name] / rows[0][name] for name in ("regret", "microseconds"))
    return rows


def _at_most_inverse(rows: Sequence[Row]) -> Verdict:
    text = ", ".join(f"γ = {row['floor']:g}: {row['regret_ratio']:.2f}" for row in rows)
    return Verdict(all(row["regret_ratio"] <= 1.05 / row["floor"] for row in rows), f"in units of exact KONS {text}")


def _square(rows: Sequence[Row]) -> Verdict:
    text = ", ".join(f"γ = {row['floor']:g}: {row['time_ratio']:.3f} (γ² = {row['square']:.3f})" for row in rows)
    return Verdict(
        all(row["time_ratio"] <= 2.0 * row["square"] + 0.1 for row in rows), f"time of the last rounds {text}"
    )


EXPERIMENT = Experiment(
    "calandriello2017-floor", PAPER, "Theorem 2", "Sketched-KONS: what the floor γ costs and saves",
    "The stream above, γ of the kernel 1; regret and the time of the last rounds for floors from 1 (exact) down.",
    _cells, _rows,
    figures(
        Figure("regret", "Regret against the floor", "regret", "regret", "floor", "floor γ", log_x=True),
        Figure("time", "Time of a round against the floor", "microseconds", "µs a round", "floor", "floor γ",
               log_x=True, log_y=True),
    ),
    (
        Claim("Sketched-KONS incurs only 1/γ times more regret.", _at_most_inverse),
        Claim("Sketched-KONS reduces the space and time complexity by a factor of γ².", _square,
              rule="time of the last rounds, until the O(t) kernel values count."),
    ),
    COLUMNS,
)  # fmt: skip
