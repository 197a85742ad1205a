"""Geometries: what the spectrum of a sketch means."""

from __future__ import annotations

import math

import numpy as np

from definitions.options import Array
from definitions.sketches import Sketch


def spectral_function(name: str, sketch: Sketch, t: int) -> tuple[Array, Array]:
    """``h(λ)`` and the eigenvectors, ``H = V diag(h) Vᵀ``.

    - "newton": ridge + λ
    - "adagrad": ridge + √λ, the ridge outside the root (Duchi et al. 2011; Wan and Zhang 2021)
    - "s-adagrad": √(ridge + Σρ + λ), ridge and escaped mass inside (Feinberg et al. 2023)
    - "low-rank": ridge + √λ, and infinite where λ = 0: no step leaves the sketch (Ada-LR)
    - "rada": ridge + √λ, and 1 where λ = 0 (RadaGrad)
    - "ogd": √t, whatever λ (Zinkevich 2003)
    """
    values, clean, vectors = sketch.eigenpairs()
    root = np.sqrt(clean)
    if name == "newton":
        h = sketch.ridge + (values if sketch.ridge > 0 else clean)
    elif name == "adagrad":
        h = sketch.ridge + root
    elif name == "s-adagrad":
        h = np.sqrt(sketch.first_ridge + sketch.escaped + clean)
    elif name == "low-rank":
        h = np.where(clean > 0, sketch.ridge + root, math.inf)
    elif name == "rada":
        h = np.where(clean > 0, sketch.ridge + root, 1.0)
    elif name == "ogd":
        h = np.full(sketch.d, math.sqrt(t))
    else:
        raise ValueError(f"unknown geometry {name!r}")
    return h, vectors


def preconditioner(geometry: str, sketch: Sketch, t: int) -> Array:
    """``P``, the (pseudo-)inverse of H, d×d."""
    h, V = spectral_function(geometry, sketch, t)
    return (V * np.divide(1.0, h, out=np.zeros_like(h), where=h > 0)) @ V.T


def metric(geometry: str, sketch: Sketch, t: int) -> Array:
    """``H``, d×d."""
    h, V = spectral_function(geometry, sketch, t)
    if not (np.isfinite(h) & (h > 0)).all():
        raise ValueError("a proximal step needs a positive definite metric")
    return (V * h) @ V.T


def free_directions(geometry: str, sketch: Sketch, t: int) -> Array:
    """The orthogonal projector, d×d, onto the directions in which a move costs nothing: the kernel of H."""
    h, V = spectral_function(geometry, sketch, t)
    return (V * (h == 0)) @ V.T
