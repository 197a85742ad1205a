"""Random numbers keyed by what they are for, not by when they are asked for.

Every draw is a pure function of ``(seed, kind, index, k)``: the Gaussian vector of round ``t`` of a
random projection, or the starting column of feature ``j`` of Oja's sketch. A stream cut into blocks,
a resumed run, a sparse and a dense run therefore see the same numbers.

The generator hashes the key with SplitMix64's finalizer (Steele, Lea and Flood 2014) and turns each
uniform into a Gaussian by the inverse of its distribution function (Wichura 1988, algorithm AS 241):
but for the tails, two polynomials and a division, where Box and Muller's method takes a logarithm, a
sine and a cosine.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onsketch.compiling import cached

ROUND = 1
"""Kind of the draws of a random projection, indexed by the round (the first round is 1)."""
FEATURE = 2
"""Kind of the starting columns of Oja's sketch, indexed by the feature."""
COIN = 3
"""Kind of the random signs and samples of a fixed linear map (Ada-LR, RadaGrad), indexed by the coordinate."""
DICTIONARY = 5
"""Kind of the coins by which a row enters a dictionary (KORS), indexed by the round."""
ENTRY = 6
"""Kind of the coins by which a row enters the matrix of Sketched-KONS, indexed by the round."""
FREQUENCY = 7
"""Kind of the frequencies of random Fourier features, indexed by the feature; −1 has their phases."""

_UNIT = 2.0**-53
_GOLDEN = 0x9E3779B97F4A7C15

# without fast mathematics: a draw has the same bits wherever it is compiled into
_strict = njit(error_model="numpy", forceinline=True)
_strict_kernel = cached(nogil=True, error_model="numpy")


@_strict
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@_strict
def _key(seed: int, kind: int, index: int) -> np.uint64:
    """What all draws of (seed, kind, index) start from."""
    z = _mix(np.uint64(seed) + np.uint64(_GOLDEN))
    z = _mix(z ^ (np.uint64(kind) * np.uint64(_GOLDEN)))
    return _mix(z + np.uint64(index) * np.uint64(_GOLDEN))


@_strict
def _uniform(key: np.uint64, k: int) -> float:
    """The k-th uniform number in (0, 1) of a key."""
    z = _mix(key + (np.uint64(k) + np.uint64(1)) * np.uint64(_GOLDEN))
    return (float(z >> np.uint64(11)) + 0.5) * _UNIT


@_strict_kernel
def uniform(seed: int, kind: int, index: int, k: int) -> float:
    """The k-th uniform number in (0, 1) of this key."""
    return _uniform(_key(seed, kind, index), k)


# AS 241: numerators and denominators, highest power first, for |u − ½| ≤ 0.425, for the tails, and far out in them
_MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
_TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


@_strict
def _polynomial(r: float, a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float) -> float:
    return ((((((a * r + b) * r + c) * r + d) * r + e) * r + f) * r + g) * r + h


@_strict
def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], r: float) -> float:
    return _polynomial(r, *polynomials[0]) / _polynomial(r, *polynomials[1])


@_strict
def _quantile(u: float) -> float:
    """The Gaussian whose distribution function is u, in (0, 1)."""
    q = u - 0.5
    if abs(q) <= 0.425:
        return q * _ratio(_MIDDLE, 0.180625 - q * q)
    r = math.sqrt(-math.log(min(u, 1.0 - u)))
    return math.copysign(_ratio(_TAIL, r - 1.6) if r <= 5.0 else _ratio(_FAR, r - 5.0), q)


@_strict_kernel
def fill_gaussian(seed: int, kind: int, index: int, out: NDArray[np.float64]) -> None:
    """Fill ``out`` with the standard Gaussian numbers of this key."""
    key = _key(seed, kind, index)
    for k in range(out.size):
        out[k] = _quantile(_uniform(key, k))


def gaussian(seed: int, kind: int, index: int, size: int) -> NDArray[np.float64]:
    """``size`` standard Gaussian numbers of the key ``(seed, kind, index)``.

    >>> from onsketch import draws
    >>> bool((draws.gaussian(0, draws.ROUND, 7, 4) == draws.gaussian(0, draws.ROUND, 7, 6)[:4]).all())
    True
    """
    out = np.empty(size)
    fill_gaussian(seed, kind, index, out)
    return out


def feature_columns(seed: int, features: NDArray[np.int64] | range, size: int) -> NDArray[np.float64]:
    """The Gaussian starting columns of Oja's sketch for these features, ``(size, len(features))``."""
    return np.column_stack([gaussian(seed, FEATURE, int(j), size) for j in features])


def round_vector(seed: int, t: int, size: int) -> NDArray[np.float64]:
    """The random-projection vector of round ``t`` (from 1): entries of variance ``1/size``."""
    return gaussian(seed, ROUND, t, size) / math.sqrt(size)
