"""The paper, its learners, and their grids."""

from __future__ import annotations

from typing import Any

from onsketch.experiments.checks import powers
from onsketch.experiments.contest import Entry
from onsketch.experiments.design import Paper

PAPER = Paper(
    "luo2016",
    "H. Luo, A. Agarwal, N. Cesa-Bianchi, J. Langford. Efficient Second Order Online Learning by Sketching. 2016.",
)
SETUP = "One pass, squared loss; adagrad with step sizes, oja-son with 1/ridge"
WIDER = (
    "The paper searches 2^-3 to 2^6; here the grids reach from 2^-12 (adagrad) and 2^-16 (1/ridge) to 2^6, because "
    "features are not rescaled as Vowpal Wabbit does. AdaGrad has 19 step sizes against 23 ridges: its choice is never "
    "at an edge of its grid."
)


def sketched(label: str, size: int, step: int, **options: Any) -> Entry:
    """Return Oja-SON of this size over a grid of ridges."""
    grid = {"ridge": powers(2.0, -6, 16, step)}
    return Entry(label, "oja-son", {"loss": "squared", "sketch_size": size, **options}, grid, random=size > 0)


def adagrad(step: int, low: int = -12, **options: Any) -> Entry:
    """Return AdaGrad over a grid of step sizes."""
    return Entry("adagrad", "adagrad", {"loss": "squared", **options}, {"step_size": powers(2.0, low, 6, step)})
