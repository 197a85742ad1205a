"""The table of update rules: how the weights move once a gradient is known.

Most methods step through the metric of their sketch, by mirror descent or dual averaging; a few have a rule of their
own. What options, front doors, learners and documentation ask of a rule is in its record. A rule of numbers per feature
has a loop of its own (``LOOPS`` of ``first_order/learner.py``), a rule of functions a class (``kernel/build.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onsketch.core.errors import OptionError


@dataclass(frozen=True)
class UpdateRule:
    """One update rule.

    Args:
        name: as methods call it.
        line: its formula, where it is not that of steps through a metric.
        family: "step" through the metric of a sketch; "features": numbers per feature; "kernel": a function of a
            kernel; "mixture" of other learners.
        step_size: the step for rows of length 1 and labels of size 1 (``doors.py``); None where it has no step size.
        averages: whether the mean of its iterates can be asked for.
        sparse_terms: whether it takes l1 and l2 by itself.
        moments: whether it keeps running means of g and g².
        sums: whether what it keeps per feature adds up in a merge, the weights being made of it.
        losses: those it is defined with; empty for all.
        unit_metric: whether the metric of a feature starts from 1, whatever the ridge.
        every_feature: whether each round moves every feature seen.
        capped: whether the rows that it keeps have an upper bound.
        projects: whether it lives in the span of a dictionary of rows.
        samples: whether it keeps a sample of the rows instead of all.
    """

    name: str
    line: str = ""
    family: Literal["step", "features", "kernel", "mixture"] = "kernel"
    step_size: float | None = 1.0
    averages: bool = False
    sparse_terms: bool = False
    moments: bool = False
    sums: bool = False
    losses: tuple[str, ...] = ()
    unit_metric: bool = False
    every_feature: bool = False
    capped: bool = False
    projects: bool = False
    samples: bool = False


RULES: dict[str, UpdateRule] = {
    rule.name: rule
    for rule in (
        UpdateRule("step", family="step", averages=True),
        UpdateRule("adam", "`w ← w − step·m̂/(√v̂ + ridge)` with running means of g and g².", family="features",
                   step_size=0.05, averages=True, moments=True, every_feature=True),
        UpdateRule("lazy-adam", "`w ← w − step·m̂/(√v̂ + ridge)`, for the features of the row.", family="features",
                   step_size=0.05, averages=True, moments=True),
        UpdateRule("ftrl", "`w_j = −(z_j − sign(z_j)·l1)/((ridge + √n_j)/step + l2)` where |z_j| > l1, else 0.",
                   family="features", sparse_terms=True, sums=True),
        UpdateRule("arow", "`w ← w + β·max(0, 1 − y z)·y Σx`, Σ diagonal.", family="features", step_size=None,
                   averages=True, losses=("squared", "squared_hinge"), unit_metric=True),
        UpdateRule("mixture", family="mixture", step_size=None),
        UpdateRule("kons"),
        UpdateRule("sketched-kons", samples=True),
        UpdateRule("pros-n-kons", samples=True, projects=True, capped=True),
        UpdateRule("kernel-ogd"),
        UpdateRule("budget-kernel-ogd", capped=True),
    )
}  # fmt: skip
"""Every update rule by its name."""


def rule_of(name: str) -> UpdateRule:
    """The rule of this name, or an error that lists all."""
    if name not in RULES:
        raise OptionError(f"rule={name!r}: expected one of {', '.join(RULES)}.")
    return RULES[name]
