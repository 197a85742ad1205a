"""Figure 4: Ada-FFD is full-matrix AdaGrad once 2τ exceeds d."""

from __future__ import annotations

from collections.abc import Sequence

from onsketch.experiments.checks import Figure, figures, pick, value
from onsketch.experiments.contest import Contest, cells_of, rows_of
from onsketch.experiments.design import Claim, Conditions, Experiment, Row, Verdict
from onsketch.experiments.wan2021.paper import COLUMNS, OURS, PAPER, SETUP, SHORT, THINNED, full, grids, sketched


def _contests(conditions: Conditions) -> list[Contest]:
    effort = conditions.effort
    dimension = effort.of(12, 100, 500)
    half = dimension // 2
    shares = (0.1, 0.2, 0.4, 0.6, 0.8)
    sizes = sorted({max(2, round(share * half)) for share in shares} | {half, half + 1})
    _, _, grid = grids(conditions)
    stream = {"name": "low_rank_regression", "rows": effort.of(100, 2_000, 10_000), "dimension": dimension}
    found = []
    for size in sizes:
        shown = OURS if size <= half else ("ada-ffd",)  # Ada-FD, the most expensive learner per row, has no jump there
        entries = [sketched(name, name, size, grid, "absolute") for name in shown]
        entries.append(full(conditions, "absolute"))
        found.append(Contest(stream, entries, about={"size": size, "dimension": dimension}))
    return found


def _jump(rows: Sequence[Row]) -> Verdict:
    half = rows[0]["dimension"] // 2
    before, after = (value(rows, "loss", learner="ada-ffd", size=size) for size in (half, half + 1))
    exact = value(rows, "loss", learner="ada-full", size=half + 1)
    same = abs(after - exact) <= 1e-6 * exact
    words = f"τ = {half}: {before:.4g}, τ = {half + 1}: {after:.6g}, ada-full: {exact:.6g}"
    return Verdict(same and before < after, words)


def _smaller_is_better(rows: Sequence[Row]) -> Verdict:
    parts, holds = [], []
    for name in OURS:
        mine = [row for row in pick(rows, learner=name) if row["loss"] is not None]
        if not mine:
            continue
        best, last = min(mine, key=lambda row: row["loss"]), mine[-1]
        holds.append(best["loss"] < 0.98 * last["loss"])
        parts.append(f"{name} {best['loss']:.4g} at τ = {best['size']}, {last['loss']:.4g} at {last['size']}")
    return Verdict(any(holds) if holds else None, "; ".join(parts) or "none of the learners finished")


EXPERIMENT = Experiment(
    "wan2021-fig4", PAPER, "Figure 4", "The jump of Ada-FFD where 2τ exceeds d",
    f"{SETUP} All three on the same thinned grid.",
    cells_of(_contests), rows_of(_contests, "loss", curves=False),
    figures(Figure("regret", "Total regret against τ", "loss", "total regret", "size", "τ")),
    (
        Claim("The regret of Ada-FFD suddenly degrades back to that of Ada-full when τ changes from 250 to 251.",
              _jump),
        Claim("Larger τ might not be better for minimizing the regret.", _smaller_is_better,
              rule="a smaller τ of either has 2 % less regret."),
    ),
    COLUMNS, notes=(THINNED, SHORT),
)  # fmt: skip
