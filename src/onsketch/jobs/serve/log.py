"""The log of what was learned: records appended to segments, each with checksums, and what is left after a crash.

A record is a head and a payload:

    magic (4)  length (4)  number (8)  safe (8)  checksum of the payload (4)  checksum of the head (4)  payload

``number`` counts records from the beginning of the log. ``safe`` is the number of records known to be on the disk when
this one was written: all that was acknowledged by then. So what a crash has torn can be told from what a disk has
lost. A bad record that no later one calls safe is what a crash leaves at the end: it and what follows are cut off, and
kept beside. One that a later record calls safe was acknowledged: nothing is cut, and the log is refused.

A segment is a file ``log-NUMBER.rows``, named by its first record; a snapshot begins a new one, so that those before
it can be removed.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from onsketch.core.errors import OnsketchError

_HEAD = struct.Struct("<4sIQQI")
_CHECK = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CHECK.size
_MAGIC = b"\xf7row"
_LARGEST = 1 << 31


class LogError(OnsketchError):
    """A log that cannot be gone on from."""


class Record(NamedTuple):
    """A record as it was read."""

    number: int
    safe: int
    payload: bytes
    end: int
    """Where the next one begins in its segment."""


def segment_name(number: int) -> str:
    """The file whose first record has this number."""
    return f"log-{number:016d}.rows"


def segments(folder: Path) -> list[tuple[int, Path]]:
    """The segments of a folder, in order, with the number of the first record of each."""
    return sorted((int(path.name[4:-5]), path) for path in folder.glob("log-" + "[0-9]" * 16 + ".rows"))


class Log:
    """The end of a log, for appending. Not for two threads, but for ``sync``, which may run beside ``append``."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.number = number
        """Of the next record."""
        self.safe = number
        """Records on the disk."""
        self._file = -1
        self._size = 0
        self._lock = threading.Lock()
        self.rotate()

    def rotate(self) -> None:
        """Go on in a new segment; the one before is whole on the disk by then."""
        with self._lock:
            if self._file >= 0:
                os.fsync(self._file)
                os.close(self._file)
                self.safe = self.number
            path = self.folder / segment_name(self.number)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._file).st_size
            sync_folder(self.folder)

    @property
    def size(self) -> int:
        """Bytes of the segment."""
        return self._size

    def append(self, payload: bytes) -> int:
        """Write a record; returns how many records there are now. Where the disk is full nothing has changed."""
        head = _HEAD.pack(_MAGIC, len(payload), self.number, self.safe, zlib.crc32(payload))
        whole = memoryview(b"".join([head, _CHECK.pack(zlib.crc32(head)), payload]))
        written = 0
        try:
            while written < len(whole):
                written += os.write(self._file, whole[written:])
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += written
        self.number += 1
        return self.number

    def sync(self, number: int) -> None:
        """Put the first ``number`` records on the disk."""
        with self._lock:
            if self.safe < number:
                os.fdatasync(self._file)
                self.safe = max(self.safe, number)

    def close(self) -> None:
        """Put all on the disk and end."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1


def sync_folder(folder: Path) -> None:
    """Put the names of a folder's files on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_log(folder: Path, start: int, cut_damaged: bool = False) -> Iterator[Record | str]:
    """The records from number ``start`` on; a note where a torn end was cut off.

    Raises:
        LogError: records are missing, or damaged although they were acknowledged.
    """
    found = segments(folder)
    wanted = start
    for place, (first, path) in enumerate(found):
        last = place + 1 == len(found)
        if not last and found[place + 1][0] <= start:
            continue  # all of it is in the snapshot
        if first > wanted:
            raise LogError(
                f"{path}: begins with record {first:,}, but the snapshot and the log before it end at {wanted:,}. "
                "Restore the folder from a backup."
            )
        content = path.read_bytes()
        end = number = 0
        for record in _records(content, first):
            end, number = record.end, record.number + 1
            if record.number >= wanted:
                yield record
                wanted = record.number + 1
        number = number or first
        if end < len(content):
            yield from _torn(path, content, end, number, last, cut_damaged)
            return


def _records(content: bytes, number: int) -> Iterator[Record]:
    """Records from the beginning of a segment up to the first that is not whole."""
    at = 0
    while (record := _record(content, at)) is not None and record.number == number:
        yield record
        at, number = record.end, number + 1


def _record(content: bytes, at: int) -> Record | None:
    """The record here, None if there is no whole one."""
    if at + HEAD_BYTES > len(content):
        return None
    head = content[at : at + _HEAD.size]
    magic, length, number, safe, checksum = _HEAD.unpack(head)
    if magic != _MAGIC or _CHECK.unpack_from(content, at + _HEAD.size)[0] != zlib.crc32(head) or length > _LARGEST:
        return None
    start = at + HEAD_BYTES
    payload = content[start : start + length]
    if len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    return Record(number, safe, payload, start + length)


def _torn(path: Path, content: bytes, end: int, number: int, last: bool, cut_damaged: bool) -> Iterator[str]:
    """Cut off what follows the last whole record, or refuse where some of it had been acknowledged."""
    acknowledged = not last  # a snapshot was begun after it, with everything before on the disk
    at = content.find(_MAGIC, end)
    while at >= 0 and not acknowledged:
        record = _record(content, at)
        acknowledged = record is not None and record.safe > number
        at = content.find(_MAGIC, at + 1)
    if acknowledged and not cut_damaged:
        raise LogError(
            f"{path}: damaged at byte {end:,} (record {number:,}), among rows that had been acknowledged. Restore the "
            "folder from a backup; or start once with --cut-damaged to go on with the rows before the damage only."
        )
    kept = path.with_suffix(".torn")
    kept.write_bytes(content[end:])
    for first, later in segments(path.parent):
        if first > number:
            later.rename(later.with_suffix(".torn"))
    with path.open("r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())
    sync_folder(path.parent)
    what = "damaged" if acknowledged else "torn"
    yield f"{path}: {len(content) - end:,} {what} bytes after record {number:,} were cut off (kept in {kept.name})"
