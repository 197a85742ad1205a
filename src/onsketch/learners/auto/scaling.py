"""Scales: what a feature is divided by, so that its unit does not matter.

A feature's scale is its mean magnitude over the rows in which it is not 0, which one outlier moves less than the
largest or the root mean squared magnitude. The scale in use follows the running mean when they have come apart by a
factor of ``LEAP``, so that most of the time it stands still. The experts' weights are per unit of scale and stay as
they are when it moves: a feature that turns out to be larger than it seemed weighs less from then on (as in normalised
online learning, Ross, Mineiro and Langford 2013). Multiplying a feature by any constant changes nothing but rounding
errors.

The mean squared length of the scaled rows is followed in the same way. It is the unit of the ridges and steps, and the
square of the constant feature's value, so that the intercept is given as much room as all features together.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import inlined
from onsketch.learners.auto.state import COUNT, MEAN, SCALE

LEAP = 1.1
"""How far a scale in use and the running mean may come apart."""


@inlined
def followed(used, running):
    """The value to use from now on."""
    return used if used <= LEAP * running and running <= LEAP * used else running


@inlined
def constant_scale(norm):
    """The scale that makes the constant feature as long as a typical row."""
    return 1.0 / math.sqrt(norm)


@inlined
def next_mean(row, extra, value):
    """The mean magnitude with one more value."""
    return row[extra + MEAN] + (abs(value) - row[extra + MEAN]) / (row[extra + COUNT] + 1.0)


@inlined
def next_scale(row, extra, value):
    """The scale in use once this value has been seen."""
    return followed(row[SCALE], next_mean(row, extra, value))
