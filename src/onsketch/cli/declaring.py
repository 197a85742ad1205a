"""An option of a command in a line: the sentence of its help first."""

from __future__ import annotations

from typing import Any

import typer


def option(sentence: str, *names: str, shown: str | bool = True, panel: str | None = None, **more: Any) -> Any:
    """``typer.Option`` with short words for what most options say."""
    return typer.Option(*names, help=sentence, show_default=shown, rich_help_panel=panel, **more)


def refuse(*cases: tuple[object, str, str]) -> None:
    """Refuse the first case that holds, naming the option: (whether it holds, what is wrong, the option)."""
    for holds, what, name in cases:
        if holds:
            raise typer.BadParameter(what, param_hint=name)
