"""Scales: what a feature is divided by, so that its unit does not matter.

A feature's scale is its mean magnitude over the rows in which it is not 0, which one outlier moves less than the largest
or the root mean squared magnitude. To leave the experts alone, the scale in use follows the running mean only when they have
come apart by a factor of ``LEAP``. Such a leap by a factor r changes coordinates, not predictions: the experts' weights of
the feature, being per unit of scale, are multiplied by r and AdaGrad's energy is divided by r² (Ross, Mineiro and Langford 2013
treat scales online, too).

The mean squared length of the scaled rows is followed in the same way. It is the unit of the ridges, and the square of
the constant feature's value, so that the intercept is given as much room as all features together.
"""

from __future__ import annotations

import math

from onsketch.auto.state import COUNT, FIRST, HEADS, MEAN, ROWS, SCALE
from onsketch.linear.sketched.packed import SKETCH
from onsketch.numerics import inner

LEAP = 1.3
"""How far a scale in use and the running mean may come apart."""


@inner
def followed(used, running):
    """The value to use from now on."""
    return used if used <= LEAP * running and running <= LEAP * used else running


@inner
def constant_scale(norm):
    """The scale that makes the constant feature as long as a typical row."""
    return 1.0 / math.sqrt(norm)


@inner
def leap(small, row, extra, ratio):
    """Re-express a feature's weights when its scale is multiplied by ``ratio``; the sketch's rows stay as they are."""
    for k in range(2):
        along = 0.0
        for i in range(small.counts[ROWS]):
            along += small.a[k, i] * row[SKETCH + i]
        row[HEADS[k]] = ratio * (row[HEADS[k]] + along) - along
        row[extra + FIRST + 2 * k] *= ratio
        row[extra + FIRST + 2 * k + 1] /= ratio * ratio


@inner
def next_mean(row, extra, value):
    """The mean magnitude with one more value."""
    return row[extra + MEAN] + (abs(value) - row[extra + MEAN]) / (row[extra + COUNT] + 1.0)


@inner
def next_scale(row, extra, value):
    """The scale in use once this value has been seen."""
    return followed(row[SCALE], next_mean(row, extra, value))
