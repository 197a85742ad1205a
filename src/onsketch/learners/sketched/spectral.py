"""The preconditioner in terms of a sketch's Gram matrix."""

from __future__ import annotations

from onsketch.core.geometry import inverse_metric
from onsketch.jit.decorators import inner


@inner
def spectral_weight(geometry, value, ridge, escaped):
    """(p(λ) − p(0))/λ: the weight of an eigenvector u of K = SSᵀ in P = p(0)·I + Sᵀ(Σ weight·uuᵀ)S.

    Zero for a direction without energy.
    """
    if value <= 0.0:
        return 0.0
    flat = inverse_metric(geometry, 0.0, ridge, escaped)
    return (inverse_metric(geometry, value, ridge, escaped) - flat) / value
