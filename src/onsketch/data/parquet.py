"""The row groups of a Parquet file, none of which may fill memory: its index and its pages say how large they become.

A page is unpacked into as many bytes as its own header names, so that a small page can fill memory while the index at
the file's end speaks of a few bytes: both are looked at. Headers are structures of Thrift's compact protocol; of theirs
only two numbers count here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, BinaryIO

from onsketch.core.errors import ReadError
from onsketch.data.text import Limits

_BOMB = 1000
"""How many times as large a column becomes by unpacking where it was packed to do harm."""


def row_groups(path: str, file: Any, found: Any, groups: range, rows: int, limits: Limits) -> Iterator[Any]:
    """The batches of these row groups; what is wrong with one is told with the column in which it is.

    Args:
        path: its name, for messages.
        file: as pyarrow has it.
        found: the same file as a path, or open.
        groups: which ones.
        rows: at most so many to a batch.
        limits: of reading.
    """
    from pyarrow import ArrowException

    for group in groups:
        _check_sizes(path, file.metadata.row_group(group), found, group, limits.unpacking)
        try:
            yield from file.iter_batches(rows, row_groups=[group])
        except (ArrowException, OSError) as error:
            for name in file.schema_arrow.names:
                try:
                    for _ in file.iter_batches(rows, row_groups=[group], columns=[name]):
                        pass
                except (ArrowException, OSError) as reason:
                    told = f"row group {group}, column {name!r} is damaged ({reason})"
                    raise ReadError(path, None, None, told) from None
            raise ReadError(path, None, None, f"row group {group} is damaged ({error})") from None


def _check_sizes(path: str, told: Any, found: Any, group: int, most: int) -> None:
    """Refuse a column that says it unpacks to too much, and a page that unpacks to more than its column says."""
    with open(found, "rb") if isinstance(found, str) else nullcontext(found) as file:
        for column in map(told.column, range(told.num_columns)):
            packed, whole = column.total_compressed_size, column.total_uncompressed_size
            where = f"row group {group}, column {column.path_in_schema!r}"
            largest = 0
            if column.compression != "UNCOMPRESSED":
                start = min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
                try:
                    largest = max(page_sizes(file, start, start + packed), default=0)
                except ValueError as error:
                    raise ReadError(path, None, None, f"{where} is damaged ({error})") from None
            if (whole > most and whole > _BOMB * packed) or largest > max(whole, most):
                reason = (
                    f"{packed:,} bytes would unpack to {max(whole, largest):,}, more than max_unpack_bytes={most:,}"
                )
                raise ReadError(path, None, None, f"{where}: {reason}")


_WINDOW, _LONGEST = 1 << 12, 1 << 24
"""Bytes read for a header at first, and at most: it may hold the least and the largest word of the page."""
_UNPACKED, _PACKED = 2, 3
_WIDTHS = {1: 0, 2: 0, 3: 1, 7: 8}
"""Bytes after the field's head: true, false, a byte, a double."""
_NUMBERS, _WORD, _LISTS, _MAP, _STRUCT = (4, 5, 6), 8, (9, 10), 11, 12


def page_sizes(file: BinaryIO, start: int, stop: int) -> Iterator[int]:
    """Bytes that each of the pages from ``start`` to ``stop`` unpacks to; ValueError where no page can be made out."""
    while start < stop:
        size = _WINDOW
        while True:
            file.seek(start)
            data = file.read(size)
            try:
                header = _Header(data)
                break
            except IndexError:
                if len(data) < size or size >= _LONGEST:
                    raise ValueError(f"no page begins at byte {start:,}") from None
                size *= 16
        if min(header.sizes.values(), default=-1) < 0 or len(header.sizes) < 2:
            raise ValueError(f"the page at byte {start:,} does not say how long it is")
        yield header.sizes[_UNPACKED]
        start += header.at + header.sizes[_PACKED]


class _Header:
    """Reads the header of a page; IndexError where there are too few bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0
        self.sizes: dict[int, int] = {}
        self._struct(outermost=True)

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _number(self) -> int:
        """Seven bits to a byte, the lowest first."""
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        raise ValueError("a number of a page's header has no end")

    def _struct(self, outermost: bool = False, depth: int = 0) -> None:
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = 0 if step else self._number()
            field = field + step if step else (number >> 1) ^ -(number & 1)
            if outermost and kind == 5 and field in (_UNPACKED, _PACKED):
                number = self._number()
                self.sizes[field] = (number >> 1) ^ -(number & 1)
            else:
                self._skip(kind, depth)

    def _skip(self, kind: int, depth: int) -> None:
        if depth > 16:
            raise ValueError("a page's header is a maze")
        if kind in _WIDTHS:
            self.at += _WIDTHS[kind]
        elif kind in _NUMBERS:
            self._number()
        elif kind == _WORD:
            length = self._number()
            self.at += length
        elif kind == _STRUCT:
            self._struct(depth=depth + 1)
        elif kind in _LISTS:
            head = self._byte()
            count, part = head >> 4 if head >> 4 < 15 else self._number(), head & 15
            if part in _WIDTHS:  # at once: a list may say that it has any number of them
                self.at += count * max(_WIDTHS[part], 1)  # true and false are bytes within a list
                return
            for _ in range(count):
                self._skip(part, depth + 1)
        else:
            raise ValueError("a page's header holds what none has")
