"""Every linear method, written out with explicit d×d matrices: what the library must agree with.

One algorithm serves all methods but three. A round predicts ``z = w·x``, forms ``g = c ℓ'(z) x``, lets a
*sketch* absorb one row and steps ``w ← w − step·P g``. Here a sketch is the d×d matrix ``SᵀS`` it stands
for, and a *geometry* is a scalar function ``h`` of that matrix's spectrum: with ``SᵀS = V diag(λ) Vᵀ``,

    H = V diag(h(λ)) Vᵀ    and    P = H⁻¹    (the pseudo-inverse where h = 0)

Nothing is fast, nothing is incremental where a definition will do, and nothing comes from the library but
its random numbers. The only numerical decision is ``CUTOFF``. Adam, FTRL-proximal and AROW stand apart.

    run("rfd-son", X, y, sketch_size=5, ridge=1.0)
    compose_definition(X, y, sketch="rfd", geometry="adagrad", update="dual", summary="curvature")
"""

from __future__ import annotations

from definitions.algorithm import clamp, compose_definition
from definitions.geometry import spectral_function
from definitions.losses import LOSSES, exp_concavity, loss_of
from definitions.methods import run
from definitions.options import Options, Result, result, rounds
from definitions.sketches import Sketch, make_sketch, subsampled_dct

__all__ = [
    "LOSSES",
    "Options",
    "Result",
    "Sketch",
    "clamp",
    "compose_definition",
    "exp_concavity",
    "loss_of",
    "make_sketch",
    "result",
    "rounds",
    "run",
    "spectral_function",
    "subsampled_dct",
]
