"""The program ``onsketch``: its commands, their options and their output.

Each command is imported when it is run, and imports what it needs itself, so that ``--version`` and ``--help`` answer
at once.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from functools import partial
from pathlib import Path

import click

import onsketch

COMMANDS = {
    "train": "train", "predict": "predict", "compare": "compare", "serve": "serve", "sketch": "sketch",
    "inspect": "inspect", "reproduce": "reproduce", "doctor": "doctor", "methods": "doctor", "data": "data",
}  # fmt: skip
"""The module of each command; the function has the command's name."""


class Program(click.Group):
    """The program, whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; for a name that does not exist import all, from which click suggests the nearest."""
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.add_command(getattr(importlib.import_module(f"onsketch.cli.{COMMANDS[name]}"), name), name)
        return super().get_command(ctx, cmd_name)


def main() -> None:
    """Entry point of the console script."""
    # Collecting garbage among the definitions of hundreds of modules takes a quarter of a second during the imports
    # and once more at the end, and frees nothing.
    gc.set_threshold(200_000)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a bar or a µ must not end a run where the terminal has none
    try:
        app(prog_name="onsketch")
    finally:
        gc.freeze()


def _complete(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Print the completion script of the shell in use, or install it."""
    if not wanted:
        return
    from click.shell_completion import get_completion_class

    shell = os.path.basename(os.environ.get("SHELL", ""))
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException("set the variable SHELL to bash, zsh or fish: no other shell has completion here.")
    script = kind(app, {}, "onsketch", "_ONSKETCH_COMPLETE").source()
    if option.name == "show_completion":
        click.echo(script)
    else:
        fish = shell == "fish"
        path = Path.home() / (".config/fish/completions/onsketch.fish" if fish else f".onsketch-complete.{shell}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
        settings, line = Path.home() / f".{shell}rc", f". {path}\n"
        if not fish and not (settings.is_file() and line in settings.read_text(encoding="utf-8")):
            with settings.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}")
        click.echo(f"Completion for {shell} is in {path}; it is there in every new shell.")
    ctx.exit()


_completion = partial(click.option, is_flag=True, is_eager=True, expose_value=False, callback=_complete)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(onsketch.__version__, message="onsketch %(version)s")
@_completion("--install-completion", help="Install completion for the shell in use.")
@_completion("--show-completion", help="Show the script of completion for the shell in use.")
def app() -> None:
    """Second-order online learning by matrix sketching."""
