"""The commands of the program: click's, with options grouped in the help and shared options as dictionaries."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

ALL = "--help-all"
"""Shows the options that ``--help`` leaves out."""


class Option(click.Option):
    """An option of a command.

    ``panel`` is its heading in the help, ``rare`` leaves it to ``--help-all``, and ``group`` names the dictionary in
    which the command receives its value if it was given.
    """

    def __init__(self, *args: Any, panel: str = "Options", rare: bool = False, group: str = "", **more: Any) -> None:
        super().__init__(*args, **{"show_default": True, **more})
        self.panel, self.rare, self.group = panel, rare, group


def _show_all(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


class Command(click.Command):
    """A command with shared options; ``shared`` are options whose values arrive as one dictionary per group."""

    def __init__(self, *args: Any, shared: tuple[Option, ...] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += shared
        if any(option.rare for option in shared):
            sentence = "Show all options, those of second-order and of kernel methods, too."
            self.params.append(
                Option([ALL], is_flag=True, is_eager=True, expose_value=False, callback=_show_all, help=sentence)
            )
        self.groups = dict.fromkeys(option.group for option in shared)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; the options of a group that were given arrive as one dictionary."""
        ctx.params |= {group: {} for group in self.groups}
        for option in self.params:
            if isinstance(option, Option) and option.group:
                value = ctx.params.pop(option.name or "")
                if value is not None and value != ():
                    ctx.params[option.group][option.name] = list(value) if option.multiple else value
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None and (ctx.meta.get(ALL) or not getattr(parameter, "rare", False)):
                panels.setdefault(getattr(parameter, "panel", "Options"), []).append(record)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records)


command = partial(click.command, cls=Command)
option = partial(click.option, cls=Option)
flag = partial(option, is_flag=True, show_default=False)

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(path_type=Path)


def as_list(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """Return several values as a list."""
    return list(value)


def files(sentence: str, required: bool = True) -> Any:
    """Declare the argument ``files``: one or more names, or any number where none are required."""
    shown = "FILE..." if required else "[FILE]..."
    return click.argument("files", nargs=-1, required=required, metavar=shown, callback=as_list, help=sentence)


def refuse(*cases: tuple[object, str, str]) -> None:
    """Raise a usage error for the first case (condition, reason, option) whose condition holds."""
    for holds, reason, name in cases:
        if holds:
            raise click.BadParameter(reason, param_hint=name)
