"""The rules of frequent directions: what a shrink leaves of a spectrum, and what it gives to the ridge.

A full sketch has energies λ₁ ≥ λ₂ ≥ …; m − 1 directions stay, and ρ = λ_m is the most that any of them may lose:

==============  ===================================================================  ========================
FD              every direction pays ρ                                               Liberty 2013
ROBUST          the same, and the ridge grows by ρ/2                                 Luo et al. 2019
PARAMETERIZED   only the last ⌊βm⌋ pay, the m-th (which goes) among them             Desai et al. 2016
COMPENSATIVE    every direction pays; the output shows Σρ on top of what is left     Desai et al. 2016
GREEDY          nobody pays, and nothing is promised                                 Luo et al. 2019, App. F
==============  ===================================================================  ========================

Each formula is written once, as a plain function: public sketches, merges and experiments call it, compiled loops
compile it (``inner``, ``inlined``). The optimizers of ``onsketch.torch`` and their CUDA kernels have a form each of
their own, over whole batches of spectra.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.tolerances import CUTOFF

FD, ROBUST, PARAMETERIZED, COMPENSATIVE, GREEDY = range(5)
"""Codes of the rules in compiled loops."""

HALF = 0.5
"""Fraction of ρ that robust frequent directions add to the ridge."""


def shrink(rule: int, size: int, fraction: float, escaped: float, values: Any, energy: Any, true: Any) -> Any:
    """Apply a rule to the spectrum λ (descending) of a full sketch of m = ``size``.

    Fills, for the m − 1 directions kept, the energy they show and the energy they truly have (they differ
    only for COMPENSATIVE, by Σρ), and returns ρ, the m-th eigenvalue, which is what each kept direction may lose.
    """
    rho = values[size - 1] if rule != GREEDY else 0.0
    affected = max(1, int(fraction * size + 1e-9))  # the nudge: 0.29·100 is 28.999… in floating point
    for j in range(size - 1):
        spared = rule == GREEDY or (rule == PARAMETERIZED and j < size - affected)
        true[j] = values[j] if spared else max(values[j] - rho, 0.0)
        energy[j] = true[j]
        if rule == COMPENSATIVE and true[j] > CUTOFF * values[0]:
            energy[j] += escaped + rho
    return rho


class Shrunk(NamedTuple):
    """The result of a shrink, for the directions kept."""

    energy: NDArray[np.float64]
    """The energy that they show."""
    true: NDArray[np.float64]
    """The energy that they have."""
    rho: float
    """Largest energy that a direction lost; 0 if no shrink was needed."""


def shrunk(
    values: NDArray[np.float64], size: int, rule: int = FD, fraction: float = 1.0, escaped: float = 0.0
) -> Shrunk:
    """Apply a rule to a whole spectrum (descending): ``shrink`` for arrays.

    At most ``size`` − 1 directions are kept. A spectrum of fewer than ``size`` values loses nothing, unless
    compensative frequent directions has something to show for what escaped earlier.
    """
    kept = max(min(size - 1, values.size), 0)
    energy = np.array(values[:kept])
    if values.size >= size > 0:
        true = energy.copy()
        rho = float(shrink(rule, size, fraction, escaped, values, energy, true))
        return Shrunk(energy, true, rho)
    if rule == COMPENSATIVE and kept:
        energy = np.where(energy > CUTOFF * values[0], energy + escaped, energy)
    return Shrunk(energy, values[:kept].copy(), 0.0)


def left_of(energy: float, rho: float) -> float:
    """Return max(energy − ρ, 0); for loops with a change of basis of their own."""
    return max(energy - rho, 0.0)


def ridge_growth(rule: int, rho: float) -> float:
    """Return the amount that a shrink by ρ adds to the ridge."""
    return HALF * rho if rule == ROBUST else 0.0
