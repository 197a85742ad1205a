"""The rules of frequent directions: how a shrink changes the spectrum and the ridge.

A full sketch has energies λ₁ ≥ λ₂ ≥ …. A shrink keeps m − 1 directions, and none of them loses more than ρ = λ_m:

==============  ===================================================================  ========================
FD              every direction loses ρ                                              Liberty 2013
ROBUST          the same, and the ridge grows by ρ/2                                 Luo et al. 2019
PARAMETERIZED   only the last ⌊βm⌋ lose ρ, including the dropped m-th one            Desai et al. 2016
COMPENSATIVE    every direction loses ρ; the output adds Σρ to the rest              Desai et al. 2016
GREEDY          no direction loses energy; no guarantee                              Luo et al. 2019, App. F
==============  ===================================================================  ========================

Each formula is written once, as a plain function: public sketches, merges and experiments call it, compiled loops
compile it (``inner``, ``inlined``). The optimizers of ``onsketch.torch`` and their CUDA kernels have
their own versions for batches of spectra.
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
    """Return max(energy − ρ, 0); for loops with their own change of basis."""
    return max(energy - rho, 0.0)


def ridge_growth(rule: int, rho: float) -> float:
    """Return the amount that a shrink by ρ adds to the ridge."""
    return HALF * rho if rule == ROBUST else 0.0
