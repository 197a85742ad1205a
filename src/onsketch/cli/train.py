"""``onsketch train``: one pass over a stream, with the progressive loss in view."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onsketch.cli.console import errors_in_one_line, out, wrapped
from onsketch.cli.declaring import FILE, command, flag, option, refuse
from onsketch.cli.declaring import files as files_
from onsketch.cli.interrupt import Interrupted, interruptible, leave
from onsketch.cli.options import check_concerns, known_method, learner_options, learning, reading
from onsketch.cli.outputs import check_outputs, write_json, write_page
from onsketch.cli.progress import progress_bar
from onsketch.files.locks import held

if TYPE_CHECKING:
    from rich.console import Console

    from onsketch.jobs.tally import Record
    from onsketch.jobs.training import Plan, Training

DEFAULT_METHOD = "auto"


@command(shared=(*reading(), *learning()))
@files_("Files, globs or addresses; - for standard input.")
@option("--learner", "-l", metavar="NAME", show_default=DEFAULT_METHOD, help="The method.")
@option("--task", show_default="by the first labels", help="binary, multiclass or regression.")
@option("--save", type=FILE, metavar="FILE", help="Write the model here.")
@option("--from", "start", type=FILE, metavar="MODEL", help="Go on from this model; --save may name it, too.")
@flag("--describe", help="Say how the file is understood, and learn nothing.")
@option("--predictions", metavar="FILE", help="Write the prediction made before each row was learned; - for stdout.")
@option(
    "--predictions-as",
    "kind",
    metavar="KIND",
    show_default="margin; else label",
    help="margin, probability or label.",
)
@option("--passes", type=click.IntRange(1), default=1, metavar="N", help="Times over the data.")
@option(
    "--holdout", type=click.IntRange(0), default=0, metavar="N", help="Predict every N-th row without ever learning it."
)
@option(
    "--early-stop",
    "patience",
    type=click.IntRange(0),
    default=0,
    metavar="K",
    help="Stop when K passes did not lower the held-out loss; keep the best.",
)
@option("--report", type=FILE, metavar="FILE", help="Write a page with curves, classes and weights.")
@option("--json", "json_file", type=FILE, metavar="FILE", help="Write the figures for other programs.")
@flag("--quiet", help="Say only what went wrong.")
@option("--checkpoint", metavar="FILE", panel="Long runs", help="Write checkpoints here.")
@option(
    "--every",
    type=int,
    metavar="N",
    show_default="1000000; 60",
    panel="Long runs",
    help="Rows between checkpoints; on a cluster seconds.",
)
@flag("--resume", panel="Long runs", help="Go on from the checkpoint, if it is there.")
@option("--cluster", metavar="ADDRESS", panel="Cluster", help="Every file a shard, on Ray: auto, local or an address.")
@option(
    "--sync",
    type=click.IntRange(1),
    metavar="K",
    show_default="whole shards",
    panel="Cluster",
    help="Merge after every K blocks of each shard.",
)
@option(
    "--together",
    type=click.IntRange(1),
    metavar="N",
    show_default="all",
    panel="Cluster",
    help="Shards that start from the same model.",
)
def train(
    files: list[str], learner: str | None, task: str | None, save: Path | None, start: Path | None, describe: bool,
    predictions: str | None, kind: str | None, passes: int, holdout: int, patience: int, report: Path | None,
    json_file: Path | None, quiet: bool, checkpoint: str | None, every: int | None, resume: bool, cluster: str | None,
    sync: int | None, together: int | None, reading: dict[str, Any], learning: dict[str, Any],
) -> None:  # fmt: skip
    """Learn a model from a stream, one example at a time.

    Every row is predicted before it is learned, so the average loss shown is that of a model which has never seen
    the row. Lines appear at rows 1, 2, 4, 8, …

    \b
    Examples:
      onsketch train churn.csv --label Churn --save churn.model
      onsketch train tuesday.csv --from churn.model --save churn.model
      onsketch train churn.csv --label Churn --describe
      onsketch train clicks-*.vw.gz -l oja-son --sketch-size 10 -b 22 -q ua --predictions p.txt
      onsketch train big.svm --checkpoint big.ckpt --every 1000000 --resume --save big.model
      onsketch train --cluster auto 'shard-*.parquet' -l adagrad --checkpoint run.ckpt --resume --save run.model
    """  # noqa: D301
    remote = cluster is not None and checkpoint is not None and "://" in checkpoint
    file = None if predictions == "-" else predictions
    kept_at = None if remote else checkpoint
    alone = cluster is None
    refuse(
        (resume and checkpoint is None, "it needs --checkpoint FILE to resume from", "--resume"),
        (every is not None and checkpoint is None, "it needs --checkpoint FILE to write to", "--every"),
        (every is not None and every < int(alone), "at least one row lies between two checkpoints", "--every"),
        (alone and sync is not None, "it needs --cluster", "--sync"),
        (alone and together is not None, "it needs --cluster", "--together"),
        (not alone and start is not None, "it does not go with --cluster", "--from"),
        (not alone and patience, "it does not go with --cluster", "--early-stop"),
        (patience and checkpoint is not None, "it does not go with --checkpoint", "--early-stop"),
    )
    check_outputs(files, save=save, predictions=file, report=report, json=json_file, checkpoint=kept_at)
    refuse((kind is not None and predictions is None, "it needs --predictions", "--predictions-as"))
    if describe:
        from onsketch.cli.describe import describe as describe_files

        with errors_in_one_line():
            describe_files(files, reading, task)
        return
    console = out(predictions, json_file, quiet=quiet)
    if cluster is not None:
        given = (("--holdout", holdout), ("--predictions", predictions), ("--report", report), ("--json", json_file))
        refuse(*((value, "it does not go with --cluster", name) for name, value in given))
        settings: dict[str, Any] = {"sync": sync, "together": together, "cluster": cluster, "resume": resume}
        settings |= {"checkpoint": checkpoint, "every": 60.0 if every is None else float(every)}
        with errors_in_one_line(), held(save, kept_at):
            _on_cluster(console, learner, learning, files, reading, task, passes, settings, save)
        return
    kept = None if checkpoint is None else Path(checkpoint)
    with errors_in_one_line(), held(save, file, kept):
        from onsketch.jobs.training import Plan, Training

        if start is None:
            method = known_method(learner or DEFAULT_METHOD)
            check_concerns(method, learning)
            plan = Plan(files, method, learner_options(learning), reading, task, passes, holdout, patience)
        else:
            plan = _continued(start, files, learner, learning, reading, task, passes, holdout)
        job = Training(plan, predictions, kind)
        before = kept if resume and kept is not None and kept.exists() else start
        if before is not None:
            (job.go_on_from if before is start else job.resume)(before)
            console.print(f"Going on from {before}, after {job.rows:,} rows.", soft_wrap=True)
        if report is not None:
            job.watch()
        seconds = _run(console, job, kept, every or 1_000_000, save)
        if save is not None:
            job.save(save)
            console.print(f"Model written to {save}", soft_wrap=True)
        if kept is not None:
            job.checkpoint(kept)
        if json_file is not None:
            write_json(json_file, _document(job, seconds))
        if report is not None:
            from onsketch.report.training import training_page

            write_page(console, report, training_page(job, seconds))


def _continued(
    start: Path, files: list[str], learner: str | None, learning: dict[str, Any], reading: dict[str, Any],
    task: str | None, passes: int, holdout: int,
) -> Plan:  # fmt: skip
    """Return the plan of a job that continues from a model; the options of the model stay as they are."""
    from onsketch.core.errors import OptionError
    from onsketch.data.block import SAFETY
    from onsketch.jobs.models import one_of
    from onsketch.jobs.plans import Plan
    from onsketch.jobs.prediction import open_model

    model, trained = open_model(start)
    one = one_of(model)
    if learner is not None and learner != one.method.name:
        raise OptionError(f"--learner {learner}: {start} is a model of {one.method.name}, and stays one.")
    for name, value in learner_options(learning).items():
        if getattr(one.options, name, None) != value:
            raise OptionError(
                f"--{name.replace('_', '-')} {value}: {start} was trained with {getattr(one.options, name, None)}; "
                "the options of a model stay as they are."
            )
    before = trained.read
    kinds = {field["kind"] for field in (trained.schema or {}).get("fields", ())}
    unnamed = () if "label" in kinds or "label" in before else ("label",)  # by estimators and services
    free = ("on_error", "block_rows", "format", *unnamed, *SAFETY)
    for name, value in reading.items():
        if name not in free and before.get(name) != value:
            raise OptionError(
                f"--{name.replace('_', '-')} {value}: {start} was trained with "
                f"{before.get(name, 'the default')}; rows are read as the training did."
            )
    if task is not None and task != trained.task.kind and not (task == "binary" and trained.task.signs):
        raise OptionError(f"--task {task}: {start} is a model of a {trained.task}.")
    if passes > 1:
        raise OptionError("--passes: a model continues with new rows once; with --from they are read one time.")
    if holdout and holdout != trained.holdout:
        raise OptionError(f"--holdout {holdout}: {start} was trained with --holdout {trained.holdout}, which goes on.")
    return Plan(files, one.method.name, {}, {**before, **reading}, task, 1, trained.holdout, 0, str(start))


def _document(job: Training, seconds: float) -> dict[str, Any]:
    """The figures of a training for other programs."""
    from onsketch.cli.summary import document
    from onsketch.jobs.models import one_of

    assert job.progress is not None
    more: dict[str, Any] = {
        "files": job.plan.sources, "learner": one_of(job.learner).method.name, "task": str(job.task),
        "rows_read": job.rows, "skipped": job.skipped, "seconds": seconds, "passes": job.passes,
    }  # fmt: skip
    if job.held_out is not None:
        more["held_out"] = document(job.held_out, job.held_out_judge)
    more["curve"] = [
        {"rows": r.rows, "loss": r.loss, "recent_loss": r.recent_loss, "error": r.error} for r in job.records
    ]
    return document(job.progress, job.judge, **more)


def _on_cluster(
    console: Console, learner: str | None, learning: dict[str, Any], files: list[str], reading: dict[str, Any],
    task: str | None, passes: int, settings: dict[str, Any], save: Path | None,
) -> None:  # fmt: skip
    """Train on a cluster, and show the progress shard by shard."""
    from onsketch.cli.progress import watching
    from onsketch.jobs.cluster import fit
    from onsketch.jobs.models import asked_task

    form = {} if learning.pop("plain", False) else {"defaults": "recommended"}
    options = {"method": known_method(learner or DEFAULT_METHOD), **form, **learner_options(learning)}
    task, began = asked_task(task, options.get("loss")), time.perf_counter()
    with watching(console) as watch:
        run = fit(options, files, reading=reading, task=task, passes=passes, watch=watch, **settings)
    console.print(
        f"{run.learner.method.name}: {run.learner.method}\n{run.task}, {run.learner.loss} loss", soft_wrap=True
    )
    from onsketch.cli.summary import summary

    seconds = time.perf_counter() - began
    console.print("\n".join(summary(run, seconds, run.rows - run.resumed_rows)), soft_wrap=True)
    if save is not None:
        run.save(save)
        console.print(f"Model written to {save}", soft_wrap=True)


def _run(console: Console, job: Training, checkpoint: Path | None, every: int, save: Path | None) -> float:
    """Run the job in view; on Ctrl-C save what can be saved, and leave. Returns the seconds it took."""
    from onsketch.cli.summary import confusion, summary

    began, before, started, last = time.perf_counter(), job.rows, job.learner is not None, job.rows
    if started:
        _introduce(console, job)
        _show(console, job.records)
    watched = progress_bar(console, job)
    with interruptible(lambda: job.waiting) as interrupted, watched as moved, suppress(Interrupted):
        for block, records in job.run():
            if not started:
                _introduce(console, job)
                started = True
            _show(console, records)
            moved(block)
            if checkpoint is not None and job.rows // every > last // every:
                job.checkpoint(checkpoint)
                last = job.rows
            if interrupted():
                break
    if interrupted():
        _leave(job, checkpoint, save)
    seconds = time.perf_counter() - began
    for line in summary(job, seconds, job.rows - before):
        console.print(wrapped(console, line, 14), soft_wrap=True)
    for line in confusion(job.judge):
        console.print(line, soft_wrap=True)
    return seconds


def _leave(job: Training, checkpoint: Path | None, save: Path | None) -> None:
    """After Ctrl-C: save what can be saved and report it."""
    kept = []
    if job.learner is None:
        leave(0, "there is nothing to save")
    if checkpoint is not None:
        job.checkpoint(checkpoint)
        kept.append(f"checkpoint {checkpoint} (continue with --resume)")
    if save is not None:
        job.save(save)
        kept.append(f"model {save}")
    leave(job.rows, " and ".join(kept) or "nothing was to be saved: there is no --save and no --checkpoint")


def _introduce(console: Console, job: Training) -> None:
    from onsketch.jobs.models import described

    assert job.task is not None
    console.print(wrapped(console, described(job.learner), 2), soft_wrap=True)
    console.print(wrapped(console, f"{job.task}, {job.loss} loss", 2), soft_wrap=True)
    for field in (job.schema or (job.columns or {})).get("fields", ()):
        if field["kind"] == "ignored" and field["why"] not in ("", "by option"):
            console.print(
                f"column {field['name']!r} is left out: {field['why']} (--categorical keeps it)", soft_wrap=True
            )
    error = "    error " if job.task.signs or job.task.many else ""
    if _narrow(console):
        console.print(f"\n    counter   average     since{error[2:-1]}", soft_wrap=True)
        return
    console.print(f"\n   average      since {error}     counter     label prediction features", soft_wrap=True)
    console.print(f"      loss       last {'so far ' if error else '':>10}".rstrip(), soft_wrap=True)


def _show(console: Console, records: list[Record]) -> None:
    """Print lines of the table; on a narrow terminal of rows and losses alone."""
    for record in records:
        line = str(record)
        if _narrow(console):
            error = "" if record.error is None else f" {record.error:7.4f}"
            line = f"{record.rows:11,d} {record.loss:9.5f} {record.recent_loss:9.5f}{error}"
        console.print(line, soft_wrap=True)


def _narrow(console: Console) -> bool:
    return console.is_terminal and console.width < 76
