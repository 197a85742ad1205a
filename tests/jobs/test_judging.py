"""Judging predictions: against scikit-learn and the definitions, whatever the cut, and kept in the model."""

import json
import math
import subprocess

import numpy as np
import pytest
from sklearn import metrics

from onsketch.core.probabilities import probabilities
from onsketch.data.task import Task
from onsketch.files.records import converted
from onsketch.jobs.judging import Counts, Judge
from onsketch.jobs.predictions import answers
from onsketch.jobs.tally import judged
from program import PROGRAM, environment, run

TWO = Task("classification", -1.0, 1.0)


def count(judge, labels, predictions, weights=None):
    signs = judge.task.kind != "regression"
    judge.add(judged(judge.loss, labels, predictions, signs, weights))


def rows(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    margins = 2.0 * rng.normal(size=count)
    labels = np.where(rng.random(count) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    return labels, margins, rng.random(count)


@pytest.mark.parametrize("weighted", [False, True])
def test_areas_are_those_of_scikit_learn(weighted):
    labels, margins, weights = rows()
    given = weights if weighted else None
    judge = Judge(TWO, "logistic")
    count(judge, labels, margins, given)
    figures = judge.figures()
    assert figures["auc"] == pytest.approx(metrics.roc_auc_score(labels, margins, sample_weight=given), abs=2e-4)
    wanted = metrics.average_precision_score(labels, margins, sample_weight=given)
    assert figures["average_precision"] == pytest.approx(wanted, abs=1e-3)
    _, counts = judge.confusion_matrix()
    said = np.where(margins > 0, 1.0, -1.0)
    np.testing.assert_allclose(counts, metrics.confusion_matrix(labels, said, sample_weight=given))


def test_the_best_constant_is_the_best():
    labels, margins, _ = rows()
    share = np.mean(labels > 0)
    for loss, wanted in (
        ("logistic", -share * math.log(share) - (1 - share) * math.log(1 - share)),
        ("hinge", min((np.maximum(0, 1 - labels * c)).mean() for c in np.linspace(-2, 2, 401))),
        ("squared_hinge", min((np.maximum(0, 1 - labels * c) ** 2).mean() for c in np.linspace(-2, 2, 4001))),
    ):
        judge = Judge(TWO, loss)
        count(judge, labels, margins)
        found, error = judge.best_constant()
        assert found == pytest.approx(wanted, abs=1e-4)
        assert error == pytest.approx(min(share, 1 - share))


def test_numbers():
    rng = np.random.default_rng(1)
    labels = 1e6 + rng.normal(size=500)
    said = labels + 0.3 * rng.normal(size=500)
    judge = Judge(Task("regression"), "squared")
    count(judge, labels, said)
    figures = judge.figures()
    assert figures["best_constant_loss"] == pytest.approx(labels.var())
    assert figures["rmse"] == pytest.approx(math.sqrt(np.mean((said - labels) ** 2)))
    assert figures["r_squared"] == pytest.approx(metrics.r2_score(labels, said))
    judge = Judge(Task("regression"), "absolute")
    count(judge, labels, said)
    assert judge.figures()["best_constant_loss"] == pytest.approx(np.abs(labels - np.median(labels)).mean())


def test_calibrated_probabilities_are_distinguished_from_others():
    labels, margins, _ = rows(20_000)
    errors = []
    for factor in (1.0, 3.0):
        judge = Judge(TWO, "logistic")
        count(judge, labels, factor * margins)
        errors.append(judge.calibration_error())
    assert errors[0] < 0.02 < 0.08 < errors[1]


@pytest.mark.parametrize("task", [TWO, Task("multiclass", names=["a", "b", "c"]), Task("regression")])
def test_no_cut_changes_a_bit(task):
    rng = np.random.default_rng(2)
    labels = rng.integers(3, size=500).astype(float) if task.many else rows(500)[0]
    said = rng.integers(3, size=500).astype(float) if task.many else rng.normal(size=500)
    weights = rng.random(500)
    states = []
    for cuts in ([], [1, 7, 250], [499]):
        judge = Judge(task, "absolute" if task.kind == "regression" else "logistic")
        for part in np.split(np.arange(500), cuts):
            count(judge, labels[part], np.eye(3)[said[part].astype(int)] if task.many else said[part], weights[part])
            judge = Judge.from_state(task, converted(json.loads(json.dumps(judge.state().state())), Counts))
        states.append(judge.state())
    assert states[0] == states[1] == states[2]


def test_sorted_labels_are_noticed():
    labels, margins, _ = rows(2000)
    for order, wanted in ((np.argsort(labels, kind="stable"), True), (np.arange(2000), False)):
        judge = Judge(TWO, "logistic")
        count(judge, labels[order], margins[order])
        assert judge.sorted_labels is wanted


def test_probabilities_sum_to_one_and_agree_with_labels():
    margins = np.random.default_rng(0).normal(size=(50, 4)) * 5
    task = Task("multiclass", names=list("abcd"))
    for loss in ("logistic", "softmax"):
        p = probabilities(margins, loss)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert answers(margins, task, loss, "label") == [list("abcd")[k] for k in p.argmax(axis=1)]


def test_train_and_predict_tell_the_same_figures_to_other_programs(tmp_path):
    labels, margins, _ = rows(400)
    (tmp_path / "t.svm").write_text("".join(f"{y:g} 1:{z:.4f}\n" for y, z in zip(labels, margins, strict=True)))
    model, one, two = tmp_path / "m", tmp_path / "1.json", tmp_path / "2.json"
    result = run("train", tmp_path / "t.svm", "-l", "adagrad", "--save", model, "--json", one)
    assert "AUC" in result.stdout
    assert "the best constant" in result.stdout
    result = run("predict", model, tmp_path / "t.svm", "--json", two)
    assert "AUC" in result.stderr
    keys = {"auc", "average_precision", "calibration_error", "best_constant_loss", "best_constant_error", "confusion"}
    for path in (one, two):
        assert keys <= set(json.loads(path.read_text()))


@pytest.mark.slow
def test_a_slow_pipe_is_answered_line_by_line(tmp_path):
    (tmp_path / "t.csv").write_text("alpha,y\n" + "1,0\n2,1\n" * 20)
    model = tmp_path / "m"
    assert run("train", tmp_path / "t.csv", "-l", "adagrad", "--save", model).exit_code == 0
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment(), "bufsize": 0}
    with subprocess.Popen([*PROGRAM, "predict", str(model), "-", "--quiet"], **pipe) as process:
        process.stdin.write(b"alpha\n")
        for value in (b"1\n", b"2\n", b"1\n"):
            process.stdin.write(value)
            assert process.stdout.readline().strip(), "no answer before more came"
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_the_winner_of_a_comparison_can_be_saved_and_resumed(tmp_path):
    labels, margins, _ = rows(300)
    path, model = tmp_path / "t.svm", tmp_path / "m"
    path.write_text("".join(f"{y:g} 1:{z:.4f}\n" for y, z in zip(labels, margins, strict=True)))
    result = run("compare", path, "-l", "adagrad", "-l", "ogd", "--step-size", "0.1,1", "--save", model)
    assert result.exit_code == 0, result.output
    assert "written to" in result.stdout
    assert run("predict", model, path).exit_code == 0
    assert run("train", path, "--from", model, "--save", model).exit_code == 0
