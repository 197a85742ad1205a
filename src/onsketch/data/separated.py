"""Compiled parser of separated values: fields between delimiters; quoted fields may contain line ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onsketch.data.cursor import (
    ASKED,
    AT,
    BAD_LINE,
    BAD_WEIGHT,
    CODE,
    COLUMN,
    COUNT,
    FEW_FIELDS,
    LAST,
    LAST_RECORD,
    LAST_TEXT,
    LINE,
    MANY_FIELDS,
    MINUS,
    MISSING,
    MORE,
    NEWLINE,
    NO_DATE,
    NULL_LABEL,
    OPEN,
    OPEN_QUOTE,
    QUOTE,
    RETURN,
    ROWS,
    SPACE,
    STRANGE_LABEL,
    UNFINISHED,
    begin_line,
    end_line,
    next_line,
)
from onsketch.data.numbers import GOOD, MALFORMED, NOT_FINITE, PADDING, inlined, inner, kernel, read_number
from onsketch.rows.cells import plain_amount, put_date, second_in
from onsketch.rows.hashing import murmur, name_hash
from onsketch.rows.schema import ANY, CATEGORICAL, DATE, LABEL, NUMERIC, TAG, TEXT, WEIGHT

POINT = 46
TEXT_HERE = -1
"""Column of the entry in whose place those of a text's words come."""

ROOM = len(PADDING)
"""Bytes after the end of a number that may be read."""

WORD = 1
"""``positive`` is a word, and labels are compared with it as text; a number is compared as a number."""

REFUSED, LEFT_OUT = -2, -1
"""Treatment of a missing value, in the place of the feature that stands for it: a bad line, or nothing."""

_FIRST_KEY = 257
_TRUE, _FALSE = (int.from_bytes(word, "big") for word in (b"true", b"false"))


@inlined
def _is_space(c, delimiter):
    """Return True for blanks around a field, which are ignored."""
    return c in (SPACE, RETURN) or (c == 9 and delimiter != 9)


@inlined
def _field(text, at, delimiter, stop, breaks):
    """Find the field at ``at``: its first byte, the byte after its last, its end, and 0, OPEN_QUOTE or UNFINISHED.

    A quoted field may contain line ends, up to the end of the text at ``stop``; ``breaks[0]`` then becomes 1.
    A bad field ends with its first line.
    """
    while _is_space(np.int64(text[at]), delimiter):
        at += 1
    start = at
    if text[at] == QUOTE:
        start = at = at + 1
        first_end = -1
        while True:
            while text[at] != QUOTE and text[at] != NEWLINE:
                at += 1
            if text[at] == NEWLINE:
                first_end = at if first_end < 0 else first_end
                if at + 1 >= stop:
                    return start, at, first_end, UNFINISHED
                breaks[0] = 1
                at += 1
            elif text[at + 1] != QUOTE:
                break
            else:
                at += 2
        end = at
        at += 1
        while _is_space(np.int64(text[at]), delimiter):
            at += 1
        if text[at] == delimiter or text[at] == NEWLINE:
            return start, end, at, 0
        return start, end, at if first_end < 0 else first_end, OPEN_QUOTE
    while text[at] != delimiter and text[at] != NEWLINE:
        at += 1
    end = at
    while end > start and _is_space(np.int64(text[end - 1]), delimiter):
        end -= 1
    return start, end, at, 0


def missing_table(words: Sequence[str]) -> NDArray[np.int64]:
    """Return the table of words for missing values that ``_is_missing`` reads."""
    encoded = [np.frombuffer(word.encode() + b" ", dtype=np.uint8) for word in words]
    table = np.zeros(_FIRST_KEY, dtype=np.int64)
    table[0] = max(word.size - 1 for word in encoded)
    table[[1 + int(word[0]) for word in encoded]] = 1
    return np.concatenate([table, [word_key(word, 0, word.size - 1) for word in encoded]])


@inner
def word_key(text, start, stop):
    """Return a number that stands for a short text: of up to 4 bytes the text itself, else a hash."""
    word = np.int64(0)
    if stop - start > 4:
        word = np.int64(murmur(text, start, stop, np.uint64(0)))
    else:
        for i in range(stop - start):
            word |= np.int64(text[start + i]) << (8 * i)
    return np.int64(stop - start) << 40 | word


@inner
def _is_missing(text, start, stop, gaps):
    """Return True if a field marks a missing value.

    ``gaps`` has the longest length of such words, flags for the 256 bytes by which they begin, and their keys.
    """
    if stop - start > gaps[0] or (stop > start and gaps[1 + text[start]] == 0):
        return False
    word = word_key(text, start, stop)
    found = False
    for k in range(_FIRST_KEY, gaps.size):
        found |= word == gaps[k]
    return found


@inner
def _truth(text, start, stop):
    """Return 1 for true, 0 for false (in lower, upper or title case), −1 for anything else."""
    size = stop - start
    if size not in (4, 5):
        return -1
    upper, word = text[start] < 97, np.int64(0)
    shout = text[start + 1] < 97
    for i in range(size):
        c = np.int64(text[start + i])
        if (c < 97) != (shout if i else upper) or (shout and not upper):
            return -1
        word = word << 8 | c | 32
    return 1 if word == _TRUE else 0 if word == _FALSE else -1


@inner
def _amount(text, start, stop, comma, scratch):
    """Parse the amount in a field; return it and 0 or an error code."""
    size = plain_amount(text, start, stop, comma, scratch)
    if size == 0:
        return 0.0, MALFORMED
    for k in range(ROOM):
        scratch[size + k] = NEWLINE
    value, _, code = read_number(scratch, 0)
    return value, code


@inner
def _number_field(text, at, delimiter, comma, last, gaps, breaks, scratch):
    """Parse the number in the field at ``at``; return it, the end of the field, and 0 or an error code."""
    while _is_space(np.int64(text[at]), delimiter):
        at += 1
    begin, code = at, MALFORMED
    if not comma:
        quoted = text[at] == QUOTE
        value, at, code = read_number(text, at + quoted)
        if quoted and code == GOOD:
            if text[at] == QUOTE:
                at += 1
            else:
                code = MALFORMED
        if code == GOOD:
            while _is_space(np.int64(text[at]), delimiter):
                at += 1
            if text[at] == delimiter or text[at] == NEWLINE:
                return value, at, GOOD
            code = MALFORMED
    start, stop, at, trouble = _field(text, begin, delimiter, last, breaks)
    if trouble:
        return 0.0, at, trouble
    if _is_missing(text, start, stop, gaps):
        return 0.0, at, MISSING
    value = 0.0
    if code == MALFORMED:
        value, code = _amount(text, start, stop, comma, scratch)
        truth = _truth(text, start, stop) if code else -1
        if truth >= 0:
            value, code = float(truth), GOOD
    return value, at, code


@inner
def _read_label(text, start, stop, comma, gaps, scratch, positive, positive_kind, positive_value):
    """Parse a label; return it and 0 or an error code; +1 and −1 if a positive class is named."""
    if _is_missing(text, start, stop, gaps):
        return 0.0, NULL_LABEL
    value, at, code = read_number(text, start)
    if comma or (code == GOOD and at != stop) or code == MALFORMED:
        value, code = _amount(text, start, stop, comma, scratch)
    number = code == GOOD
    if not number and positive.size == 0:
        truth = _truth(text, start, stop)
        if truth >= 0:
            value, number = float(truth), True
    if positive.size == 0:
        return value, GOOD if number else code if code > NOT_FINITE else STRANGE_LABEL
    if positive_kind != WORD and number:
        return 1.0 if value == positive_value else -1.0, GOOD
    same = stop - start == positive.size
    for i in range(positive.size):
        same = same and text[start + i] == positive[i]
    return 1.0 if same else -1.0, GOOD


@inner
def _is_whole(text, start, stop):
    """Return True for a whole number written with ".0", whose category is the number without it."""
    if stop - start < 3 or text[stop - 1] != 48 or text[stop - 2] != POINT:
        return False
    first = start + (text[start] == MINUS)
    digits = stop - 2 - first
    whole = digits == 1 or (digits > 1 and text[first] != 48)
    for at in range(first, stop - 2):
        whole = whole and 48 <= text[at] <= 57
    return whole


@inlined
def _category(text, start, stop, prefix, begin, end, key):
    """Return H("name=value") of a categorical field; a doubled quote in a quoted field stands for one."""
    quoted = start > 0 and text[start - 1] == QUOTE
    if _is_whole(text, start, stop):
        stop -= 2
    size = end - begin
    for i in range(size):
        key[i] = prefix[begin + i]
    at = start
    while at < stop:
        key[size] = text[at]
        size += 1
        at += 2 if quoted and text[at] == QUOTE else 1
    return name_hash(key, 0, size, np.uint64(0))


@inlined
def _put(into, count, column, value, origin, mark):
    """Append a value of a sparse row; ``mark`` is the column of a category, or −1."""
    indices, values, _, _, _, _, marks, spaces, _, _ = into
    indices[count], values[count], marks[count, 0], spaces[count] = column, value, mark, origin


@inlined
def _one_number(text, at, delimiter, comma, last, gaps, breaks, key):
    """Parse the number in a field; return it, its end or the bad byte, and 0 or an error code."""
    c = np.int64(text[at])
    if 48 <= c <= 57 and text[at + 1] == delimiter:  # fast path: most values of tables are counts and indicators
        return float(c - 48), at + 1, 0
    return _number_field(text, at, delimiter, comma, last, gaps, breaks, key)


@inlined
def _numeric(text, begin, k, row, base, count, table, key, into):
    """Parse a field of a numeric column; return its end (or the bad byte), the values so far, and 0 or an error."""
    delimiter, forms, kinds, columns, absent, origins, _, _, width, _, _, _, _, gaps, numbers, last = table
    value, at, code = _one_number(text, begin, delimiter, forms[k] == 1, last, gaps, into[8], key)
    for j in range(numbers.size):
        code = MISSING if code == GOOD and value == numbers[j] else code
    gap = False
    if code:
        gap = code == MISSING and absent[k] != REFUSED
        if not gap:
            return at if code in (OPEN_QUOTE, UNFINISHED) else begin, count, code
    if kinds[k] == WEIGHT:
        value = 1.0 if gap else value
        into[3][row] = value
        return (begin, count, BAD_WEIGHT) if value < 0.0 else (at, count, 0)
    if width:
        into[1][base + columns[k]] = np.nan if gap else value
    elif gap:
        if absent[k] >= 0:
            _put(into, count, absent[k], 1.0, origins[k], -1)
            count += 1
    elif value != 0.0:
        _put(into, count, columns[k], value, origins[k], -1)
        count += 1
    return at, count, 0


@inlined
def _categorical(text, start, stop, k, count, table, key, into):
    """Parse a field of categories, dates or texts; return the values so far, and 0 or an error code.

    A text becomes one entry of column ``TEXT_HERE``, which the caller replaces by those of its words.
    """
    _, forms, kinds, _, absent, origins, prefix, prefix_ptr, _, _, _, mask, dates, gaps, _, _ = table
    if not _is_missing(text, start, stop, gaps):
        if kinds[k] == DATE:
            second, good = second_in(text, start, stop, forms[k])
            if not good:
                return count, NO_DATE
            end = put_date(second, dates[k, 44], dates[k], into[0], into[1], count)
            for at in range(count, end):
                into[6][at, 0], into[7][at] = -1, origins[k]
            return end, 0
        column = np.int64(TEXT_HERE)
        if kinds[k] != TEXT:
            column = np.int64(_category(text, start, stop, prefix, prefix_ptr[k], prefix_ptr[k + 1], key) & mask)
        _put(into, count, column, 1.0, origins[k], k)
        into[6][count, 1], into[6][count, 2] = start, stop
        return count + 1, 0
    if absent[k] < 0:
        return count, MISSING if absent[k] == REFUSED else 0
    _put(into, count, absent[k], 1.0, origins[k], -1)
    return count + 1, 0


@inlined
def _label(text, start, stop, comma, row, table, aim, key, into):
    """Parse a field of the label column; return 0 or an error code."""
    unlabelled, worded, gaps = table[9], table[10], table[13]
    labels, words = into[2], into[5]
    if worded:
        words[row, 0], words[row, 1] = start, 0 if _is_missing(text, start, stop, gaps) else stop
        return NULL_LABEL if words[row, 1] == 0 and not unlabelled else 0
    label, code = _read_label(text, start, stop, comma, gaps, key, aim[0], aim[1], aim[2])
    if code == NULL_LABEL and unlabelled:
        label, code = np.nan, 0
    if code == 0:
        labels[row] = label
    return code


@inlined
def _words(text, begin, k, row, count, table, aim, key, into):
    """Parse a field that is not numeric: category, label, tag or ignored. Returns as ``_row``."""
    start, stop, at, code = _field(text, begin, table[0], table[15], into[8])
    kind = table[2][k]
    if code:
        return at, count, code
    if kind in (CATEGORICAL, ANY, TEXT, DATE):
        count, code = _categorical(text, start, stop, k, count, table, key, into)
        return begin if code else at, count, code
    if kind == LABEL:
        code = _label(text, start, stop, table[1][k] == 1, row, table, aim, key, into)
        return start if code else at, count, code
    if kind == TAG:
        into[4][row, 0], into[4][row, 1] = start, stop
    return at, count, 0


@inner
def _is_number(text, at, k, table, breaks, key):
    """Return True if a field of a column of mixed values holds a number, or true or false."""
    return _one_number(text, at, table[0], table[1][k] == 1, table[15], table[13], breaks, key)[2] == GOOD


@inlined
def _row(text, at, row, count, table, aim, key, into):
    """Parse one record; return its end (or the bad byte), the values so far, and 0 or an error code."""
    kinds, base = table[2], count
    last = kinds.size - 1
    count += table[8]  # of a dense row all values have their place
    for k in range(kinds.size):
        if kinds[k] in (NUMERIC, WEIGHT) or (kinds[k] == ANY and _is_number(text, at, k, table, into[8], key)):
            at, count, code = _numeric(text, at, k, row, base, count, table, key, into)
        else:
            at, count, code = _words(text, at, k, row, count, table, aim, key, into)
        if code:
            into[8][1] = k
            return at, count, code
        if text[at] == NEWLINE:
            if k < last:
                return at, count, FEW_FIELDS
        elif k == last:
            return at, count, MANY_FIELDS
        else:
            at += 1
    return at, count, 0


@inner
def _record_end(text, at, delimiter, stop, breaks):
    """Return the byte after a record, and 0 or UNFINISHED; a bad field ends its record with its first line."""
    while True:
        _, _, at, code = _field(text, at, delimiter, stop, breaks)
        if code or text[at] == NEWLINE:
            return next_line(text, at), code * (code == UNFINISHED)
        at += 1


@inner
def _lines_between(text, start, stop):
    """Return the number of line ends, and the first byte of the last line."""
    count, first = 0, start
    for at in range(start, stop):
        if text[at] == NEWLINE:
            count, first = count + 1, at + 1
    return count, first


@kernel
def parse_csv(text, state, stop, budget, room, skipping, table, aim, key, indptr, into):
    """Parse records until ``stop``, ``budget`` or ``room`` rows; the arrays hold all values of the text.

    ``table`` describes the columns: delimiter; for each column the form of its cells, its kind, the columns of X for
    its value and for a missing one (or REFUSED, LEFT_OUT), its namespace in interactions and the text ``name=``; width
    of dense rows, or 0; flags for missing labels and for words as labels; the hash's mask; the parts of dates; words
    and numbers of missing values; and ``stop`` again.
    ``breaks`` (in ``into``) gets a flag for a quoted line end, the last bad column, and that of the first bad line.
    ``aim`` is the positive class: as text, its kind, and as a number.
    """
    delimiter, breaks = table[0], into[8]
    going = True
    while going and state[AT] < min(stop, budget) and state[ROWS] < room:
        before = state[LAST]
        at = begin_line(state)
        while _is_space(np.int64(text[at]), delimiter):
            at += 1
        if text[at] == NEWLINE:
            state[AT] = at + 1
            continue
        breaks[0] = 0
        start = state[LAST]
        at, end, code = _row(text, start, state[ROWS], state[COUNT], table, aim, key, into)
        # A bad record is skipped as a whole, so its end must be known.
        follows, open_code = at + 1, code * (code == UNFINISHED)
        if code and code not in (OPEN_QUOTE, UNFINISHED) and skipping:
            follows, open_code = _record_end(text, start, delimiter, stop, breaks)
        if open_code and state[OPEN] < LAST_RECORD:
            state[OPEN], state[LAST] = ASKED, before
            state[LINE] -= 1
            return
        if state[OPEN] < LAST_TEXT:
            state[OPEN] = MORE
        if code == 0:
            into[9][state[ROWS], 0], into[9][state[ROWS], 1] = start, at
        first_bad = state[CODE] == 0
        if code and first_bad:
            breaks[2] = breaks[1]
        going = end_line(text, state, OPEN_QUOTE if code == UNFINISHED else code, at, end, skipping, indptr)
        if breaks[0]:
            if code and first_bad:
                lines, first = _lines_between(text, start, at)
                state[BAD_LINE] += lines
                state[COLUMN] = at - first + 1
            if going:
                state[AT] = max(state[AT], follows)
                state[LINE] += _lines_between(text, start, state[AT] - 1)[0]
