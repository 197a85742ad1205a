"""``onsketch predict``: margins, probabilities or labels for the rows of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from onsketch.cli.console import errors_in_one_line
from onsketch.cli.declaring import FILE, FOLDER, command, files, flag, option, refuse
from onsketch.cli.interrupt import leave
from onsketch.cli.options import reading
from onsketch.cli.outputs import check_outputs, write_json

KINDS = "margin", "probability", "label"


@command(shared=reading())
@click.argument("model", type=FOLDER, metavar="MODEL", help="A file that 'onsketch train --save' wrote.")
@files("Files, globs or addresses; - for stdin.")
@option("--output", "-o", type=FILE, metavar="FILE", help="Write here; .csv, .jsonl and .parquet are tables.")
@option(
    "--kind",
    type=click.Choice(KINDS),
    metavar="KIND",
    show_default="margin; else label",
    help="margin, probability (logistic loss) or label.",
)
@option(
    "--explain",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Show the N largest contributions to each prediction.",
)
@option(
    "--columns",
    multiple=True,
    metavar="NAME",
    help="Column of the rows to write before the predictions of a table; repeat for more.",
)
@option("--json", "json_file", type=FILE, metavar="FILE", help="Write the figures for other programs.")
@flag("--quiet", help="Do not compare with the labels in the file.")
def predict(
    model: Path, files: list[str], output: Path | None, kind: str | None, explain: int, columns: tuple[str, ...],
    json_file: Path | None, quiet: bool, reading: dict[str, Any],
) -> None:  # fmt: skip
    """Predict with a saved model, a line for each row; the model does not change.

    Rows are read with the options of the model's training, unless others are given. Columns of a table are matched by
    name. If rows have labels, the error of the predictions goes to standard error.

    \b
    Examples:
      onsketch predict churn.model new.csv -o predictions.csv
      onsketch predict churn.model new.csv -o predictions.parquet --columns customer --columns plan
      onsketch predict churn.model new.csv --kind probability -o p.txt
      onsketch predict churn.model new.csv --kind label --explain 3
      tail -f log.csv | onsketch predict churn.model -
    """  # noqa: D301
    output = None if str(output) == "-" else output
    check_outputs([model, *files], output=output, json=json_file)
    with errors_in_one_line():
        from onsketch.jobs.prediction import predict_stream
        from onsketch.jobs.predictions import TABLES

        tabular = output is not None and output.suffix.lower() in TABLES
        refuse((columns and not tabular, "it needs a table: -o FILE.csv, .jsonl or .parquet", "--columns"))
        asked = {**reading, "eager": True, **({"columns": columns} if columns else {})}
        outcomes = predict_stream(model, files, kind, asked, explain, tabular)
        outcome, interrupted = _written(outcomes, output, tabular)
    if outcome is None:
        leave(0)
    for note in outcome.notes:
        click.echo(f"Warning: {note}", err=True)
    if outcome.skipped:
        click.echo(f"{outcome.skipped:,} bad lines or rows were skipped and have no prediction", err=True)
    if interrupted:
        leave(outcome.rows)
    if not outcome.rows:
        click.echo(f"{', '.join(files)}: there is not a single row to predict.", err=True)
    if outcome.unknown:
        click.echo(f"{outcome.unknown:,} rows have a label that the model has never met; they are not judged", err=True)
    from onsketch.cli.summary import confusion, document, judged

    if not quiet and outcome.tally.rows:
        click.echo(f"{outcome.tally.rows:,} rows with labels", err=True)
        for name, text in judged(outcome.tally, outcome.judge):
            click.echo(f"{name:14s}{text}", err=True)
        for line in confusion(outcome.judge):
            click.echo(line, err=True)
    if json_file is not None:
        counts = {"rows_predicted": outcome.rows, "skipped": outcome.skipped, "unknown_labels": outcome.unknown}
        write_json(json_file, document(outcome.tally, outcome.judge, **counts))


def _written(outcomes: Iterable[Any], output: Path | None, tabular: bool) -> tuple[Any, bool]:
    """Write predictions block by block; return the last outcome (or None) and True if Ctrl-C was pressed."""
    from onsketch.jobs.predictions import STDOUT, Predictions, TableFile

    outcome, file = None, None
    try:
        for outcome in outcomes:
            said = outcome.table if tabular else outcome.text
            if said is None:
                continue
            if file is None:  # an old file stays until the first predictions are there
                file = TableFile(output) if tabular and output is not None else Predictions(str(output or STDOUT))
                file.open()
            file.write(said)
    except KeyboardInterrupt:
        return outcome, True
    finally:
        if file is not None:
            file.close()
    return outcome, False
