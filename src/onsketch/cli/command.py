"""A command that starts fast: values that need no checking are not checked.

Typer builds a Pydantic validator for each of a command's sixty options, given or not, which takes longer than to
learn a hundred thousand rows. Words, whole numbers, files and what was not given are simple enough to do without;
everything else, and every error message, is still Typer's. Where a version of Typer has no such validators, this
changes nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup


class _Sparing:
    """Parses arguments as Typer does, with a plain validator first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As Typer does."""
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if getattr(parameter, "_runtime_param", "") is None:
                parameter._runtime_param = _Plain()
        found: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return found


class Command(_Sparing, TyperCommand):
    """A command of the program."""


class Group(_Sparing, TyperGroup):
    """The program itself, with its commands."""


class _Plain:
    """Stands in for Typer's validator as long as values are plain."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if (kind is str and isinstance(value, str)) or (kind is bool and isinstance(value, bool)):
            return value
        if kind == list[str] and isinstance(value, (list, tuple)):
            return list(value)
        if kind is int and str(value).isdecimal() and _within(info, int(value)):
            return int(value)
        if kind is Path and isinstance(value, str) and not info.exists and _new_or_readable(value):
            return Path(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _within(info: Any, number: int) -> bool:
    return (info.min is None or number >= info.min) and (info.max is None or number <= info.max)


def _new_or_readable(path: str) -> bool:
    return not os.path.exists(path) or (os.path.isfile(path) and os.access(path, os.R_OK))
