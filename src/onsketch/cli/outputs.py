"""Files that a command is to write, looked at before an hour's work rather than after it."""

from __future__ import annotations

from pathlib import Path

import typer


def check_outputs(**outputs: Path | str | None) -> None:
    """Refuse names that cannot be written to, and the same name given twice; the keys are those of the options."""
    taken: dict[Path, str] = {}
    for key, given in outputs.items():
        option = "--" + key.replace("_", "-")
        if given is None:
            continue
        path = Path(given).absolute()
        if str(given) in ("", ".") or path.is_dir():
            raise typer.BadParameter(f"{str(given)!r} is not the name of a file", param_hint=option)
        if not path.parent.is_dir():
            raise typer.BadParameter(f"there is no directory {path.parent}", param_hint=option)
        if path in taken:
            raise typer.BadParameter(f"{given} is what {taken[path]} writes; give different files", param_hint=option)
        taken[path] = option
