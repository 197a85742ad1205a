"""The page's example, the training script and the benchmark's parts run."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys

import pytest

from checkout import DATA, ROOT

torch = pytest.importorskip("torch")

from onsketch import torch as sketched


@pytest.mark.skipif(not (DATA / "mnist-train-images-idx3-ubyte.gz").exists(), reason=f"no MNIST in {DATA}")
def test_the_papers_network_learns_mnist():
    command = [sys.executable, ROOT / "examples" / "papers_cnn.py", "--data", DATA, "--limit", "512", "--device", "cpu"]
    options = ["--optimizer", "SAdaGrad", "--lr", "0.01", "--graft", "--decay", "0.99", "--epochs", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    out = subprocess.run([*command, *options], check=True, capture_output=True, text=True, env=environment).stdout
    assert re.search(r"1\.0 +128×9216 +diagonal ", out)  # the dense layers
    accuracies = [float(value) for value in re.findall(r"test accuracy ([\d.]+)", out)]
    assert len(accuracies) == 2
    assert accuracies[-1] > 0.3


@pytest.mark.skipif(not (DATA / "cifar10-test_batch.webp").exists(), reason=f"no CIFAR-10 in {DATA}")
def test_the_papers_data_are_read():
    pytest.importorskip("PIL")
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from papers_cnn import load
    finally:
        sys.path.pop(0)
    cifar = load(DATA, "cifar10", 20_000)
    assert cifar.train_x.shape[1:] == (3, 32, 32)
    assert cifar.test_x.shape == (10_000, 3, 32, 32)
    assert torch.bincount(cifar.test_y).tolist() == [1000] * 10
    fashion = load(DATA, "fashion")
    assert fashion.train_x.shape == (60_000, 1, 28, 28)
    assert torch.bincount(fashion.train_y).tolist() == [6000] * 10


def _study(stage):
    """The recorded runs of a stage: (method, data set, rate, options) and the training loss at the end."""
    text = (ROOT / "docs" / "results" / "torch-cnn" / "runs.jsonl").read_text(encoding="utf-8")
    for run in map(json.loads, text.splitlines()):
        if run["stage"] == stage:
            loss = run["curve"][-1]["loss"]
            yield run["method"], run["dataset"], run["lr"], run["options"], math.inf if loss is None else loss


@pytest.mark.parametrize("name", ["AdaFD", "AdaFFD", "SAdaGrad", "AdaGP", "RadaGrad", "FDSON", "RFDSON"])
def test_defaults_are_where_the_study_ended(name):
    """Rate and ridge: the lowest mean log loss, of the settings tried and learning on all three data sets."""
    losses = {}
    for method, dataset, lr, options, loss in _study("search"):
        if method == name:
            losses.setdefault((lr, options["ridge"]), {})[dataset] = loss
    everywhere = {key: found.values() for key, found in losses.items() if len(found) == 3}
    learning = {key: found for key, found in everywhere.items() if max(found) < 0.98 * math.log(10)}
    lr, ridge = min(learning, key=lambda key: sum(map(math.log, learning[key])))
    optimizer = getattr(sketched, name).paper([torch.nn.Parameter(torch.zeros(2))])
    assert (optimizer.defaults["lr"], optimizer.defaults["ridge"]) == (lr, ridge)
    assert (optimizer.defaults["decay"], optimizer.defaults["graft"]) == (1.0, False)  # the papers' method


def test_the_report_of_a_study(tmp_path):
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from torch_cnn_report import report
    finally:
        sys.path.pop(0)
    curve = [{"epoch": e, "loss": 1.0 / e, "accuracy": 1.0 - 0.1 / e, "seconds": 2.0 * e} for e in (1, 2, 3)]
    common = {"dataset": "mnist", "lr": 0.1, "epochs": 3}
    runs = [
        {**common, "stage": "final", "method": "AdaGP", "seed": seed, "options": {"ridge": 0.1}, "curve": curve}
        for seed in (1, 2)
    ]
    broken = [{"epoch": 1, "loss": None, "accuracy": 0.1, "seconds": 1.0}]
    runs += [{**common, "stage": "final", "method": "Adam", "seed": 1, "options": {}, "curve": broken}]
    runs += [{**common, "stage": "ablate", "method": "AdaGP", "seed": 0, "options": {"graft": True}, "curve": curve}]
    report(tmp_path, runs)
    table = (tmp_path / "summary.md").read_text()
    assert "| mnist | AdaGP | 0.1 | ridge 0.1 | 2 | 0.3333 ± 0.0000 | 0.9667 ± 0.0000 | 2.00 |" in table
    assert "| mnist | Adam | 0.1 | defaults | 1 | inf ± nan | 0.1000 ± 0.0000 | 1.00 |" in table
    assert "| mnist | AdaGP | graft | 0.1 | 0.3333 | 0.9667 |" in table
    assert (tmp_path / "curves-mnist.svg").read_text().count("<polyline") == 4
