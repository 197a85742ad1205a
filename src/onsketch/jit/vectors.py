"""Vectors of numbers in registers, for loops over a dozen columns.

Numba's own loops over so few numbers spend most of their time on deciding how to vectorise, and keep their sums in
memory. A ``Vector`` is a value of 4 to 16 numbers; the machine keeps it in as many registers as it takes. Arrays are
read at a *flat* position of their memory, which must be contiguous: no views are made. Rows are padded to whole vectors
with zeros, and what meets the padding must be finite. The instructions themselves are in ``instructions.py``.
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
    """Whether ``width`` numbers from a flat position are all less than a bound in size; NaN is not. 4 | width."""
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
