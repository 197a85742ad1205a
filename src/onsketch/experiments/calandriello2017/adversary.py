"""The closing scenario: one point, losses alternating in sign."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np

import onsketch
from onsketch.experiments.calandriello2017.paper import COLUMNS, PAPER
from onsketch.experiments.checks import Figure, ahead, figures, pick, value
from onsketch.experiments.design import Case, Cell, Claim, Conditions, Experiment, Result, Row, Verdict, of_cases
from onsketch.experiments.streams import Sources

FIELD: dict[str, tuple[str, dict[str, Any]]] = {
    "kons": ("kons", {}),
    "sketched-kons": ("sketched-kons", {}),
    "sketched-kons, floor 0.1": ("sketched-kons", {"floor": 0.1}),
    "sketched-kons, floor 0.5": ("sketched-kons", {"floor": 0.5}),
    "pros-n-kons": ("pros-n-kons", {}),
    "fd-son, m = 2": ("fd-son", {"sketch_size": 2}),
    "rfd-son, m = 2": ("rfd-son", {"sketch_size": 2}),
}


def alternating(sources: Sources, label: str, rows: int, seed: int) -> Result:
    """Learn one point with losses +w·x and −w·x in turn; return the regret against w = 0 and the rows kept."""
    method, options = FIELD[label]
    own: dict[str, Any] = {} if method.endswith("-son") else {"kernel": "rbf", "gamma": 1.0}
    learner: Any = onsketch.learner(method, loss="hinge", curvature=1.0, ridge=1.0, seed=seed, **own, **options)
    y = np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    regret = np.cumsum(-y * learner.learn(np.ones((rows, 1)), y))
    marks = np.unique(np.geomspace(10, rows, 30).astype(int))
    found: dict[str, Any] = getattr(learner, "diagnostics", dict)()
    kept = found.get("rows_in_matrix", found.get("subspace_dimension", 1))
    return {"rows": marks.tolist(), "regret": [float(regret[t - 1]) for t in marks], "kept": int(kept)}


def _cases(conditions: Conditions) -> Iterator[Case]:
    effort = conditions.effort
    for label in FIELD:
        given = {"label": label, "rows": effort.of(200, 2_000, 4_000)}
        seeds = range(effort.of(1, 5, 10) if label.startswith("sketched") else 1)
        yield {"learner": label}, [Cell(alternating, {**given, "seed": seed}) for seed in seeds]


def _summary(runs: list[Result]) -> Row:
    regrets = np.array([run["regret"] for run in runs])
    return {
        "repeats": len(runs), "regret": float(regrets[:, -1].mean()),
        "regret_sd": float(regrets[:, -1].std()) if len(runs) > 1 else None, "rows": runs[0]["rows"][-1],
        "kept": round(fmean(run["kept"] for run in runs)), "curve_x": runs[0]["rows"],
        "curve_regret": regrets.mean(axis=0).round(4).tolist(),
    }  # fmt: skip


def _must_pay(rows: Sequence[Row]) -> Verdict:
    exact, sampled = value(rows, "regret", learner="kons"), value(rows, "regret", learner="sketched-kons")
    kept = value(rows, "kept", learner="sketched-kons")
    return Verdict(
        sampled > 5.0 * exact, f"regret {sampled:.1f} with {kept:.0f} rows kept, {exact:.1f} with all of them"
    )


def _logarithmic(rows: Sequence[Row]) -> Verdict:
    curve = pick(rows, learner="kons")[0]
    grown = curve["curve_regret"][-1] / math.log(curve["curve_x"][-1])
    early = curve["curve_regret"][len(curve["curve_x"]) // 2] / math.log(curve["curve_x"][len(curve["curve_x"]) // 2])
    return Verdict(
        grown < 1.25 * early, f"regret / log T: {early:.2f} half-way (on a log scale), {grown:.2f} at the end"
    )


EXPERIMENT = Experiment(
    "calandriello2017-adversary", PAPER, "Closing scenario", "One point, losses alternating in sign",
    "σ = α = C = 1. The best fixed function is 0; kept rows are those in the matrix A.", *of_cases(_cases, _summary),
    figures(Figure("regret", "Regret", "regret", "regret", log_x=True, log_y=True)),
    (
        Claim("Exact KONS has logarithmic regret.", _logarithmic),
        Claim("A dictionary that keeps few copies of the point must have regret.", _must_pay),
        Claim("Frequent directions, which make new atoms, need not.",
              ahead("regret", ("fd-son, m = 2", "rfd-son, m = 2"), ("kons",), slack=1.5),
              rule="at most half more regret than exact KONS."),
    ),
    COLUMNS,
)  # fmt: skip
