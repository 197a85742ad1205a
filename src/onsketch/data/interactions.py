"""Products of pairs of features, as ``-q`` of Vowpal Wabbit makes them.

``ab`` multiplies every feature of the namespaces that begin with ``a`` by every one of those with ``b``; ``aa``
multiplies each pair within ``a`` once, squares included; a colon stands for any namespace, so ``::`` makes all pairs
(those of two namespaces once, the lower byte first). The product of columns i and j goes to column
(16777619·i) xor j, of which the hash's bits are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.data.hashing import FNV_PRIME
from onsketch.data.numbers import inlined, kernel

ANY = ord(":")

Pairs = tuple[tuple[int, int], ...]


def as_pairs(quadratic: str | Iterable[str]) -> Pairs:
    """The pairs of namespaces meant. A pair counts once, whichever way round, and not at all beside a wider one.

    >>> as_pairs(("ab", "ba")), as_pairs(("ab", "::"))
    (((97, 98),), ((58, 58),))
    """
    pairs: list[tuple[int, int]] = []
    for word in [quadratic] if isinstance(quadratic, str) else quadratic:
        letters = word.encode() if isinstance(word, str) else b""
        if len(letters) != 2:
            raise OptionError(f'quadratic={word!r}: expected the first letters of two namespaces, as "ab", or "::".')
        first, second = letters
        pairs.append((first, second))
    kept: list[tuple[int, int]] = []
    for k, pair in enumerate(pairs):
        others = kept + pairs[k + 1 :]
        wider = any(_covers(other, pair) and other not in (pair, pair[::-1]) for other in others)
        if not wider and pair not in kept and pair[::-1] not in kept:
            kept.append(pair)
    return tuple(kept)


def _covers(wide: tuple[int, int], pair: tuple[int, int]) -> bool:
    """Whether all products of a pair are among those of another one."""
    return any(all(w in (ANY, p) for w, p in zip(wide, way, strict=True)) for way in (pair, pair[::-1]))


@inlined
def _multiply(first, second, i, j, spaces):
    """Whether the pair of namespaces (first, second) makes the product of the values i and j."""
    a, b = spaces[i], spaces[j]
    if (first != ANY and first != a) or (second != ANY and second != b):
        return False
    return a < b or (a == b and i <= j) or (a > b and not (first == ANY and second == ANY))


@kernel
def _count_products(indptr, spaces, pairs, out_ptr):
    """How many values each row has with its products."""
    for row in range(indptr.size - 1):
        count = indptr[row + 1] - indptr[row]
        for k in range(pairs.shape[0]):
            first, second = pairs[k, 0], pairs[k, 1]
            for i in range(indptr[row], indptr[row + 1]):
                if first == ANY or first == spaces[i]:
                    for j in range(indptr[row], indptr[row + 1]):
                        count += _multiply(first, second, i, j, spaces)
        out_ptr[row + 1] = out_ptr[row] + count


@kernel
def _multiply_rows(indptr, indices, values, spaces, pairs, mask, out_ptr, out_indices, out_values):
    """Copy each row, followed by its products. Returns the first row with a product that is not finite, or −1."""
    for row in range(indptr.size - 1):
        end = out_ptr[row]
        for i in range(indptr[row], indptr[row + 1]):
            out_indices[end] = indices[i] & mask
            out_values[end] = values[i]
            end += 1
        for k in range(pairs.shape[0]):
            first, second = pairs[k, 0], pairs[k, 1]
            for i in range(indptr[row], indptr[row + 1]):
                if first == ANY or first == spaces[i]:
                    half = FNV_PRIME * np.uint64(indices[i] & mask)
                    for j in range(indptr[row], indptr[row + 1]):
                        if _multiply(first, second, i, j, spaces):
                            product = values[i] * values[j]
                            if not abs(product) < np.inf:
                                return row
                            out_indices[end] = np.int64(half ^ np.uint64(indices[j])) & mask
                            out_values[end] = product
                            end += 1
    return -1


def interact(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    spaces: NDArray[np.uint8],
    pairs: Pairs,
    mask: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The rows with the products of these pairs of namespaces after their own values.

    Cost: for each row and pair, (values of the first namespace)·(values of the row).
    """
    table: Any = np.array(pairs, dtype=np.uint8)
    out_ptr = np.zeros_like(indptr)
    _count_products(indptr, spaces, table, out_ptr)
    out_indices = np.empty(out_ptr[-1], dtype=np.int64)
    out_values = np.empty(out_ptr[-1])
    row = _multiply_rows(indptr, indices, values, spaces, table, mask, out_ptr, out_indices, out_values)
    if row >= 0:
        raise InputError(f"quadratic: a product in row {row} of this block is beyond float64; rescale the features.")
    return out_ptr, out_indices, out_values
