"""D. Calandriello, A. Lazaric, M. Valko: Second-Order Kernel Online Convex Optimization with Adaptive Sketching, 2017.

The paper has theorems and no experiments: these check what the theorems say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from time import thread_time
from typing import Any

import numpy as np

import onsketch
from onsketch.experiments.checks import against, curves, groups, pick, value
from onsketch.experiments.design import Cell, Chart, Claim, Conditions, Experiment, Paper, Result, Results, Row, Verdict
from onsketch.experiments.streams import Sources

PAPER = Paper(
    "calandriello2017",
    "D. Calandriello, A. Lazaric, M. Valko. Second-Order Kernel Online Convex Optimization with Adaptive Sketching. "
    "2017.",
)


def _waves(rows: int, seed: int) -> tuple[Any, Any]:
    """Points of a square and a smooth function of them within ±1, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(rows, 2))
    y = 0.8 * np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + 0.1 * rng.normal(size=rows)
    return X, np.clip(y, -1.0, 1.0)


# Regret against the effective dimension ------------------------------------------------------------------------------


def kernel_regret(
    sources: Sources, method: str, rows: int, gamma: float, seed: int, floor: float | None = None
) -> Result:
    """Regret against kernel ridge regression offline, the effective dimension, and the time of a round."""
    from onsketch.kernel import effective_dimension, regret

    X, y = _waves(rows, seed)
    options: dict[str, Any] = {"kernel": "rbf", "gamma": gamma, "loss": "squared", "seed": seed}
    options |= {} if floor is None else {"floor": floor}
    learner: Any = onsketch.learner(method, **options)
    parts, seconds = [], [0.0]
    marks = np.unique(np.geomspace(max(20, rows // 50), rows, 16).astype(int))
    start = 0
    for stop in marks.tolist():
        began = thread_time()
        parts.append(learner.learn(X[start:stop], y[start:stop]))
        seconds.append(thread_time() - began)
        start = stop
    against_ridge = regret(np.concatenate(parts), X, y, learner.kernel, ridge=1.0)
    K = np.exp(-gamma * np.sum((X[:, np.newaxis, :] - X[np.newaxis, :, :]) ** 2, axis=2))
    return {
        "rows": marks.tolist(), "regret": [float(against_ridge[t - 1]) for t in marks],
        "effective": [effective_dimension(K[:t, :t], 1.0) for t in marks],
        "microseconds": 1e6 * seconds[-1] / float(marks[-1] - marks[-2]),
        "kept": int(learner.diagnostics().get("rows_in_matrix", 0)),
    }  # fmt: skip


GAMMAS = (0.2, 1.0, 5.0)
CONSTANT = 4.0
"""1/(2σ) with σ = 1/8, of the squared loss and predictions within ±1: the factor of d_eff log T in theorem 1."""


def _cases1(conditions: Conditions) -> list[tuple[str, float, list[Cell]]]:
    effort = conditions.effort
    rows, repeats = effort.of(150, 2_000, 4_000), effort.of(1, 3, 10)
    found = []
    for method in ("kons", "kernel-ogd"):
        for gamma in effort.of(GAMMAS[:2], GAMMAS, GAMMAS):
            cells = [
                Cell(kernel_regret, {"method": method, "rows": rows, "gamma": gamma, "seed": seed})
                for seed in range(repeats)
            ]
            found.append((method, gamma, cells))
    return found


def _cells1(conditions: Conditions, results: Results) -> Iterable[Cell]:
    return [cell for _, _, cells in _cases1(conditions) for cell in cells]


def _rows1(conditions: Conditions, results: Results) -> list[Row]:
    rows = []
    for method, gamma, cells in _cases1(conditions):
        runs = [results[cell] for cell in cells]
        marks = runs[0]["rows"]
        measured = np.array([run["regret"] for run in runs])
        effective = np.array([run["effective"] for run in runs])
        bound = effective * np.log(marks)
        ratio = measured / bound
        half = int(np.argmin(np.abs(np.array(marks) - marks[-1] / 2)))
        rows.append({
            "learner": f"{method}, γ = {gamma:g}", "method": method, "gamma": gamma, "rows": marks[-1],
            "repeats": len(runs), "regret": float(measured[:, -1].mean()),
            "regret_sd": float(measured[:, -1].std()) if len(runs) > 1 else None,
            "effective": float(effective[:, -1].mean()), "ratio": float(ratio[:, -1].mean()),
            "half": float(ratio[:, half].mean()), "curve_x": marks,
            "curve_regret": measured.mean(axis=0).round(4).tolist(),
            "curve_ratio": ratio.mean(axis=0).round(5).tolist(),
        })  # fmt: skip
    return rows


def _bounded(rows: Sequence[Row]) -> Verdict:
    newton = pick(rows, method="kons")
    told = "; ".join(
        f"γ = {row['gamma']:g}: d_eff {row['effective']:.0f}, regret {row['regret']:.1f}, {row['ratio']:.2f} of "
        f"d_eff log T ({row['half']:.2f} at half of the rows)"
        for row in newton
    )
    return Verdict(all(max(row["curve_ratio"]) <= CONSTANT for row in newton), told)


def _beats_gradient(rows: Sequence[Row]) -> Verdict:
    parts, holds = [], []
    for gamma in groups(rows, "gamma"):
        newton, plain = (value(rows, "regret", method=name, gamma=gamma) for name in ("kons", "kernel-ogd"))
        holds.append(newton < plain)
        parts.append(f"γ = {gamma:g}: {newton:.1f} against {plain:.1f}")
    return Verdict(all(holds), "; ".join(parts))


def _charts1(rows: Sequence[Row]) -> list[Chart]:
    newton = pick(rows, method="kons")
    return [
        Chart("regret", "Regret", curves(rows, "regret"), "rows", "regret", log_x=True, log_y=True),
        Chart("ratio", "Regret of kons in units of d_eff log T", curves(newton, "ratio"), "rows",
              "regret / (d_eff log T)", log_x=True),
    ]  # fmt: skip


# The floor of Sketched-KONS ------------------------------------------------------------------------------------------


def _cases2(conditions: Conditions) -> list[tuple[float, list[Cell]]]:
    effort = conditions.effort
    rows, repeats = effort.of(150, 2_000, 6_000), effort.of(1, 3, 5)
    floors = effort.of([1.0, 0.5, 0.25], [1.0, 0.5, 0.25, 0.1, 0.05], [1.0, 0.5, 0.25, 0.125, 0.0625])
    return [
        (
            floor,
            [
                Cell(
                    kernel_regret, {"method": "sketched-kons", "rows": rows, "gamma": 1.0, "seed": seed, "floor": floor}
                )
                for seed in range(repeats)
            ],
        )
        for floor in floors
    ]


def _cells2(conditions: Conditions, results: Results) -> Iterable[Cell]:
    return [cell for _, cells in _cases2(conditions) for cell in cells]


def _rows2(conditions: Conditions, results: Results) -> list[Row]:
    rows: list[Row] = []
    for floor, cells in _cases2(conditions):
        runs = [results[cell] for cell in cells]
        regrets = [run["regret"][-1] for run in runs]
        rows.append({
            "learner": "sketched-kons", "floor": floor, "repeats": len(runs), "regret": fmean(regrets),
            "regret_sd": float(np.std(regrets)) if len(runs) > 1 else None,
            "kept": round(fmean(run["kept"] for run in runs)),
            "microseconds": fmean(run["microseconds"] for run in runs),
        })  # fmt: skip
    exact = rows[0]
    for row in rows:
        row["regret_ratio"] = row["regret"] / exact["regret"]
        row["time_ratio"] = row["microseconds"] / exact["microseconds"]
        row["square"] = row["floor"] ** 2
    return rows


def _at_most_inverse(rows: Sequence[Row]) -> Verdict:
    told = ", ".join(f"γ = {row['floor']:g}: {row['regret_ratio']:.2f}" for row in rows)
    return Verdict(all(row["regret_ratio"] <= 1.05 / row["floor"] for row in rows), f"in units of exact KONS {told}")


def _square(rows: Sequence[Row]) -> Verdict:
    told = ", ".join(f"γ = {row['floor']:g}: {row['time_ratio']:.3f} (γ² = {row['square']:.3f})" for row in rows)
    return Verdict(
        all(row["time_ratio"] <= 2.0 * row["square"] + 0.1 for row in rows), f"time of the last rounds {told}"
    )


def _charts2(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart("regret", "Regret against the floor", against(rows, "floor", "regret"), "floor γ", "regret", log_x=True),
        Chart("time", "Time of a round against the floor", against(rows, "floor", "microseconds"), "floor γ",
              "µs a round", log_x=True, log_y=True),
    ]  # fmt: skip


# The closing scenario ------------------------------------------------------------------------------------------------

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
    """One point with losses +w·x and −w·x in turn: the regret against w = 0, and how many rows are kept."""
    method, options = FIELD[label]
    own: dict[str, Any] = {} if method.endswith("-son") else {"kernel": "rbf", "gamma": 1.0}
    learner: Any = onsketch.learner(method, loss="hinge", curvature=1.0, ridge=1.0, seed=seed, **own, **options)
    y = np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    regret = np.cumsum(-y * learner.learn(np.ones((rows, 1)), y))
    marks = np.unique(np.geomspace(10, rows, 30).astype(int))
    told: dict[str, Any] = getattr(learner, "diagnostics", dict)()
    kept = told.get("rows_in_matrix", told.get("subspace_dimension", 1))
    return {"rows": marks.tolist(), "regret": [float(regret[t - 1]) for t in marks], "kept": int(kept)}


def _cells3(conditions: Conditions, results: Results) -> Iterable[Cell]:
    effort = conditions.effort
    for label in FIELD:
        for seed in range(effort.of(1, 5, 10) if label.startswith("sketched") else 1):
            yield Cell(alternating, {"label": label, "rows": effort.of(200, 2_000, 4_000), "seed": seed})


def _rows3(conditions: Conditions, results: Results) -> list[Row]:
    rows = []
    cells = list(_cells3(conditions, results))
    for label in FIELD:
        runs = [results[cell] for cell in cells if cell.given["label"] == label]
        regrets = np.array([run["regret"] for run in runs])
        rows.append({
            "learner": label, "repeats": len(runs), "regret": float(regrets[:, -1].mean()),
            "regret_sd": float(regrets[:, -1].std()) if len(runs) > 1 else None, "rows": runs[0]["rows"][-1],
            "kept": round(fmean(run["kept"] for run in runs)), "curve_x": runs[0]["rows"],
            "curve_regret": regrets.mean(axis=0).round(4).tolist(),
        })  # fmt: skip
    return rows


def _must_pay(rows: Sequence[Row]) -> Verdict:
    exact, sampled = value(rows, "regret", learner="kons"), value(rows, "regret", learner="sketched-kons")
    kept = value(rows, "kept", learner="sketched-kons")
    return Verdict(
        sampled > 5.0 * exact, f"regret {sampled:.1f} with {kept:.0f} rows kept, {exact:.1f} with all of them"
    )


def _need_not(rows: Sequence[Row]) -> Verdict:
    exact = value(rows, "regret", learner="kons")
    others = {name: value(rows, "regret", learner=name) for name in ("fd-son, m = 2", "rfd-son, m = 2")}
    told = ", ".join(f"{name} {regret:.2f}" for name, regret in others.items())
    return Verdict(all(regret < 1.5 * exact for regret in others.values()), f"{told}; kons {exact:.2f}")


def _logarithmic(rows: Sequence[Row]) -> Verdict:
    curve = pick(rows, learner="kons")[0]
    grown = curve["curve_regret"][-1] / math.log(curve["curve_x"][-1])
    early = curve["curve_regret"][len(curve["curve_x"]) // 2] / math.log(curve["curve_x"][len(curve["curve_x"]) // 2])
    return Verdict(
        grown < 1.25 * early, f"regret / log T: {early:.2f} half-way (on a log scale), {grown:.2f} at the end"
    )


def _charts3(rows: Sequence[Row]) -> list[Chart]:
    return [Chart("regret", "Regret", curves(rows, "regret"), "rows", "regret", log_x=True, log_y=True)]


_COLUMNS = {
    "learner": "learner", "floor": "γ", "rows": "rows", "effective": "d_eff", "regret": "regret", "regret_sd": "±",
    "ratio": "of d_eff log T", "regret_ratio": "of exact", "kept": "rows in A", "microseconds": "µs a round",
    "time_ratio": "of exact ", "square": "γ²",
}  # fmt: skip

EXPERIMENTS = (
    Experiment(
        "calandriello2017-regret", PAPER, "Theorem 1", "Regret of KONS against the effective dimension",
        "Points of a square, a smooth function with noise, squared loss, ridge 1, rbf kernels of three widths; regret "
        "against kernel ridge regression (ridge 1) on all rows; kernel gradient descent (default step) beside it.",
        _cells1, _rows1, _charts1,
        (
            Claim("The regret of KONS is at most about d_eff(α) log T / 2σ (here four times d_eff log T).", _bounded),
            Claim("Second-order regret is below that of gradient descent.", _beats_gradient,
                  "the theorems speak of growth with T. A narrow kernel (γ = 5) has an effective dimension that "
                  "these few rows do not outweigh, and gradient descent pays none."),
        ),
        _COLUMNS, notes=("The paper has no experiments; this checks its theorem. kernel-ogd is not tuned.",),
    ),
    Experiment(
        "calandriello2017-floor", PAPER, "Theorem 2", "Sketched-KONS: what the floor γ costs and saves",
        "The stream above, γ of the kernel 1; regret and the time of the last rounds for floors from 1 (exact) down.",
        _cells2, _rows2, _charts2,
        (
            Claim("Regret grows at most like 1/γ.", _at_most_inverse),
            Claim("Time falls like γ² (until the O(t) kernel values count).", _square),
        ),
        _COLUMNS,
    ),
    Experiment(
        "calandriello2017-adversary", PAPER, "Closing scenario", "One point, losses alternating in sign",
        "σ = α = C = 1. The best fixed function is 0; kept rows are those in the matrix A.", _cells3, _rows3, _charts3,
        (
            Claim("Exact KONS has logarithmic regret.", _logarithmic),
            Claim("A dictionary that keeps few copies of the point must pay.", _must_pay),
            Claim("Frequent directions, which make new atoms, need not.", _need_not),
        ),
        _COLUMNS,
    ),
)  # fmt: skip
