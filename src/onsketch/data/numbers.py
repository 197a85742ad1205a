"""Correctly rounded conversion of decimal text to float64, inside compiled loops.

A number is converted in three steps; each handles the cases that the previous one cannot decide:

1. A significand up to 2⁵³ with a power of ten up to 10²² is one exact multiplication or division
   (William Clinger: "How to read floating point numbers accurately", PLDI 1990).
2. A significand of up to 19 digits is multiplied by a 128-bit power of five; the leading bits of the product are
   those of the answer (Daniel Lemire: "Number parsing at a gigabyte per second", Software: Practice and Experience
   51, 2021; that no further check is needed: Noble Mushtak, Daniel Lemire: "Fast number parsing without
   fallback", 2023).
3. Longer ones lie between two significands of 19 digits. Only where those two round differently, the digits are
   compared with the midpoint of the two candidates in whole numbers of any length.

Texts end with a newline, so that no loop needs to test for the end, and then with ``PADDING``, since digits are read
eight at a time.
"""

from __future__ import annotations

import numpy as np

from onsketch.jit.decorators import INNER, exact, exact_inlined, exact_kernel, inner_function

kernel, inner, inlined = exact_kernel, exact, exact_inlined
"""Decorators with strict rounding, since results must be the nearest numbers. Only ``_rounds_up`` allocates: counting
references to arrays took three quarters of the time of a table's field.
"""

_allocating = inner_function(**{**INNER, "fastmath": False, "_nrt": True})

PADDING = b"\n" * 8
"""Padding after the last newline of a text."""

GOOD, MALFORMED, NOT_FINITE, TOO_LARGE = range(4)
"""Results of reading a number."""

_LOWEST, _HIGHEST = -342, 308
"""Powers of ten outside of which a significand of 19 digits is zero or infinite."""

_DIGITS = 800
"""Significant digits that can matter: a midpoint of two float64 has at most 767 of them."""

_LIMBS = 192
"""32-bit limbs for whole numbers of up to 6,144 bits: 800 digits, times 5³⁴², shifted by 2¹⁰⁷⁵."""


def _powers_of_five() -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Return the leading 128 bits of 5^q as (high, low): truncated for q ≥ 0, the reciprocals rounded up."""
    table = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for q in range(_LOWEST, _HIGHEST + 1):
        power = 5 ** abs(q)
        size = power.bit_length()
        if q >= 0:
            bits = power >> (size - 128) if size > 128 else power << (128 - size)
        else:
            bits = (1 << (size + 127)) // power + 1
            bits >>= bits.bit_length() - 128
        table[q - _LOWEST] = bits >> 64, bits & (2**64 - 1)
    return table


_FIVES = _powers_of_five()
_TENS = 10.0 ** np.arange(23)
_NAN, _INF, _INFINITY = (np.frombuffer(word, dtype=np.uint8).astype(np.int64) for word in (b"nan", b"inf", b"infinity"))
_ZERO, _ONE, _TWO, _TEN, _32 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(10), np.uint64(32)
_EIGHT_ZEROS = np.uint64(10**8)
_HIGH_HALVES, _SIXES = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x0606060606060606)
_THREES, _ZEROS = np.uint64(0x3333333333333333), np.uint64(0x3030303030303030)
_OVER_NINE, _HIGH_BITS = np.uint64(0x7676767676767676), np.uint64(0x8080808080808080)
_LOW_BITS = np.uint64(0x0101010101010101)
_COLON_DIGIT, _BUT_THE_DIGIT = np.uint64(0x303A), np.uint64(0xF0FF)
_EVERY_FOURTH = np.uint64(0x000000FF000000FF)
_LOW_HALF = np.uint64(2**32 - 1)
_NINE_BITS = np.uint64(0x1FF)
_HIDDEN_BIT = np.uint64(2**52)


@inlined
def _product(a, b):
    """Return the 128 bits of a·b as (high, low)."""
    a1, a0 = a >> _32, a & _LOW_HALF
    b1, b0 = b >> _32, b & _LOW_HALF
    low, middle = a0 * b0, a1 * b0
    middle += low >> _32
    other = a0 * b1 + (middle & _LOW_HALF)
    return a1 * b1 + (middle >> _32) + (other >> _32), ((other & _LOW_HALF) << _32) | (low & _LOW_HALF)


@inner
def _times_power(w, q):
    """Return the 128 leading bits of w·5^q; the lower half is needed only sometimes."""
    high, low = _product(w, _FIVES[q - _LOWEST, 0])
    if high & _NINE_BITS == _NINE_BITS:
        more, _ = _product(w, _FIVES[q - _LOWEST, 1])
        space = np.uint64(0xFFFFFFFFFFFFFFFF) - low
        low = low + more if more <= space else more - space - _ONE
        if more > space:
            high += _ONE
    return high, low


@inner
def _nearest(w, q):
    """Return the bits of the float64 nearest to w·10^q, for a whole w > 0 of 64 bits; infinity beyond the range."""
    infinity = np.uint64(0x7FF) << np.uint64(52)
    if q < _LOWEST:
        return _ZERO
    if q > _HIGHEST:
        return infinity
    # The leading zeros of w, by the exponent of the nearest float64, which may be one too large.
    shift = 1086 - np.int64(np.float64(w).view(np.uint64) >> np.uint64(52))
    shift = max(shift, np.int64(0))
    if (w << np.uint64(shift)) >> np.uint64(63) == _ZERO:
        shift += 1
    high, low = _times_power(w << np.uint64(shift), q)
    upper = high >> np.uint64(63)
    cut = upper + np.uint64(9)
    m = high >> cut
    # The binary exponent: ⌊q·log₂10⌋ from a fraction that is right for every q in the table.
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - shift + 1023
    if exponent <= 0:  # subnormal
        if 1 - exponent >= 64:
            return _ZERO
        m >>= np.uint64(1 - exponent)
        m += m & _ONE
        return m >> _ONE  # a carry into the hidden bit makes the exponent 1, as it should
    if low <= _ONE and -4 <= q <= 23 and m & np.uint64(3) == _ONE and m << cut == high:
        m -= _ONE  # halfway between two numbers: to the even one
    m = (m + (m & _ONE)) >> _ONE
    if m == _TWO * _HIDDEN_BIT:
        m = _HIDDEN_BIT
        exponent += 1
    if exponent >= 0x7FF:
        return infinity
    return (m - _HIDDEN_BIT) | (np.uint64(exponent) << np.uint64(52))


@inner
def _grow_number(limbs, size, factor, addend):
    """Compute ``limbs ← limbs·factor + addend``, for a factor below 2³²; return the new number of limbs."""
    carry = addend
    for i in range(size):
        carry += limbs[i] * factor
        limbs[i] = carry & _LOW_HALF
        carry >>= _32
    if carry != _ZERO:
        limbs[size] = carry
        size += 1
    return size


@inner
def _scale(limbs, size, fives, twos):
    """Compute ``limbs ← limbs·5^fives·2^twos``; return the new number of limbs."""
    for _ in range(fives):
        size = _grow_number(limbs, size, np.uint64(5), _ZERO)
    for _ in range(twos // 31):
        size = _grow_number(limbs, size, np.uint64(2**31), _ZERO)
    return _grow_number(limbs, size, _ONE << np.uint64(twos % 31), _ZERO)


@_allocating
def _rounds_up(text, start, q, below):
    """Return True if the digits from ``start`` on, times 10^q, are nearer to the float64 after ``below`` (bits)."""
    digits = np.zeros(_LIMBS, dtype=np.uint64)
    size = count = 0
    at = start
    while True:
        c = np.int64(text[at])
        at += 1
        if c == 46:
            continue
        if c < 48 or c > 57:
            break
        if count < _DIGITS:
            size = _grow_number(digits, size, _TEN, np.uint64(c - 48))
            count += size > 0
        else:
            q += 1
            if c != 48:
                digits[0] |= _ONE  # never a midpoint: no midpoint has so many digits
    middle = np.zeros(_LIMBS, dtype=np.uint64)
    biased = np.int64(below >> np.uint64(52))
    m = below & (_HIDDEN_BIT - _ONE)
    if biased > 0:
        m |= _HIDDEN_BIT
    m = _TWO * m + _ONE
    exponent = (biased if biased > 0 else 1) - 1076  # the midpoint is m·2^exponent
    middle[0], middle[1] = m & _LOW_HALF, m >> _32
    size = _scale(digits, size, max(q, 0), max(q, 0) + max(-exponent, 0))
    other = _scale(middle, 2, max(-q, 0), max(-q, 0) + max(exponent, 0))
    for i in range(max(size, other) - 1, -1, -1):
        if digits[i] != middle[i]:
            return digits[i] > middle[i]
    return below & _ONE == _ONE  # a tie: to the even one


@inner
def _long_number(text, start, power):
    """Return the bits of the float64 nearest to the digits (more than 19) from ``start`` on, times 10^power."""
    w = _ZERO
    kept = behind = 0  # digits after the point: the number is (all digits)·10^(power - behind)
    dropped = np.int64(0)
    q = power
    fraction = False
    at = start
    while True:
        c = np.int64(text[at])
        at += 1
        if c == 46:
            fraction = True
            continue
        if c < 48 or c > 57:
            break
        behind += fraction
        if kept < 19:
            w = w * _TEN + np.uint64(c - 48)
            kept += w != _ZERO
            q -= fraction
        else:
            dropped |= c - 48
            q += not fraction
    if w == _ZERO:
        return _ZERO
    below = _nearest(w, q)
    if dropped == 0 or below == _nearest(w + _ONE, q):
        return below
    return below + _ONE if _rounds_up(text, start, power - behind, below) else below


@inlined
def _eight_bytes(text, at):
    """Return eight bytes as one word, the first lowest; unsigned positions avoid the test for negative ones."""
    place = np.uint64(at)
    word = _ZERO
    for k in range(8):
        word |= np.uint64(text[place + np.uint64(k)]) << np.uint64(8 * k)
    return word


@inlined
def _are_digits(word):
    """Return True if all eight bytes are digits: high halves are 3, also after 6 is added."""
    return (word & _HIGH_HALVES) | (((word + _SIXES) & _HIGH_HALVES) >> np.uint64(4)) == _THREES


@inlined
def _eight_digits(word):
    """Return the number of eight digits, by combining pairs, then fours, then all (Lemire 2021)."""
    return _joined(word - _ZEROS)


@inlined
def _joined(word):
    """Return the number of eight bytes, each 0 to 9, the first lowest, read as digits."""
    word = word * _TEN + (word >> np.uint64(8))
    low, high = word & _EVERY_FOURTH, (word >> np.uint64(16)) & _EVERY_FOURTH
    return (low * np.uint64(0x000F424000000064) + high * np.uint64(0x0000271000000001)) >> _32


@inlined
def short_pair(text, at):
    """Parse ``12:3``, followed by a space or the end of the line, without a branch.

    Returns the number before the colon (1 to 5 digits), the digit after it, the byte that follows (0 for any other
    text), and the number of digits before the colon.
    """
    word = _eight_bytes(text, at)
    digits = word ^ _ZEROS
    others = (digits | (digits + _OVER_NINE)) & _HIGH_BITS  # right up to the first byte that is no digit
    first = others & (~others + _ONE)
    shift = (((first - _ONE) & _LOW_BITS) * _LOW_BITS >> np.uint64(56)) * np.uint64(8) - np.uint64(8)
    rest = word >> shift
    digit = (rest >> np.uint64(8)) & np.uint64(15)
    after = (rest >> np.uint64(16)) & np.uint64(255)
    fits = (np.uint64(8) <= shift <= np.uint64(40)) & (rest & _BUT_THE_DIGIT == _COLON_DIGIT) & (digit < _TEN)
    fits &= (after == np.uint64(32)) | (after == np.uint64(10))
    number = _joined(digits << (np.uint64(64) - max(shift, np.uint64(8))))
    return number, digit, after if fits else _ZERO, shift >> np.uint64(3)


@inner
def _is_word(text, at, word):
    """Return True if this word, in lower case, is at ``at``, in any case, and ends there."""
    for k in range(word.size):
        if np.int64(text[at + k]) | 32 != word[k]:  # true of a newline, which no loop may pass
            return False
    c = np.int64(text[at + word.size])
    return not (48 <= c <= 57 or 97 <= (c | 32) <= 122 or c == 95)


@inner
def _is_not_finite(text, at):
    return _is_word(text, at, _NAN) or _is_word(text, at, _INF) or _is_word(text, at, _INFINITY)


@inlined
def read_number(text, at):  # noqa: C901 (one automaton over the bytes of a number: in parts it would be harder to follow)
    """Parse the number at ``at``; return its value, its end (or the invalid byte), and GOOD or an error code.

    Signs, ``5.``, ``.5`` and exponents are accepted; nan, infinity and values beyond float64 are not.
    The caller checks the byte that follows.
    """
    c = np.int64(text[at])
    negative = c == 45
    if negative or c == 43:
        at += 1
        c = np.int64(text[at])
    start = at
    w = _ZERO
    while 48 <= c <= 57:
        w = w * _TEN + np.uint64(c - 48)
        at += 1
        c = np.int64(text[at])
    digits = at - start
    q = np.int64(0)
    if c == 46:
        at += 1
        point = at
        eight = _eight_bytes(text, at)
        while _are_digits(eight):
            w = w * _EIGHT_ZEROS + _eight_digits(eight)
            at += 8
            eight = _eight_bytes(text, at)
        c = np.int64(text[at])
        while 48 <= c <= 57:
            w = w * _TEN + np.uint64(c - 48)
            at += 1
            c = np.int64(text[at])
        q = point - at
        digits -= q
    if digits == 0:
        return 0.0, at, NOT_FINITE if at == start and _is_not_finite(text, at) else MALFORMED
    power = np.int64(0)
    if c == 101 or c == 69:
        at += 1
        c = np.int64(text[at])
        falling = c == 45
        if falling or c == 43:
            at += 1
            c = np.int64(text[at])
        if c < 48 or c > 57:
            return 0.0, at, MALFORMED
        while 48 <= c <= 57:
            if power < 1 << 40:
                power = 10 * power + (c - 48)
            at += 1
            c = np.int64(text[at])
        if falling:
            power = -power
    value = 0.0
    if digits <= 19:
        q += power
        if w < _TWO * _HIDDEN_BIT and -23 < q < 23:
            value = float(w) / _TENS[-q] if q < 0 else float(w) * _TENS[q]
        elif w != _ZERO:
            value = np.uint64(_nearest(w, q)).view(np.float64)
    else:
        value = np.uint64(_long_number(text, start, power)).view(np.float64)
    return -value if negative else value, at, TOO_LARGE if value == np.inf else GOOD
