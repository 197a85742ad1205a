"""Checks of the files that a command will write, made before the work starts."""

from __future__ import annotations

import glob
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from onsketch.cli.declaring import refuse


def check_outputs(inputs: Iterable[str | Path] = (), **outputs: Path | str | None) -> None:
    """Refuse names that cannot be written to, and the same file given twice; the keys are those of the options.

    Files are compared by device and inode, so that links and other spellings of a path are recognised.
    """
    read: dict[tuple[int, int] | None, str] = dict(_files(inputs))
    taken: dict[Path, str] = {}
    written: dict[tuple[int, int] | None, str] = {}
    for key, given in outputs.items():
        option = "--" + key.replace("_", "-")
        if given is None or (key == "json" and str(given) == "-"):
            continue
        path = Path(given).absolute()
        refuse(
            (str(given) in ("", ".") or path.is_dir(), f"{str(given)!r} is not the name of a file", option),
            (not path.parent.is_dir(), f"there is no directory {path.parent}", option),
        )
        place = identity(path) if path.exists() else None
        other = taken.get(path) or (written.get(place) if path.is_file() else None)
        lost = f"{given} is {read.get(place)}, which is to be read: it would be lost; give another file"
        refuse(
            (other, f"{given} is what {other} writes; give different files", option),
            (place in read, lost, option),
        )
        taken[path] = written[place] = option


def identity(path: Path) -> tuple[int, int]:
    """Return the device and the inode of a file."""
    known = path.stat()
    return known.st_dev, known.st_ino


def _files(inputs: Iterable[str | Path]) -> Iterable[tuple[tuple[int, int], str]]:
    """The files that these names, patterns and addresses mean on this machine."""
    for given in map(str, inputs):
        for name in {given, *glob.glob(given)} if glob.has_magic(given) else {given}:
            if "://" not in name and os.path.isfile(name):
                yield identity(Path(name)), name


def write_page(console: Any, path: Path, page: str) -> None:
    """Write a page and print its path."""
    path.write_text(page, encoding="utf-8")
    console.print(f"Report written to {path}", soft_wrap=True)


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write figures for other programs; ``-`` is the standard output. NaN and infinities, unknown to JSON, are null."""
    import json

    text = json.dumps(_finite(document), indent=1) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        path.write_text(text, encoding="utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
