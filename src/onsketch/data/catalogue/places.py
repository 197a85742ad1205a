"""Where copies of the files are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from onsketch.data.catalogue.record import File

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
