"""Compiled reading of cells that are written for people: amounts (``$113.40``, ``57%``, ``113,397``) and dates.

The compiled reader of CSV and the rules for single cells (``schema.py``) call the same functions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.decorators import exact as inner
from onsketch.jit.decorators import exact_kernel as kernel

Whole = NDArray[np.int64]

YMD, DMY, MDY = range(3)
"""Orders of a date's parts: year first, day first, month first."""

_BLANK, _TAB, _RETURN, _LINE = 32, 9, 13, 10
_COMMA, _MINUS, _POINT, _SLASH, _COLON, _PERCENT, _DOLLAR = 44, 45, 46, 47, 58, 37, 36
_CURRENCIES = tuple(int.from_bytes(sign.encode(), "big") for sign in "£¥€₹")


def _numbers(words: str) -> Whole:
    """Return words of three letters as numbers."""
    return np.array([int.from_bytes(word.encode(), "big") for word in words.split()])


_MONTHS = _numbers("jan feb mar apr may jun jul aug sep oct nov dec")
_WEEKDAYS = _numbers("mon tue wed thu fri sat sun")


@inner
def _is_blank(c):
    return c in (_BLANK, _TAB, _RETURN, _LINE)


@inner
def _is_digit(c):
    return 48 <= c <= 57


@inner
def _skip(text, at, stop):
    """Return the next byte that is not blank."""
    while at < stop and _is_blank(text[at]):
        at += 1
    return at


# Amounts ----------------------------------------------------------------------------------------------------


@inner
def _currency(text, at, stop):
    """Return the number of bytes of a currency sign at ``at``: $, £, ¥, € or ₹; 0 if there is none."""
    word = np.int64(0)
    for size in range(1, 4):
        if at + size > stop:
            return 0
        word = word << 8 | np.int64(text[at + size - 1])
        if (size == 1 and word == _DOLLAR) or (size > 1 and word in _CURRENCIES):
            return size
    return 0


@inner
def _sign(text, at, stop, out, size):
    """Copy a sign; return the next byte, and the bytes written."""
    if at < stop and text[at] in (43, _MINUS):
        out[size] = text[at]
        return at + 1, size + 1
    return at, size


@inner
def _digits(text, at, stop, mark, out, size):
    """Copy digits; with a ``mark`` between thousands leave it out.

    Returns the next byte, the bytes written, and True unless a mark stands elsewhere than between thousands.
    """
    run, marks, good = 0, 0, True
    while at < stop:
        c = text[at]
        if c == mark:
            good &= run == 3 if marks else 1 <= run <= 3
            run, marks = 0, marks + 1
        elif _is_digit(c):
            out[size] = c
            size, run = size + 1, run + 1
        else:
            break
        at += 1
    return at, size, good and (not marks or run == 3)


@inner
def plain_amount(text, start, stop, comma, out):
    """Write the amount in text[start:stop] to ``out`` as a plain number; return its length, 0 if it is none.

    An amount is a number with a decimal point, or a comma if ``comma``, perhaps with the other mark between thousands,
    a currency sign before or after it, or a per cent sign after it: 57% is 57.
    """
    at, size = _skip(text, start, stop), 0
    while stop > at and _is_blank(text[stop - 1]):
        stop -= 1
    at, size = _sign(text, at, stop, out, size)
    sign = _currency(text, at, stop)
    if sign:
        at = _skip(text, at + sign, stop)
        if size == 0:
            at, size = _sign(text, at, stop, out, size)
    begin, before = at, size
    point, mark = (_COMMA, _POINT) if comma else (_POINT, _COMMA)
    at, size, good = _digits(text, begin, stop, mark, out, size)
    if not good and comma:  # "1.5" has no thousands: its point is a decimal point
        point = _POINT
        at, size, good = _digits(text, begin, stop, -1, out, before)
    digits = size - before
    if good and at < stop and text[at] == point:
        out[size] = _POINT
        before = size + 1
        at, size, good = _digits(text, at + 1, stop, -1, out, before)
        digits += size - before
    if not good or digits == 0:
        return 0
    if at < stop and text[at] | 32 == 101:
        out[size] = 101
        at, size = _sign(text, at + 1, stop, out, size + 1)
        before = size
        at, size, good = _digits(text, at, stop, -1, out, before)
        if size == before:
            return 0
    at = _skip(text, at, stop)
    if at < stop:
        at += 1 if text[at] == _PERCENT else 0 if sign else _currency(text, at, stop)
    return size if at == stop else 0


@kernel
def amount_of(text, comma, out):
    """Write the amount in ``text`` to ``out`` as a plain number; return its length, 0 if it is none."""
    return plain_amount(text, 0, text.size, comma, out)


# Dates ------------------------------------------------------------------------------------------------------


@inner
def _number(text, at, stop):
    """Read digits; return their number, how many there are (at most 9 count), and the next byte."""
    value, begin = np.int64(0), at
    while at < stop and _is_digit(text[at]) and at - begin < 10:
        value = 10 * value + np.int64(text[at] - 48)
        at += 1
    return value, at - begin, at


@inner
def _letters(text, at, stop):
    """Read letters; return the first three in lower case as one number, how many there are, and the next byte."""
    value, begin = np.int64(0), at
    while at < stop and 97 <= (np.int64(text[at]) | 32) <= 122:
        if at - begin < 3:
            value = value << 8 | np.int64(text[at]) | 32
        at += 1
    return value, at - begin, at


@inner
def _place(known, word):
    """Return the place of a word among those known, or −1."""
    for k in range(known.size):
        if known[k] == word:
            return k
    return -1


@inner
def days_of(year, month, day):
    """Return the days from 1970-01-01 to a date of the Gregorian calendar."""
    shifted = year - (month <= 2)
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468


@inner
def month_of(days):
    """Return the month (1 to 12) of a day counted from 1970-01-01."""
    shifted = days + 719468
    era = shifted // 146097
    day = shifted - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    month = (5 * (day - (365 * year + year // 4 - year // 100)) + 2) // 153
    return (month + 2) % 12 + 1


@inner
def _part(text, at, stop):
    """Read a number or the name of a month; return it, its digits (0 for a name), the next byte, and True if good."""
    word, size, after = _letters(text, at, stop)
    if size:
        month = np.int64(_place(_MONTHS, word) + 1)
        return month, 0, after, size >= 3 and month > 0
    value, size, at = _number(text, at, stop)
    return value, size, at, size in (1, 2, 4)


@inner
def _date(text, at, stop, order):
    """Read a date; return its days, the next byte, and True if it is one."""
    word, size, after = _letters(text, at, stop)
    if size >= 3 and _place(_WEEKDAYS, word) >= 0:  # Mon, 5 Jan 2026
        at = _skip(text, after + (after < stop and text[after] == _COMMA), stop)
    # 1 Three parts.
    first, first_size, at, good = _part(text, at, stop)
    second = third = np.int64(0)
    second_size = third_size = 0
    for part in range(1, 3):
        begin = at
        while at < stop and at < begin + 2 and text[at] in (_MINUS, _SLASH, _POINT, _COMMA, _BLANK):
            at += 1
        good &= at > begin
        value, size, at, read = _part(text, at, stop)
        good &= read
        if part == 1:
            second, second_size = value, size
        else:
            third, third_size = value, size
    # 2 What they are.
    if first_size == 4:
        year, month, day, year_size = first, second, third, 4
    elif first_size == 0:
        year, month, day, year_size = third, first, second, third_size
    elif second_size == 0 or order == DMY:
        year, month, day, year_size = third, second, first, third_size
    else:
        year, month, day, year_size = third, first, second, third_size
        good &= order == MDY
    good &= third_size > 0 and (first_size > 0 or second_size > 0) and year_size in (2, 4)
    if year_size == 2:
        year += 2000 if year < 70 else 1900
    # 3 Such a day exists.
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 30 + (month + (month > 7)) % 2 if month != 2 else 28 + leap
    good &= year >= 1 and 1 <= month <= 12 and 1 <= day <= longest
    return days_of(year, month, day), at, good


@inner
def _time(text, at, stop):
    """Read a time of day; return its seconds, the next byte, and True if it is one."""
    hour, size, at = _number(text, at, stop)
    good = 1 <= size <= 2 and at < stop and text[at] == _COLON
    minute, size, at = _number(text, at + 1, stop)
    good &= size == 2
    second = np.int64(0)
    if at < stop and text[at] == _COLON:
        second, size, at = _number(text, at + 1, stop)
        good &= size == 2
        if at + 1 < stop and text[at] in (_POINT, _COMMA) and _is_digit(text[at + 1]):
            at += 1
            while at < stop and _is_digit(text[at]):
                at += 1
    after = _skip(text, at, stop)
    if after + 1 < stop and text[after + 1] | 32 == 109 and text[after] | 32 in (97, 112):  # am, pm
        good &= 1 <= hour <= 12
        hour = hour % 12 + 12 * (text[after] | 32 == 112)
        at = after + 2
    return hour * 3600 + minute * 60 + second, at, good and hour < 24 and minute < 60 and second < 60


@inner
def _zone(text, at, stop):
    """Read the offset of a time zone, if there is one; return its seconds, the next byte, and True if it is good."""
    begin = _skip(text, at, stop)
    if begin == stop:
        return np.int64(0), begin, True
    word, size, after = _letters(text, begin, stop)
    if (size == 1 and text[begin] | 32 == 122) or (size == 3 and word in (0x757463, 0x676D74)):  # z, utc, gmt
        return np.int64(0), _skip(text, after, stop), True
    if text[begin] not in (43, _MINUS):
        return np.int64(0), begin, False
    hour, size, at = _number(text, begin + 1, stop)
    minute = np.int64(0)
    if size == 4:
        hour, minute = hour // 100, hour % 100
    elif size == 2 and at < stop and text[at] == _COLON:
        minute, size, at = _number(text, at + 1, stop)
    offset = hour * 3600 + minute * 60
    good = size in (2, 4) and hour < 24 and minute < 60
    return -offset if text[begin] == _MINUS else offset, _skip(text, at, stop), good


@inner
def second_in(text, start, stop, order):
    """Read the date in text[start:stop]; return the seconds from 1970 in UTC, and True if it is a date.

    Year, month and day are separated by ``-``, ``/``, ``.`` or blanks; a month may have a name, and a time and the
    offset of a zone may follow. Dates that begin with a year of four digits are read whatever the ``order``.
    """
    at = _skip(text, start, stop)
    days, at, good = _date(text, at, stop, order)
    second = days * 86400
    if good and at < stop:
        begin = at
        if text[at] == 84 or text[at] == _COMMA:  # T
            at += 1
        at = _skip(text, at, stop)
        if at < stop:
            good = at > begin
            more, at, timed = _time(text, at, stop)
            offset, at, zoned = _zone(text, at, stop)
            second += more - offset
            good &= timed and zoned and at == stop
        else:
            good = text[begin] != 84
    return second, good


@kernel
def second_of_text(text, order):
    """Return the seconds from 1970 of the date in ``text``, and True if it is a date."""
    return second_in(text, 0, text.size, order)


@inner
def put_date(second, start_day, parts, slots, values, at):
    """Write the features of a date from ``at`` on; return the place after them.

    ``parts`` has the columns of 24 hours, 7 weekdays, 12 months and of the days since ``start_day``.
    """
    days = second // 86400
    slots[at] = parts[(second - 86400 * days) // 3600]
    slots[at + 1] = parts[24 + (days + 3) % 7]
    slots[at + 2] = parts[31 + month_of(days) - 1]
    for k in range(3):
        values[at + k] = 1.0
    if days == start_day:
        return at + 3
    slots[at + 3], values[at + 3] = parts[43], float(days - start_day)
    return at + 4


@kernel
def date_entries(second, start_day, parts, slots, values):
    """Write the features of one date; return how many there are."""
    return put_date(second, start_day, parts, slots, values, 0)
