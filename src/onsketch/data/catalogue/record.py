"""What the catalogue says of a set, and where copies of its files are looked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

UNSTATED = "none stated with the copies known here"


@dataclass(frozen=True)
class File:
    """A published file, and what it may be called in a folder of local copies."""

    address: str
    also: tuple[str, ...] = ()
    checksum: str | None = None
    """``sha256:…`` of the file as published, where that is known."""
    content: str | None = None
    """SHA-256 of a copy known to work, uncompressed; it was computed from that copy."""
    size: int | None = None
    """Bytes of the file as published, where that is known."""

    @property
    def name(self) -> str:
        """Its name in the cache."""
        return self.address.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSet:
    """A set of the papers."""

    name: str
    rows: int
    features: int
    form: str
    """libsvm, csv, idx, images (for networks only) or made (from other sets)."""
    files: tuple[File, ...]
    papers: tuple[str, ...]
    licence: str = UNSTATED
    positive: tuple[float | str, ...] | None = None
    """Labels that become +1; left out, the labels are signs."""
    label: str | None = None
    """Label column of a table."""
    note: str = ""
    digest: str | None = None
    """SHA-256 of the rows of a copy known to work (``sets.rows_digest``), the same however a file writes them."""
    partial: bool = False
    """Whether the copy at hand may be a part; then it must not be quoted as the whole."""


_COMPRESSED = ("", ".xz", ".gz", ".bz2")


def cache() -> Path:
    """Where downloads go: ``$XDG_CACHE_HOME/onsketch``, or ``~/.cache/onsketch``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onsketch"


def folders(given: Path | None = None) -> list[Path]:
    """Where sets are looked for, in order."""
    named = os.environ.get("ONSKETCH_DATA")
    return [*([given] if given is not None else []), *([Path(named)] if named else []), cache()]


def found(file: File, given: Path | None = None) -> Path | None:
    """The file's copy, if there is one."""
    for folder in folders(given):
        for name in (file.name, *file.also):
            for ending in _COMPRESSED:
                path = folder / f"{name}{ending}"
                if path.is_file():
                    return path
    return None
