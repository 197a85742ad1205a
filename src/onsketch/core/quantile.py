"""The inverse of the Gaussian distribution function, to the last digits of float64 (Wichura 1988, algorithm AS 241).

Each region has a rational function: numerator and denominator, highest power first. ``MIDDLE`` serves |u − ½| ≤ WITHIN,
as a function of ``WITHIN² − (u − ½)²`` and times u − ½; outside, ``TAIL`` and ``FAR`` are functions of
``r − 1.6`` for ``r = √(−ln min(u, 1 − u))`` up to 5, and of ``r − 5`` beyond.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WITHIN = 0.425

MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)  # fmt: skip
FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], r: Floats) -> Floats:
    above, below = (np.polyval(polynomial, r) for polynomial in polynomials)
    return np.asarray(above / below)


def quantile(u: Floats) -> Floats:
    """The Gaussians whose distribution function is u, in (0, 1).

    >>> quantile(np.array([0.5, 0.975])).round(6)
    array([0.      , 1.959964])
    """
    q = u - 0.5
    r = np.sqrt(-np.log(np.minimum(u, 1.0 - u)))
    outside = np.copysign(np.where(r <= 5.0, _ratio(TAIL, r - 1.6), _ratio(FAR, r - 5.0)), q)
    inside = q * _ratio(MIDDLE, np.maximum(WITHIN * WITHIN - q * q, 0.0))
    return np.where(np.abs(q) <= WITHIN, inside, outside)


CELLS = 16
"""Pieces of an octave, in ``pieces``."""

_DEGREE = 7


def pieces(bits: int) -> Floats:
    """The quantile of ``n·2⁻ᵇ`` for whole numbers n < 2ᵇ⁻¹, as polynomials: (16·(b − 1), 8), highest power first.

    Each octave of n is cut into 16 cells of equal length, over which −1 ≤ x ≤ 1; a cell's polynomial interpolates at
    the zeros of a Chebyshev polynomial and is right to 13 digits, or to 1e-14 where the quantile is near 0.
    """
    x = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    octave, cell = np.divmod(np.arange(CELLS * (bits - 1)), CELLS)
    u = (1.0 + (cell[:, np.newaxis] + (x + 1.0) / 2.0) / CELLS) * 2.0 ** (octave[:, np.newaxis] - bits)
    return np.asarray(np.linalg.solve(np.vander(x), quantile(u).T).T, order="C")
