"""The table of update rules: how the weights move for a gradient.

Most methods step in the metric of their sketch, by mirror descent or dual averaging; a few have another rule. Its
record has all properties that options, defaults, learners and documentation need. A rule of numbers per feature is
in ``first_order`` (``LOOPS`` of its learner), a rule of functions has its own class in ``kernel``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onsketch.core.errors import OptionError


@dataclass(frozen=True)
class UpdateRule:
    """One update rule.

    Args:
        name: used in the table of methods.
        line: its formula, if it is not a step in a metric.
        family: "step" in the metric of a sketch; "features": numbers per feature; "kernel": a function of a
            kernel; "mixture" of other learners.
        step_size: recommended for rows of length 1 and labels of size 1 (``recommended.py``); None if it has none.
        averages: True if it supports the mean of its iterates.
        sparse_terms: True if it applies l1 and l2 itself.
        moments: True if it keeps running means of g and g².
        sums: True if its state per feature adds up in a merge, and the weights derive from it.
        losses: supported losses; empty for all.
        unit_metric: True if the metric of a feature starts from 1 for any ridge.
        every_feature: True if each round moves every feature seen.
        capped: True if the number of kept rows can be bounded.
        projects: True if its functions lie in the span of a dictionary of rows.
        samples: True if it keeps a sample of the rows instead of all.
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
        UpdateRule("kons", capped=True),
        UpdateRule("sketched-kons", samples=True),
        UpdateRule("pros-n-kons", samples=True, projects=True, capped=True),
        UpdateRule("kernel-ogd", capped=True),
        UpdateRule("budget-kernel-ogd", capped=True),
    )
}  # fmt: skip
"""Every update rule by its name."""


def rule_of(name: str) -> UpdateRule:
    """The rule of this name, or an error that lists all."""
    if name not in RULES:
        raise OptionError(f"rule={name!r}: expected one of {', '.join(RULES)}.")
    return RULES[name]
