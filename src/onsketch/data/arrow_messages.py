"""The messages of Arrow files and streams, none of which may fill memory by unpacking.

A buffer of a compressed batch begins with the number of bytes that it unpacks to, and pyarrow unpacks a batch at once.
The number is looked at first. The layout is that of Arrow's IPC format: a message has metadata, which is a FlatBuffers
table, and a body, to whose buffers the metadata points.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from onsketch.core.errors import ReadError
from onsketch.data.parquet import BOMB
from onsketch.data.sources import Bytes

MAGIC = b"ARROW1"
_START = 8
"""Offset of the first message in a file with an index at its end: after the padded magic word."""
_DICTIONARY, _BATCH = 2, 3
_VERY_OLD = b"ARROW:experimental_compression"
"""Key by which Arrow 0.17 marked a batch as compressed."""


def open_file(path: str, file: BinaryIO, most: int) -> Any:
    """Open an Arrow file that can seek, with or without an index at its end, as a reader of batches.

    Args:
        path: name of the file for messages.
        file: the open file.
        most: bytes that a batch may unpack to; more is refused where the batch is a thousand times smaller.
    """
    from pyarrow import ipc

    start = 0
    file.seek(0)
    head = file.read(len(MAGIC))
    if head.startswith(b"FEA1"):
        reason = "a Feather file of version 1, which is no longer read; write it as Arrow or Parquet"
        raise ReadError(path, None, None, reason)
    if head == MAGIC:
        start = _START
        file.seek(-len(MAGIC), os.SEEK_END)
        if file.read() != MAGIC:
            raise ReadError(path, None, None, "the Arrow file ends too early: truncated?")

    def look(at: int, count: int) -> bytes:
        file.seek(at)
        return bytes(file.read(count))

    def eight(body: int, place: int) -> bytes:
        return look(body + place, 8)

    at = start
    while True:
        head = look(at, 8)
        skip = 4 if head[:4] == b"\xff\xff\xff\xff" else 0
        size = int.from_bytes(head[skip : skip + 4], "little", signed=True)
        if size <= 0:
            break
        body = at + skip + 4 + size
        try:
            at = body + _check(path, look(body - size, size), partial(eight, body), most)
        except struct.error:  # pyarrow reports the error
            break
    file.seek(start)
    return ipc.open_stream(file)


def open_pipe(source: Bytes, most: int) -> Any:
    """Open Arrow messages that come through a pipe as a reader of batches."""
    from pyarrow import ipc

    if source.peek(len(MAGIC)) == MAGIC:
        source.skip(_START)
    return ipc.open_stream(io.BufferedReader(_Checked(source, most), 1 << 20))


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a FlatBuffers table is; 0 if the table does not have it."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    place = 4 + 2 * number
    known = place < struct.unpack_from("<H", data, vtable)[0]
    offset = struct.unpack_from("<H", data, vtable + place)[0] if known else 0
    return table + offset if offset else 0


def _target(data: bytes, place: int) -> int:
    """Return where the offset at ``place`` points to."""
    return int(place + struct.unpack_from("<I", data, place)[0])


def _check(path: str, data: bytes, look: Callable[[int], bytes], most: int) -> int:
    """Return the bytes of a message's body; a ReadError refuses one that unpacks to too much.

    A place outside the message is a ``struct.error``.
    """
    message = _target(data, 0)
    kind, header, length = (_field(data, message, number) for number in (1, 2, 3))
    packed = struct.unpack_from("<q", data, length)[0] if length else 0
    if packed < 0:
        raise struct.error
    code = struct.unpack_from("<B", data, kind)[0] if kind else 0
    if not header or code not in (_DICTIONARY, _BATCH):
        return packed
    batch = _target(data, header)
    if code == _DICTIONARY:
        batch = _target(data, _field(data, batch, 1))
    buffers = _field(data, batch, 2)
    if not buffers or not (_field(data, batch, 3) or _VERY_OLD in data):
        return packed
    first = _target(data, buffers)
    unpacked = 0
    for k in range(struct.unpack_from("<I", data, first)[0]):
        offset, size = struct.unpack_from("<qq", data, first + 4 + 16 * k)
        if size >= 8 and offset >= 0:
            unpacked += max(0, struct.unpack("<q", look(offset))[0])
    if unpacked > most and unpacked > BOMB * packed:
        reason = f"{packed:,} bytes of a batch would unpack to {unpacked:,}, more than max_unpack_bytes={most:,}"
        raise ReadError(path, None, None, reason, max_unpack_bytes=most)
    return packed


class _Checked(io.RawIOBase):
    """The messages of a source as a raw file, each checked before it is passed on."""

    def __init__(self, source: Bytes, most: int) -> None:
        from pyarrow import ipc

        self._name, self._most = source.name, most
        self._messages = iter(ipc.MessageReader.open_stream(io.BufferedReader(_AsRaw(source), 1 << 20)))
        self._waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._waiting:
            try:
                message = next(self._messages, None)
            except MemoryError:
                raise OSError("a message is longer by its head than memory allows: damaged?") from None
            if message is not None:
                body = message.body
                metadata = message.metadata.to_pybytes()
                _check(self._name, metadata, lambda at: body.slice(at, 8).to_pybytes(), self._most)
                self._waiting = memoryview(message.serialize()).cast("B")
        count = min(len(buffer), len(self._waiting))
        buffer[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count


class _AsRaw(io.RawIOBase):
    """A source as a raw file."""

    def __init__(self, source: Bytes) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
