"""State, error codes and separators that the compiled text parsers share.

A parser gets a chunk of text that ends with a newline. It stops at the end of the chunk, when the block has enough
rows or bytes, or at a bad line. ``state`` holds all it needs to continue later.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onsketch.data.numbers import MALFORMED, NOT_FINITE, TOO_LARGE, inlined

AT, ROWS, COUNT, LINE, LAST, SKIPPED, CODE, COLUMN, BAD_LINE, OPEN, BAD_AT = range(11)
"""Entries of ``state``: the next byte; rows and values of the block; lines read; where the last line read began;
bad lines skipped; of the first bad line: why, column and number; whether a record may go on beyond the text; and where
in the text the first bad line is bad."""

MORE, ASKED, LAST_RECORD, LAST_TEXT = range(4)
"""Values of ``state[OPEN]``: text follows; the parser stopped before a record that needs it; the first record must end
within this text; all records must."""

NEWLINE, RETURN, SPACE, QUOTE, HASH, APOSTROPHE, COMMA, MINUS, COLON, BAR = 10, 13, 32, 34, 35, 39, 44, 45, 58, 124

(
    NO_LABEL,
    MANY_LABELS,
    NO_INDEX,
    NO_COLON,
    LONG_INDEX,
    ZERO_INDEX,
    WIDE_INDEX,
    BAD_QID,
    BAD_WEIGHT,
    MANY_WORDS,
    NO_BAR,
    NO_NAMESPACE,
    STRAY,
    MISSING,
    FEW_FIELDS,
    MANY_FIELDS,
    OPEN_QUOTE,
    STRANGE_LABEL,
    NULL_LABEL,
    UNFINISHED,
    OTHER_LABELS,
    NO_DATE,
) = range(4, 26)

REASONS = {
    MALFORMED: "expected a number, found {found}",
    NOT_FINITE: "{found} is not a finite number; remove the value or the line",
    TOO_LARGE: "{found} is beyond the range of float64",
    NO_LABEL: "the line has no label: it begins with the feature {found}; where there is none, put any number",
    MANY_LABELS: "more than one label ({found}); multilabel data is not supported",
    NO_INDEX: "expected a feature as index:value, found {found}",
    NO_COLON: "expected ':' and a value after a feature's index, found {found}",
    LONG_INDEX: "the feature index {found} has more than 18 digits",
    ZERO_INDEX: "feature index 0 where indices count from 1; read it with zero_based=True",
    WIDE_INDEX: "the feature {found} does not fit n_features={width}",
    BAD_QID: "expected a whole number of at most 18 digits after qid:, found {found}",
    BAD_WEIGHT: "{found} is no weight: weights are not negative",
    MANY_WORDS: "expected at most a label, a weight and an initial prediction before '|', found {found} too",
    NO_BAR: "expected '|' before the features",
    NO_NAMESPACE: "expected a namespace or a space after '|', found {found}",
    STRAY: "unexpected {found}",
    MISSING: 'no value in this field; missing="zero" reads such fields as 0, missing="indicate" as missing',
    FEW_FIELDS: "the line has fewer fields than the first one",
    MANY_FIELDS: "the line has more fields than the first one, from {found} on",
    OPEN_QUOTE: "a quoted field does not end, or is followed by {found}",
    STRANGE_LABEL: 'the label {found} is no number; name the class to learn with positive="..."',
    NULL_LABEL: "the label is missing",
    NO_DATE: "expected a date, found {found}",
    OTHER_LABELS: "{found}: contextual-bandit labels and costs of classes are not supported; give one label a line",
}
"""Reasons shown to users."""

NAMED: dict[str, Any] = {"zero_based": True, "missing": ("zero", "indicate"), "positive": ...}
"""Options that the reasons name."""


@inlined
def is_blank(c):
    """Return True for space, tab, vertical tab, form feed or carriage return, which separate on a line."""
    return c == SPACE or (9 <= c <= 13 and c != NEWLINE)


@inlined
def skip_blanks(text, at):
    """Return the next byte that is not blank."""
    while is_blank(np.int64(text[at])):
        at += 1
    return at


@inlined
def next_line(text, at):
    """Return the byte after the next newline."""
    while text[at] != NEWLINE:
        at += 1
    return at + 1


@inlined
def begin_line(state):
    """Return the start of the next line, and count the line as read."""
    state[LAST] = state[AT]
    state[LINE] += 1
    return state[AT]


@inlined
def end_line(text, state, code, at, end, skipping, indptr):
    """Count the row of a good line, whose values end at ``end``, or record the first bad line; return True to continue.

    The parser stops before a bad line that is not skipped.
    """
    if code == 0:
        state[ROWS] += 1
        state[COUNT] = end
        indptr[state[ROWS]] = end
    else:
        if state[CODE] == 0:
            state[CODE] = code
            state[COLUMN] = at - state[LAST] + 1
            state[BAD_LINE] = state[LINE]
            state[BAD_AT] = at
        if not skipping:
            state[LINE] -= 1
            return False
        state[SKIPPED] += 1
    state[AT] = next_line(text, at)
    return True
