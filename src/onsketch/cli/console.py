"""Output of the program: tables on a terminal, plain lines in a pipe, one line for an error."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, cast

import click

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table


class _Plain:
    """The part of Rich's console that the program uses, as plain lines and without importing Rich."""

    is_terminal = quiet = False

    def print(self, text: str = "", soft_wrap: bool = True) -> None:
        """A line."""
        print(text, flush=True)

    def status(self, text: str) -> AbstractContextManager[None]:
        """Show no spinner in a file."""
        return nullcontext()


class _Silent(_Plain):
    """Prints nothing."""

    quiet = True

    def print(self, text: str = "", soft_wrap: bool = True) -> None:
        """Do nothing."""


def out(*files: Path | str | None, quiet: bool = False) -> Console:
    """Return the console of standard output, quiet if one of the files is ``-``; Rich respects NO_COLOR."""
    if quiet or "-" in map(str, files):
        return cast("Console", _Silent())
    if not sys.stdout.isatty() and not {"FORCE_COLOR", "TTY_COMPATIBLE"} & os.environ.keys():
        return cast("Console", _Plain())
    from rich.console import Console

    return Console(highlight=False, markup=False)


def err() -> Console:
    """The console of standard error: progress and messages that are no results."""
    from rich.console import Console

    return Console(highlight=False, markup=False, stderr=True)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Report an error that the user can correct in one line, with exit code 1; Ctrl-C exits with code 130."""
    from onsketch.core.errors import OnsketchError

    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the output has gone
    except (OnsketchError, OSError, ImportError) as error:
        message = error.spelled(_typed) if isinstance(error, OnsketchError) else str(error)
        click.echo(f"Error: {message}", err=True)
        raise SystemExit(1) from error
    except KeyboardInterrupt:
        click.echo("\nInterrupted.", err=True)
        raise SystemExit(130) from None


def _typed(name: str, value: object) -> str:
    """Spell an option as on the command line: ``label='y'`` becomes ``--label y``.

    >>> from onsketch.core.errors import InputError
    >>> InputError("zero_based=False or on_error='skip'", zero_based=False, on_error="skip").spelled(_typed)
    '--one-based or --on-error skip'
    """
    from onsketch.cli.options import switches

    if name not in switches():
        return f"{name}={value!r}"
    switch, opposite = switches()[name]
    if value is False and opposite:
        return opposite
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return switch if value is ... or value is True else f"{switch} {shown}"


def wrapped(console: Console, line: str, indent: int) -> str:
    """A line that a terminal does not break within a word; what follows is indented."""
    if not console.is_terminal or len(line) < console.width:
        return line
    return textwrap.fill(line, console.width - 1, subsequent_indent=" " * indent)


def print_rows(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, aligned lines that never wrap anywhere else."""
    if console.is_terminal:
        console.print(table(headings, rows))
        return
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(line.rstrip(), soft_wrap=True)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Table:
    """First column bold, last one text, numbers between."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    sheet = Table(box=box.SIMPLE_HEAD, title=title)
    sheet.add_column(headings[0], style="bold", no_wrap=True)
    for heading in headings[1:-1]:
        sheet.add_column(heading, justify="right")
    sheet.add_column(headings[-1])
    for row in rows:
        sheet.add_row(*map(Text, row))
    return sheet
