"""Vectors of numbers in registers, for loops over a dozen columns.

Numba's own loops over so few numbers spend most of their time on deciding how to vectorise, and keep their sums in
memory. A ``Vector`` is a value of 4 to 16 numbers; the machine keeps it in as many registers as it takes. Arrays are
read at a *flat* position of their memory, which must be contiguous: no views are made. Rows are padded to whole vectors
with zeros, and any factor of the padding must be finite. The instructions themselves are in ``instructions.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.decorators import Intrinsic, inlined

LANES = 4
"""Widths are multiples of this."""


def padded(width: int, lanes: int = LANES) -> int:
    """A width rounded up to whole vectors."""
    return -(-width // lanes) * lanes


def aligned_zeros(slots: int, width: int, dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """A zero table whose rows start on cache lines."""
    per_line = 128 // dtype.itemsize  # pairs of lines travel together
    raw = np.zeros(slots * width + per_line, dtype=dtype)
    skip = (-raw.ctypes.data // dtype.itemsize) % per_line
    return raw[skip : skip + slots * width].reshape(slots, width)


load, store, spread, joined, lane, element, ask_for = map(
    Intrinsic, ("load", "store", "spread", "joined", "lane", "element", "ask_for")
)
fma, plus, minus, product, quotient = map(Intrinsic, ("fma", "plus", "minus", "product", "quotient"))
where_less, root, magnitude, total = map(Intrinsic, ("where_less", "root", "magnitude", "total"))
whole, power, exponent, mantissa = map(Intrinsic, ("whole", "power", "exponent", "mantissa"))


@inlined
def _product_block(source, start, count, matrix, place, width, out, at, lanes):
    sums = spread(0.0, lanes)
    for i in range(count):
        sums = fma(spread(element(source, start + i), lanes), load(matrix, place + i * width + at, lanes), sums)
    store(out, at, sums)


@inlined
def times(source, start, count, matrix, place, width, out):
    """``out[:width] = s @ M`` for the ``count`` numbers of ``source`` from ``start`` and the (count, width) matrix
    that starts at ``place``; both arrays C-contiguous and seen flat, 4 | width.
    """
    at = np.int64(0)
    while width - at >= 16:
        _product_block(source, start, count, matrix, place, width, out, at, 16)
        at += 16
    if width - at >= 8:
        _product_block(source, start, count, matrix, place, width, out, at, 8)
        at += 8
    if at < width:
        _product_block(source, start, count, matrix, place, width, out, at, 4)


@inlined
def dot(matrix, place, vector, start, width):
    """The inner product of ``width`` numbers of each array, from flat positions; 4 | width."""
    sums = spread(0.0, 4)
    for c in range(0, width, 4):
        sums = fma(load(matrix, place + c, 4), load(vector, start + c, 4), sums)
    return total(sums)


@inlined
def within(array, place, width, bound):
    """Return True if ``width`` numbers from a flat position are all below a bound in size; NaN is not. 4 | width."""
    strays = spread(0.0, 4)
    limit = spread(bound, 4)
    for c in range(0, width, 4):
        strays = where_less(magnitude(load(array, place + c, 4)), limit, strays, spread(1.0, 4))
    return total(strays) == 0.0


@inlined
def put(target, place, factor, source, start, width):
    """``target = factor·source`` over ``width`` numbers from flat positions; 4 | width."""
    by = spread(factor, 4)
    for c in range(0, width, 4):
        store(target, place + c, product(by, load(source, start + c, 4)))


@inlined
def add(target, place, factor, source, start, width):
    """``target += factor·source`` over ``width`` numbers from flat positions; 4 | width."""
    by = spread(factor, 4)
    for c in range(0, width, 4):
        store(target, place + c, fma(by, load(source, start + c, 4), load(target, place + c, 4)))


@inlined
def rotate(matrix, first, second, c, s, width):
    """Turn two rows that start at flat positions: ``first, second ← c·first + s·second, c·second − s·first``."""
    along, across, back = spread(c, 4), spread(s, 4), spread(-s, 4)
    for k in range(0, width, 4):
        one = load(matrix, first + k, 4)
        two = load(matrix, second + k, 4)
        store(matrix, first + k, fma(across, two, product(along, one)))
        store(matrix, second + k, fma(back, one, product(along, two)))


@inlined
def exponentials(x, lanes):
    """Return eˣ of each number, with relative error 1e-14; x is clipped to ±700.

    With n = round(x/log 2), 2ⁿ times the Taylor series of the remainder, at most ½·log 2.
    """
    x = where_less(x, spread(-700.0, lanes), spread(-700.0, lanes), x)
    x = where_less(spread(700.0, lanes), x, spread(700.0, lanes), x)
    n = whole(product(x, spread(1.4426950408889634, lanes)))
    r = fma(n, spread(-0.693147180369123816490, lanes), x)
    r = fma(n, spread(-1.90821492927058770002e-10, lanes), r)
    squared = product(r, r)
    fourth = product(squared, squared)
    first = fma(fma(spread(1 / 6, lanes), r, spread(0.5, lanes)), squared, plus(spread(1.0, lanes), r))
    second = fma(spread(1 / 5040, lanes), r, spread(1 / 720, lanes))
    second = fma(second, squared, fma(spread(1 / 120, lanes), r, spread(1 / 24, lanes)))
    third = fma(spread(1 / 39916800, lanes), r, spread(1 / 3628800, lanes))
    third = fma(third, squared, fma(spread(1 / 362880, lanes), r, spread(1 / 40320, lanes)))
    series = fma(fma(third, fourth, second), fourth, first)
    return product(series, power(plus(n, spread(6755399441055744.0, lanes))))


@inlined
def logarithms(x, lanes):
    """The logarithm of each number from 1e-300 on, to 1e-14.

    With x = 2ⁿ·f, f between √½ and √2, n·log 2 and the series of 2·artanh((f − 1)/(f + 1)).
    """
    f, n = mantissa(x), minus(exponent(x), spread(4503599627371519.0, lanes))
    high = where_less(spread(1.4142135623730951, lanes), f, spread(1.0, lanes), spread(0.0, lanes))
    f = fma(product(spread(-0.5, lanes), high), f, f)
    s = quotient(minus(f, spread(1.0, lanes)), plus(f, spread(1.0, lanes)))
    z = product(s, s)
    squared = product(z, z)
    fourth = product(squared, squared)
    first = fma(
        fma(spread(1 / 7, lanes), z, spread(1 / 5, lanes)), squared, fma(spread(1 / 3, lanes), z, spread(1.0, lanes))
    )
    second = fma(spread(1 / 15, lanes), z, spread(1 / 13, lanes))
    second = fma(second, squared, fma(spread(1 / 11, lanes), z, spread(1 / 9, lanes)))
    series = fma(fma(spread(1 / 17, lanes), fourth, second), fourth, first)
    return fma(plus(n, high), spread(0.6931471805599453, lanes), product(plus(s, s), series))
