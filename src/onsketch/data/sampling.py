"""What the first lines of a CSV file say: delimiter, decimal mark, header, and what each column holds."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

from onsketch.core.errors import ReadError
from onsketch.data.columns import Sampled
from onsketch.data.sources import Bytes
from onsketch.rows.schema import MISSING_WORDS

DELIMITERS = ",\t;|"
"""Tried where none is given: the one that cuts the first lines into most columns, each line alike."""

SAMPLE_LINES = 500
"""Lines by which it is decided what columns hold."""

_SAMPLE_BYTES = 1 << 18
_LONGEST_HEADER = 1 << 24
_COMMA_DECIMAL = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+([eE][-+]?\d+)?$")
_CODE = re.compile(r"0\d+$")


class Head(NamedTuple):
    """The first lines of a file: their text, and where the first of them ends."""

    lines: list[str]
    first_end: int
    """Bytes up to the end of the first line that is not blank …"""
    first_lines: int
    """… and how many lines these are."""


def first_lines(source: Bytes, wanted: int) -> Head:
    """The first lines that are not blank; from a pipe no more than have come with the first of them."""
    size, asked = (_SAMPLE_BYTES if wanted > 1 else 1 << 16), wanted
    while True:
        head = source.peek(size, asked)
        lines: list[str] = []
        at = first_end = first_count = 0
        while len(lines) < wanted and at < len(head):
            end = head.find(b"\n", at) + 1
            if not end and len(head) >= size and lines:
                break  # cut in the middle
            end = end or len(head)
            if head[at:end].strip():
                if not lines:
                    first_end, first_count = end, head[:end].count(b"\n")
                lines.append(head[at:end].decode("utf-8", "replace"))
            at = end
        ended = len(head) < size and head.count(b"\n") < asked
        whole = head[:first_end].endswith(b"\n")
        if ended or (lines and whole and (len(lines) > 1 or wanted == 1)):
            return Head(lines, first_end, first_count)
        if size > _LONGEST_HEADER:
            raise ReadError(source.name, 1, None, f"a line of more than {_LONGEST_HEADER:,} bytes; is this CSV?")
        size, asked = 4 * size, 4 * asked


def split(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The fields of these lines, without quotes and the blanks around them."""
    csv.field_size_limit(1 << 30)
    reader = csv.reader((line.rstrip("\r\n") for line in lines), delimiter=delimiter, skipinitialspace=True)
    try:
        return [[field.strip(" \t\r") for field in row] for row in reader]
    except csv.Error:
        return [[field.strip(' \t\r\n"') for field in line.split(delimiter)] for line in lines]


def find_delimiter(lines: Sequence[str]) -> str:
    """The character that cuts the lines into columns, each line alike.

    >>> find_delimiter(["a;b", "1,5;2,5", "2,25;3"])
    ';'
    """

    def merit(delimiter: str) -> tuple[bool, bool, int, int]:
        counts = [len(row) for row in split(lines[:50], delimiter)]
        alike = len(set(counts)) == 1 and counts[0] > 1
        others = sum(line.count(mark) for line in lines[:1] for mark in DELIMITERS if mark != delimiter)
        clean = alike and others == 0
        return clean, alike, counts[0] if counts else 0, -DELIMITERS.index(delimiter)

    return max(DELIMITERS, key=merit)


def find_decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """The decimal mark: a comma where fields are numbers with a comma and no other delimiter could be meant.

    >>> find_decimal([["1,5", "x"], ["1.234,5", "y"]], ";")
    ','
    """
    if delimiter == ",":
        return "."
    return "," if any(_COMMA_DECIMAL.match(field) for row in rows for field in row) else "."


def number(field: str, decimal: str = ".") -> float | None:
    """A field as a number, None for a word. Only for the first lines and options."""
    if "_" in field:
        return None
    if decimal == ",":
        field = field.replace(".", "").replace(",", ".")
    try:
        return float(field)
    except ValueError:
        return None


def look_at(rows: Sequence[Sequence[str]], width: int, decimal: str) -> list[Sampled]:
    """What each of so many columns holds in these rows."""
    found = []
    for k in range(width):
        values = [row[k] for row in rows if len(row) > k]
        there = [value for value in values if value not in MISSING_WORDS]
        numbers = [number(value, decimal) for value in there]
        words = sum(value is None for value in numbers)
        found.append(
            Sampled(
                words / max(len(there), 1),
                len(there) < len(values),
                len(there),
                len(set(there)),
                all(
                    value is not None and value == value // 1
                    for value in numbers
                    if value is None or abs(value) < 1e300
                ),
                any(_CODE.match(value) for value in there),
            )
        )
    return found
