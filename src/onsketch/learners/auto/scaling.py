"""Scales: what a feature is divided by, so that its unit does not matter.

A feature's own scale is its mean magnitude over the rows in which it is not 0, which one outlier moves less than the
largest or the root mean squared magnitude. The scale in use follows the running mean when they have come apart by a
factor of ``LEAP``, so that most of the time it stands still. The experts' weights are per unit of scale and stay as
they are when it moves: a feature that turns out to be larger than it seemed weighs less from then on (as in normalised
online learning, Ross, Mineiro and Langford 2013).

The common scale is the geometric mean of all features' scales over the values met. How far the units are apart, the
standard deviation of the logarithms of the scales, decides which scale the experts see:

=========  ==================  ==============================  ================
regime     deviation           experts with a sketch           wide experts
=========  ==================  ==============================  ================
ALIKE      below about 0.6     common                          common
MIXED      between             own                             common
APART      above about 2.4     own                             own
=========  ==================  ==============================  ================

Multiplying all features by one constant changes nothing but rounding errors; where units are apart, so does
multiplying each by its own. The typical squared length of the scaled rows, (mean |x|^¼)⁸, is followed like a scale. It
is the unit of the ridges and steps. A few rows in other units, a hundred times as long as the rest, hardly move it;
with the mean of the squares they hid all the others from the experts.

For sign labels every row, its constant included, is *learned* at one length: long rows would drown the others. That
multiplies all margins of a row by one factor, which no sign depends on, so predictions are made without it and stay
linear. (With it the log loss would be 2.6 % less on the sets of docs/studies/auto.md, but ``predict`` not linear.)
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import inlined

LEAP = 1.1
"""How far a scale in use and the running mean may come apart."""

COMMON_LEAP = 0.1
"""The same for the logarithm of the common scale."""

MIXED, ALIKE, APART = range(3)

BELOW_ALIKE, ABOVE_ALIKE = 0.55**2, 0.65**2
BELOW_APART, ABOVE_APART = 2.2**2, 2.5**2
"""Variances at which a regime is entered and left."""


@inlined
def followed(used, running):
    """The value to use from now on."""
    return used if used <= LEAP * running and running <= LEAP * used else running


@inlined
def typical(length, square, rounds):
    """The typical squared length with one more row, the one of this round; one without features says nothing of it."""
    if square == 0.0 or length == 0.0:
        return max(length, square)
    root = math.sqrt(math.sqrt(math.sqrt(length)))
    root += (math.sqrt(math.sqrt(math.sqrt(square))) - root) / rounds
    root *= root
    root *= root
    return root * root


@inlined
def next_regime(regime, variance):
    """The regime from now on, given the variance of the logarithms of the scales."""
    if regime == ALIKE:
        return ALIKE if variance <= ABOVE_ALIKE else (APART if variance > ABOVE_APART else MIXED)
    if regime == APART:
        return APART if variance >= BELOW_APART else (ALIKE if variance < BELOW_ALIKE else MIXED)
    return ALIKE if variance < BELOW_ALIKE else (APART if variance > ABOVE_APART else MIXED)


@inlined
def length_factor(signs, square, norm):
    """What a row of this squared length is multiplied by; its constant is of the typical length √norm."""
    return math.sqrt(2.0 * norm / (square + norm)) if signs else 1.0
