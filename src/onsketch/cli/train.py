"""``onsketch train``: one pass over a stream, with the progressive loss in view."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onsketch.cli.console import err, out, told_plainly
from onsketch.cli.interrupt import Interrupted, interruptible, leave
from onsketch.cli.options import gathering, known_method, learner_options
from onsketch.cli.outputs import check_outputs

if TYPE_CHECKING:
    from rich.console import Console

    from onsketch.jobs.cluster import Run
    from onsketch.jobs.training import Training

DEFAULT_METHOD = "auto"

File = Annotated[list[str], typer.Argument(metavar="FILE", help="Files, globs or addresses; - for standard input.")]


@gathering("reading", "learning")
def train(
    files: File,
    learner: Annotated[str, typer.Option("--learner", "-l", metavar="NAME", help="The method.")] = DEFAULT_METHOD,
    task: Annotated[
        str | None, typer.Option(help="classification or regression.", show_default="by the first labels")
    ] = None,
    passes: Annotated[int, typer.Option(min=1, help="Times over the data.")] = 1,
    holdout: Annotated[
        int, typer.Option(metavar="N", min=0, help="Predict every N-th row without ever learning it.")
    ] = 0,
    save: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the model here.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write the prediction made before each row was learned.")
    ] = None,
    checkpoint: Annotated[str | None, typer.Option(metavar="FILE", help="Write checkpoints here.")] = None,
    every: Annotated[
        int | None,
        typer.Option(help="Rows between checkpoints; on a cluster seconds.", show_default="1000000; 60"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if it is there.")] = False,
    report: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a page with curve, spectrum and weights.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only what went wrong.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Every file a shard, on Ray: auto, local or an address.", rich_help_panel="Cluster"
        ),
    ] = None,
    sync: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="K",
            help="Merge after every K blocks of each shard.",
            show_default="whole shards",
            rich_help_panel="Cluster",
        ),
    ] = None,
    together: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Shards that start from the same model.",
            show_default="all",
            rich_help_panel="Cluster",
        ),
    ] = None,
    reading: dict[str, Any] = {},  # noqa: B006
    learning: dict[str, Any] = {},  # noqa: B006
) -> None:
    """Learn a model from a stream, one example at a time.

    Every row is predicted before it is learned, so the average loss shown is that of a model which has never seen
    the row. Lines appear at rows 1, 2, 4, 8, …

    \b
    Examples:
      onsketch train a9a.xz --save a9a.model
      onsketch train clicks-*.vw.gz -l oja-son --sketch-size 10 -b 22 -q ua --predictions p.txt
      zcat day.csv.gz | onsketch train - --format csv --label clicked
      onsketch train big.svm --checkpoint big.ckpt --every 1000000 --resume --save big.model
      onsketch train --cluster auto 'shard-*.parquet' -l adagrad --checkpoint run.ckpt --resume --save run.model
    """  # noqa: D301
    from onsketch.jobs.training import Plan, Training

    if resume and checkpoint is None:
        raise typer.BadParameter("it needs --checkpoint FILE to go on from", param_hint="--resume")
    remote = cluster is not None and checkpoint is not None and "://" in checkpoint
    check_outputs(save=save, predictions=predictions, report=report, checkpoint=None if remote else checkpoint)
    if every is not None and every < (1 if cluster is None else 0):
        raise typer.BadParameter("at least one row lies between two checkpoints", param_hint="--every")
    if cluster is not None:
        for name, value in (("--holdout", holdout), ("--predictions", predictions), ("--report", report)):
            if value:
                raise typer.BadParameter("it does not go with --cluster", param_hint=name)
        options = {"method": known_method(learner), **learner_options(learning)}
        settings: dict[str, Any] = {"sync": sync, "together": together, "cluster": cluster, "resume": resume}
        settings |= {"checkpoint": checkpoint, "every": 60.0 if every is None else float(every)}
        with told_plainly():
            _on_cluster(options, files, reading, task, passes, settings, quiet, save)
        return
    for name, given in (("--sync", sync), ("--together", together)):
        if given is not None:
            raise typer.BadParameter("it needs --cluster", param_hint=name)
    every = every or 1_000_000
    kept = None if checkpoint is None else Path(checkpoint)
    plan = Plan(files, known_method(learner), learner_options(learning), reading, task, passes, holdout)
    console = out()
    with told_plainly():
        if report is not None:
            from onsketch.report.charts import pyplot

            pyplot()  # say now, not after an hour, that it is missing
        job = Training(plan, None if predictions is None else str(predictions))
        if resume and kept is not None and kept.exists():
            job.resume(kept)
            _say(console, quiet, f"Going on from {kept}, after {job.rows:,} rows.")
        _run(console, job, kept, every, quiet, save)
        if save is not None:
            job.save(save)
            _say(console, quiet, f"Model written to {save}")
        if kept is not None:
            job.checkpoint(kept)
        if report is not None:
            from onsketch.report.training import training_page

            report.write_text(training_page(job), encoding="utf-8")
            _say(console, quiet, f"Report written to {report}")


def _on_cluster(
    options: dict[str, Any],
    files: list[str],
    reading: dict[str, Any],
    task: str | None,
    passes: int,
    settings: dict[str, Any],
    quiet: bool,
    save: Path | None,
) -> None:
    """The same on many machines; progress is told shard by shard."""
    from onsketch.cli.clusters import watching
    from onsketch.jobs.cluster import fit

    console, began = out(), time.perf_counter()
    with watching(console, quiet) as watch:
        run = fit(options, files, reading=reading, task=task, passes=passes, watch=watch, **settings)
    _say(console, quiet, f"{run.learner.method.name}: {run.learner.method}\n{run.task}, {run.learner.loss} loss")
    seconds = time.perf_counter() - began
    _say(console, quiet, "\n".join(_summary(run, seconds, (run.rows - run.resumed_rows) / max(seconds, 1e-9))))
    if save is not None:
        run.save(save)
        _say(console, quiet, f"Model written to {save}")


def _run(console: Console, job: Training, checkpoint: Path | None, every: int, quiet: bool, save: Path | None) -> None:
    """Run the job in view; on Ctrl-C save what can be saved, and leave."""
    began, before, started, last = time.perf_counter(), job.rows, job.learner is not None, job.rows
    warm: tuple[float, int] | None = None
    if started:
        _introduce(console, job, quiet)
        for record in job.records:
            _say(console, quiet, str(record))
    with interruptible(lambda: job.waiting) as interrupted, _bar(job, quiet) as moved, suppress(Interrupted):
        for block, records in job.run():
            if not started:
                _introduce(console, job, quiet)
                started = True
            for record in records:
                _say(console, quiet, str(record))
            moved(block)
            warm = warm or (time.perf_counter(), job.rows)
            if checkpoint is not None and job.rows // every > last // every:
                job.checkpoint(checkpoint)
                last = job.rows
            if interrupted():
                break
    if interrupted():
        _leave(job, checkpoint, save)
    now = time.perf_counter()
    rate = (job.rows - before) / max(now - began, 1e-9)
    if warm is not None and job.rows > warm[1]:  # the first block has what is compiled in it
        rate = (job.rows - warm[1]) / max(now - warm[0], 1e-9)
    _say(console, quiet, "\n".join(_summary(job, now - began, rate)))


def _leave(job: Training, checkpoint: Path | None, save: Path | None) -> None:
    """After Ctrl-C: keep what can be kept and say what was."""
    kept = []
    if job.learner is None:
        leave(0, "there is nothing to save")
    if checkpoint is not None:
        job.checkpoint(checkpoint)
        kept.append(f"checkpoint {checkpoint} (go on with --resume)")
    if save is not None:
        job.save(save)
        kept.append(f"model {save}")
    leave(job.rows, " and ".join(kept) or "nothing was to be saved: there is no --save and no --checkpoint")


def _introduce(console: Console, job: Training, quiet: bool) -> None:
    method = job.learner.method
    _say(console, quiet, f"{method.name}: {method}")
    _say(console, quiet, f"{job.task}, {job.learner.loss} loss")
    error = "    error " if job.task is not None and job.task.signs else ""
    _say(console, quiet, f"\n   average      since {error}     counter     label prediction features")
    _say(console, quiet, f"      loss       last {'so far ' if error else '':>10}".rstrip())


def _summary(job: Training | Run, seconds: float, rate: float) -> Iterator[str]:
    from onsketch.jobs.evaluation import grown

    assert job.progress is not None
    yield ""
    yield f"rows          {job.progress.rows:,}" + (f" learned, {job.rows:,} read" if job.held_out else "")
    yield f"average loss  {job.progress.mean_loss:.6g}"
    if job.progress.error is not None:
        yield f"error         {job.progress.error:.4%}"
    elif job.progress.loss == "squared":
        yield f"RMSE          {job.progress.mean_loss**0.5:.6g}"
    if job.held_out is not None:
        error = "" if job.held_out.error is None else f", error {job.held_out.error:.4%}"
        yield f"held out      loss {job.held_out.mean_loss:.6g}{error} over {job.held_out.rows:,} rows"
    yield "{:14s}{}".format(*grown(job.learner))
    positives = getattr(job, "positives", None)  # a cluster does not count them
    known = job.rows - job.refused
    if positives is not None and job.task is not None and job.task.signs and not 0 < positives < known:
        which = "none" if positives == 0 else "all"
        yield f"warning       {which} of the rows are of the class to be found; see --positive"
    if job.skipped:
        yield f"skipped       {job.skipped:,} bad lines or rows"
    if job.plan.passes > 1:
        yield f"passes        {job.plan.passes}; from the second on, rows had been seen before they were predicted"
    yield f"time          {seconds:.2f} s, {rate:,.0f} rows a second"


def _say(console: Console, quiet: bool, text: str) -> None:
    if not quiet:
        console.print(text, soft_wrap=True)


@contextmanager
def _bar(job: Training, quiet: bool) -> Iterator[Any]:
    """A progress bar on the standard error of a terminal; elsewhere nothing."""
    if quiet or not sys.stderr.isatty() or not sys.stdout.isatty() or not (console := err()).is_terminal:
        yield lambda block: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    sizes = _sizes(job.plan.sources, job.plan.reading.get("format"))
    columns = (
        TextColumn("{task.fields[rows]:>12,} rows"), BarColumn(), TextColumn("{task.fields[loss]:.4f} loss"),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=sum(sizes) * job.plan.passes if sizes else None, rows=job.rows, loss=0.0)

        def moved(block: Any) -> None:
            assert job.progress is not None
            place = block.position
            done = sum(sizes) * job.finished_passes + sum(sizes[: place.file]) + place.offset
            bar.update(task, completed=done, rows=job.rows, loss=job.progress.mean_loss)

        yield moved


def _sizes(sources: list[str], form: str | None) -> list[int]:
    """The sizes of the files in the unit of a place in them (bytes, or rows of Parquet), where that can be told."""
    if not all(os.path.isfile(source) for source in sources):
        return []
    if form == "parquet" or all(source.endswith((".parquet", ".pq")) for source in sources):
        from onsketch.data.arrow import count_rows

        return [count_rows(source) for source in sources]
    if form == "arrow" or any(
        source.endswith((".gz", ".xz", ".bz2", ".zst", ".arrow", ".feather")) for source in sources
    ):
        return []
    return [os.path.getsize(source) for source in sources]
