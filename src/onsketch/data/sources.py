"""Sources of bytes: files, lists and globs of them, standard input, remote addresses; plain or compressed.

The first bytes, not the name, determine the compression. A pipe is read as data arrives.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import os
import select
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, cast

from onsketch.core.errors import InputError, OptionError, ReadError, some
from onsketch.data.recoded import ArrayLines, Decoded

CHUNK = 1 << 18
"""Bytes read at a time."""

UNPACKING = 1 << 27
"""Memory that unpacking may take: that of the programs zstd and xz at their highest ordinary levels."""

STDIN = "-"

_MAGIC = {
    b"\x1f\x8b": "gz", b"\xfd7zXZ\x00": "xz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst", b"PK\x03\x04": "zip",
}  # fmt: skip
_LONGEST = max(map(len, _MAGIC))
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""First bytes of text that is not UTF-8."""

Paths = str | os.PathLike[str] | BinaryIO | Iterable[str | os.PathLike[str]]


def can_be_read_again(source: str | BinaryIO) -> bool:
    """Return True if opening the source again gives the same bytes: not for standard input, open files and pipes."""
    if not isinstance(source, str) or source == STDIN:
        return False
    return "://" in source or Path(source).is_file()


def expand(paths: Paths) -> list[str | BinaryIO]:
    """Return the files for a name, ``-``, a pattern (sorted), an address, an open binary file, or a list of names."""
    if hasattr(paths, "read"):
        return [cast(BinaryIO, paths)]
    names = [paths] if isinstance(paths, str | os.PathLike) else list(cast(Iterable[Any], paths))
    found: list[str | BinaryIO] = []
    for name in (os.fspath(given) for given in names):
        if not isinstance(name, str):
            raise InputError(f"{name!r}: expected the name of a file as text.")
        if name == STDIN or Path(name).exists() or ("://" in name and not glob.has_magic(name)):
            found.append(name)
            continue
        if not glob.has_magic(name):
            raise InputError(f"{name}: no such file.")
        if "://" in name:
            files = _fsspec(name).open_files(name, "rb")
            matches = [file.fs.unstrip_protocol(file.path) for file in files]
        else:
            matches = glob.glob(name, recursive=True)
        if not matches:
            raise InputError(f"{name}: no file matches this pattern.")
        found.extend(sorted(matches))
    if not found:
        raise InputError("no file to read: the list is empty.")
    if found.count(STDIN) > 1:
        raise InputError("standard input (-) can be read once only.")
    return found


def shown(source: str | BinaryIO) -> str:
    """Return the name of a source in messages."""
    if isinstance(source, str):
        return "standard input" if source == STDIN else source
    return str(getattr(source, "name", "<stream>"))


class Bytes:
    """Decompressed bytes of one source, read in order. Errors name the source."""

    chunk = CHUNK

    _bad = "cannot be read"

    def __init__(self, source: str | BinaryIO, unpacking: int = UNPACKING, encoding: str | None = None) -> None:
        self.name = shown(source)
        self.offset = 0
        self.skips_bad_lines = False
        """Lines that are not UTF-8 are bad lines like others; the first one must be text in any case."""
        self._unpacking = unpacking
        self._owned = isinstance(source, str)
        try:
            self._raw = _open(source) if isinstance(source, str) else source
            head = _read_fully(self._raw, _LONGEST)
        except OSError as error:
            raise InputError(f"{self.name}: {error.strerror or error}.") from None
        if not isinstance(head, bytes):
            raise InputError(f'{self.name}: it is open as text; open it with mode "rb".')
        self._kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")
        """Compression or encoding of the bytes; empty for a plain file, which is read directly."""
        self._pushed = head
        self._file: Any = self._raw
        if self._kind == "zip":
            self._file, self._pushed = _unzipped(self.name, self._raw), b""
        elif self._kind:
            self._file = _decompressing(self._kind, io.BufferedReader(_Rejoined(head, self._raw), 1 << 17), unpacking)
            self._pushed = b""
        encoding = encoding or next((name for mark, name in _MARKS.items() if self._pushed.startswith(mark)), None)
        if encoding is not None and codec(encoding) != "utf-8":
            self._recode(lambda read: Decoded(read, encoding), f"not {encoding}")

    def _recode(self, recoder: Any, reason: str) -> None:
        """Decode the rest through a recoder; ``reason`` describes the source's fault if that fails."""
        pushed, file, packed = self._pushed, self._file, bool(self._kind)

        def read(size: int) -> bytes:
            nonlocal pushed
            if pushed:
                data, pushed = pushed, b""
                return data
            return (file.read1(size) if packed else file.read(size)) or b""

        self._pushed, self._kind, self._bad = b"", self._kind or "text", reason
        self._file = recoder(read)

    def lines_of_array(self, longest: int) -> None:
        """Read a JSON array as lines, one for each element, if the source is one."""
        head = self.peek(1 << 10, lines=1)
        if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
            self._recode(lambda read: ArrayLines(read, longest), "not a JSON array of objects")

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        if self._pushed:
            data, self._pushed = self._pushed[:size], self._pushed[size:]
        else:
            try:
                # Read what is available, so that everything before damaged data is delivered.
                data = (self._file.read1(size) if self._kind else self._file.read(size)) or b""
            except _TooMuch:
                reason = (
                    f"unpacking this {self._kind} data takes more memory than max_unpack_bytes={self._unpacking} allows"
                )
                raise ReadError(self.name, None, None, reason, max_unpack_bytes=self._unpacking) from None
            except EOFError:
                raise ReadError(self.name, None, None, f"the {self._kind} data ends too early: truncated?") from None
            except ValueError as error:
                raise ReadError(self.name, None, None, f"{self._bad} ({error})") from None
            except (OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError) as error:
                what = f"damaged {self._kind} data" if self._kind else "cannot be read"
                raise ReadError(self.name, None, None, f"{what} ({error})") from None
        self.offset += len(data)
        return data

    def peek(self, size: int, lines: int = 0) -> bytes:
        """Return up to ``size`` next bytes or (from a slow pipe) this many lines, without consuming them."""
        head = b""
        while len(head) < size and not (lines and head.count(b"\n") >= lines) and (more := self.read(size - len(head))):
            head += more
        self._pushed = head + self._pushed
        self.offset -= len(head)
        return head

    def skip(self, count: int) -> None:
        """Skip bytes, by seeking if the file can."""
        goal = self.offset + count
        if not self._kind and self._owned and self._raw.seekable() and goal > self.offset + len(self._pushed):
            end = self._raw.seek(0, os.SEEK_END)
            self._pushed = b""
            self.offset = self._raw.seek(min(goal, end))
        while self.offset < goal:
            if not self.read(min(CHUNK, goal - self.offset)):
                break
        if self.offset < goal:
            raise ReadError(
                self.name, None, None, f"cannot resume: it has {self.offset:,} bytes, and {goal:,} were already used"
            )

    def readinto(self, view: memoryview) -> int:
        """Fill the beginning of a buffer with the next bytes; return their number, 0 at the end."""
        size = min(len(view), self.chunk)
        if self._kind or self._pushed or not isinstance(self._raw, io.FileIO):
            data = self.read(size)
            view[: len(data)] = data
            return len(data)
        try:
            count = self._raw.readinto(view[:size]) or 0
        except OSError as error:
            raise ReadError(self.name, None, None, f"cannot be read ({error})") from None
        self.offset += count
        return count

    def more_at_once(self) -> bool:
        """Return True if more can be read without waiting; False only for a pipe without data at the moment."""
        if self._pushed or self._kind or os.name != "posix":
            return True
        try:
            return bool(select.select([self._raw.fileno()], [], [], 0.0)[0])
        except (OSError, ValueError, AttributeError):  # not a file of the operating system
            return True

    def close(self) -> None:
        """Close the files opened here; standard input and files opened elsewhere stay open."""
        if self._owned:
            self._raw.close()


class _Rejoined(io.RawIOBase):
    """File joined again with bytes already read from its beginning."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head[: len(buffer)] or self._rest.read(len(buffer)) or b""
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


class _TooMuch(Exception):
    """Error of data that needs more memory for unpacking than allowed."""


class _Zstd:
    """Zstandard frames, one after the other, as a file that detects truncation.

    Every byte fed is unpacked, four bytes to 128 KiB at most: half a KiB at a time gives at most 16 MiB.
    """

    piece = 1 << 9

    def __init__(self, file: Any, most: int) -> None:
        try:
            import zstandard
        except ImportError:
            raise ImportError("reading .zst files needs zstandard: pip install 'onsketch[zstd]'") from None
        self._new = zstandard.ZstdDecompressor(max_window_size=most).decompressobj
        self._error = zstandard.ZstdError
        self._file = file
        self._frame: Any = None
        self._input = b""
        self._at = 0
        self._waiting = memoryview(b"")
        self._failed: Exception | None = None

    def read1(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        if not self._waiting:
            if self._failed is not None:
                raise self._failed
            self._waiting = memoryview(self._unpack(size))
        data, self._waiting = self._waiting[:size], self._waiting[size:]
        return bytes(data)

    def _unpack(self, size: int) -> bytes:
        """Return about ``size`` bytes, or what the available input gives."""
        out: list[bytes] = []
        count = 0
        while count < size:
            if self._at >= len(self._input):
                if count:
                    break
                self._input, self._at = self._file.read(1 << 16), 0
                if not self._input:
                    if self._frame is not None:
                        raise EOFError
                    break
            fed = self._input[self._at : self._at + self.piece]
            self._at += len(fed)
            self._frame = self._frame or self._new()
            try:
                part = self._frame.decompress(fed)
            except self._error as error:
                self._failed = (_TooMuch if "too much memory" in str(error) else OSError)(str(error))
                if not count:  # else the data before it is delivered first
                    raise self._failed from None
                break
            if self._frame.eof:
                self._at -= len(self._frame.unused_data)
                self._frame = None
            if part:
                out.append(part)
                count += len(part)
        return b"".join(out)


class _Xz:
    """xz streams, one after the other; trailing data that is no stream is ignored, as in Python's own reader."""

    def __init__(self, file: Any, most: int) -> None:
        self._file, self._most = file, most
        self._stream: Any = None
        self._first = True

    def read1(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        while True:
            before = self._stream
            if before is None or before.eof:
                fed = (before.unused_data if before is not None else b"") or self._file.read(CHUNK)
                if not fed:
                    return b""
                self._stream = lzma.LZMADecompressor(memlimit=self._most)
            else:
                fed = self._file.read(CHUNK) if before.needs_input else b""
                if before.needs_input and not fed:
                    raise EOFError
            try:
                out: bytes = self._stream.decompress(fed, size)
            except lzma.LZMAError as error:
                if "limit exceeded" in str(error):
                    raise _TooMuch from None
                if before is not None and before is not self._stream:
                    self._stream = before
                    return b""
                raise
            if out:
                return out


def codec(encoding: str) -> str:
    """Return the usual name of an encoding, or raise OptionError for an unknown one."""
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        reason = f"encoding={encoding!r}: there is no such encoding; try utf-8, latin-1 or utf-16."
        raise OptionError(reason, encoding=encoding) from None


def _unzipped(name: str, raw: Any) -> Any:
    """Open the only file of a zip archive."""
    try:
        archive = zipfile.ZipFile(raw)
        members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX")]
        if any(one.filename == "[Content_Types].xml" for one in members):
            raise ReadError(name, None, None, "an office document; save the table as CSV")
        if len(members) != 1:
            names = some([one.filename for one in members], 5)
            raise ReadError(name, None, None, f"a zip archive of {len(members)} files ({names}); unpack it first")
        return io.BufferedReader(cast(Any, archive.open(members[0])), CHUNK)
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise ReadError(name, None, None, f"not a zip archive that can be read ({error})") from None


def _decompressing(kind: str, file: Any, most: int) -> Any:
    match kind:
        case "gz":
            return gzip.GzipFile(fileobj=file)
        case "xz":
            return _Xz(file, most)
        case "bz2":
            return bz2.BZ2File(file)
        case _:
            return _Zstd(file, most)


def _open(name: str) -> Any:
    if name == STDIN:  # not sys.stdin: a thread that waits in its lock would keep the program from exiting
        return io.FileIO(0, closefd=False)
    if "://" in name:
        from onsketch.data.live import is_live

        if is_live(name):
            from onsketch.data.live.as_bytes import LiveBytes

            return LiveBytes(name)
        return open_remote(name)
    return io.FileIO(name)


def open_remote(name: str) -> Any:
    """Open an address that fsspec supports."""
    try:
        return _fsspec(name).open(name, "rb").open()
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: {error}.") from None


def _fsspec(name: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"{name}: remote addresses need fsspec: pip install 'onsketch[remote]'") from None
    return fsspec


def _read_fully(file: Any, size: int) -> bytes:
    """Return ``size`` bytes unless the file ends before."""
    data = file.read(size) or b""
    while 0 < len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data
