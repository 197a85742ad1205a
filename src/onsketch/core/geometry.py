"""Geometry: a preconditioner is a scalar function of a spectrum.

A summary of the past rows has orthonormal directions V with energies λ (``SᵀS = Vᵀ diag(λ) V``). The
learner steps along ``P g`` with ``P = Vᵀ diag(p(λ)) V + p(0)(I − VᵀV)``, and the whole difference between
online Newton and full-matrix AdaGrad is the function p:

===========  ====================================  ==========================================
newton       p(λ) = 1/(ridge + λ)                  Hazan, Agarwal and Kale 2007; luo2016
adagrad      p(λ) = 1/(ridge + √λ)                 Duchi, Hazan and Singer 2011; wan2021
s-adagrad    p(λ) = 1/√(ridge + escaped + λ)       Feinberg et al. 2023 (Sketchy)
===========  ====================================  ==========================================

``escaped`` is the mass Σρ that frequent directions has shrunk away.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import plus, quotient, root, spread

NEWTON, ADAGRAD, S_ADAGRAD = range(3)

GEOMETRIES = {"newton": NEWTON, "adagrad": ADAGRAD, "s-adagrad": S_ADAGRAD}


@inner
def inverse_metric(geometry, energy, ridge, escaped):
    """p(λ); the pseudo-inverse's 0 where the metric vanishes."""
    if geometry == NEWTON:
        metric = ridge + energy
    elif geometry == ADAGRAD:
        metric = ridge + math.sqrt(energy)
    else:
        metric = math.sqrt(ridge + escaped + energy)
    return 1.0 / metric if metric > 0.0 else 0.0


@inlined
def inverse_metrics(geometry, energies, ridge, escaped):
    """p(λ) for four energies at a time, where the ridge keeps the metric from vanishing."""
    ridges = spread(ridge, 4)
    if geometry == NEWTON:
        metrics = plus(ridges, energies)
    elif geometry == ADAGRAD:
        metrics = plus(ridges, root(energies))
    else:
        metrics = root(plus(spread(ridge + escaped, 4), energies))
    return quotient(spread(1.0, 4), metrics)
