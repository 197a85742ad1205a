"""Products of two or three features, as with ``-q`` and ``--cubic`` of Vowpal Wabbit.

``ab`` multiplies every feature of the namespaces that begin with ``a`` by every one of those with ``b``; ``aa``
multiplies each pair within ``a`` once, squares included; a colon stands for any namespace, so ``::`` makes all pairs
(those of two namespaces once, the lower byte first). Three letters make products of three in the same way. The product
of columns i and j has column (16777619·i) xor j, that of three to (16777619·((16777619·i) xor j)) xor k, of which the
lowest bits are kept. In tables a column is a namespace: ``-q ab`` uses the first letters of the columns' names, and
``interact=[("age", "job")]`` names the columns themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError, some
from onsketch.jit.decorators import exact_inlined as inlined
from onsketch.jit.decorators import exact_kernel as kernel
from onsketch.rows.hashing import FNV_PRIME
from onsketch.rows.names import Names

ANY = ord(":")
NONE = -1
"""In the third place of a product: it has two factors."""
_NOWHERE = 0
"""Namespace of features without products."""

MOST_PRODUCTS = 1 << 20
"""Default limit on the products of a row."""

_ROWS_AT_MOST = 64
"""Largest products of a block over those of a row; and largest number of pairs tried for one product."""

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Interactions:
    """Features to be multiplied."""

    pairs: Pairs = ()
    triples: tuple[tuple[int, int, int], ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()
    """Columns of a table, by name."""
    most: int = MOST_PRODUCTS
    """Products that a row may make."""

    def __bool__(self) -> bool:
        return bool(self.pairs or self.triples or self.columns)

    @property
    def letters(self) -> set[int]:
        """Return the first letters of the namespaces used."""
        return {letter for product in (*self.pairs, *self.triples) for letter in product} - {ANY}

    def check(self, names: Sequence[str]) -> None:
        """Refuse products of a column that is not among these."""
        unknown = [name for name in self.named() if name not in names]
        if unknown:
            raise InputError(
                f"interact={unknown[0]!r}: there is no such column. The columns are: {some(names)}.",
                interact=unknown[0],
            )

    def origin(self, name: str) -> int:
        """Return the namespace of a column: a number if ``interact`` names it, else the first letter of its name."""
        if self.columns:
            named = self.named()
            return 1 + named.index(name) if name in named else _NOWHERE
        return (name.encode() or b" ")[0] if self.letters else ord(" ")

    def table(self) -> NDArray[np.int64]:
        """Return the namespaces of each product, as compiled loops read them: pairs have NONE in the third place."""
        places = {name: 1 + k for k, name in enumerate(self.named())}
        named = [sorted(places[name] for name in group) for group in self.columns]
        products = [*self.pairs, *(group for group in named if len(group) == 2), *self.triples]
        products += [group for group in named if len(group) == 3]
        padded = [[*product, NONE][:3] for product in products]
        return np.array(padded, dtype=np.int64).reshape(-1, 3)

    def named(self) -> list[str]:
        """Return the columns of products that are asked for by name."""
        return list(dict.fromkeys(name for group in self.columns for name in group))


def as_interactions(
    quadratic: str | Iterable[str] = (),
    cubic: str | Iterable[str] = (),
    interact: Iterable[Any] = (),
    most: int = MOST_PRODUCTS,
) -> Interactions:
    """The products meant by these options.

    >>> as_interactions("ab", cubic="bca").triples
    ((97, 98, 99),)
    """
    triples = []
    for word in [cubic] if isinstance(cubic, str) else cubic:
        letters = word.encode() if isinstance(word, str) else b""
        if len(letters) != 3:
            raise OptionError(
                f'cubic={word!r}: expected the first letters of three namespaces, as "abc", or ":::".', cubic=word
            )
        first, second, third = sorted(letters, key=lambda letter: (letter == ANY, letter))
        triples.append((first, second, third))
    groups = []
    for group in [interact] if isinstance(interact, str) else interact:
        names = tuple(part.strip() for part in group.split(",")) if isinstance(group, str) else tuple(group)
        if len(names) not in (2, 3):
            raise OptionError(f"interact={group!r}: expected two or three columns, as 'age,job'.", interact=group)
        groups.append(names)
    pairs = as_pairs(quadratic)
    found = Interactions(pairs, tuple(dict.fromkeys(triples)), tuple(dict.fromkeys(groups)), most)
    if groups and (pairs or triples):
        raise OptionError("interact names columns and quadratic and cubic their first letters; give one or the other.")
    if len(found.named()) > 255:
        raise OptionError("interact: at most 255 different columns.")
    return found


def as_pairs(quadratic: str | Iterable[str]) -> Pairs:
    """Return the distinct pairs of namespaces. The order within a pair is ignored, and a wider pair replaces it.

    >>> as_pairs(("ab", "ba")), as_pairs(("ab", "::"))
    (((97, 98),), ((58, 58),))
    """
    pairs: list[tuple[int, int]] = []
    for word in [quadratic] if isinstance(quadratic, str) else quadratic:
        letters = word.encode() if isinstance(word, str) else b""
        if len(letters) != 2:
            raise OptionError(
                f'quadratic={word!r}: expected the first letters of two namespaces, as "ab", or "::".', quadratic=word
            )
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
    """Return True if all products of a pair are among those of a wider pair."""
    return any(all(w in (ANY, p) for w, p in zip(wide, way, strict=True)) for way in (pair, pair[::-1]))


@inlined
def _multiply(first, second, i, j, spaces):
    """Return True if the pair of namespaces (first, second) makes the product of the values i and j."""
    a, b = spaces[i], spaces[j]
    if (first != ANY and first != a) or (second != ANY and second != b):
        return False
    return a < b or (a == b and i <= j) or (a > b and not (first == ANY and second == ANY))


@inlined
def _put(out, end, column, value, i, j, m):
    """Append a value and, if wanted, the features of which it is the product; return the new end.

    The end is −1 if the value is not finite. Without arrays to write to, values are only counted.
    """
    out_indices, out_values, made = out
    if out_indices.size == 0:
        return end + 1
    if not abs(value) < np.inf:
        return -1
    out_indices[end] = column
    out_values[end] = value
    if made.shape[0] > 0:
        made[end, 0], made[end, 1], made[end, 2] = i, j, m
    return end + 1


@inlined
def _products(row, low, high, product, mask, out, end, tried, limit):
    """Append a row's products of two or three namespaces; return the new end, as ``_put``, and the number of trials.

    Stops beyond ``limit`` trials. Cost: O((high − low)²) for two, O((high − low)³) for three.
    """
    indices, values, spaces = row
    first, second, third = product
    for i in range(low, high):
        if first != ANY and first != spaces[i]:
            continue
        half = FNV_PRIME * np.uint64(indices[i] & mask)
        for j in range(low, high):
            if end < 0 or tried > limit:
                return end, tried
            if not _multiply(first, second, i, j, spaces):
                continue
            column, value = half ^ np.uint64(indices[j]), values[i] * values[j]
            if third == NONE:
                end = _put(out, end, np.int64(column) & mask, value, i, j, -1)
                continue
            whole = FNV_PRIME * column
            for m in range(low, high):
                if end >= 0 and _multiply(second, third, j, m, spaces):
                    three = np.int64(whole ^ np.uint64(indices[m])) & mask
                    end = _put(out, end, three, value * values[m], i, j, m)
            tried += high - low
        tried += high - low
    return end, tried


@kernel
def _multiply_rows(indptr, indices, values, spaces, products, most, mask, out_ptr, out_indices, out_values, made):
    """Copy each row, followed by its products, or only count them if there is nowhere to write.

    ``made`` takes the places of what was multiplied, where it is not empty. Returns the first row with more than
    ``most`` products, with too many trials, or with a product that is not finite; or −1.
    """
    source, out, limit = (indices, values, spaces), (out_indices, out_values, made), _ROWS_AT_MOST * most
    for row in range(indptr.size - 1):
        low, high = indptr[row], indptr[row + 1]
        end, tried = out_ptr[row], 0
        for i in range(low, high):
            end = _put(out, end, indices[i] & mask, values[i], i, -1, -1)
        for k in range(products.shape[0]):
            if end >= 0 and tried <= limit:
                product = products[k, 0], products[k, 1], products[k, 2]
                end, tried = _products(source, low, high, product, mask, out, end, tried, limit)
        if end < 0 or tried > limit or end - out_ptr[row] - (high - low) > most:
            return row
        out_ptr[row + 1] = end
    return -1


def interact(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    values: NDArray[np.float64],
    spaces: NDArray[np.uint8],
    wanted: Interactions | Pairs,
    mask: int,
    names: Names | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows with the products of these namespaces appended; new columns get names if wanted.

    Cost: for each row and pair, (values of the first namespace)·(values of the row); for three, twice as much.
    """
    wanted = wanted if isinstance(wanted, Interactions) else Interactions(wanted)
    source = np.ascontiguousarray(indptr), np.ascontiguousarray(indices), np.ascontiguousarray(values), spaces
    how = wanted.table(), wanted.most, mask
    out_ptr, nothing = np.zeros_like(indptr), np.empty(0, dtype=np.int64)
    row = _multiply_rows(*source, *how, out_ptr, nothing, np.empty(0), np.empty((0, 3), dtype=np.int64))
    if row >= 0:
        raise InputError(
            f"row {row} of this block has {indptr[row + 1] - indptr[row]:,} values, and makes more products than "
            f"max_products={wanted.most!r} allows.",
            max_products=wanted.most,
        )
    made_here = out_ptr[-1] - (indptr[-1] - indptr[0])
    if made_here > _ROWS_AT_MOST * wanted.most:
        raise InputError(
            f"the {indptr.size - 1:,} rows of a block make {made_here:,} products, more than {_ROWS_AT_MOST} times "
            f"what max_products={wanted.most!r} allows a row; with a smaller block_rows there are fewer at a time.",
            max_products=wanted.most,
        )
    out_indices = np.empty(out_ptr[-1], dtype=np.int64)
    out_values = np.empty(out_ptr[-1])
    made = np.empty((0 if names is None else out_ptr[-1], 3), dtype=np.int64)
    row = _multiply_rows(*source, *how, out_ptr, out_indices, out_values, made)
    if row >= 0:
        raise InputError(f"quadratic: a product in row {row} of this block is beyond float64; rescale the features.")
    if names is not None:
        for at in names.new(out_indices, mask + 1):
            parts = [names.of(int(indices[place])) for place in made[at].tolist() if place >= 0]
            if len(parts) > 1:
                names.add(int(out_indices[at]), "*".join(parts))
    return out_ptr, out_indices, out_values
