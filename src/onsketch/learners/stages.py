"""The stages of a round, which every round loop names, and the function of the third that the loops share.

=========  ===========================================================================================================
1 Gather   read what is stored for the features of the row, or compare the row with the rows kept
2 Predict  the margin before the update, within the clip (``clip.clipped``)
3 Slope    of the loss at that margin, and the scale ρ of the row to absorb (``slope_and_scale``)
4 Absorb   take ρ·x into the summary, and compute the step (``clip.limited_step``)
5 Check    that every number to be written is finite and within bounds; otherwise refuse the round
6 Write    the state of the features of the row
7 Count    the round
=========  ===========================================================================================================

Stages 1 to 4 work on copies of what they read: nothing per feature is written before stage 6. Small arrays that
stage 4 changes in place are copied first, in rounds that may be refused.
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.jit.decorators import inlined, inner
from onsketch.learners.setup import SCHEDULE, SUMMARY


@inner
def row_scale(setup, slope, curvature, weight, t):
    """Return ρ of the absorbed row ρ·x, in round t with this slope and curvature of the loss and this sample weight."""
    if setup.summary == SUMMARY.gradient:
        return weight * slope
    if setup.summary == SUMMARY.data:
        return 1.0
    if setup.summary == SUMMARY.curvature:
        return math.sqrt(weight * curvature)
    extra = 0.0
    if setup.schedule == SCHEDULE.inverse:
        extra = 1.0 / t
    elif setup.schedule == SCHEDULE.inverse_root:
        extra = 1.0 / math.sqrt(t)
    return math.sqrt(setup.sigma * weight + extra * weight * weight) * slope


@inlined
def slope_and_scale(setup, margin, label, weight, t):
    """Return the loss's slope at the margin and ρ: the gradient is weight·slope·x, and the absorbed row ρ·x."""
    slope = losses.slope(setup.loss, margin, label)
    bend = losses.curvature(setup.loss, margin, label) if setup.summary == SUMMARY.curvature else 0.0
    return slope, row_scale(setup, slope, bend, weight, t)
