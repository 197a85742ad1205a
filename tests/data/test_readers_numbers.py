"""Numbers read from text are those that Python reads, bit for bit."""

from __future__ import annotations

import math
import struct
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onsketch.data.numbers import GOOD, MALFORMED, NOT_FINITE, PADDING, TOO_LARGE, kernel, read_number


@kernel
def _read(text):
    return read_number(text, 0)


def read(text: str) -> tuple[float, int, int]:
    return _read(np.frombuffer(text.encode() + b"\n" + PADDING, dtype=np.uint8))


def bits(value: float) -> bytes:
    return struct.pack("d", value)


def check(text: str) -> None:
    value, end, code = read(text)
    exact = float(text)
    if math.isinf(exact):
        assert code == TOO_LARGE
    else:
        assert (code, end) == (GOOD, len(text))
        assert bits(value) == bits(exact), text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes(value):
    check(repr(value))


@given(st.from_regex(r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?", fullmatch=True))
@example("0" * 50 + "." + "0" * 400 + "1e400")
@example("1" * 400 + "e-400")
@example("1e99999999999999999999")
@example("0e99999999999999999999")
@example("2.2250738585072011e-308")
@example("9007199254740993")
@example("-0.0")
def test_all_notations_of_a_number(text):
    check(text)


@given(
    st.integers(0, 0x7FEFFFFFFFFFFFFE),
    st.sampled_from(["", "1", "0" * 30 + "1", "0" * 900 + "1"]),
    st.booleans(),
)
def test_midpoints_of_two_numbers_round_to_even_and_a_trace_more_rounds_up(pattern, trace, below):
    low, high = (struct.unpack("d", struct.pack("Q", pattern + k))[0] for k in (0, 1))
    with localcontext() as context:
        context.prec = 1200
        digits, _, power = f"{(Decimal(low) + Decimal(high)) / 2:E}".partition("E")
    if "." not in digits:
        digits += ".0"
    if below:
        last = max(k for k, c in enumerate(digits) if c not in "0.")
        digits = digits[:last] + str(int(digits[last]) - 1) + digits[last + 1 :].replace("0", "9") + "9" * 25
        trace = ""
    check(f"{digits}{trace}E{power}")


@pytest.mark.parametrize("text", ["", ".", "+", "-", "e5", "1e", "1e+", "+-1", "x", "--1", ".e1", "na", "infix"])
def test_what_is_no_number(text):
    assert read(text)[2] == MALFORMED


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "+Infinity", "INF"])
def test_what_is_not_finite(text):
    assert read(text)[2] == NOT_FINITE


@pytest.mark.parametrize("text", ["1e309", "-1e400", "1" * 310, "1.7976931348623159e308"])
def test_what_float64_cannot_hold(text):
    assert read(text)[2] == TOO_LARGE


def test_many_random_numbers():
    rng = np.random.default_rng(0)
    for value in rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64).tolist():
        if math.isfinite(value):
            check(f"{value:.{int(rng.integers(0, 25))}e}")
