"""Figure 3: regret and time against the sketch size."""

from __future__ import annotations

from collections.abc import Sequence

from onsketch.experiments.checks import Figure, ahead, figures, groups, pick, value
from onsketch.experiments.contest import Contest, cells_of, rows_of
from onsketch.experiments.design import Claim, Conditions, Experiment, Row, Verdict
from onsketch.experiments.wan2021.paper import (
    COLUMNS,
    LARGER,
    NEWTON,
    OURS,
    PAPER,
    SETUP,
    SHORT,
    THINNED,
    full,
    grids,
    newton,
    regression,
    sketched,
)


def _contests(conditions: Conditions) -> list[Contest]:
    steps, both, thin = grids(conditions)
    found = []
    for size in conditions.effort.of([10, 20], [20, 40, 80], [20, 40, 60, 80]):
        entries = []
        for name in OURS:
            grid, fixed = (steps, {"ridge": 1.0}) if size == 20 else (both, {})
            entries.append(sketched(name, name, size, grid, "absolute", **fixed))
        entries += [sketched("radagrad", "radagrad", size, conditions.effort.of(thin, thin, both), "absolute")]
        entries += newton(size, both, "absolute")
        entries += [sketched("ada-lr", "ada-lr", size, thin, "absolute"), full(conditions, "absolute")]
        found.append(
            Contest(regression(conditions), entries, conditions.effort.of(1, 1, 5), "loss", reshuffle=False,
                    about={"size": size})
        )  # fmt: skip
    return found


def _falls(rows: Sequence[Row]) -> Verdict:
    sizes = groups(rows, "size")
    parts, holds = [], []
    for name in ("ada-fd", "ada-ffd", "radagrad", "fd-son", "ada-lr"):
        first, last = (value(rows, "loss", learner=name, size=size) for size in (sizes[0], sizes[-1]))
        holds.append(last < first)
        parts.append(f"{name} {first:.4g} to {last:.4g}")
    return Verdict(all(holds), f"from τ = {sizes[0]} to {sizes[-1]}: {', '.join(parts)}")


def _outperform(rows: Sequence[Row]) -> Verdict:
    rivals = ("ada-lr", "radagrad", "fd-son")
    on_their_grid = ahead("loss", OURS, rivals, "size")(rows)
    return ahead("loss", OURS, (*rivals, LARGER), "size")(rows)._replace(trend=on_their_grid.holds is True)


EXPERIMENT = Experiment(
    "wan2021-fig3", PAPER, "Figure 3", "Sketch size: regret and time", SETUP,
    cells_of(_contests), rows_of(_contests, "loss", curves=False),
    figures(
        Figure("regret", "Total regret against τ", "loss", "total regret", "size", "τ", log_y=True),
        Figure("time", "Time of a row against τ", "microseconds", "µs a row", "size", "τ", log_y=True),
    ),
    (
        Claim("When τ is increased from 20 to 80, the total regret of algorithms using matrix approximation is "
              "decreased.", _falls,
              "not known. Differences are within the coarseness of the grids, ten times from one step to the "
              "next; at effort short d is 200, where the paper has 500."),
        Claim("Our Ada-FD and Ada-FFD always outperform Ada-LR, RadaGrad, and FD-SON.", _outperform,
              "the best ridge of FD-SON is the largest of the paper's grid; with larger ones it does better.",
              rule="FD-SON with larger ridges, too. In trend, if it holds on the paper's grid."),
        Claim("With τ = 80, our Ada-FD and Ada-FFD can slightly outperform Ada-full.",
              lambda rows: ahead("loss", OURS, ("ada-full",))(pick(rows, size=groups(rows, "size")[-1]))),
        Claim("Ada-FFD is faster than Ada-FD.", ahead("microseconds", ("ada-ffd",), ("ada-fd",), "size"),
              "the paper's Ada-FD decomposes a τ × d matrix in every round; here only the small Gram matrix, so "
              "that there is little left to save."),
        Claim("Our Ada-FD is significantly faster than Ada-full.",
              ahead("microseconds", OURS, ("ada-full",), "size", slack=0.5)),
    ),
    COLUMNS, notes=(THINNED, NEWTON, SHORT),
)  # fmt: skip
