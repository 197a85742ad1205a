"""AdaGrad (Duchi, Hazan and Singer 2011) with one energy for each feature, shared by all classes.

    E_j += h·x_j²·Σ_k g_k²,   w_jk −= η·x_j/√E_j · h·g_k,   g = p − e_y.

One energy for each feature and class would take K times the memory and errs more on text. A row of weight h > 1 is a
row of weight 1 and the rest of it as an implicit step, so that no weight overshoots.
"""

from __future__ import annotations

import math

from onsketch.core.softmax import LONGEST, fill_softmax, implicit_slopes
from onsketch.jit.decorators import exact

FIRST = 0.1
"""Energy that a feature starts with, in units of its first value's square."""
SILENT = 1e-3
"""Classes whose slope is smaller have nothing to say and are left alone."""
TINY = 1e-300


@exact
def energy_after(energy, v, more):
    """E_j once this row has been taken in, ``more`` being h·Σg²."""
    return (energy if energy > 0.0 else FIRST * v * v) + more * v * v


@exact
def slopes_of(z, y, classes, slopes):
    """Fill ``p − e_y``; returns the sum of squares."""
    fill_softmax(z, classes, slopes)
    others = 0.0
    for k in range(classes):
        if k != y:
            others += slopes[k]
    slopes[y] = -others
    square = 0.0
    for k in range(classes):
        square += slopes[k] * slopes[k]
    return square


@exact
def weigh(z, y, classes, h, length, tau, slopes):
    """Turn slopes for a weight of 1 into those of the whole step, silent classes at 0; ``length`` is Σ ηx²/√E."""
    if h > 1.0:
        for k in range(classes):
            tau[k] = length
        implicit_slopes(z, y, tau, min(h - 1.0, LONGEST / max(length, TINY)), classes, slopes)
    for k in range(classes):
        slopes[k] = h * slopes[k] if abs(slopes[k]) > SILENT else 0.0


@exact
def dense_step(table, scratch, output, column, step, factor, constant, places, x, count, y, classes, h, omega, sums):
    """A step on ``factor·x`` and the value of the constant feature; ``sums``: the output of averages, or −1."""
    z, slopes, tau = scratch.z[output], scratch.slopes, scratch.tau
    more = h * slopes_of(z, y, classes, slopes)
    length = 0.0
    if h > 1.0:
        for j in range(-1, count):
            v = constant if j < 0 else factor * x[j]
            energy = energy_after(table.energies[0 if j < 0 else places[j], column], v, more)
            length += step * v * v / math.sqrt(energy + TINY)
    weigh(z, y, classes, h, length, tau, slopes)
    room = table.alphas.size
    for j in range(-1, count):
        v = constant if j < 0 else factor * x[j]
        if v != 0.0:
            place = 0 if j < 0 else places[j]
            energy = energy_after(table.energies[place, column], v, more)
            table.energies[place, column] = energy
            w = table.weights[place]
            pace = step * v / math.sqrt(energy + TINY)
            for k in range(classes):
                w[output * room + k] -= pace * slopes[k]
            if sums >= 0:
                pace *= omega
                for k in range(classes):
                    w[sums * room + k] -= pace * slopes[k]
