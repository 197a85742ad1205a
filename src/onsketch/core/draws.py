"""Random numbers keyed by their use, not by the order of the calls.

Every draw is a pure function of ``(seed, kind, index, k)``: the Gaussian vector of round ``t`` of a
random projection, or the starting column of feature ``j`` of Oja's sketch. A stream cut into blocks,
a resumed run, a sparse and a dense run therefore see the same numbers.

The generator hashes the key with SplitMix64's finalizer (Steele, Lea and Flood 2014) and maps each
uniform to a Gaussian by the inverse of its distribution function, a polynomial chosen by the leading
bits of the uniform: no branch, no logarithm and no division.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onsketch.core.quantile import CELLS, pieces
from onsketch.jit.decorators import exact_inlined, exact_kernel
from onsketch.jit.vectors import joined, load, plus, product, spread, total

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

_UNIT = 2.0**-52
"""52 bits plus one half are exact, so that every compiler rounds a uniform number in the same way."""
_GOLDEN = 0x9E3779B97F4A7C15

_PIECES = pieces(53)
_HALF = np.uint64(2**51 - 1)
_FRACTION, _ONE = np.uint64(2**52 - 1), np.uint64(1023 << 52)
_CELL_SHIFT, _FIRST_CELL = np.uint64(53 - CELLS.bit_length()), np.uint64(1023 * CELLS)
"""The fraction of a float64 and the bits of 1; its octave and the four bits after that select the piece."""


# without fast mathematics: a draw has the same bits wherever it is compiled into
@exact_inlined
def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@exact_inlined
def _key(seed, kind, index):
    """Return the hash that all draws of (seed, kind, index) start from."""
    z = _mix(np.uint64(seed) + np.uint64(_GOLDEN))
    z = _mix(z ^ (np.uint64(kind) * np.uint64(_GOLDEN)))
    return _mix(z + np.uint64(index) * np.uint64(_GOLDEN))


@exact_inlined
def _bits(key, k):
    """The k-th 64 random bits of a key."""
    return _mix(key + (np.uint64(k) + np.uint64(1)) * np.uint64(_GOLDEN))


def bits_of(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 random bits of each number, by its own."""
    return np.asarray(_mix((numbers + np.uint64(1)) * np.uint64(_GOLDEN)))


@exact_kernel
def uniform(seed, kind, index, k):
    """The k-th uniform number in (0, 1) of this key."""
    return (float(_bits(_key(seed, kind, index), k) >> np.uint64(12)) + 0.5) * _UNIT


@exact_inlined
def _quantile(z):
    """The Gaussian whose distribution function is (k + ½)·2⁻⁵² for the upper 52 bits k of z.

    That is ``±quantile(n·2⁻⁵³)`` for an odd n < 2⁵²; as a float64, n contains its octave, its cell and its position
    there.
    """
    k = z >> np.uint64(12)
    above = k >> np.uint64(51)  # flip all bits in the upper half
    n = np.int64(((k ^ (np.uint64(0) - above)) & _HALF) * np.uint64(2) + np.uint64(1))
    bits = np.float64(n).view(np.uint64)
    cell = (bits >> _CELL_SHIFT) - _FIRST_CELL
    x = np.uint64((bits & _FRACTION) | _ONE).view(np.float64) * (2.0 * CELLS) - (2.0 * CELLS + 1.0)
    x -= 2.0 * np.float64(np.int64(cell % np.uint64(CELLS)))
    # four coefficients at a time: left to itself, a compiler gathers them from the cells of several numbers, slowly
    powers = joined(x * x * x, x * x, x, 1.0)
    place = np.int64(cell) * 8
    sums = product(load(_PIECES, place, 4), spread((x * x) * (x * x), 4))
    value = total(product(plus(sums, load(_PIECES, place + 4, 4)), powers))
    return value * (1.0 - 2.0 * np.float64(np.int64(above)))


@exact_kernel
def fill_gaussian(seed, kind, index, out):
    """Fill ``out`` with the standard Gaussian numbers of this key."""
    key = _key(seed, kind, index)
    for k in range(out.size):
        out[k] = _quantile(_bits(key, k))


def gaussian(seed: int, kind: int, index: int, size: int) -> NDArray[np.float64]:
    """``size`` standard Gaussian numbers of the key ``(seed, kind, index)``.

    >>> from onsketch.core import draws
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
