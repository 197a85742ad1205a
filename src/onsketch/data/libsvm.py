"""LIBSVM (SVMlight) text: ``label [qid:group] index:value index:value ... # comment``."""

from __future__ import annotations

import numpy as np

from onsketch.data.cursor import (
    AT,
    BAD_QID,
    COLON,
    COMMA,
    COUNT,
    HASH,
    LONG_INDEX,
    MANY_LABELS,
    NEWLINE,
    NO_COLON,
    NO_INDEX,
    NO_LABEL,
    ROWS,
    STRAY,
    WIDE_INDEX,
    ZERO_INDEX,
    begin_line,
    end_line,
    is_blank,
    next_line,
    skip_blanks,
)
from onsketch.data.numbers import inlined, kernel, read_number, short_pair

NO_GROUP = np.int64(-1)


@inlined
def _ends_field(c):
    return is_blank(c) or c in (NEWLINE, HASH)


@inlined
def _group(text, at):
    """Parse the whole number after ``qid:`` at ``at``; return it, its end, and 0 or an error code."""
    for i in range(4):
        if text[at + i] != (113, 105, 100, COLON)[i]:  # "qid:"; a newline is none of these, so none is passed
            return NO_GROUP, at, NO_INDEX
    at += 4
    start = at
    group = np.int64(0)
    while 48 <= text[at] <= 57 and at - start < 19:
        group = 10 * group + (np.int64(text[at]) - 48)
        at += 1
    fits = 0 < at - start < 19 and _ends_field(np.int64(text[at]))
    return group, at, 0 if fits else BAD_QID


@inlined
def _short_pairs(text, at, count, base, width, mask, indices, values):
    """Parse pairs of a short index and one digit; return their end, the values so far, and True at a line end."""
    number, digit, after, size = short_pair(text, at)
    while after and np.uint64(np.int64(number) - base) < np.uint64(width):
        indices[count] = (np.int64(number) - base) & mask
        values[count] = float(digit)
        count += 1
        at += np.int64(size) + 2
        if after == NEWLINE:
            return at, count, True
        at += 1
        number, digit, after, size = short_pair(text, at)
    return at, count, False


@inlined
def _pair(text, start, base, width):
    """Parse ``index:value``; return the column, the value, the end or the bad byte, and 0 or an error code.

    NO_INDEX if there is no digit first: the text may then be something else.
    """
    at = start
    index = np.int64(0)
    while 48 <= text[at] <= 57:
        index = 10 * index + (np.int64(text[at]) - 48)
        at += 1
    if text[at] != COLON or at == start:
        return index, 0.0, at, NO_COLON if at > start else NO_INDEX
    if at - start > 18:
        return index, 0.0, start, LONG_INDEX
    index -= base
    if index < 0 or index >= width:
        return index, 0.0, start, ZERO_INDEX if index < 0 else WIDE_INDEX
    value, end, code = read_number(text, at + 1)
    if code:
        return index, value, at + 1, code
    return index, value, end, 0 if _ends_field(np.int64(text[end])) else STRAY


@inlined
def _label(text, start):
    """Parse the label of a line; return it, its end or the bad byte, and 0 or an error code."""
    label, at, code = read_number(text, start)
    if code:
        return label, start, code
    c = np.int64(text[at])
    if _ends_field(c):
        return label, at, 0
    if c == COLON:
        return label, start, NO_LABEL
    return label, at, MANY_LABELS if c == COMMA else STRAY


@inlined
def _row(text, at, count, base, width, mask, indices, values):
    """Parse one line from its label on; return its end, the values so far, label, group, and 0 or an error code."""
    group = NO_GROUP
    label, at, code = _label(text, at)
    if code:
        return at, count, label, group, code
    leading = True
    while True:
        at = skip_blanks(text, at)
        c = np.int64(text[at])
        if c in (NEWLINE, HASH):
            return at, count, label, group, 0
        start = at
        if 48 <= c <= 57:  # fast path: most values of such files are indicators and counts
            at, count, ended = _short_pairs(text, at, count, base, width, mask, indices, values)
            if ended:
                return at, count, label, group, 0
            if at > start:
                leading = False
                continue
        index, value, at, code = _pair(text, start, base, width)
        if code == NO_INDEX and leading:
            group, at, code = _group(text, at)
        elif code == 0:
            indices[count] = index & mask
            values[count] = value
            count += 1
        if code:
            return at, count, label, group, code
        leading = False


@kernel
def parse_libsvm(text, state, stop, budget, room, skipping, base, width, mask, indptr, indices, values, labels, groups):
    """Parse lines until ``stop``, beyond ``budget`` or until ``room`` rows; the arrays hold all values of the text.

    Column = index − base, which must be below ``width``, and is cut to the bits of ``mask``.
    """
    going = True
    while going and state[AT] < min(stop, budget) and state[ROWS] < room:
        at = begin_line(state)
        at = skip_blanks(text, at)
        if text[at] == NEWLINE or text[at] == HASH:
            state[AT] = next_line(text, at)
        else:
            at, end, label, group, code = _row(text, at, state[COUNT], base, width, mask, indices, values)
            labels[state[ROWS]], groups[state[ROWS]] = label, group
            going = end_line(text, state, code, at, end, skipping, indptr)
