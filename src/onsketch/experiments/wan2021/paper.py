"""The paper, and the common parts of its experiments on streams: grids, learners, the synthetic stream."""

from __future__ import annotations

from typing import Any

from onsketch.experiments.checks import powers
from onsketch.experiments.contest import Entry
from onsketch.experiments.design import Conditions, Paper

PAPER = Paper("wan2021", "Y. Wan, L. Zhang. Efficient Adaptive Online Learning via Frequent Directions. 2021.")
OURS = ("ada-fd", "ada-ffd")
RULES = {"mirror": "CMD (mirror descent)", "dual": "PDS (dual averaging)"}
COLUMNS = {
    "rule": "update", "data": "data", "size": "τ", "dimension": "d", "learner": "learner", "step_size": "η",
    "loss": "regret", "loss_sd": "±", "mistakes": "mistakes", "mistakes_sd": "± ", "test_error": "test error",
    "microseconds": "µs a row", "setting": "setting", "tried": "settings tried",
}  # fmt: skip
THINNED = "Full-matrix AdaGrad (O(d³) a round) and Ada-LR (O(d²)) are tuned on a thinned grid, shown as settings tried."
SETUP = (
    "10,000 rows, d = 500, noiseless target, absolute loss; step sizes 1e-4 to 1, ridges 1e-4 to 10 where tuned "
    "(Ada-FD and Ada-FFD at τ = 20 have ridge 1, in dual averaging 10), chosen by regret."
)
SHORT = "Effort short: 2,000 rows, d = 200 (figure 4: d = 100)."
NEWTON = "FD-SON: rows enter unscaled (curvature 1), no clipping, step size tuned too."
LARGER = "fd-son with larger ridges"


def grids(conditions: Conditions) -> tuple[dict[str, list[float]], dict[str, list[float]], dict[str, list[float]]]:
    """Return grids of steps; of steps and ridges; and a coarser one for learners of cost O(d²) or O(d³) a round."""
    effort = conditions.effort
    steps = {"step_size": powers(10.0, -4, 0, effort.of(2, 1, 1))}
    both = {**steps, "ridge": powers(10.0, -4, 1, effort.of(5, 1, 1))}
    thin = effort.of(
        {"step_size": [0.1], "ridge": [1.0]},
        {"step_size": [0.01, 0.1, 1.0], "ridge": [0.1, 10.0]},
        {"step_size": [0.001, 0.01, 0.1, 1.0], "ridge": [0.01, 1.0]},
    )
    return steps, both, thin


def sketched(label: str, method: str, size: int, grid: dict[str, Any], loss: str, **options: Any) -> Entry:
    """Return a learner with a sketch of this size."""
    if method.endswith("-son"):
        options |= {"curvature": 1.0, "clip": None}
    given = {"loss": loss, "sketch_size": size, **options}
    return Entry(label, method, given, grid, random=method in ("radagrad", "ada-lr"))


def newton(size: int, grid: dict[str, list[float]], loss: str) -> list[Entry]:
    """Return FD-SON on the paper's grid, and on one of equal size whose ridges are a thousand times as large.

    Its ridge is added to λ, and AdaGrad's to √λ: the largest of the paper's, 10, is too small for it.
    """
    larger = {**grid, "ridge": [1e3 * ridge for ridge in grid["ridge"]]}
    return [sketched("fd-son", "fd-son", size, grid, loss), sketched(LARGER, "fd-son", size, larger, loss)]


def full(conditions: Conditions, loss: str, **options: Any) -> Entry:
    """Return full-matrix AdaGrad, on the coarser grid."""
    return Entry("ada-full", "ada-full", {"loss": loss, **options}, grids(conditions)[2])


def first_order(conditions: Conditions, loss: str) -> list[Entry]:
    """Return AdaGrad, OGD and Adam, over their steps."""
    steps = grids(conditions)[0]
    return [
        Entry("adagrad", "adagrad", {"loss": loss, "ridge": 1e-8}, steps),
        Entry("ogd", "ogd", {"loss": loss}, steps),
        Entry("adam", "adam", {"loss": loss, "ridge": 1e-8}, steps),
    ]


def regression(conditions: Conditions) -> dict[str, Any]:
    """Return the noiseless regression stream of figures 1 to 4."""
    effort = conditions.effort
    rows, dimension = effort.of(150, 2_000, 10_000), effort.of(50, 200, 500)
    return {"name": "low_rank_regression", "rows": rows, "dimension": dimension}
