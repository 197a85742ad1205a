"""Detection of delimiter, decimal mark, header and column statistics from the first lines of a CSV file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from onsketch.core.errors import ReadError
from onsketch.data.columns import number
from onsketch.data.sources import Bytes
from onsketch.rows.schema import is_gap

DELIMITERS = ",\t;|"
"""Candidates: the one that splits the first lines into most columns, with equal counts, is chosen."""

SAMPLE_LINES = 500
"""Number of lines by which the kinds of columns are decided."""

LOOKED_AT = 100
"""Rows in which the columns of a file are compared with those of the schema."""

_END_OF_FIELD = re.compile(rb"[,;\t|]")
_QUOTED = re.compile(rb'[ \t]*"(?:[^"]|"")*("?)')
_SAMPLE_BYTES = 1 << 18
_LONGEST_HEADER = 1 << 24
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+$")
_COMMA_DECIMAL = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+([eE][-+]?\d+)?$")


class Head(NamedTuple):
    """First lines of a file: their text, and the end of the first of them."""

    lines: list[str]
    first_end: int
    """Bytes up to the end of the first line that is not blank …"""
    first_lines: int
    """… and its number of lines."""


def first_lines(source: Bytes, wanted: int) -> Head:
    """Return the first lines that are not blank; from a pipe no more than have arrived with the first of them."""
    size, asked = (_SAMPLE_BYTES if wanted > 1 else 1 << 16), wanted
    while True:
        head = source.peek(size, asked)
        lines: list[str] = []
        at = first_end = first_count = 0
        while len(lines) < wanted and at < len(head):
            end = _record_end(head, at)
            if not end and len(head) >= size and lines:
                break  # incomplete
            end = end or len(head)
            if head[at:end].strip():
                if not lines:
                    first_end, first_count = end, head[:end].count(b"\n")
                try:
                    lines.append(
                        head[at:end].decode(errors="replace" if lines and source.skips_bad_lines else "strict")
                    )
                except UnicodeDecodeError as error:
                    reason = f"byte {head[at + error.start]:#04x} is not UTF-8; give the encoding (encoding='latin-1')"
                    line = head.count(b"\n", 0, at) + 1
                    raise ReadError(source.name, line, error.start + 1, reason, encoding="latin-1") from None
            at = end
        ended = len(head) < size and head.count(b"\n") < asked
        whole = head[:first_end].endswith(b"\n")
        if ended or (lines and whole and (len(lines) > 1 or wanted == 1)):
            return Head(lines, first_end, first_count)
        if size > _LONGEST_HEADER:
            raise ReadError(source.name, 1, None, f"a line of more than {_LONGEST_HEADER:,} bytes; is this text?")
        size, asked = 4 * size, 4 * asked


def _record_end(head: bytes, at: int) -> int:
    """Return the end of the record at ``at``, quoted line ends included, or 0 if it is not within these bytes.

    A quote that does not end within these bytes is treated as a letter.
    """
    end = line_end = head.find(b"\n", at) + 1
    if end and head.find(b'"', at, end) < 0:
        return end
    while end:
        quoted = _QUOTED.match(head, at, len(head))
        if quoted and not quoted[1]:
            return line_end
        at = quoted.end() if quoted else at
        end = end if at < end else head.find(b"\n", at) + 1
        found = _END_OF_FIELD.search(head, at, end)
        if found is None:
            return end
        at = found.end()
    return 0


def split(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the fields of these lines, without quotes and surrounding blanks."""
    csv.field_size_limit(1 << 30)
    reader = csv.reader((line.rstrip("\r\n") for line in lines), delimiter=delimiter, skipinitialspace=True)
    try:
        return [[field.strip(" \t\r") for field in row] for row in reader]
    except csv.Error:
        return [[field.strip(' \t\r\n"') for field in line.split(delimiter)] for line in lines]


def find_delimiter(lines: Sequence[str]) -> str:
    """Return the character that splits the lines into columns, with equal counts.

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


_NAME = re.compile(r"\d+")
_PLAIN = re.compile(r"[-+]?[\w.+-]+")


def is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row of a table holds the names of its columns.

    A row without numbers does. So does one whose numbers may be names (2019, inf) if the rows below differ from it: a
    word stands over a column of numbers, or all words stand over categories that do not have them.

    >>> is_header(["city", "2019", "2020"], [["paris", "5", "1"], ["paris", "7", "0"]])
    True
    >>> is_header(["setosa", "5", "3"], [["setosa", "4", "3"], ["virginica", "7", "4"]])
    False
    """
    numbers = [cell for cell in first if _is_finite(cell)]
    if len(first) > 2 and list(first) == ["", *(str(k) for k in range(len(first) - 1))]:
        return True  # the index and unnamed columns of a data frame
    words = [k for k, cell in enumerate(first) if not is_gap(cell) and not _is_finite(cell)]
    if not numbers and all(_number(cell) is None for cell in first):
        return True
    if not words or len(set(first)) < len(first) or not all(_NAME.fullmatch(cell) for cell in numbers):
        return False
    below = {k: [row[k] for row in rest if len(row) > k and not is_gap(row[k])] for k in words}
    if any(cells and all(map(_is_finite, cells)) for cells in below.values()):
        return True
    repeated = [k for k, cells in below.items() if 2 * len(set(cells)) <= len(cells)]
    return bool(repeated) and not any(first[k] in below[k] for k in words)


def _number(cell: str) -> float | None:
    """Return a cell as a plain number; an amount (50%) may be a name."""
    return number(cell) if _PLAIN.fullmatch(cell) else None


def _is_finite(cell: str) -> bool:
    value = _number(cell)
    return value is not None and math.isfinite(value)


def find_decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Return the decimal mark: a comma if fields are numbers with a comma and no other delimiter is possible.

    >>> find_decimal([["1,5", "x"], ["1.234,5", "y"]], ";")
    ','
    """
    if delimiter == ",":
        return "."
    found = [field for row in rows for field in row if _COMMA_DECIMAL.match(field)]
    plain = delimiter == ";" or not all(map(_THOUSANDS.match, found))  # 113,397 in columns that tabs separate
    return "," if found and plain else "."
