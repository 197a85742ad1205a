"""``onsketch compare``: several learners and grids of settings over one stream, in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import onsketch
from onsketch.cli.console import errors_in_one_line, out, print_rows, table
from onsketch.cli.declaring import FILE, command, flag, option, refuse
from onsketch.cli.declaring import files as files_
from onsketch.cli.interrupt import leave
from onsketch.cli.options import known_method, learner_options, learning, reading
from onsketch.cli.outputs import check_outputs, write_json, write_page

if TYPE_CHECKING:
    from rich.console import Console

    from onsketch.jobs.compare import Labelled, Race
    from onsketch.jobs.standings import Standing

    Show = Callable[[int, list[Standing]], None]

EMBEDDED = "Without FILE"
FIELD = ("auto", "rfd-son", "oja-son", "ada-ffd", "adagrad", "ogd")
"""Contenders on a file by default."""


@command(shared=(*reading(), *learning(without=("ridge", "step_size", "sketch_size"))))
@files_("Files, globs, or - for stdin; left out, two embedded streams.", required=False)
@option(
    "--learner", "-l", multiple=True, metavar="NAME", show_default="a field of six", help="A method; repeat for more."
)
@option("--ridge", metavar="A,B,...", help="Ridges to try, all in the same pass.")
@option("--step-size", metavar="A,B,...", help="Step sizes to try.")
@option("--sketch-size", default="20", metavar="M,...", help="Rows of a sketch.")
@option("--task", show_default="by the first labels", help="binary, multiclass or regression.")
@flag("--regret", help="Solve for the best fixed weights afterwards and show the regret.")
@option("--by", show_default="loss; on embedded streams error", help="Choose settings and sort by loss or error.")
@option("--threads", type=click.IntRange(1), metavar="N", show_default="cores", help="Learners at a time.")
@option("--json", "json_file", type=FILE, metavar="FILE", help="Write the standings and curves.")
@option("--csv", "csv_file", type=FILE, metavar="FILE", help="Write the curves, a line a point.")
@option("--report", type=FILE, metavar="FILE", help="Write a page with table and plots.")
@option("--save", type=FILE, metavar="FILE", help="Write the winner's model here, for predict and train --from.")
@option("--rows", type=click.IntRange(1), show_default="10000", panel=EMBEDDED, help="Rows of each stream.")
@option("--dimension", type=click.IntRange(1), show_default="100", panel=EMBEDDED, help="Features of each row.")
@option(
    "--condition",
    type=click.FloatRange(1.0),
    multiple=True,
    show_default="10 and 200",
    panel=EMBEDDED,
    help="Condition number of a stream; repeat for more.",
)
def compare(
    files: list[str], learner: Sequence[str], ridge: str | None, step_size: str | None, sketch_size: str,
    task: str | None, regret: bool, by: str | None, threads: int | None, json_file: Path | None, csv_file: Path | None,
    report: Path | None, save: Path | None, rows: int | None, dimension: int | None, condition: Sequence[float],
    reading: dict[str, Any], learning: dict[str, Any],
) -> None:  # fmt: skip
    """Compare learners, and grids of their settings, on the same rows in one pass.

    The table shows the best setting of each learner so far. Without FILE the learners run on two built-in streams with
    the same labels in different coordinates: the error of a learner that uses curvature is similar on both.

    All learners see the same rows. --on-error skip leaves out invalid rows, but a setting whose update would not be
    finite is dropped (diverged).

    \b
    Examples:
      onsketch compare
      onsketch compare a9a.xz -l rfd-son -l adagrad --step-size 0.03,0.1,0.3,1 --report race.html
      onsketch compare covtype.csv.gz --label Cover_Type --positive 2 --regret --json race.json
    """  # noqa: D301, fmt: skip
    check_outputs(files or (), json=json_file, csv=csv_file, report=report, save=save)
    embedded = {"rows": rows, "dimension": dimension, "condition": condition}
    _check_given(files, embedded, {**reading, **({} if task is None else {"task": task})}, save)
    rows, dimension = rows or 10_000, dimension or 100
    by = by or ("loss" if files else "error")
    refuse((by not in ("loss", "error"), "expected loss or error", "--by"))
    names = [known_method(name) for name in dict.fromkeys(learner or ())]
    grid = {
        name: _numbers(text, f"--{name.replace('_', '-')}", whole=name == "sketch_size")
        for name, text in (("ridge", ridge), ("step_size", step_size), ("sketch_size", sketch_size))
        if text is not None
    }
    options = learner_options(learning)
    console = out(json_file)
    with errors_in_one_line():
        from onsketch.jobs.models import asked_task

        task = asked_task(task, options.get("loss"))
        if files:
            race, about, read = _race_on_files(files, names or list(FIELD), grid, options, reading, task, threads, by)
        else:
            race, about = _race_embedded(names, grid, options, rows, dimension, condition, threads, by)
            read = None
        console.print(about, soft_wrap=True)
        standings, interrupted = _run(console, race)
        skipped = 0 if read is None else read.skipped
        remark = race.remark if by == "loss" else ""
        if remark:
            console.print(remark, soft_wrap=True)
        if skipped:
            console.print(f"{skipped:,} bad lines or rows were skipped", soft_wrap=True)
        if not files and not interrupted:
            from onsketch.jobs.standings import verdict

            console.print(f"\n{verdict(standings)}", soft_wrap=True)
        best = _best_fixed(console, files, options, reading, task, standings) if regret and not interrupted else None
        parameters = {
            "files": files or [],
            "rows": race.rows,
            "skipped": skipped,
            "options": options,
            "best_fixed_loss": best,
        }
        if not files:
            parameters |= {"dimension": dimension, "seed": learning.get("seed", 0)}
        _write(json_file, csv_file, standings, parameters)
        if save is not None and read is not None:
            _save_winner(console, race, read, reading, save)
        if report is not None:
            from onsketch.report.race import race_page

            write_page(console, report, race_page(about, standings, best, remark))
    if interrupted:
        leave(race.rows, "these are the standings after those")


def _check_given(
    files: list[str] | None, embedded: dict[str, Any], of_files: dict[str, Any], save: Path | None
) -> None:
    """Refuse options of files without a file, and those of the embedded streams with one."""
    strange, homeless = (
        "it is of the embedded streams, and does not go with FILE",
        "it is about a FILE, and none was given",
    )
    refuse(
        (save is not None and not files, "it needs a FILE to learn from", "--save"),
        *((files and given, strange, f"--{name}") for name, given in embedded.items()),
        *((not files, homeless, f"--{name.replace('_', '-')}") for name in of_files),
    )


def _numbers(text: str, option: str, whole: bool = False) -> list[float]:
    try:
        return [(int if whole else float)(part) for part in text.split(",")]
    except ValueError:
        kind = "whole numbers" if whole else "numbers"
        raise click.BadParameter(f"expected {kind} separated by commas, not {text!r}", param_hint=option) from None


def _race_embedded(
    names: list[str], grid: dict[str, Any], options: dict[str, Any], rows: int, dimension: int,
    conditions: Sequence[float], threads: int | None, by: str,
) -> tuple[Race, str]:  # fmt: skip
    from functools import partial

    from onsketch.jobs.compare import CONTENDERS, PUBLISHED, Race, clipped, contender, embedded

    sizes = grid.pop("sketch_size")
    usual = len(sizes) == 1 and not grid
    plain = options.pop("plain", False)
    make = partial(onsketch.learner, defaults="paper" if plain else "recommended")
    entries = PUBLISHED if plain else CONTENDERS
    field = [contender(name, None if usual else {**grid, "sketch_size": sizes}, entries) for name in names or entries]
    if usual and not plain and "clip" not in options:  # the bound of the papers on the labels −1 and +1, and none
        field += [clipped(entry, 1.0) for entry in field if len(entry.settings) > 1]
    sketched = any(entry.sketched for entry in field)
    seed = options.pop("seed", 0)
    common = {"n_features": dimension, "loss": "squared", **options} | (
        {"sketch_size": sizes[0]} if usual and sketched else {}
    )
    race = Race(embedded(rows, dimension, conditions or (10.0, 200.0), seed), field, common, make, threads, True, by)
    size = f", sketches of {', '.join(map(str, sizes))} rows" if sketched else ""
    about = f"Predict, then learn: {rows:,} rows of {dimension} features, one pass, {common['loss']} loss{size}."
    return race, about


def _race_on_files(
    files: list[str], names: list[str], grid: dict[str, Any], options: dict[str, Any], reading: dict[str, Any],
    task: str | None, threads: int | None, by: str,
) -> tuple[Race, str, Labelled]:  # fmt: skip
    from functools import partial

    from onsketch.core.errors import OptionError
    from onsketch.jobs.compare import Labelled, Race, Track, contender
    from onsketch.jobs.models import make_learner

    labelled = Labelled(files, reading, task)
    meaning = labelled.task
    make = partial(make_learner, meaning, plain=options.pop("plain", False))
    common = {"loss": meaning.default_loss, **options}
    field = [contender(name, grid) for name in names]
    name = ", ".join(files)
    if by == "error" and meaning.kind == "regression":
        raise OptionError("--by error: a regression has no errors to count.")
    race = Race([Track(name, iter(labelled))], field, common, make, threads, meaning.kind != "regression", by)
    settings = sum(len(entry.settings) for entry in field)
    about = f"{name}: {meaning}, {common['loss']} loss; {settings} settings of {len(field)} learners in one pass."
    return race, about, labelled


def _save_winner(console: Console, race: Race, read: Labelled, reading: dict[str, Any], path: Path) -> None:
    """Write the model of the setting that leads, as ``train`` would have."""
    from onsketch.core.errors import InputError
    from onsketch.jobs.models import one_of
    from onsketch.jobs.notes import Trained

    best = race.winner()
    if best is None:
        raise InputError("--save: not one setting stayed finite; there is no model to write.")
    name = one_of(best.learner).method.name
    trained = Trained.of(read, reading=reading, progress=best.progress)
    best.learner.save(path, {"training": trained.state()})
    setting = ", ".join(f"{key} {value:g}" for key, value in best.setting.items())
    console.print(f"Model of {name}{f' ({setting})' if setting else ''} written to {path}", soft_wrap=True)


def _best_fixed(
    console: Console, files: list[str] | None, options: dict[str, Any], reading: dict[str, Any], task: str | None,
    standings: Sequence[Standing],
) -> float | None:  # fmt: skip
    """Solve for the best fixed weights on a second reading, and show each learner's regret."""
    from onsketch.data.block import stacked
    from onsketch.jobs.compare import Labelled
    from onsketch.jobs.evaluation import best_fixed_loss
    from onsketch.jobs.plans import rereadable

    if not files or not rereadable(files):
        console.print("\nNo regret: the best fixed weights need a file that can be read a second time.")
        return None
    labelled = Labelled(files, reading, task)
    if labelled.task.many:
        console.print("\nNo regret: the best fixed weights are solved for with two classes or numbers.")
        return None
    with console.status("Solving for the best fixed weights"):
        best = best_fixed_loss(options.get("loss", labelled.task.default_loss), *stacked(iter(labelled)))
    console.print(f"\nThe best fixed weights (with intercept) have a total loss of {best:,.2f}. Regret against them:")
    cells = [[s.name, f"{s.scores[-1].total - best:,.2f}"] for s in standings if math.isfinite(s.loss)]
    print_rows(console, ("learner", "regret"), cells)
    return best


def _run(console: Console, race: Race) -> tuple[list[Standing], bool]:
    """Run the race in view; returns the standings, and whether Ctrl-C made them the final ones.

    They are those of the last block that everyone has learned.
    """
    from onsketch.jobs.standings import as_table

    standings: list[Standing] = []
    interrupted = False
    try:
        with (_live if console.is_terminal else _lines)(console) as show:
            for rows, standings in race.run():
                show(rows, standings)
    except KeyboardInterrupt:
        if not standings:
            leave(0)
        interrupted = True
    if not console.is_terminal:
        print_rows(console, *as_table(standings))
    return standings, interrupted


@contextmanager
def _live(console: Console) -> Iterator[Show]:
    """A table that moves while the learners learn."""
    from rich.live import Live
    from rich.text import Text

    from onsketch.jobs.standings import as_table

    with Live(Text("Compiling (the first time only) …"), console=console, refresh_per_second=8) as live:

        def show(rows: int, standings: list[Standing]) -> None:
            shown = table(*as_table(standings), title=f"after {rows:,} rows")
            shown.rows[0].style = "green"
            live.update(shown)

        yield show


@contextmanager
def _lines(console: Console) -> Iterator[Show]:
    """A line at doubling counts: for files and pipes."""
    due = 1000

    def show(rows: int, standings: list[Standing]) -> None:
        nonlocal due
        if rows >= due:
            best = standings[0].scores[-1]
            error = "" if best.error is None else f", error {best.error:.1%}"
            console.print(f"after {rows:,} rows {standings[0].name} leads, loss {best.loss:.5g}{error}", soft_wrap=True)
            while due <= rows:
                due *= 2

    yield show


def _write(
    json_file: Path | None, csv_file: Path | None, standings: Sequence[Standing], parameters: dict[str, Any]
) -> None:
    """The standings and their curves, for other programs; numbers that are not finite are null or left out."""
    import csv

    if json_file is not None:
        best = parameters["best_fixed_loss"]
        learners = [
            {
                "learner": standing.name,
                "settings_tried": standing.tried,
                "microseconds_per_example": standing.microseconds,
                "streams": [
                    {
                        "stream": score.track,
                        "loss": score.loss,
                        "error": score.error,
                        "regret": None if best is None else score.total - best,
                        "setting": score.setting,
                        "microseconds_per_example": score.microseconds,
                        "curve": [point._asdict() for point in score.curve],
                    }
                    for score in standing.scores
                ],
            }
            for standing in standings
        ]
        document = {"onsketch": onsketch.__version__, **parameters, "learners": learners}
        write_json(json_file, document)
    if csv_file is not None:
        with csv_file.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["learner", "stream", "rows", "cpu_seconds", "loss", "error"])
            for standing in standings:
                for score in standing.scores:
                    writer.writerows([standing.name, score.track, *point] for point in score.curve)
