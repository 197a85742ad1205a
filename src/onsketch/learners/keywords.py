"""The keyword arguments of learners and estimators, for editors and type checkers.

Written by ``tools/keywords.py`` from the declaration in ``options.py``; do not edit it by hand. None leaves an option
to the method, except for ``clip``, where it means no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict


class EstimatorOptions(TypedDict, total=False):
    """Options passed to learners."""

    quantile: float | None
    """Level of loss quantile; 0.5 is the median."""
    epsilon: float | None
    """ε of the losses huber and epsilon_insensitive, in the unit of the labels."""
    sketch_size: int | str | None
    """Rows of the sketch: m in SON, τ in Ada-*; 0 keeps no sketch, auto lets frequent directions choose."""
    ridge: float | None
    """Start of the metric: α in SON and KONS, δ or σ in Ada-*."""
    step_size: float | None
    """Factor of each step, η; it multiplies Newton steps too."""
    clip: float | str | None
    """C: predictions are kept within ±C by an oblique projection; None: no bound; auto: the range of labels so far."""
    projection: str | None
    """Project onto the clip before a prediction (luo2016), or after a step (luo2019, Algorithm 6)."""
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
    """With diagonal: absorb a row's gradient before the step, and clip predictions without projection, as in VW."""
    oja_step: float | None
    """Γ of Oja's algorithm, the same in every round."""
    oja_block: int | None
    """Rows between updates of Oja's directions (m in luo2016); above 1, a row costs m times the features."""
    shrink_fraction: float | None
    """β of parameterised frequent directions."""
    l1: float | None
    """Weight of |w|₁."""
    l2: float | None
    """Weight of |w|²/2."""
    box: tuple[float, float] | None
    """Lower and upper bound of every weight."""
    scaling: str | None
    """none, or magnitude: put features, rows and numbers to learn in scales and centres of their own."""
    step: str | None
    """explicit, or implicit: use the slope at the end of the step, so that no step passes the label."""
    average: bool | None
    """Predict with the mean of the iterates."""
    forget: float | str | None
    """λ: weight of the past, multiplied from row to row; below 1 the learner follows drift; auto accepts auto."""
    betas: tuple[float, float] | None
    """Adam's decay rates."""
    kernel: str | Callable[..., Any] | None
    """linear, rbf, laplacian or polynomial; in Python also a function of two arrays of rows."""
    gamma: float | str | None
    """γ of the kernel; scale: 1 over the number of features times the variance of the first rows' values."""
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
    """Restart whenever the dictionary grows, as published, instead of carrying weights over."""
    dtype: str | None
    """float64 or float32, for numbers stored per feature."""


class LearnerOptions(EstimatorOptions, total=False):
    """Options of a learner."""

    n_features: int | None
    """Width of the rows; rows of another width are errors."""
    loss: str | None
    """squared, absolute, logistic, hinge, squared_hinge, quantile, poisson, huber or epsilon_insensitive."""
    fit_intercept: bool | None
    """A constant feature."""
    seed: int | None
    """Seed of random sketches."""
