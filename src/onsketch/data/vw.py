"""Vowpal Wabbit's text: ``[label [weight [initial]]] ['tag]|namespace[:scale] name[:value] ... |namespace ...``."""

from __future__ import annotations

import numpy as np

from onsketch.data.cursor import (
    APOSTROPHE,
    AT,
    BAD_WEIGHT,
    BAR,
    COLON,
    COUNT,
    LAST,
    LINE,
    MANY_WORDS,
    MINUS,
    NEWLINE,
    NO_BAR,
    NO_NAMESPACE,
    ROWS,
    SKIPPED,
    SPACE,
    STRAY,
    is_blank,
    next_line,
    note_bad_line,
    skip_blanks,
)
from onsketch.data.hashing import murmur, name_hash
from onsketch.data.numbers import MALFORMED, NOT_FINITE, TOO_LARGE, inlined, kernel, read_number, short_pair

LABEL, WEIGHT, INITIAL = range(3)
"""Columns of ``heads``: what stands before the first bar."""

_ENDS_NAME = np.isin(np.arange(256), list(b" \t\n\v\f\r:|"))
"""Whether a byte ends a name."""

_TEN = np.uint64(10)
_31 = np.uint64(2**31 - 1)


@inlined
def _ends_word(c):
    return c in (BAR, NEWLINE) or is_blank(c)


@inlined
def _head(text, at, row, heads, tags):
    """What stands before the first bar. Returns where the bar is, and 0 or why the line is bad.

    A word that touches the bar is a tag, as is the last word when it begins with an apostrophe.
    """
    heads[row, LABEL], heads[row, WEIGHT], heads[row, INITIAL] = np.nan, 1.0, 0.0
    tags[row, 0] = tags[row, 1] = 0
    negative = np.int64(text[at] == MINUS)
    c = np.int64(text[at + negative])
    if 48 <= c <= 57 and text[at + negative + 1] == SPACE and text[at + negative + 2] == BAR:  # 1 or -1, as most are
        heads[row, LABEL] = (1.0 - 2.0 * negative) * (c - 48)
        return at + negative + 2, 0
    words = 0
    while True:
        at = skip_blanks(text, at)
        if text[at] == BAR:
            return at, 0
        if text[at] == NEWLINE:
            return at, NO_BAR
        start = at
        while not _ends_word(np.int64(text[at])):
            at += 1
        if text[at] == BAR or text[start] == APOSTROPHE:
            tags[row, 0] = start + (text[start] == APOSTROPHE)
            tags[row, 1] = at
            at = skip_blanks(text, at)
            return at, 0 if text[at] == BAR else NO_BAR if text[at] == NEWLINE else STRAY
        if words > INITIAL:
            return start, MANY_WORDS
        value, end, code = read_number(text, start)
        if code:
            return start, code
        if end < at:
            return end, STRAY
        if words == WEIGHT and value < 0.0:
            return start, BAD_WEIGHT
        heads[row, words] = value
        words += 1


@inlined
def _features(text, at, count, mask, spaced, named, dropped, dropped_names, indices, values, spaces, marks):
    """The namespaces of a line, from the first bar on: where it ends, the values so far, and 0 or why it is bad."""
    space_hash = np.uint64(0)
    scale = 1.0
    nameless = np.uint64(0)
    space_start = space_stop = at
    space = np.int64(SPACE)
    drop = dropped[space]
    while True:
        at = skip_blanks(text, at)
        c = np.int64(text[at])
        if c == NEWLINE:
            return at, count, 0
        start = at
        if c == BAR:  # a namespace begins
            at += 1
            start = at
            c = np.int64(text[at])
            space_hash, scale, nameless = np.uint64(0), 1.0, np.uint64(0)
            while not _ENDS_NAME[text[at]]:
                at += 1
            c = np.int64(text[at])
            if at == start and c in (COLON, BAR):
                return at, count, NO_NAMESPACE
            space_start, space_stop, space = start, at, np.int64(SPACE)
            if at > start:
                space_hash = name_hash(text, start, at, np.uint64(0))
                space = np.int64(text[start])
            drop = dropped[space]
            for k in range(dropped_names.size):
                if dropped_names[k] == space_hash & _31:
                    drop = not dropped[space]
            if c == COLON:
                start = at + 1
                scale, at, code = read_number(text, start)
                if code:
                    return start, count, code
                if not _ends_word(np.int64(text[at])):
                    return at, count, STRAY
            continue
        if 48 <= c <= 57 and scale == 1.0 and not drop:  # indicators and counts, as most features of most files are
            number, digit, after, size = short_pair(text, at)
            while after and digit:
                indices[count] = np.int64((number + space_hash) & mask)
                values[count] = float(digit)
                if spaced:
                    spaces[count] = space
                if named:
                    marks[count, 0], marks[count, 1] = space_start, space_stop
                    marks[count, 2], marks[count, 3] = at, at + np.int64(size)
                count += 1
                at += np.int64(size) + 2
                if after == NEWLINE:
                    return at, count, 0
                at += 1
                number, digit, after, size = short_pair(text, at)
            if at > start:
                continue
        number = np.uint64(0)
        while 48 <= c <= 57:  # most names of most files are numbers
            number = number * _TEN + np.uint64(c - 48)
            at += 1
            c = np.int64(text[at])
        stop = at
        while not _ENDS_NAME[text[stop]]:
            stop += 1
        if stop == at > start:
            column = number + space_hash
        elif stop > start:
            at = stop
            c = np.int64(text[at])
            column = murmur(text, start, stop, space_hash)
        else:
            column = space_hash + nameless
            nameless += np.uint64(1)
        value = 1.0
        if c == COLON:
            at += 1
            c = np.int64(text[at])
            word = at
            if 48 <= c <= 57 and text[at + 1] == SPACE:  # a count or an indicator
                value, at, code = float(c - 48), at + 1, 0
            else:
                value, at, code = read_number(text, at)
            if code in (NOT_FINITE, TOO_LARGE):
                return word, count, code
            if code or not _ends_word(np.int64(text[at])):
                # A word that does not begin like a number is a category; "2abc" is more likely a slip.
                if 43 <= c <= 57 or c == COLON or _ends_word(c):
                    return (word, count, MALFORMED) if code else (at, count, STRAY)
                at = word
                while not _ends_word(np.int64(text[at])):
                    at += 1
                column = name_hash(text, word, at, column)
                value = 1.0
                stop = at
        value *= scale
        if value != 0.0 and not drop:
            if not abs(value) < np.inf:
                return start, count, TOO_LARGE
            indices[count] = np.int64(column & mask)
            values[count] = value
            if spaced:
                spaces[count] = space
            if named:
                marks[count, 0], marks[count, 1], marks[count, 2], marks[count, 3] = (
                    space_start,
                    space_stop,
                    start,
                    stop,
                )
            count += 1


@kernel
def parse_vw(
    text,
    state,
    stop,
    budget,
    room,
    skipping,
    mask,
    spaced,
    named,
    dropped,
    dropped_names,
    indptr,
    indices,
    values,
    heads,
    tags,
    spaces,
    marks,
):
    """Parse lines until ``stop``, beyond ``budget`` or until ``room`` rows; there is space for all values of the text.

    ``spaces`` takes the first byte of each value's namespace where ``spaced``, ``marks`` the places of its namespace
    and name in the text where ``named``. ``dropped`` tells by their first byte which namespaces are left out,
    ``dropped_names`` has the hashes of those for which it is the other way round. Values that are 0 are left out, as
    Vowpal Wabbit does.
    """
    at, rows, count, line, last = state[AT], state[ROWS], state[COUNT], state[LINE], state[LAST]
    while at < stop and at < budget and rows < room:
        last = at
        line += 1
        at = skip_blanks(text, at)
        if text[at] != NEWLINE:
            end = count
            at, code = _head(text, at, rows, heads, tags)
            if code == 0:
                at, end, code = _features(
                    text, at, count, mask, spaced, named, dropped, dropped_names, indices, values, spaces, marks
                )
            if code:
                note_bad_line(state, code, at, last, line)
                if not skipping:
                    at = last
                    line -= 1
                    break
                state[SKIPPED] += 1
            else:
                count = end
                rows += 1
                indptr[rows] = count
        at = next_line(text, at)
    state[AT], state[ROWS], state[COUNT], state[LINE], state[LAST] = at, rows, count, line, last
