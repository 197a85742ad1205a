"""The program ``onsketch``: what it asks and what it shows. The work is done elsewhere.

Everything heavy is imported inside the commands, so that ``--version`` and ``--help`` answer at once.
"""

from __future__ import annotations

import functools
import gc
import importlib
import io
import os
import sys
from typing import Annotated, Any

import typer

import onsketch
from onsketch.cli.command import Command, Group

COMMANDS = ("train", "predict", "compare", "serve", "sketch", "inspect", "reproduce", "doctor")
"""Each a function in a module of its name."""


def main() -> None:
    """Entry point of the console script."""
    # Looking for garbage among what hundreds of modules define takes a quarter of a second, while they are imported
    # and once more at the end, and finds nothing.
    gc.set_threshold(200_000)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a bar or a µ must not end a run where the terminal has none
    wanted = sys.argv[1] if len(sys.argv) > 1 and "_ONSKETCH_COMPLETE" not in os.environ else ""
    app = program((wanted,) if wanted in COMMANDS else COMMANDS)
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)  # beyond it are names of files
    shown = ["--help" if word == "--help-all" else word for word in sys.argv[:end]]  # what it shows is decided by now
    sys.argv = shown + sys.argv[end:]
    try:
        app()
    finally:
        gc.freeze()


@functools.cache
def program(commands: tuple[str, ...]) -> typer.Typer:
    """The program with these commands: one that is run need not wait for the options of the others."""
    app = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_program)
    for name in commands:
        more = "--help-all shows the options of second-order and of kernel methods, too."
        epilog = more if name in ("train", "compare", "serve") and "--help-all" not in sys.argv else None
        app.command(cls=Command, epilog=epilog)(getattr(importlib.import_module(f"onsketch.cli.{name}"), name))
    if commands == COMMANDS:
        from onsketch.cli.data import data

        app.command("methods")(_methods)
        app.add_typer(data, name="data")
    return app


def __getattr__(name: str) -> Any:
    if name == "app":
        return program(COMMANDS)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onsketch {onsketch.__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version and leave.")
    ] = False,
) -> None:
    """Second-order online learning by matrix sketching."""


def _methods() -> None:
    """List every method, with one line and its citation."""
    from onsketch.cli.console import out, print_rows

    rows = [(name, str(entry)) for name, entry in onsketch.methods().items()]
    print_rows(out(), ("method", "what it is"), rows)
