"""CNN figures from saved runs of ``benchmarks/torch_cnn_study.py``, since networks need PyTorch and hours.

The study (``pip install 'onsketch[torch]'``) writes one line of ``runs.jsonl`` for each run; ``onsketch reproduce``
reads it (``--networks``; those of one study are in ``docs/results/torch-cnn``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from onsketch.experiments.checks import Figure, figures
from onsketch.experiments.design import Cell, Conditions, Results, Row

HOW = (
    "The runs of benchmarks/torch_cnn_study.py (needs onsketch[torch], the pictures, and better a GPU): the papers' "
    "CNN, learning rates searched with equal trials, then several seeds. Say where its runs.jsonl is with --networks; "
    "left out, it is looked for as cnn/runs.jsonl under --out."
)
NOTES = (
    "As many epochs and seeds as shown (the papers: 5 and 20 seeds, epochs not said), 30,000 of CIFAR-10's 50,000 "
    "training images (20,000 in the search), Fashion-MNIST in the place of SVHN, no CIFAR-100. The layers that the "
    "papers leave to AdaGrad are left to it.",
    "Rates were chosen on one seed. Where OGD is shown, its rate on Fashion-MNIST fails on four of twelve others "
    "(training loss 2.3); the other eight have 0.343 in the mean.",
)
NAMES = {
    "AdaGP": "ada-gp", "AdaFFD": "ada-ffd", "AdaFD": "ada-fd", "SAdaGrad": "s-adagrad", "RadaGrad": "radagrad",
    "FDSON": "fd-son", "RFDSON": "rfd-son", "Adagrad": "adagrad", "OGD": "ogd", "Adam": "adam",
}  # fmt: skip
"""Names of the linear methods for the optimizers, so that colours agree."""


def no_cells(conditions: Conditions, results: Results) -> Iterable[Cell]:
    """Return no cells: nothing is run here."""
    return ()


def rows_of(path: Path, learners: Sequence[str]) -> list[Row]:
    """Return mean and spread over the seeds of each set and learner, of the study's final stage."""
    if not path.is_file():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    finals = [run for run in lines if run["stage"] == "final" and run["curve"]]
    rows = []
    for data in dict.fromkeys(run["dataset"] for run in finals):
        found = {}
        for name, label in NAMES.items():
            runs = [run for run in finals if run["dataset"] == data and run["method"] == name]
            runs = [run for run in runs if run["curve"][-1]["loss"] is not None]
            if label in learners and runs:
                found[label] = runs
        timed = set.intersection(*({run["seed"] for run in runs} for runs in found.values())) if found else set()
        rows += [row_of(data, label, runs, timed) for label, runs in found.items()]
    return rows


def row_of(data: str, label: str, runs: Sequence[Mapping[str, Any]], timed: Collection[int]) -> Row:
    """Return a learner's row; its seconds use only seeds that all compared learners share."""
    length = min(len(run["curve"]) for run in runs)
    row: Row = {"data": data, "learner": label, "repeats": len(runs)}
    row["curve_x"] = [runs[0]["curve"][k]["epoch"] for k in range(length)]
    for name in ("loss", "accuracy"):
        last = [run["curve"][-1][name] for run in runs]
        row[name], row[f"{name}_sd"] = fmean(last), stdev(last) if len(last) > 1 else None
        columns = [[run["curve"][k][name] for run in runs] for k in range(length)]
        row[f"curve_{name}"] = [fmean(values) for values in columns]
        row[f"curve_{name}_sd"] = [stdev(values) for values in columns] if len(runs) > 1 else None
    row["error"] = 1.0 - row["accuracy"]
    shared = [run["curve"] for run in runs if run["seed"] in timed] or [run["curve"] for run in runs]
    row["seconds"] = fmean(curve[-1]["seconds"] / len(curve) for curve in shared)
    return row


charts_of = figures(
    Figure("{group}-loss", "{group}: training loss", "loss", "training loss", "", "epoch", by="data", log_y=True),
    Figure("{group}-accuracy", "{group}: test accuracy", "accuracy", "test accuracy", "", "epoch", by="data"),
)
"""Draws training loss and test accuracy over the epochs, for each set."""

COLUMNS = {
    "data": "data", "learner": "learner", "loss": "training loss", "loss_sd": "±", "accuracy": "test accuracy",
    "accuracy_sd": "± ", "seconds": "s an epoch", "repeats": "seeds",
}  # fmt: skip
