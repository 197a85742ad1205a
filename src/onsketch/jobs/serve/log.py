"""The log of learned rows: records with checksums, appended to segments, and recovery after a crash.

A record is a head and a payload:

    magic (4)  length (4)  number (8)  safe (8)  checksum of the payload (4)  checksum of the head (4)  payload

``number`` counts records from the beginning of the log. ``safe`` is the number of records that were on the disk when
this one was written, that is, all that may have been acknowledged. After each sync a mark follows: a record without a
payload, which has the number of the next record and only holds the number of safe records. So a record that a crash
tore can be distinguished from one that the disk damaged. If no later record calls a bad record safe, a crash has torn
it: it and what follows are cut off and kept in a file. Otherwise it was acknowledged: nothing is cut, and the log is
refused.

The damaged part is searched for later records from the end of the bad record on where its head is whole, so that bytes
of its payload (which clients choose) are not taken for records.

A segment is a file ``log-NUMBER.rows``, named by its first record; a snapshot begins a new one, so that those before
it can be removed.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from onsketch.core.errors import OnsketchError

_HEAD = struct.Struct("<4sIQQI")
_CHECK = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CHECK.size
_MAGIC = b"\xf7row"
_LARGEST = 1 << 31


class LogError(OnsketchError):
    """A log that cannot be continued."""


class Record(NamedTuple):
    """A record as it was read."""

    number: int
    safe: int
    payload: bytes
    end: int
    """Offset of the next record in its segment."""


def segment_name(number: int) -> str:
    """The file whose first record has this number."""
    return f"log-{number:016d}.rows"


def segments(folder: Path) -> list[tuple[int, Path]]:
    """The segments of a folder that are in use, in order, with the number of the first record of each."""
    found = folder.glob("log-" + "[0-9]" * 16 + ".rows")
    return sorted((int(path.name[4:-5]), path) for path in found if path.stat().st_size)


class Log:
    """The end of a log, for appending. One thread appends and rotates; another may call ``sync`` at the same time."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.number = number
        """Of the next record."""
        self.safe = number
        """Records on the disk."""
        self._lock = threading.Lock()
        """Held while the segment is synced or replaced."""
        self._appending = threading.Lock()
        """Held while a record or a mark is written."""
        self._file, self._size = self._opened()

    def _opened(self) -> tuple[int, int]:
        """Open the segment that begins with the next record; return its descriptor and size.

        A segment begins with a mark. One that is empty was never used: its creation has failed.
        """
        file = os.open(
            self.folder / segment_name(self.number), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            sync_folder(self.folder)
            size = os.fstat(file).st_size
            return file, size or self._write(file, 0, b"")
        except BaseException:
            os.close(file)
            raise

    def rotate(self) -> bool:
        """Continue in a new segment, after the present one is on the disk.

        Returns False if the new segment cannot be created (no space, no inode, no descriptor). The log then continues
        in the present one. An OSError is raised if the present segment could not be synced: the log is then unusable.
        """
        with self._lock, self._appending:
            os.fsync(self._file)
            self.safe = self.number
            try:
                file, size = self._opened()
            except OSError:
                return False
            os.close(self._file)
            self._file, self._size = file, size
        return True

    @property
    def size(self) -> int:
        """Bytes of the segment."""
        return self._size

    def append(self, payload: bytes) -> int:
        """Write a record and return the number of records. If the disk is full, an OSError is raised, and the log is as
        it was.
        """
        with self._appending:
            self._size = self._write(self._file, self._size, payload)
            self.number += 1
            return self.number

    def _write(self, file: int, size: int, payload: bytes) -> int:
        """Write a record to a segment of this size, completely or not at all; return the new size."""
        head = _HEAD.pack(_MAGIC, len(payload), self.number, self.safe, zlib.crc32(payload))
        whole = memoryview(b"".join([head, _CHECK.pack(zlib.crc32(head)), payload]))
        written = 0
        try:
            while written < len(whole):
                written += os.write(file, whole[written:])
        except OSError:
            try:
                os.ftruncate(file, size)
            except OSError as error:
                raise LogError(f"{self.folder}: half a record could not be removed from the log ({error}).") from error
            raise
        return size + written

    def sync(self, number: int) -> None:
        """Put the first ``number`` records on the disk, and mark them as safe."""
        with self._lock:
            if self.safe < number:
                os.fdatasync(self._file)
                self.safe = max(self.safe, number)
                with suppress(OSError), self._appending:  # if no mark can be written, the next record holds the number
                    self._size = self._write(self._file, self._size, b"")

    def close(self) -> None:
        """Put all on the disk and end."""
        with self._lock:
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
        end, number = 0, first
        for record in _records(content, first):
            end, number = record.end, record.number + bool(record.payload)
            if number > wanted:
                yield record
                wanted = number
        if end < len(content):
            yield from _torn(path, content, end, number, last, cut_damaged)
            return


def _records(content: bytes, number: int) -> Iterator[Record]:
    """Records and marks from the beginning of a segment up to the first that is not whole."""
    at = 0
    while (record := _record(content, at)) is not None and record.number == number:
        yield record
        at, number = record.end, number + bool(record.payload)


def _head(content: bytes, at: int) -> tuple[int, int, int, int] | None:
    """Return length of the payload, number, safe and checksum from a whole head at this offset; None without one."""
    if at + HEAD_BYTES > len(content):
        return None
    head = content[at : at + _HEAD.size]
    magic, *found = _HEAD.unpack(head)
    if magic != _MAGIC or _CHECK.unpack_from(content, at + _HEAD.size)[0] != zlib.crc32(head) or found[0] > _LARGEST:
        return None
    length, number, safe, checksum = found
    return length, number, safe, checksum


def _record(content: bytes, at: int) -> Record | None:
    """The record here, None if there is no whole one."""
    head = _head(content, at)
    if head is None:
        return None
    length, number, safe, checksum = head
    start = at + HEAD_BYTES
    payload = content[start : start + length]
    if len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    return Record(number, safe, payload, start + length)


def _torn(path: Path, content: bytes, end: int, number: int, last: bool, cut_damaged: bool) -> Iterator[str]:
    """Cut off what follows the last whole record, or refuse where some of it had been acknowledged."""
    acknowledged = not last  # a snapshot was begun after it, with everything before on the disk
    head = _head(content, end)
    at = content.find(_MAGIC, end if head is None else end + HEAD_BYTES + head[0])
    while at >= 0 and not acknowledged:
        record = _record(content, at)
        acknowledged = record is not None and record.safe > number
        at = content.find(_MAGIC, at + 1)
    if acknowledged and not cut_damaged:
        raise LogError(
            f"{path}: damaged at byte {end:,} (record {number:,}), among rows that had been acknowledged. Restore the "
            "folder from a backup; or start once with --cut-damaged to continue with the rows before the damage only."
        )
    kept = path.with_suffix(".torn")
    try:
        kept.write_bytes(content[end:])
    except OSError:  # a full disk: torn bytes were not acknowledged and can be spared
        kept.unlink(missing_ok=True)
        if acknowledged:
            raise
    for first, later in segments(path.parent):
        if first > number:
            later.rename(later.with_suffix(".torn"))
    with path.open("r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())
    sync_folder(path.parent)
    what = "damaged" if acknowledged else "torn"
    yield f"{path}: {len(content) - end:,} {what} bytes after record {number:,} were cut off" + (
        f" (kept in {kept.name})" if kept.exists() else ""
    )
