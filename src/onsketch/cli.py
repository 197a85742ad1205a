"""The program ``onsketch``: what it asks and what it shows. The work is done elsewhere.

Everything heavy is imported inside the commands, so that ``--version`` and ``--help`` answer at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import onsketch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from onsketch.compare import Contender, Race, Standing

    Course = Iterator[tuple[int, list[Standing]]]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the console script."""
    app()


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


@app.command()
def methods() -> None:
    """List every method, with one line and its citation."""
    console = _console()
    rows = [(name, str(entry)) for name, entry in onsketch.methods().items()]
    _print_rows(console, ("method", "what it is"), rows)


@app.command()
def compare(
    rows: Annotated[int, typer.Option(min=1, help="Rows of each stream.")] = 10_000,
    dimension: Annotated[int, typer.Option(min=1, help="Features of each row.")] = 100,
    condition: Annotated[
        list[float] | None,
        typer.Option(min=1.0, help="Condition number of a stream; repeat for more.", show_default="10 and 200"),
    ] = None,
    sketch_size: Annotated[int, typer.Option(min=0, help="Rows of a sketch.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the streams.")] = 0,
    learner: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A method to enter; repeat for more.", show_default="a field of six"),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", dir_okay=False, help="Write the final standings here."),
    ] = None,
) -> None:
    """Race first-order and sketched learners over ill-conditioned streams.

    The streams have the same labels in other coordinates; knowing the curvature, one errs alike on all.

    Each learner tries a few settings in the same pass and is shown by the best of them so far.
    """
    from onsketch.compare import Race, streams, verdict

    if json_file is not None and not json_file.parent.is_dir():
        raise typer.BadParameter(f"there is no directory {json_file.parent}", param_hint="--json")
    contenders = _contenders(learner)
    console = _console()
    with _told_plainly():
        race = Race(streams(rows, dimension, condition or (10.0, 200.0), seed), contenders, sketch_size)
        console.print(
            f"Predict, then learn: {rows:,} rows of {dimension} features, one pass, squared loss, "
            f"sketches of {sketch_size} rows.",
            soft_wrap=True,
        )
        standings = _run(console, race, rows)
        console.print(f"\n{verdict(standings)}", soft_wrap=True)
        if json_file is not None:
            _write_json(json_file, standings, rows=rows, dimension=dimension, sketch_size=sketch_size, seed=seed)


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Turn an error the user can mend into one line and exit code 1."""
    from onsketch.errors import OnsketchError

    try:
        yield
    except (OnsketchError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


def _contenders(names: list[str] | None) -> list[Contender]:
    """The usual field, or the methods asked for, each once."""
    from onsketch.compare import CONTENDERS, contender

    known = onsketch.methods()
    for name in names or ():
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else "'onsketch methods' lists them all"
            raise typer.BadParameter(f"there is no method {name!r}; {hint}", param_hint="--learner")
    return [contender(name) for name in dict.fromkeys(names or CONTENDERS)]


def _run(console: Console, race: Race, rows: int) -> list[Standing]:
    """Run the race in view and return the final standings."""
    with console.status("Compiling") as status:
        for name in race.warm_up():
            status.update(f"Compiling {name} (the first time only)")
    course = race.run(chunk=max(1, rows // 40))
    return _run_live(console, course) if console.is_terminal else _run_quietly(console, course)


def _run_live(console: Console, course: Course) -> list[Standing]:
    """A table that moves while the learners learn."""
    from rich.live import Live

    standings: list[Standing] = []
    with Live(console=console, auto_refresh=False) as live:
        for rows, standings in course:
            table = _table(*_sheet(standings), title=f"after {rows:,} rows")
            table.rows[0].style = "green"
            live.update(table, refresh=True)
    return standings


def _run_quietly(console: Console, course: Course) -> list[Standing]:
    """A line now and then, and the table once: for files and pipes."""
    from onsketch.compare import percent

    standings: list[Standing] = []
    for step, (rows, standings) in enumerate(course, start=1):
        if step % 10 == 0:
            console.print(f"after {rows:,} rows {standings[0].name} leads, error {percent(standings[0].error)}")
    _print_rows(console, *_sheet(standings))
    return standings


def _sheet(standings: Sequence[Standing]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the standings."""
    from onsketch.compare import percent

    conditions = [f"error, cond. {score.condition:g}" for score in standings[0].scores]
    return ["learner", *conditions, "µs/example", "setting kept"], [
        [
            standing.name,
            *(percent(score.error) for score in standing.scores),
            f"{standing.microseconds:.1f}" if math.isfinite(standing.microseconds) else "-",
            _setting(standing),
        ]
        for standing in standings
    ]


def _setting(standing: Standing) -> str:
    """The best setting on each stream, and among how many it was chosen.

    >>> from onsketch.compare import Score, Standing
    >>> kept = [Score(10, 0.1, {"ridge": 3e3}, 1.0), Score(200, 0.2, {"ridge": 1e3}, 1.0)]
    >>> _setting(Standing("fd-son", True, 6, tuple(kept)))
    'ridge 3000 | ridge 1000, best of 6'
    """
    texts = [
        "none" if score.setting is None else ", ".join(f"{k} {v:g}" for k, v in score.setting.items())
        for score in standing.scores
    ]
    text = " | ".join(dict.fromkeys(texts)) or "defaults"
    return f"{text}, best of {standing.tried}" if standing.tried > 1 else f"{text}, not tuned"


def _console() -> Console:
    """The standard output; Rich itself heeds NO_COLOR and pipes."""
    from rich.console import Console

    return Console(highlight=False, markup=False)


def _print_rows(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, aligned lines that never wrap anywhere else."""
    if console.is_terminal:
        console.print(_table(headings, rows))
        return
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(line.rstrip(), soft_wrap=True)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title)
    table.add_column(headings[0], style="bold", no_wrap=True)
    for heading in headings[1:-1]:
        table.add_column(heading, justify="right")
    table.add_column(headings[-1])
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _write_json(path: Path, standings: Sequence[Standing], **parameters: int) -> None:
    """The standings as JSON; an error that is not finite is null."""
    import json

    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

    learners = [
        {
            "learner": standing.name,
            "settings_tried": standing.tried,
            "microseconds_per_example": finite(standing.microseconds),
            "streams": [
                {
                    "condition": score.condition,
                    "error": finite(score.error),
                    "setting": score.setting,
                    "microseconds_per_example": finite(score.microseconds),
                }
                for score in standing.scores
            ],
        }
        for standing in standings
    ]
    document = {"onsketch": onsketch.__version__, **parameters, "learners": learners}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
