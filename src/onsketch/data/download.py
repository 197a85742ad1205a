"""Fetching a file with what was already fetched kept: it goes on where it stopped, and is checked when it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from onsketch.core.errors import InputError

Advance = Callable[[int, int | None], None]
"""Called with the bytes that are there and, where the server says it, how many there will be."""

_CHUNK = 1 << 18


class DownloadError(InputError):
    """A file that could not be fetched, or is not what it should be."""


def fetch(
    address: str, target: Path, checksum: str | None = None, advance: Advance = lambda done, size: None,
    length: int | None = None,
) -> Path:  # fmt: skip
    """Download to ``target``; a part left by an earlier attempt (``target.part``) is continued.

    Args:
        address: https or file; http only of this machine.
        target: where the whole file will be; it appears there only when it is whole and right.
        checksum: ``sha256:…``; None where none is known.
        advance: told of the progress.
        length: bytes of the file, where that is known; no more are taken.
    """
    if not _private(address):
        raise DownloadError(f"{address}: not an address of https; what comes could be changed on the way.")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    version = part.with_name(part.name + ".version")
    there = part.stat().st_size if part.exists() else 0
    known = version.read_text(encoding="utf-8") if there and version.is_file() else ""
    if not known and checksum is None:  # two versions spliced would not be noticed
        part.unlink(missing_ok=True)
        there = 0
    asked = {"Range": f"bytes={there}-"} if there else {}
    request = Request(address, headers={**asked, "If-Range": known} if there and known else asked)
    try:
        with build_opener(_NeverLess).open(request, timeout=60) as reply:
            size = _take(address, reply, part, there, length, version, advance)
    except HTTPError as error:
        if error.code != 416:  # 416: nothing is left to send
            raise DownloadError(f"{address}: the server answers {error.code} {error.reason}.") from None
        said = (error.headers.get("Content-Range") or "").rpartition("/")[2]
        size = int(said) if said.isdigit() else there
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason, kept = getattr(error, "reason", None) or error, part.stat().st_size if part.exists() else 0
        raise DownloadError(
            f"{address}: cannot be reached ({reason}). {kept:,} bytes are kept, and the next attempt goes on from "
            "there. Without a network, copy the file from elsewhere and say where with --data or ONSKETCH_DATA."
        ) from None
    _check(address, part, version, size, checksum)
    part.replace(target)
    return target


def _take(
    address: str, reply: Any, part: Path, there: int, length: int | None, version: Path, advance: Advance
) -> int | None:
    """Write what comes behind what is there, one byte too many at most; returns how many bytes are to be there."""
    if there and reply.status != 206:  # the server begins anew
        there = 0
    told = reply.headers.get("Content-Length")
    size = there + int(told) if told and told.isdigit() else length
    if length is not None and size != length:
        raise DownloadError(f"{address}: it has {size:,} bytes, and {length:,} were to come; nothing was taken.")
    version.write_text(_version(reply.headers), encoding="utf-8")
    with part.open("ab" if there else "wb") as file:
        advance(there, size)
        while chunk := reply.read(_CHUNK):
            file.write(chunk)
            there += len(chunk)
            if size is not None and there > size:
                break
            advance(there, size)
    return size


def _check(address: str, part: Path, version: Path, size: int | None, checksum: str | None) -> None:
    """Refuse what is not whole, which may go on, and throw away what is too long or another file."""
    there = part.stat().st_size
    if size is not None and there < size:
        raise DownloadError(f"{address}: the connection ended after {there:,} of {size:,} bytes; try again to go on.")
    version.unlink(missing_ok=True)
    if size is not None and there > size:
        part.unlink()
        raise DownloadError(f"{address}: {there:,} bytes came, and it has {size:,}; they were thrown away.")
    if checksum is not None and digest(part, checksum.split(":")[0]) != checksum:
        part.unlink()
        raise DownloadError(f"{address}: what came does not have the checksum {checksum}; it was thrown away.")


def _private(address: str) -> bool:
    """Whether nobody can change what comes on its way."""
    parts = urlsplit(address)
    return parts.scheme in ("https", "file") or (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")
    )


class _NeverLess(HTTPRedirectHandler):
    """Follows no redirection from https to anything less."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        """The next address, if it is as good."""
        if not _private(newurl):
            raise DownloadError(f"{req.full_url}: it leads to {newurl}, which is not of https.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _version(headers: Message) -> str:
    """What tells one version of a file from another, for ``If-Range``: a strong ETag, or the date; "" if neither."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")


def digest(path: Path, kind: str) -> str:
    """``kind:hexadecimal`` of a file."""
    with path.open("rb") as file:
        return f"{kind}:{hashlib.file_digest(file, kind).hexdigest()}"


def record(path: Path) -> None:
    """Note the checksum of a file for which none is published, as ``NAME.sha256`` beside it."""
    _note(path).write_text(digest(path, "sha256") + "\n", encoding="utf-8")


def recorded(path: Path) -> str | None:
    """The checksum noted when the file was first fetched."""
    note = _note(path)
    return note.read_text(encoding="utf-8").strip() if note.is_file() else None


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def content_digest(path: Path) -> str:
    """SHA-256 of what is in the file, uncompressed."""
    from onsketch.data.sources import Bytes

    source, total = Bytes(str(path)), hashlib.sha256()
    try:
        while part := source.read(1 << 20):
            total.update(part)
    finally:
        source.close()
    return total.hexdigest()
