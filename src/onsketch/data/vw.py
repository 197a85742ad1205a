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
    MANY_WORDS,
    MINUS,
    NEWLINE,
    NO_BAR,
    NO_NAMESPACE,
    OTHER_LABELS,
    ROWS,
    SPACE,
    STRAY,
    begin_line,
    end_line,
    is_blank,
    skip_blanks,
)
from onsketch.data.numbers import MALFORMED, NOT_FINITE, TOO_LARGE, inlined, kernel, read_number, short_pair
from onsketch.rows.hashing import murmur, name_hash

LABEL, WEIGHT, INITIAL = range(3)
"""Columns of ``heads``: the fields before the first bar."""

_ENDS_NAME = np.isin(np.arange(256), list(b" \t\n\v\f\r:|"))
"""True for bytes that end a name."""

_TEN = np.uint64(10)
_31 = np.uint64(2**31 - 1)


@inlined
def _ends_word(c):
    return c in (BAR, NEWLINE) or is_blank(c)


@inlined
def _number(text, start, stop, words):
    """Parse the next number before the bar, after ``words`` others; return it, the bad byte, and 0 or an error code."""
    value, end, code = read_number(text, start)
    if text[end] == COLON or (code and text[start] == 115 and stop - start == 6):  # 1:2:0.5, shared
        return value, start, OTHER_LABELS
    if code:
        return value, start, code
    if end < stop:
        return value, end, STRAY
    return value, start, BAD_WEIGHT if words == WEIGHT and value < 0.0 else 0


@inlined
def _head(text, at, row, heads, tags):
    """Parse the text before the first bar; return the bar's position, and 0 or an error code.

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
        heads[row, words], bad, code = _number(text, start, at, words)
        if code:
            return bad, code
        words += 1


@inlined
def _namespace(text, start, dropped, dropped_names):
    """Parse a namespace whose name begins at ``start``.

    Returns its end, the end of its name, its hash, first byte and scale, True if it is left out, and 0 or an error
    code.
    """
    stop = start
    while not _ENDS_NAME[text[stop]]:
        stop += 1
    at, scale, code = stop, 1.0, 0
    space_hash, space = np.uint64(0), np.int64(SPACE)
    if stop > start:
        space_hash = name_hash(text, start, stop, np.uint64(0))
        space = np.int64(text[start])
    elif text[stop] == COLON or text[stop] == BAR:
        code = NO_NAMESPACE
    drop = dropped[space]
    for k in range(dropped_names.size):
        if dropped_names[k] == space_hash & _31:
            drop = not dropped[space]
    if code == 0 and text[stop] == COLON:
        scale, at, code = read_number(text, stop + 1)
        if code:
            at = stop + 1
        elif not _ends_word(np.int64(text[at])):
            code = STRAY
    return at, stop, space_hash, space, scale, drop, code


@inlined
def _put(into, count, column, value, space, space_start, space_stop, start, stop):
    """Append a value, and the places of its names."""
    spaced, named, indices, values, spaces, marks = into
    indices[count] = np.int64(column)
    values[count] = value
    if spaced:
        spaces[count] = space
    if named:
        marks[count, 0], marks[count, 1], marks[count, 2], marks[count, 3] = space_start, space_stop, start, stop


@inlined
def _short_pairs(text, at, count, mask, into, space_hash, space, space_start, space_stop):
    """Parse features with short numbers as names and one digit as value; return their end, the values so far, and
    True at the end of the line.
    """
    number, digit, after, size = short_pair(text, at)
    while after and digit:
        column = (number + space_hash) & mask
        _put(into, count, column, float(digit), space, space_start, space_stop, at, at + np.int64(size))
        count += 1
        at += np.int64(size) + 2
        if after == NEWLINE:
            return at, count, True
        at += 1
        number, digit, after, size = short_pair(text, at)
    return at, count, False


@inlined
def _name(text, start, space_hash, nameless):
    """Parse a feature's name; return its column, the end of the name, and the number of nameless features so far."""
    at = start
    number = np.uint64(0)
    while 48 <= text[at] <= 57:  # fast path: most names of most files are numbers
        number = number * _TEN + np.uint64(np.int64(text[at]) - 48)
        at += 1
    stop = at
    while not _ENDS_NAME[text[stop]]:
        stop += 1
    if stop == at > start:
        return number + space_hash, stop, nameless
    if stop > start:
        return murmur(text, start, stop, space_hash), stop, nameless
    return space_hash + nameless, stop, nameless + np.uint64(1)


@inlined
def _value(text, word, column, stop):
    """Parse the text after a name's colon; return the value, the column and the end of its name (which includes a
    category), the end of the text or the bad byte, and 0 or an error code.
    """
    c = np.int64(text[word])
    if 48 <= c <= 57 and text[word + 1] == SPACE:  # fast path: a count or an indicator
        return float(c - 48), column, stop, word + 1, 0
    value, at, code = read_number(text, word)
    if code in (NOT_FINITE, TOO_LARGE):
        return value, column, stop, word, code
    if code == 0 and _ends_word(np.int64(text[at])):
        return value, column, stop, at, 0
    # A word that does not begin like a number is a category; "2abc" is more likely a slip.
    if 43 <= c <= 57 or c == COLON or _ends_word(c):
        if code:
            return value, column, stop, word, MALFORMED
        return value, column, stop, at, STRAY
    at = word
    while not _ends_word(np.int64(text[at])):
        at += 1
    return 1.0, name_hash(text, word, at, column), at, at, 0


@inlined
def _feature(text, start, stop, column, scale, drop):
    """Parse a feature whose name ends at ``stop``; return its value (0 if left out) and the rest as ``_value``."""
    value, at = 1.0, stop
    if text[at] == COLON:
        value, column, stop, at, code = _value(text, at + 1, column, stop)
        if code:
            return value, column, stop, at, code
        if stop == at:  # a category: the scale of its namespace does not count, as in Vowpal Wabbit
            scale = 1.0
    value = 0.0 if drop else value * scale
    if not abs(value) < np.inf:
        return value, column, stop, start, TOO_LARGE
    return value, column, stop, at, 0


@inlined
def _features(text, at, count, mask, dropped, dropped_names, into):
    """Parse the namespaces of a line, from the first bar on; return its end, the values so far, and 0 or an error."""
    space_hash, space, scale, nameless = np.uint64(0), np.int64(SPACE), 1.0, np.uint64(0)
    space_start = space_stop = at
    drop = dropped[space]
    while True:
        at = skip_blanks(text, at)
        start, c = at, np.int64(text[at])
        if c == NEWLINE:
            return at, count, 0
        if c == BAR:
            space_start, nameless = at + 1, np.uint64(0)
            at, space_stop, space_hash, space, scale, drop, code = _namespace(text, at + 1, dropped, dropped_names)
            if code:
                return at, count, code
            continue
        if 48 <= c <= 57 and scale == 1.0 and not drop:  # fast path: indicators and counts
            at, count, ended = _short_pairs(text, at, count, mask, into, space_hash, space, space_start, space_stop)
            if ended:
                return at, count, 0
            if at > start:
                continue
        column, stop, nameless = _name(text, start, space_hash, nameless)
        value, column, stop, at, code = _feature(text, start, stop, column, scale, drop)
        if code:
            return at, count, code
        if value != 0.0:
            _put(into, count, column & mask, value, space, space_start, space_stop, start, stop)
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
    """Parse lines until ``stop``, beyond ``budget`` or until ``room`` rows; the arrays hold all values of the text.

    ``spaces`` gets the first byte of each value's namespace if ``spaced``; ``marks`` the places of its namespace and
    name in the text if ``named``. ``dropped`` marks the first bytes of namespaces to leave out, and ``dropped_names``
    has the hashes of the exceptions. Values of 0 are left out, as in Vowpal Wabbit.
    """
    going = True
    while going and state[AT] < min(stop, budget) and state[ROWS] < room:
        at = begin_line(state)
        at = skip_blanks(text, at)
        if text[at] == NEWLINE:
            state[AT] = at + 1
        else:
            end = state[COUNT]
            at, code = _head(text, at, state[ROWS], heads, tags)
            if code == 0:
                into = (spaced, named, indices, values, spaces, marks)
                at, end, code = _features(text, at, end, mask, dropped, dropped_names, into)
            going = end_line(text, state, code, at, end, skipping, indptr)
