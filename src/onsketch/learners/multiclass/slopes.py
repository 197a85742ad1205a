"""Slopes of a row for K classes, and the scale at which the sketch absorbs the row.

Every class has a binary loss of its own (one against the rest), or all share one: ``softmax``,
``−log p_y`` with ``p = softmax(z)``, whose slopes are ``p_k − [k = y]`` and whose Hessian in z is ``diag(p) − ppᵀ``.

A sketch shared by all classes absorbs ``ρ·x``, where ρ² is the mean over the classes of the ρ² of each. Its matrix is
then the mean of the K matrices that one-vs-rest keeps (for the same weights).

==========  =================================================  ==============================================
summary     ρ², one against the rest                           ρ², softmax
==========  =================================================  ==============================================
gradient    mean of (σ/c + η_t)·g_k²; of g_k² (AdaGrad)        the same
data        1                                                  1
curvature   c·(mean of ℓ''(z_k))                               c·(1 − Σ_k p_k²)/K, at least c·FLOOR/K
==========  =================================================  ==============================================

with ``g_k`` the slope times the sample weight c.
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.core.softmax import fill_softmax
from onsketch.jit.decorators import inner
from onsketch.learners.setup import SUMMARY
from onsketch.learners.stages import row_scale

SOFTMAX = losses.Form(-1)
"""The loss that all classes share, which is none of onsketch.core.losses."""

_fill_softmax = inner(fill_softmax.py_func)


@inner
def fill_slopes(loss, margins, targets, weight, slopes):
    """``slopes[k] = weight·ℓ'`` for a row with these K labels (of softmax, +1 for its class); the mean curvature."""
    bend = 0.0
    if loss.code == SOFTMAX.code:
        _fill_softmax(margins, margins.size, slopes)
        bend = 1.0
        for k in range(margins.size):
            bend -= slopes[k] * slopes[k]
            slopes[k] = weight * (slopes[k] - (1.0 if targets[k] > 0.0 else 0.0))
        return max(bend, losses.FLOOR) / margins.size
    for k in range(margins.size):
        slopes[k] = weight * losses.slope(loss, margins[k], targets[k])
        bend += losses.curvature(loss, margins[k], targets[k])
    return bend / margins.size


@inner
def shared_scale(setup, slopes, bend, weight, t):
    """ρ with absorbed row = ρ·x."""
    square = 0.0
    for k in range(slopes.size):
        square += slopes[k] * slopes[k]
    slope = math.sqrt(square / slopes.size) / weight if weight > 0.0 else 0.0
    return row_scale(setup, slope, bend if setup.summary == SUMMARY.curvature else 0.0, weight, t)
