"""The program ``onsketch``: what it asks and what it shows. The work is done elsewhere.

Everything heavy is imported inside the commands, so that ``--version`` and ``--help`` answer at once.
"""

from __future__ import annotations

import gc
import io
import sys
from typing import Annotated

import typer

import onsketch
from onsketch.cli.command import Command, Group
from onsketch.cli.compare import compare
from onsketch.cli.console import out, print_rows
from onsketch.cli.data import data
from onsketch.cli.inspect import inspect
from onsketch.cli.predict import predict
from onsketch.cli.reproduce import reproduce
from onsketch.cli.serve import serve
from onsketch.cli.sketch import sketch
from onsketch.cli.train import train

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the console script."""
    # Looking for garbage among what hundreds of modules define takes a quarter of a second, while they are imported
    # and once more at the end, and finds nothing.
    gc.set_threshold(200_000)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a bar or a µ must not end a run where the terminal has none
    try:
        app()
    finally:
        gc.freeze()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onsketch {onsketch.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version and leave."),
    ] = False,
) -> None:
    """Second-order online learning by matrix sketching."""


def _methods() -> None:
    """List every method, with one line and its citation."""
    rows = [(name, str(entry)) for name, entry in onsketch.methods().items()]
    print_rows(out(), ("method", "what it is"), rows)


app.command(cls=Command)(train)
app.command(cls=Command)(predict)
app.command(cls=Command)(compare)
app.command(cls=Command)(serve)
app.command(cls=Command)(sketch)
app.command(cls=Command)(inspect)
app.command(cls=Command)(reproduce)
app.command("methods")(_methods)
app.add_typer(data, name="data")
