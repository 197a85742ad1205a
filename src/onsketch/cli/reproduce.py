"""``onsketch reproduce``: the papers' figures and tables, run and judged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onsketch.cli.console import err, errors_in_one_line, out, print_rows
from onsketch.cli.declaring import FOLDER, as_list, command, flag, option, refuse

if TYPE_CHECKING:
    from rich.console import Console

    from onsketch.experiments.design import Experiment
    from onsketch.experiments.outcome import Outcome
    from onsketch.experiments.running import Bench
    from onsketch.experiments.streams import Sources


@command()
@click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="list | NAME... | all",
    help="An experiment, a paper's name for all of its.",
    callback=as_list,
)
@flag("--quick", help="Tiny sizes: a few minutes for everything.")
@option(
    "--effort",
    type=click.Choice(("quick", "short", "full")),
    metavar="WORD",
    help="quick; short: smaller grids, hours; full: the papers' sizes.",
)
@option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    show_default="the cache",
    help="Folder of data sets ('onsketch data' gets them).",
)
@option(
    "--out",
    "target",
    type=FOLDER,
    default=Path("reproduced"),
    help="Where results go; runs found there are not repeated.",
)
@option("--jobs", type=click.IntRange(1), default=1, help="Runs at a time, each in its own process.")
@option(
    "--networks",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    show_default="cnn/runs.jsonl under --out",
    help="Runs of benchmarks/torch_cnn_study.py.",
)
def reproduce(
    names: list[str], quick: bool, effort: str | None, data: Path | None, target: Path, jobs: int,
    networks: Path | None,
) -> None:  # fmt: skip
    """Run the papers' experiments: figures, tables, and a verdict on each claim.

    Each run is stored as a file under --out, so that a stopped command continues where it was.
    """
    refuse((quick and effort not in (None, "quick"), "give this or --quick", "--effort"))
    with errors_in_one_line():
        # One thread each for linear algebra: times are those of the thread that learns.
        for library in ("OMP", "OPENBLAS", "MKL"):
            os.environ.setdefault(f"{library}_NUM_THREADS", "1")
        from onsketch.experiments.streams import Sources

        if names == ["list"]:
            _list(out(), data)
        else:
            wanted = "quick" if quick else effort or "full"
            _run(names, wanted, Sources(data, networks or target / "cnn" / "runs.jsonl"), target, jobs)


def _list(console: Console, data: Path | None) -> None:
    from onsketch.experiments import every
    from onsketch.experiments.streams import Sources

    sources = Sources(data)
    rows = []
    for name, experiment in every().items():
        at_hand = sources.among(*experiment.needs)
        needs = "" if not experiment.needs else f"{len(at_hand)} of {len(experiment.needs)}"
        rows.append((name, experiment.shows, needs, experiment.title))
    print_rows(console, ("experiment", "shows", "sets at hand", "what"), rows)


def _run(names: list[str], effort: str, sources: Sources, target: Path, jobs: int) -> None:
    from onsketch.experiments import chosen
    from onsketch.experiments.design import EFFORTS, Conditions
    from onsketch.experiments.running import Bench

    experiments = chosen(names)
    bench = Bench(Conditions(EFFORTS[effort], sources), target / "runs", jobs)
    flag = {"quick": " --quick", "short": " --effort short", "full": ""}[effort]
    options = flag + (" --data DIR" if sources.folder else "")
    console = out()
    ready = [one for one in experiments if not one.needs or sources.among(*one.needs)]
    for one in experiments:
        if one not in ready:
            needs = f"it needs one of {', '.join(one.needs)} (onsketch data get, or --data)."
            console.print(f"\n{one.name}: left out; {needs}", soft_wrap=True)
    _pages(console, target, _outcomes(ready, bench, options, target))


def _outcomes(
    experiments: list[Experiment], bench: Bench, options: str, target: Path
) -> list[tuple[Experiment, Outcome]]:
    """Run all experiments; print and save each as soon as it is finished."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from onsketch.experiments.outcome import made

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    outcomes = {}
    with Progress(TextColumn("{task.description}"), *columns, console=err(), speed_estimate_period=600.0) as bar:
        tasks = {experiment.name: bar.add_task(experiment.name, total=None) for experiment in experiments}
        for experiment in bench.run_all(
            experiments, lambda experiment, done, total: bar.update(tasks[experiment.name], completed=done, total=total)
        ):
            elsewhere = "" if any(experiment.cells(bench.conditions, bench.results)) else " --networks FILE"
            command = f"onsketch reproduce {experiment.name}{options}{elsewhere}"
            outcome = made(experiment, bench.conditions, bench.results, command)
            if not outcome.rows:
                err().print(f"{experiment.name}: nothing to show. {experiment.setup}", soft_wrap=True)
                continue
            outcome.save(target, experiment)
            outcomes[experiment.name] = outcome
            _tell(out(), experiment, outcome)
    return [(experiment, outcomes[experiment.name]) for experiment in experiments if experiment.name in outcomes]


def _tell(console: Console, experiment: Experiment, outcome: Outcome) -> None:
    from onsketch.experiments.outcome import TOO_SMALL

    console.print(f"\n{experiment.name} ({experiment.shows}): {experiment.title}", soft_wrap=True)
    if outcome.effort == "quick":
        console.print(f"  {TOO_SMALL}", soft_wrap=True)
    for claim, verdict in outcome.verdicts(experiment):
        console.print(f"  {claim.text}\n    {verdict}", soft_wrap=True)


def _pages(console: Console, target: Path, finished: list[tuple[Experiment, Outcome]]) -> None:
    from onsketch.experiments.outcome import page

    for paper in dict.fromkeys(experiment.paper.name for experiment, _ in finished):
        mine = [(experiment, outcome) for experiment, outcome in finished if experiment.paper.name == paper]
        path = target / f"{paper}.html"
        path.write_text(page(paper, mine), encoding="utf-8")
        console.print(f"\nWritten: {path}", soft_wrap=True)
