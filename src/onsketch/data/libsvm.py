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
    LAST,
    LINE,
    LONG_INDEX,
    MANY_LABELS,
    NEWLINE,
    NO_COLON,
    NO_INDEX,
    NO_LABEL,
    ROWS,
    SKIPPED,
    STRAY,
    WIDE_INDEX,
    ZERO_INDEX,
    is_blank,
    next_line,
    note_bad_line,
    skip_blanks,
)
from onsketch.data.numbers import inlined, kernel, read_number, short_pair

NO_GROUP = np.int64(-1)


@inlined
def _group(text, at):
    """The whole number after ``qid:`` at ``at``, where it ends, and 0 or why it is none."""
    for i in range(4):
        if text[at + i] != (113, 105, 100, COLON)[i]:  # "qid:"; a newline is none of these, so none is passed
            return NO_GROUP, at, NO_INDEX
    at += 4
    start = at
    group = np.int64(0)
    while 48 <= text[at] <= 57 and at - start < 19:
        group = 10 * group + (np.int64(text[at]) - 48)
        at += 1
    fits = 0 < at - start < 19 and (is_blank(np.int64(text[at])) or text[at] == NEWLINE or text[at] == HASH)
    return group, at, 0 if fits else BAD_QID


@inlined
def _row(text, at, count, base, width, mask, indices, values):
    """One line from its label on. Returns where it ends, the values so far, label, group, and 0 or why it is bad."""
    start = at
    group = NO_GROUP
    label, at, code = read_number(text, at)
    if code:
        return start, count, label, group, code
    c = np.int64(text[at])
    if not (is_blank(c) or c in (NEWLINE, HASH)):
        if c == COLON:
            return start, count, label, group, NO_LABEL
        return at, count, label, group, MANY_LABELS if c == COMMA else STRAY
    leading = True
    while True:
        while is_blank(c):
            at += 1
            c = np.int64(text[at])
        if c in (NEWLINE, HASH):
            return at, count, label, group, 0
        start = at
        if 48 <= c <= 57:  # indicators and counts are most of what such files hold
            number, digit, after, size = short_pair(text, at)
            while after and np.uint64(np.int64(number) - base) < np.uint64(width):
                indices[count] = (np.int64(number) - base) & mask
                values[count] = float(digit)
                count += 1
                at += np.int64(size) + 2
                if after == NEWLINE:
                    return at, count, label, group, 0
                at += 1
                number, digit, after, size = short_pair(text, at)
            if at > start:
                leading = False
                c = np.int64(text[at])
                continue
        index = np.int64(0)
        while 48 <= c <= 57:
            index = 10 * index + (c - 48)
            at += 1
            c = np.int64(text[at])
        if c != COLON or at == start:
            if at > start:
                return at, count, label, group, NO_COLON
            if not leading:
                return at, count, label, group, NO_INDEX
            group, at, code = _group(text, at)
            if code:
                return at, count, label, group, code
            leading = False
            c = np.int64(text[at])
            continue
        leading = False
        if at - start > 18:
            return start, count, label, group, LONG_INDEX
        index -= base
        if index < 0:
            return start, count, label, group, ZERO_INDEX
        if index >= width:
            return start, count, label, group, WIDE_INDEX
        at += 1
        start = at
        value, at, code = read_number(text, at)
        if code:
            return start, count, label, group, code
        c = np.int64(text[at])
        if not (is_blank(c) or c in (NEWLINE, HASH)):
            return at, count, label, group, STRAY
        indices[count] = index & mask
        values[count] = value
        count += 1


@kernel
def parse_libsvm(text, state, stop, budget, room, skipping, base, width, mask, indptr, indices, values, labels, groups):
    """Parse lines until ``stop``, beyond ``budget`` or until ``room`` rows; there is space for all values of the text.

    Column = index − base, which must be below ``width``, and is cut to the bits of ``mask``.
    """
    at, rows, count, line, last = state[AT], state[ROWS], state[COUNT], state[LINE], state[LAST]
    while at < stop and at < budget and rows < room:
        last = at
        line += 1
        at = skip_blanks(text, at)
        if text[at] != NEWLINE and text[at] != HASH:
            at, end, label, group, code = _row(text, at, count, base, width, mask, indices, values)
            if code:
                note_bad_line(state, code, at, last, line)
                if not skipping:
                    at = last
                    line -= 1
                    break
                state[SKIPPED] += 1
            else:
                labels[rows] = label
                groups[rows] = group
                count = end
                rows += 1
                indptr[rows] = count
        at = next_line(text, at)
    state[AT], state[ROWS], state[COUNT], state[LINE], state[LAST] = at, rows, count, line, last
