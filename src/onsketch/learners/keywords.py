"""The keyword arguments of learners and estimators, for editors and type checkers.

Written by ``tools/keywords.py`` from the declaration in ``options.py``; do not edit it by hand. None leaves an option
to the method, but for ``clip``, where it means no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict


class EstimatorOptions(TypedDict, total=False):
    """Options that estimators hand on."""

    quantile: float | None
    """Level of loss quantile; 0.5 is the median."""
    sketch_size: int | str | None
    """Rows of the sketch: m in SON, τ in Ada-*; 0 keeps no sketch, auto lets frequent directions choose."""
    ridge: float | None
    """Initial metric: α in SON and KONS, δ or σ in Ada-*."""
    step_size: float | None
    """Factor of each step, η; it multiplies Newton steps too."""
    clip: float | str | None
    """C: predictions are kept within ±C by an oblique projection; None for none; auto: labels, the range seen."""
    projection: str | None
    """The clip is heeded before a prediction (luo2016), or after a step (luo2019, Algorithm 6)."""
    curvature: float | None
    """σ of Newton methods."""
    curvature_schedule: str | None
    """η_t, added to the curvature: none, 1/t or 1/sqrt(t)."""
    summary: str | None
    """Rows that the sketch absorbs: gradient, data or curvature."""
    update: str | None
    """mirror (descent) or dual (averaging)."""
    doubling: bool | None
    """Fast frequent directions, with 2m rows between shrinks."""
    diagonal: bool | None
    """Adapt to the scale of each feature first, as luo2016 does."""
    diagonal_first: bool | None
    """With diagonal: it takes a row's gradient in before the step, and predictions are clipped plainly, as in VW."""
    oja_step: float | None
    """Γ of Oja's algorithm, the same in every round."""
    oja_block: int | None
    """Rows after which Oja's directions turn (m in luo2016); above 1 every row costs m times the features."""
    shrink_fraction: float | None
    """β of parameterised frequent directions."""
    l1: float | None
    """Weight of |w|₁."""
    l2: float | None
    """Weight of |w|²/2."""
    box: tuple[float, float] | None
    """Lower and upper bound of every weight."""
    scaling: str | None
    """none, or magnitude: features, rows and labels are divided by their magnitudes so far."""
    step: str | None
    """explicit, or implicit: the slope is taken where the step ends, so that no step passes the label."""
    average: bool | None
    """Predict with the mean of the iterates."""
    forget: float | str | None
    """λ: how much of the past is left from one row to the next; below 1 drift is followed; auto knows auto."""
    betas: tuple[float, float] | None
    """Adam's decay rates."""
    kernel: str | Callable[..., Any] | None
    """linear, rbf, laplacian or polynomial; in Python also a function of two arrays of rows."""
    gamma: float | None
    """γ of the kernel."""
    degree: int | None
    """Of the polynomial kernel (γ x·y + coef0)^degree."""
    coef0: float | None
    """Constant of that kernel."""
    accuracy: float | None
    """ε of KORS, the dictionary's sampling."""
    budget: float | None
    """β of KORS: rows are kept with probability β·leverage."""
    floor: float | None
    """Least probability with which a row is kept: γ of Sketched-KONS."""
    max_points: int | None
    """Most rows that are kept."""
    restart: bool | None
    """Begin anew whenever the dictionary grows, as published, instead of carrying over."""
    dtype: str | None
    """float64 or float32, of what is kept per feature."""


class LearnerOptions(EstimatorOptions, total=False):
    """Options of a learner."""

    n_features: int | None
    """Width of the rows; rows of another width are errors."""
    loss: str | None
    """squared, absolute, logistic, hinge, squared_hinge, quantile or poisson."""
    fit_intercept: bool | None
    """A constant feature."""
    seed: int | None
    """Seed of random sketches."""
