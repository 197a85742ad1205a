"""The papers' CNN experiment: every method, learning rate searched with equal trials, then several seeds; an ablation.

    python benchmarks/torch_cnn_study.py --data FOLDER --out FOLDER [--device cuda] [--workers 8] [--minutes 8]

Four stages, each a list of independent runs, each run a line of ``runs.jsonl`` under ``--out``:

- ``search``: each method and data set, one seed, few epochs, 25 trials each. The methods with a ridge try the papers'
  grid, rates and ridges 1e-4 … 1; the others 25 rates in the same range.
- ``final``: the best trial of each (lowest training loss), several seeds, more epochs.
- ``ablate``: on one data set, decay, grafting, sketch size and ridge one at a time, five rates each.
- ``report``: tables (``summary.json``, ``summary.md``) and curves (``curves-<data set>.svg``) of what is there.

Runs already in ``runs.jsonl`` are not repeated, so that a study cut short by ``--minutes`` goes on where it stopped.
``--workers`` processes share the device: these models are far too small to fill a large GPU one at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import queue
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("examples", "src")]

import torch
from papers_cnn import FIRST_ORDER, SKETCHED, Data, Training, load
from torch_cnn_report import METHODS, best_run, is_of, report
from torch_runs import Job, read, run_jobs

RATES = tuple(10.0**k for k in range(-4, 1))
MORE_RATES = tuple(10.0 ** (k / 6) for k in range(-24, 1))
RIDGES = RATES
ABLATION = (
    [{"decay": decay} for decay in (0.9, 0.99, 0.999)]
    + [{"graft": True}, {"graft": True, "decay": 0.99}, {"graft": True, "decay": 0.999}]
    + [{"sketch_size": size} for size in (5, 10, 40)]
    + [{"ridge": ridge} for ridge in (1e-4, 1e-2, 1.0)]
    + [{}]
)
BESIDE_THE_ABLATION = {name: {"ridge": 1e-4 if name == "SAdaGrad" else 1e-2} for name in SKETCHED}
"""What an ablation leaves as it is."""


def key(job: Job) -> str:
    """What makes a run itself."""
    return json.dumps(
        {name: job[name] for name in ("stage", "dataset", "method", "lr", "seed", "epochs", "options")}, sort_keys=True
    )


# What to run --------------------------------------------------------------------------------------------------------


def searches(args: argparse.Namespace) -> list[Job]:
    jobs = []
    for dataset in args.datasets:
        for method in args.methods:
            if method in FIRST_ORDER:
                trials = [(lr, {}) for lr in MORE_RATES]
            else:
                trials = [(lr, {"ridge": ridge}) for lr in RATES for ridge in RIDGES]
            jobs += [_job("search", dataset, method, lr, 0, args.search_epochs, options) for lr, options in trials]
    return jobs


def finals(args: argparse.Namespace, runs: list[Job]) -> list[Job]:
    jobs = []
    for dataset in args.datasets:
        for method in args.methods:
            best = best_run([run for run in runs if run["stage"] == "search" and is_of(run, dataset, method)])
            if best is not None:
                jobs += [
                    _job("final", dataset, method, best["lr"], seed, args.epochs, best["options"])
                    for seed in range(1, args.seeds + 1)
                ]
    return sorted(jobs, key=lambda job: job["seed"])  # a study cut short has fewer seeds, not fewer methods


def ablations(args: argparse.Namespace) -> list[Job]:
    return [
        _job("ablate", args.ablate_on, method, lr, 0, args.search_epochs, options)
        for options in ABLATION
        for method in args.methods
        if method in SKETCHED
        for lr in RATES
    ]


def _job(stage: str, dataset: str, method: str, lr: float, seed: int, epochs: int, options: dict[str, Any]) -> Job:
    return {
        "stage": stage, "dataset": dataset, "method": method, "lr": lr, "seed": seed, "epochs": epochs,
        "options": options,
    }  # fmt: skip


# Running ------------------------------------------------------------------------------------------------------------


def one_run(job: Job, data: Data, deadline: float) -> list[dict[str, float | None]]:
    """Loss, accuracy and seconds by epoch; shorter than asked for if the run diverged or time was up."""
    curve: list[dict[str, float | None]] = []
    options = {**(BESIDE_THE_ABLATION[job["method"]] if job["stage"] == "ablate" else {}), **job["options"]}
    training = Training(data, job["method"], job["lr"], job["seed"], **options)
    for line in training.run(job["epochs"]):
        curve.append({name: float(f"{value:.6g}") if math.isfinite(value) else None for name, value in line.items()})
        if time.time() > deadline:
            break
    return curve


def work(todo: Any, done: Any, args: argparse.Namespace, deadline: float) -> None:
    """A worker: takes jobs until none is left or time is up."""
    torch.set_num_threads(1)
    sets: dict[str, Any] = {}
    while time.time() < deadline:
        try:
            job = todo.get(timeout=1.0)
        except queue.Empty:
            break
        try:
            if job["dataset"] not in sets:
                sets[job["dataset"]] = load(args.data, job["dataset"], args.limit).to(args.device)
            curve = one_run(job, sets[job["dataset"]], deadline)
        except Exception:  # one run that fails must not take the others with it
            traceback.print_exc()
            continue
        if len(curve) == job["epochs"] or curve[-1]["loss"] is None:
            # of a trial only where it ended is ever asked for
            done.put({**job, "curve": curve if job["stage"] == "final" else curve[-1:]})
    done.put(None)


def tell(finished: int, asked: int, run: Job) -> None:
    """Say what came of a run."""
    what = f"{run['stage']} {run['dataset']} {run['method']} lr={run['lr']:g} {run['options']}"
    outcome = f"loss {run['curve'][-1]['loss']}, accuracy {run['curve'][-1]['accuracy']:.4f}"
    print(f"[{finished}/{asked}] {what} seed={run['seed']}: {outcome}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--stages", nargs="+", default=["search", "final", "ablate", "report"])
    parser.add_argument("--datasets", nargs="+", default=["mnist", "fashion", "cifar10"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--ablate-on", default="fashion")
    parser.add_argument("--search-epochs", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=8.0, help="no run starts, and no epoch, after this")
    parser.add_argument("--limit", type=int, help="use this many training pictures only")
    args = parser.parse_args()
    deadline = time.time() + 60.0 * args.minutes
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "runs.jsonl"
    if "search" in args.stages:
        run_jobs(searches(args), args, deadline, key, work, tell)
    if "final" in args.stages:
        run_jobs(finals(args, read(path)), args, deadline, key, work, tell)
    if "ablate" in args.stages:
        run_jobs(ablations(args), args, deadline, key, work, tell)
    if "report" in args.stages:
        report(args.out, read(path))


if __name__ == "__main__":
    main()
