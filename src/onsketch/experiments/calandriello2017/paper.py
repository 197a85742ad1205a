"""The paper, and the stream on which its theorems are checked."""

from __future__ import annotations

from time import thread_time
from typing import Any

import numpy as np

import onsketch
from onsketch.experiments.design import Paper, Result
from onsketch.experiments.streams import Sources

PAPER = Paper(
    "calandriello2017",
    "D. Calandriello, A. Lazaric, M. Valko. Second-Order Kernel Online Convex Optimization with Adaptive Sketching. "
    "2017.",
)

COLUMNS = {
    "learner": "learner", "floor": "γ", "rows": "rows", "effective": "d_eff", "regret": "regret", "regret_sd": "±",
    "ratio": "of d_eff log T", "regret_ratio": "of exact", "kept": "rows in A", "microseconds": "µs a round",
    "time_ratio": "of exact ", "square": "γ²",
}  # fmt: skip


def waves(rows: int, seed: int) -> tuple[Any, Any]:
    """Return points of a square and a smooth function of them within ±1, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(rows, 2))
    y = 0.8 * np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + 0.1 * rng.normal(size=rows)
    return X, np.clip(y, -1.0, 1.0)


def kernel_regret(
    sources: Sources, method: str, rows: int, gamma: float, seed: int, floor: float | None = None
) -> Result:
    """Return the regret against offline kernel ridge regression, the effective dimension, and the time of a round."""
    from onsketch.learners.kernel import effective_dimension, regret

    X, y = waves(rows, seed)
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
