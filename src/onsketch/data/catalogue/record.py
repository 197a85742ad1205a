"""Entries of the catalogue, and the folders searched for copies of their files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

UNSTATED = "none stated with the copies known here"


@dataclass(frozen=True)
class File:
    """Published file, and its possible names in a folder of local copies."""

    address: str
    also: tuple[str, ...] = ()
    checksum: str | None = None
    """``sha256:…`` of the published file, if known."""
    content: str | None = None
    """SHA-256 of a copy known to work, uncompressed, computed from that copy."""
    size: int | None = None
    """Bytes of the published file, if known."""

    @property
    def name(self) -> str:
        """Name of the file in the cache."""
        return self.address.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSet:
    """Data set of the papers."""

    name: str
    rows: int
    features: int
    form: str
    """Format: libsvm, csv, idx, images (for networks only) or made (from other sets)."""
    files: tuple[File, ...]
    papers: tuple[str, ...]
    licence: str = UNSTATED
    positive: tuple[float | str, ...] | None = None
    """Labels that become +1; default: the labels are signs."""
    label: str | None = None
    """Label column of a table."""
    note: str = ""
    digest: str | None = None
    """SHA-256 of the rows of a copy known to work (``sets.rows_digest``), independent of the file format."""
    partial: bool = False
    """True if the copy may be only a part of the set; results must then not be quoted for the whole."""


_COMPRESSED = ("", ".xz", ".gz", ".bz2")


def cache() -> Path:
    """Return the folder for downloads: ``$XDG_CACHE_HOME/onsketch``, or ``~/.cache/onsketch``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onsketch"


def folders(given: Path | None = None) -> list[Path]:
    """Return the folders searched for sets, in order."""
    named = os.environ.get("ONSKETCH_DATA")
    return [*([given] if given is not None else []), *([Path(named)] if named else []), cache()]


def found(file: File, given: Path | None = None) -> Path | None:
    """Return the file's copy, if there is one."""
    for folder in folders(given):
        for name in (file.name, *file.also):
            for ending in _COMPRESSED:
                path = folder / f"{name}{ending}"
                if path.is_file():
                    return path
    return None
