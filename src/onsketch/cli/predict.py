"""``onsketch predict``: margins, probabilities or labels for the rows of a stream."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from onsketch.cli.console import told_plainly
from onsketch.cli.interrupt import leave
from onsketch.cli.options import gathering
from onsketch.cli.outputs import check_outputs

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that 'onsketch train --save' wrote.")]


@gathering("reading")
def predict(
    model: Model,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Files, globs or addresses; - for stdin.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", dir_okay=False, help="Write here.")] = None,
    kind: Annotated[str, typer.Option(help="margin, probability (logistic loss) or label.")] = "margin",
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not compare with the labels in the file.")] = False,
    reading: dict[str, Any] = {},  # noqa: B006
) -> None:
    """Predict with a saved model, a line for each row; the model does not change.

    Rows are read the way the model's training read them, unless told otherwise. Where rows have labels, the loss
    and the error of these predictions are reported on the standard error.

    \b
    Examples:
      onsketch predict a9a.model a9a.t.xz > margins.txt
      onsketch predict a9a.model a9a.t.xz --kind probability -o p.txt
    """  # noqa: D301
    if kind not in ("margin", "probability", "label"):
        raise typer.BadParameter("expected margin, probability or label", param_hint="--kind")
    check_outputs(output=output)
    outcome, interrupted = None, False
    with told_plainly():
        from onsketch.jobs.prediction import predict_stream

        with ExitStack() as opened:
            target: TextIO | None = sys.stdout if output is None else None
            try:
                for outcome in predict_stream(model, files, kind, reading):
                    if outcome.text is None:
                        continue
                    if target is None:  # what is there stays until there is something to put in its place
                        assert output is not None
                        target = opened.enter_context(output.open("w", encoding="utf-8"))
                    target.write(outcome.text)
            except KeyboardInterrupt:
                interrupted = True
    if outcome is None:
        leave(0)
    tally, rows, skipped, _ = outcome
    if skipped:
        typer.echo(f"{skipped:,} bad lines or rows were skipped and have no prediction", err=True)
    if interrupted:
        leave(rows)
    if not rows:
        typer.echo(f"{', '.join(files)}: there is not a single row to predict.", err=True)
    if not quiet and tally.rows:
        error = "" if tally.error is None else f", error {tally.error:.4%}"
        typer.echo(f"{tally.rows:,} rows with labels: average loss {tally.mean_loss:.6g}{error}", err=True)
