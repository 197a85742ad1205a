"""Hashing of names to columns as in Vowpal Wabbit, so that both use the same number for a feature.

A namespace hashes to ``h = H(namespace, 0)`` (0 for the unnamed one) and a feature to ``H(name, h)``, of which the
lowest ``bits`` bits are the column. H is MurmurHash3 of 32 bits (Austin Appleby, public domain, 2011), with one
exception: a name of digits only represents its number, and hashes to that number plus the seed. So ``|  5:2`` is
column 5 as in a LIBSVM file. A value that is a word is hashed in turn: ``colour:red`` becomes
``H("red", H("colour", h))``, with value 1.
"""

from __future__ import annotations

import numpy as np

from onsketch.core.errors import OptionError
from onsketch.jit.decorators import exact as inner
from onsketch.jit.decorators import exact_inlined as inlined
from onsketch.jit.decorators import exact_kernel as kernel

DEFAULT_BITS = 18
"""Default bits of a hashed column, as in Vowpal Wabbit: 262,144 columns."""

FNV_PRIME = np.uint64(16777619)
"""Multiplies the first column of a pair: (FNV_PRIME·i) xor j is the column of an interaction, as in Vowpal Wabbit."""

_32 = np.uint64(2**32 - 1)
_C1, _C2, _C3 = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xE6546B64)
_F1, _F2 = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_8, _13, _15, _16, _17, _19 = (np.uint64(n) for n in (8, 13, 15, 16, 17, 19))
_TEN, _FIVE, _48 = np.uint64(10), np.uint64(5), np.uint64(48)


@inlined
def _scrambled(k):
    """A word of the key, spread over 32 bits."""
    k = (k * _C1) & _32
    return ((((k << _15) & _32) | (k >> _17)) * _C2) & _32


@inner
def murmur(text, start, stop, seed):
    """MurmurHash3_x86_32 of text[start:stop]; 64-bit arithmetic in which nothing overflows."""
    h = seed & _32
    whole = start + ((stop - start) & ~3)
    for at in range(start, whole, 4):
        place = np.uint64(at)  # unsigned places spare the test for negative ones
        k = np.uint64(text[place])
        k |= np.uint64(text[place + np.uint64(1)]) << _8
        k |= np.uint64(text[place + np.uint64(2)]) << _16
        k |= np.uint64(text[place + np.uint64(3)]) << np.uint64(24)
        h ^= _scrambled(k)
        h = ((((h << _13) & _32) | (h >> _19)) * _FIVE + _C3) & _32
    k = np.uint64(0)
    for at in range(stop - 1, whole - 1, -1):
        k = (k << _8) | np.uint64(text[at])
    h ^= _scrambled(k)
    h ^= np.uint64(stop - start)
    h = ((h ^ (h >> _16)) * _F1) & _32
    h = ((h ^ (h >> _13)) * _F2) & _32
    return h ^ (h >> _16)


@inlined
def name_hash(text, start, stop, seed):
    """H(text[start:stop], seed) in 32 bits."""
    number = np.uint64(0)
    for at in range(start, stop):
        c = np.uint64(text[at])
        if c < _48 or c > np.uint64(57):
            return murmur(text, start, stop, seed)
        number = (number * _TEN + (c - _48)) & _32
    return (number + seed) & _32


@kernel
def _hash_one(text, seed):
    return name_hash(text, 0, text.size, seed)


def hash_name(name: str, namespace: str = "", bits: int = DEFAULT_BITS, value: str | None = None) -> int:
    """The column of a feature: the weight of ``price`` is ``weights[hash_name("price")]``.

    >>> hash_name("x", "a"), hash_name("17"), hash_name("foo", "a", value="bar")
    (55432, 17, 178348)
    """
    words = [namespace, name] if namespace else [name]
    if value is not None:
        words.append(value)
    seed = 0
    for word in words:
        seed = hash_word(word.encode(), seed)
    return seed & column_mask(bits)


def hash_word(word: bytes, seed: int) -> int:
    """H(word, seed) in 32 bits."""
    return int(_hash_one(np.array(bytearray(word), dtype=np.uint8), np.uint64(seed)))


def column_mask(bits: int) -> int:
    """2^bits − 1, for 1 to 31 bits."""
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 31:
        raise OptionError(
            f"bits={bits!r}: a hashed column has 1 to 31 bits (Vowpal Wabbit's default is {DEFAULT_BITS}).", bits=bits
        )
    return (1 << bits) - 1
