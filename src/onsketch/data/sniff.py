"""Detection of a file's format by its name or, failing that, by its first lines."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import BinaryIO

from onsketch.core.errors import InputError
from onsketch.data.sources import STDIN, UNPACKING, Bytes

FORMATS = ("libsvm", "vw", "csv", "json", "parquet", "arrow")

_SUFFIXES = {
    **dict.fromkeys(("libsvm", "svm", "svmlight"), "libsvm"),
    "vw": "vw",
    **dict.fromkeys(("csv", "tsv"), "csv"),
    **dict.fromkeys(("jsonl", "ndjson", "json"), "json"),
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **dict.fromkeys(("arrow", "feather", "ipc", "arrows"), "arrow"),
}
_PACKED = ("gz", "xz", "bz2", "zst", "zip")
_LIBSVM = re.compile(rb"\s*[-+.\d][-+.\deE]*(\s+qid:\d+)?(\s+\d+:[-+.\deE]+)*\s*(#.*)?$")


def by_name(name: str) -> str | None:
    """Return the format that a file's name implies, None if it implies none."""
    suffixes = [suffix.lstrip(".").lower() for suffix in PurePosixPath(name.replace("\\", "/")).suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def by_content(name: str, head: bytes) -> str:
    """Return the format that the first bytes of a file imply."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if head.startswith(b"FEA1"):
        raise InputError(f"{name}: a Feather file of version 1, which is no longer read; write it as Arrow or Parquet.")
    lines = [line.rstrip(b"\r") for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    lines = [line for line in (lines[:-1] or lines) if line.strip() and not line.lstrip().startswith(b"#")][:20]
    if not lines:
        return "libsvm"
    array = re.match(rb"\s*\[\s*(\{|$)", head.removeprefix(b"\xef\xbb\xbf"))
    if array or all(line.lstrip().startswith(b"{") for line in lines):
        return "json"
    if all(_LIBSVM.match(line) for line in lines):
        return "libsvm"
    if all(re.match(rb"[^,;|]*\|(\s|[^\s|:,;]+(:[-+.\deE]+)?(\s|$))", line) for line in lines):
        return "vw"
    if any(mark in lines[0] for mark in (b",", b"\t", b";", b"|")):
        return "csv"
    if len(lines) > 1 and len({len(line.split()) for line in lines}) == 1 < len(lines[0].split()):
        raise blanks_between(name)
    raise InputError(
        f"{name}: cannot detect the format from its first lines; name it by format=...: {', '.join(FORMATS)}.",
        format=...,
    )


def blanks_between(name: str) -> InputError:
    """Return the error for a table whose columns are separated by blanks."""
    reason = "its columns seem to be separated by blanks; turn these into commas: tr -s ' ' ',' <FILE >FILE.csv"
    return InputError(f"{name}: {reason}")


def sniff(
    source: str | BinaryIO, lines: int = 2, unpacking: int = UNPACKING, encoding: str | None = None
) -> tuple[str, Bytes | None]:
    """Return the format, and the bytes if the file was opened for detection and can still be read from the start."""
    if isinstance(source, str) and source != STDIN and (form := by_name(source)):
        return form, None
    bytes_ = Bytes(source, unpacking, encoding)
    try:
        form = by_content(bytes_.name, bytes_.peek(1 << 16, lines=lines))
    except BaseException:
        bytes_.close()
        raise
    if form in ("parquet", "arrow") and not isinstance(source, str):
        source.seek(0)
    return form, bytes_
