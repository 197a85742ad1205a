"""Downloads that resume where they stopped and are verified when complete."""

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
"""Callback that gets the bytes received and, if the server gives it, the total."""

_CHUNK = 1 << 18


class DownloadError(InputError):
    """Error of a download that failed or has the wrong content."""


def fetch(
    address: str, target: Path, checksum: str | None = None, advance: Advance = lambda done, size: None,
    length: int | None = None,
) -> Path:  # fmt: skip
    """Download to ``target``, resuming a part left by an earlier attempt (``target.part``).

    Args:
        address: https or file; http only from this machine.
        target: path of the file; it appears there only when complete and verified.
        checksum: ``sha256:…``; None if unknown.
        advance: called with the progress.
        length: bytes of the file, if known; no more are read.
    """
    if not _private(address):
        raise DownloadError(f"{address}: not an address of https; what comes could be changed on the way.")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    version = part.with_name(part.name + ".version")
    there = part.stat().st_size if part.exists() else 0
    known = version.read_text(encoding="utf-8") if there and version.is_file() else ""
    if not known and checksum is None:  # parts of two versions could not be detected
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
            f"{address}: cannot be reached ({reason}). {kept:,} bytes are kept, and the next attempt resumes "
            "there. Without a network, copy the file from elsewhere and name its folder by --data or ONSKETCH_DATA."
        ) from None
    _check(address, part, version, size, checksum)
    part.replace(target)
    return target


def _take(
    address: str, reply: Any, part: Path, there: int, length: int | None, version: Path, advance: Advance
) -> int | None:
    """Append the rest of the file, at most one byte too many; return its expected number of bytes."""
    if there and reply.status != 206:  # the server sends the whole file
        there = 0
    announced = reply.headers.get("Content-Length")
    size = there + int(announced) if announced and announced.isdigit() else length
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
    """Refuse an incomplete file, which may be resumed; delete a file that is too long or wrong."""
    there = part.stat().st_size
    if size is not None and there < size:
        raise DownloadError(
            f"{address}: the connection ended after {there:,} of {size:,} bytes; try again to continue."
        )
    version.unlink(missing_ok=True)
    if size is not None and there > size:
        part.unlink()
        raise DownloadError(f"{address}: {there:,} bytes came, and it has {size:,}; they were thrown away.")
    if checksum is not None and digest(part, checksum.split(":")[0]) != checksum:
        part.unlink()
        raise DownloadError(f"{address}: what came does not have the checksum {checksum}; it was thrown away.")


def _private(address: str) -> bool:
    """Return True if the transfer cannot be tampered with: https, a local file or this machine."""
    parts = urlsplit(address)
    return parts.scheme in ("https", "file") or (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")
    )


class _NeverLess(HTTPRedirectHandler):
    """Redirect handler that refuses redirections from https to anything less secure."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        """Return the redirected request if it is as secure."""
        if not _private(newurl):
            raise DownloadError(f"{req.full_url}: it leads to {newurl}, which is not of https.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _version(headers: Message) -> str:
    """Return an identifier of a file's version for ``If-Range``: a strong ETag, the date, or else ""."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")


def digest(path: Path, kind: str) -> str:
    """Return ``kind:hexadecimal``, the digest of a file."""
    with path.open("rb") as file:
        return f"{kind}:{hashlib.file_digest(file, kind).hexdigest()}"


def record(path: Path) -> None:
    """Write the checksum of a file without a published one to ``NAME.sha256`` in the same folder."""
    _note(path).write_text(digest(path, "sha256") + "\n", encoding="utf-8")


def recorded(path: Path) -> str | None:
    """Return the checksum recorded when the file was first fetched."""
    note = _note(path)
    return note.read_text(encoding="utf-8").strip() if note.is_file() else None


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def content_digest(path: Path) -> str:
    """Return the SHA-256 of a file's uncompressed content."""
    from onsketch.data.sources import Bytes

    source, total = Bytes(str(path)), hashlib.sha256()
    try:
        while part := source.read(1 << 20):
            total.update(part)
    finally:
        source.close()
    return total.hexdigest()
