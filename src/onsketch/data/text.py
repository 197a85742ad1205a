"""Conversion of text to blocks: a compiled parser gets whole lines of the stream of bytes.

The ends of blocks depend on the lines alone: after ``block_rows`` rows, or the line that reaches ``block_bytes``
bytes, whichever comes first. The arrival times of the bytes have no effect.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import ReadError
from onsketch.data.block import Block, Position
from onsketch.data.cursor import (
    ASKED,
    AT,
    BAD_AT,
    BAD_LINE,
    CODE,
    COLUMN,
    COUNT,
    LAST,
    LAST_RECORD,
    LAST_TEXT,
    LINE,
    MORE,
    NAMED,
    OPEN,
    REASONS,
    ROWS,
    SKIPPED,
)
from onsketch.data.numbers import PADDING
from onsketch.data.sources import CHUNK, UNPACKING, Bytes

LONGEST_LINE = 1 << 26
"""Default for the longest line: beyond it a file is not considered lines of text."""

_LONGEST_RECORD = 1 << 22
"""Bytes of a record of several lines beyond which its first line is considered bad."""

_BOM = b"\xef\xbb\xbf"
_TAIL = 4096


@dataclass(frozen=True)
class Limits:
    """Limits of a block, and the treatment of bad lines."""

    rows: int
    bytes: int
    skipping: bool
    eager: bool = False
    """True if a block also ends when no more text is available, so that a slow pipe is answered line by line."""
    line: int = LONGEST_LINE
    """Largest number of bytes of a line."""
    unpacking: int = UNPACKING
    """Largest number of bytes of memory for unpacking a file."""
    encoding: str | None = None
    """Encoding of text; None for UTF-8, or UTF-16 with its mark."""


class TextFormat(ABC):
    """Format of lines: scratch arrays for one block, and the parser that fills them."""

    takes_arrays = False
    """True for a format whose lines may come as the elements of a JSON array."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.width = 0
        self.base = 0
        self.first_skipped: ReadError | None = None
        self.indptr = np.zeros(rows + 1, dtype=np.int64)
        self.indices = np.empty(0, dtype=np.int64)
        self.values = np.empty(0)

    def begin(self, source: Bytes) -> int:
        """Read the start of a file; return the number of its lines that are no rows (a header)."""
        return 0

    def resume(self, position: Position) -> None:
        """Restore the decisions of earlier blocks."""
        self.width = position.width
        self.base = position.base

    def reserve(self, count: int, text: int) -> None:
        """Reserve space for the values of ``text`` bytes after ``count`` values: one takes at least two bytes."""
        need = count + text // 2 + 1
        if self.values.size < need:
            size = need + need // 4
            self.indices = longer(self.indices, size, count)
            self.values = longer(self.values, size, count)

    @abstractmethod
    def parse(self, text: NDArray[np.uint8], state: NDArray[np.int64], stop: int, budget: int, skipping: bool) -> None:
        """Parse lines of the text from ``state`` on."""

    def collect(self, text: bytearray, rows: tuple[int, int], values: tuple[int, int]) -> None:
        """Collect strings (tags, names) of the rows and values just parsed from the text itself."""
        return None

    @abstractmethod
    def block(self, rows: int, count: int, position: Position) -> Block:
        """Return the parsed rows, copied out of the scratch arrays."""

    def word(self, rest: bytearray) -> bytearray:
        """Return the part of a bad line's rest to show: up to the next separator."""
        return rest.split()[0]

    def finish(self, path: str) -> None:  # noqa: B027 (most formats have nothing to check)
        """Check conditions that are known only when all files have been read."""

    def reason(self, code: int, found: str) -> tuple[str, dict[str, Any]]:
        """Return the reason of a bad line, for users, and the options that it names."""
        return REASONS[code].format(found=found, width=self.width), NAMED


def longer(array: NDArray[Any], size: int, count: int) -> NDArray[Any]:
    """Return a longer array that begins with the first ``count`` entries of this one."""
    longer = np.empty((size, *array.shape[1:]), dtype=array.dtype)
    longer[:count] = array[:count]
    return longer


def _stretches(source: Bytes, longest: int, state: NDArray[np.int64]) -> Iterator[tuple[bytearray, int, int]]:
    """Yield the text in chunks of whole lines, all in one buffer, which the next chunk overwrites.

    The text after ``state[AT]`` begins the next chunk: a record that needs more lines.

    Yields the buffer, the length of the text in it (padding follows), and the number of its bytes that are not in the
    file: the last newline may be missing.
    """
    buffer = bytearray(4 * CHUNK)
    held = 0  # the beginning of an incomplete line
    while True:
        if held > len(buffer) - 2 * CHUNK:
            larger = bytearray(2 * len(buffer))
            larger[:held] = memoryview(buffer)[:held]
            buffer = larger
        with memoryview(buffer) as view:
            count = source.readinto(view[held : -len(PADDING) - 1])
        if not count:
            break
        cut, end = buffer.rfind(b"\n", held, held + count) + 1, held + count
        if (buffer.find(b"\n", held, cut) if cut else end) > longest:  # only the first line can: CHUNK bytes were read
            reason = f"longer than max_line_bytes={longest} allows; is this text?"
            raise ReadError(source.name, int(state[LINE]) + 1, None, reason, max_line_bytes=longest)
        held = end
        if cut:
            rest = bytes(buffer[cut:end])
            buffer[cut : cut + len(PADDING)] = PADDING
            yield buffer, cut, 0
            at = int(state[AT])
            state[OPEN] = LAST_RECORD if cut - at > min(longest, _LONGEST_RECORD) else MORE
            rest = bytes(buffer[at:cut]) + rest
            held = len(rest)
            buffer[:held] = rest
    if held:
        state[OPEN] = LAST_TEXT
        buffer[held : held + 1 + len(PADDING)] = b"\n" + PADDING
        yield buffer, held + 1, 1


def read_text(source: Bytes, form: TextFormat, start: Position, limits: Limits) -> Iterator[Block | Position]:
    """Yield the blocks of one file from a position on, and at the end the last position."""
    state = np.zeros(BAD_AT + 1, dtype=np.int64)
    state[LINE] = _begin(source, form, start, limits.line)
    here = replace(
        start, path=source.name, offset=source.offset, line=int(state[LINE]), width=form.width, base=form.base
    )
    spent = 0
    for text, size, added in _stretches(source, limits.line, state):
        array = np.frombuffer(text, dtype=np.uint8)
        before = here.offset
        state[AT] = 0
        while state[AT] < size and state[OPEN] != ASKED:
            at, rows, count = (int(state[k]) for k in (AT, ROWS, COUNT))
            state[SKIPPED] = state[CODE] = 0
            form.reserve(count, size - at)
            form.parse(array, state, size, at + limits.bytes - spent, limits.skipping)
            form.collect(text, (rows, int(state[ROWS])), (count, int(state[COUNT])))
            error = _bad_line(source.name, form, state, text) if state[CODE] else None
            spent += int(state[AT]) - at
            if state[AT] > at:
                here = _after(here, text, state, min(int(state[AT]), size - added), before, rows)
            stopping = error is not None and not limits.skipping
            if state[ROWS] == limits.rows or spent >= limits.bytes or stopping:
                if state[ROWS]:
                    yield form.block(int(state[ROWS]), int(state[COUNT]), here)
                    here = replace(here, width=form.width, base=form.base)
                state[ROWS] = state[COUNT] = spent = 0
            if error is not None and stopping:
                raise error
            form.first_skipped = form.first_skipped or error
        if limits.eager and state[ROWS] and not source.more_at_once():
            yield form.block(int(state[ROWS]), int(state[COUNT]), here)
            here = replace(here, width=form.width, base=form.base)
            state[ROWS] = state[COUNT] = spent = 0
    if state[ROWS]:
        yield form.block(int(state[ROWS]), int(state[COUNT]), here)
        here = replace(here, width=form.width, base=form.base)
    yield here


def _begin(source: Bytes, form: TextFormat, start: Position, longest: int) -> int:
    """Move to the first row, or to where reading stopped; return the number of lines before that."""
    if source.peek(len(_BOM)) == _BOM:
        source.skip(len(_BOM))
    if form.takes_arrays:
        source.lines_of_array(longest)
    header = form.begin(source)
    if start.offset:
        _check_resumed(source, start)
    return max(start.line, header)


def _after(here: Position, text: bytearray, state: NDArray[np.int64], end: int, before: int, rows: int) -> Position:
    """Return the position after the parsed text, which ends at ``end``, with ``rows`` rows before it."""
    tail = text[max(int(state[LAST]), end - _TAIL) : end]
    return replace(
        here,
        offset=before + end,
        line=int(state[LINE]),
        rows=here.rows + int(state[ROWS]) - rows,
        skipped=here.skipped + int(state[SKIPPED]),
        tail=len(tail),
        checksum=zlib.crc32(tail),
    )


def _check_resumed(source: Bytes, start: Position) -> None:
    """Move to where reading stopped, and check that the last line there is unchanged."""
    source.skip(start.offset - start.tail - source.offset)
    tail = b""
    while len(tail) < start.tail and (more := source.read(start.tail - len(tail))):
        tail += more
    if len(tail) < start.tail or zlib.crc32(tail) != start.checksum:
        raise ReadError(
            source.name, start.line, None, "cannot resume: the text up to this line is not the one read before"
        )


def _bad_line(path: str, form: TextFormat, state: NDArray[np.int64], text: bytearray) -> ReadError:
    """Return the error for the first bad line of this chunk."""
    at = int(state[BAD_AT])
    rest = text[at : at + 64].split(b"\n")[0].rstrip(b"\r")
    if not rest:
        found = "the end of the line"
    elif rest[:1].isspace():
        found = "a space"
    else:
        found = repr(form.word(rest)[:32].decode("utf-8", "replace"))
    reason, options = form.reason(int(state[CODE]), found)
    return ReadError(path, int(state[BAD_LINE]), int(state[COLUMN]), reason, **options)
