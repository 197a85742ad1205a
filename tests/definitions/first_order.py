"""The three methods that are no sketch under a geometry: Adam, FTRL-proximal and AROW."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from definitions.algorithm import clamp
from definitions.losses import loss_of
from definitions.options import Options, Result, result, rounds


def adam(X: ArrayLike, y: ArrayLike, o: Options) -> Result:
    """``w −= η m̂/(√v̂ + ε)``, bias-corrected, ε = ridge (Kingma and Ba 2015, Alg. 1). Every coordinate moves
    in every round. A clip clamps the prediction.
    """
    w, m, v = np.zeros((3, np.shape(X)[1]))
    b1, b2 = o.betas
    predictions, iterates = [], [w]
    for t, x, target, c in rounds(X, y, o):
        z = clamp(w @ x, o.bound)
        g = c * loss_of(o).slope(z, target) * x
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
        w = w - o.step_size * m_hat / (np.sqrt(v_hat) + o.ridge)
        predictions.append(z)
        iterates.append(w)
    return result(predictions, iterates, o)


def ftrl(X: ArrayLike, y: ArrayLike, o: Options) -> Result:
    """FTRL-proximal, per coordinate, α = step_size, β = ridge (McMahan et al. 2013, Alg. 1):

    ``σ = (√(n + g²) − √n)/α``, ``z += g − σw``, ``n += g²``,
    ``w = −(z − sign(z) l1) / ((β + √n)/α + l2)`` where ``|z| > l1``, else 0. A clip clamps the prediction.
    """
    w, z, n = np.zeros((3, np.shape(X)[1]))
    predictions, iterates = [], [w]
    for _, x, target, c in rounds(X, y, o):
        margin = clamp(w @ x, o.bound)
        g = c * loss_of(o).slope(margin, target) * x
        sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / o.step_size
        z = z + g - sigma * w
        n = n + g**2
        w = np.zeros_like(z)
        on = np.abs(z) > o.l1
        w[on] = -(z - np.sign(z) * o.l1)[on] / ((o.ridge + np.sqrt(n)) / o.step_size + o.l2)[on]
        predictions.append(margin)
        iterates.append(w)
    return result(predictions, iterates, o)


def arow(X: ArrayLike, y: ArrayLike, o: Options) -> Result:
    """AROW with a diagonal Σ, r = ridge over the sample weight (Crammer et al. 2009), on rounds with a slope:

    ``w += −(ℓ'/2)/(xᵀΣx + r) Σx``, then ``Σ⁻¹ += diag(x²)/r``. A clip clamps the prediction.
    """
    if o.loss not in ("squared", "squared_hinge"):
        raise ValueError(f"AROW is not defined for the {o.loss} loss")
    d = np.shape(X)[1]
    w, inverse = np.zeros(d), np.ones(d)
    predictions, iterates = [], [w]
    for _, x, target, c in rounds(X, y, o):
        z = clamp(w @ x, o.bound)
        slope = loss_of(o).slope(z, target)
        if slope != 0 and c > 0:
            r = o.ridge / c
            w = w - slope / 2 / (x @ (x / inverse) + r) * x / inverse
            inverse = inverse + x**2 / r
        predictions.append(z)
        iterates.append(w)
    return result(predictions, iterates, o)
