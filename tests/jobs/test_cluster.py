"""Sharded runs: exact where the mathematics says so, the same bits whatever happens, every row counted once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onsketch
from onsketch import cluster
from onsketch.cluster import LocalEngine, Run, fit
from onsketch.core.losses import loss_values
from onsketch.errors import InputError, ModelFileError, OptionError
from onsketch.files import model_file
from onsketch.jobs.cluster.storage import Storage
from onsketch.jobs.cluster.tasks import Learned
from onsketch.jobs.cluster.tree import Gathering, Node
from program import run as program
from shards import cut, shards_of, write_svm
from streams import sparse_stream

MERGING = (
    "auto", "adagrad", "ftrl", "arow", "ons", "ada-full", "rfd-son", "oja-son", "rp-son", "ada-lr", "radagrad",
    "ada-ffd",
)  # fmt: skip
"""A method of each way to merge and to draw random numbers; tests/learners has the merging of the others."""


def bits(run: Run, path: Path) -> bytes:
    run.save(path)
    return path.read_bytes()


# The tree ------------------------------------------------------------------------------------------------


class Disorderly(LocalEngine):
    """Reports one finished task at a time, in an order of its own."""

    def __init__(self, seed: int, workers: int) -> None:
        self._rng, self._workers = np.random.default_rng(seed), workers

    @property
    def workers(self) -> int:
        return self._workers

    def finished(self, tasks: Any) -> Any:
        return [tasks[self._rng.integers(len(tasks))]]


def _leaf(k: int) -> tuple[int, str]:
    return k, str(k)


def _pair(one: str, two: str) -> tuple[None, str]:
    return None, f"({one}{two})"


@given(st.integers(1, 40), st.integers(0, 1000), st.integers(1, 9))
@settings(max_examples=50)
def test_the_tree_does_not_depend_on_the_order_of_arrival(n: int, seed: int, workers: int) -> None:
    def gathered(engine: Any, saved: Any = None) -> str:
        gathering = Gathering(engine, [(_leaf, k) for k in range(n)], (_pair,))
        state = engine.state(gathering.run(saved or {}, lambda report: kept.append(dict(gathering.ready))))
        assert gathering.reports == {k: k for k in range(n)}
        return str(state)

    kept: list[dict[Node, str]] = []
    straight = gathered(LocalEngine())
    assert gathered(Disorderly(seed, workers)) == straight
    assert straight.count("(") == n - 1
    some = kept[seed % len(kept)]  # an earlier life left these
    saved = {node: (list(node.shards(n)), state) for node, state in some.items()}
    assert gathered(Disorderly(seed + 1, workers), saved) == straight


# Learners ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shards", "sync", "together"), [(1, None, None), (5, None, None), (5, 1, None), (7, 2, 3)])
def test_exact_learners_with_curvature_rows_equal_one_stream(tmp_path: Path, shards: int, sync: Any, together: Any):
    X, y = sparse_stream(n=300, seed=1)
    files = shards_of(tmp_path, X, y, shards)
    options = {"summary": "curvature", "clip": None, "ridge": 0.5}
    run = fit({"method": "ons", **options}, files, task="regression", sync=sync, together=together,
              reading={"block_rows": 13}, cluster="none")  # fmt: skip
    whole = onsketch.learner("ons", **options)
    whole.learn(X, y)
    np.testing.assert_allclose(run.learner.weights, whole.weights, atol=1e-9, rtol=1e-9)
    np.testing.assert_allclose(run.learner.leverage(X), whole.leverage(X), atol=1e-9, rtol=1e-9)
    assert run.rows == run.learner.rounds == 300


@pytest.mark.parametrize("method", MERGING)
def test_methods_of_every_kind_learn_in_shards(tmp_path: Path, method: str) -> None:
    """Better than nothing, not far from one stream, and a function of the arguments alone."""
    X, y = sparse_stream("logistic", n=600, seed=2)
    files = shards_of(tmp_path / "data", X, y, 4)
    loss = "squared_hinge" if method == "arow" else "logistic"
    options: dict[str, Any] = {"method": method, "loss": loss}
    if method in ("ada-lr", "radagrad"):
        options["n_features"] = X.shape[1]
    if "sketch_size" in onsketch.learners.methods.METHODS[method].concerns:
        options["sketch_size"] = 4
        if not onsketch.learners.methods.METHODS[method].mixture:
            options["ridge"] = 1.0  # at a small ridge so small a sketch is wild in one stream too
    reading = {"block_rows": 40}
    if "n_features" in options:
        reading["n_features"] = options["n_features"]
    again = [fit(options, files, reading=reading, sync=2, cluster=engine)
             for engine in (LocalEngine(), Disorderly(5, 3))]  # fmt: skip
    run = again[0]
    assert bits(run, tmp_path / "a") == bits(again[1], tmp_path / "b")
    assert run.rows == run.learner.rounds == run.progress.rows == 600
    assert run.learner.options.seed == 0
    whole = onsketch.learner(**options)
    alone = loss_values(loss, whole.learn(X, y), y).mean()
    assert run.progress.mean_loss < loss_values(loss, np.zeros(1), np.ones(1))[0]
    assert run.progress.mean_loss < alone + 0.15


@pytest.mark.parametrize("method", ["rfd-son", "oja-son", "adagrad", "arow", "adam", "ons"])
def test_recommended_defaults_in_shards_take_features_in_any_units(tmp_path: Path, method: str) -> None:
    """Nearly as good as one stream, and the scales of the first block are those of the whole run."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 5)) * [1e-6, 1.0, 1e3, 1.0, 1e6]
    y = np.where(X @ [1e6, 2.0, -2e-3, 0.0, 1e-6] + 0.5 + 0.5 * rng.normal(size=1600) > 0.0, 1.0, -1.0)
    files = shards_of(tmp_path, X, y, 8)
    run = fit({"method": method, "defaults": "recommended"}, files, reading={"block_rows": 50}, cluster="none")
    alone = onsketch.safe_learner(method, loss=run.learner.options.loss)
    alone.learn(X, y)
    once, both = (np.mean(learner.predict(X) * y < 0.0) for learner in (alone, run.learner))
    assert both < once + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ons", "fd-son", "rfd-son", "cfd-son", "oja-son", "rp-son", "adagrad", "ada-fd"])
def test_merging_often_does_not_diverge(tmp_path: Path, method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    y = np.where(X @ rng.normal(size=6) + rng.logistic(size=4000) > 0.0, 1.0, -1.0)
    files = shards_of(tmp_path, X, y, 16)
    options = {"method": method, "clip": 2.0, "ridge": 1.0}
    run = fit(options, files, sync=1, reading={"block_rows": 20}, cluster="none")
    alone = onsketch.learner(**options, loss="logistic")
    alone.learn(X, y)
    once, both = (loss_values("logistic", X @ learner.weights, y).mean() for learner in (alone, run.learner))
    assert both < once + 0.1


def test_the_progressive_loss_is_that_of_the_shards_own_predictions(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=500, seed=3)
    pieces = cut(500, 3, 0)
    run = fit("adagrad", shards_of(tmp_path, X, y, 3), cluster="none")
    losses, wrong = [], 0
    for piece in pieces:
        alone = onsketch.learner("adagrad", loss="logistic")
        margins = alone.learn(X[piece], y[piece])
        losses.append(loss_values("logistic", margins, y[piece]))
        wrong += int(((margins > 0) != (y[piece] > 0)).sum())
    assert run.progress.mean_loss == pytest.approx(np.concatenate(losses).mean(), rel=1e-12)
    assert run.progress.error == pytest.approx(wrong / 500)
    assert [entry.rows for entry in run.ledger] == [piece.stop - piece.start for piece in pieces]


def test_one_shard_is_plain_training(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=300, seed=4)
    files = shards_of(tmp_path, X, y, 1)
    run = fit({"method": "rfd-son", "sketch_size": 3}, files, cluster="none", passes=2)
    alone = onsketch.learner("rfd-son", sketch_size=3, loss="logistic")
    alone.learn(X, y)
    alone.learn(X, y)
    np.testing.assert_allclose(run.learner.weights, alone.weights, rtol=1e-12)
    assert run.rows == 600


def test_waves_go_on_from_what_the_waves_before_have_made(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=300, seed=5)
    files = shards_of(tmp_path, X, y, 4, seed=1)
    run = fit("adagrad", files, cluster="none", together=1)
    alone = onsketch.learner("adagrad", loss="logistic")
    alone.learn(X, y)
    np.testing.assert_allclose(run.learner.weights, alone.weights, rtol=1e-9)


def test_shards_without_rows_change_nothing(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=100, seed=6)
    full, empty = tmp_path / "1.svm", [tmp_path / "0.svm", tmp_path / "2.svm"]
    write_svm(full, X, y)
    for path in empty:
        path.write_text("")
    run = fit("adagrad", [str(empty[0]), str(full), str(empty[1])], reading={"format": "libsvm"}, cluster="none")
    alone = onsketch.learner("adagrad", loss="logistic")
    alone.learn(X, y)
    assert (run.learner.weights == alone.weights).all()
    with pytest.raises(InputError, match="not a single row"):
        fit("adagrad", [str(path) for path in empty], reading={"format": "libsvm"}, cluster="none")


# Checkpoints ---------------------------------------------------------------------------------------------


class Death(Exception):
    pass


@pytest.mark.parametrize("address", ["{}/run.ckpt", "memory://{}/run.ckpt"])
@pytest.mark.parametrize("method", ["rfd-son", "rp-son"])
def test_a_run_killed_anywhere_ends_with_the_same_bytes(tmp_path: Path, method: str, address: str) -> None:
    X, y = sparse_stream("logistic", n=400, seed=9)
    files = shards_of(tmp_path / "data", X, y, 5)
    arguments: dict[str, Any] = {
        "learner": {"method": method, "sketch_size": 3}, "files": files, "sync": 2, "together": 3,
        "reading": {"block_rows": 30}, "every": 0.0,
    }  # fmt: skip
    events: list[Any] = []
    straight = fit(**arguments, cluster="none", watch=events.append)
    expected = bits(straight, tmp_path / "straight")
    checkpoint = address.format(tmp_path)
    lives, resumed = 0, None
    while resumed is None:
        left = 1 + lives % 3

        def watch(status: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Death

        try:
            resumed = fit(**arguments, cluster=Disorderly(lives, 2), checkpoint=checkpoint, resume=True, watch=watch)
        except Death:
            lives += 1
        assert lives < 100
    assert lives > 3
    assert bits(resumed, tmp_path / "resumed") == expected
    assert resumed.rows == 400
    assert [entry.rows for entry in resumed.ledger] == [entry.rows for entry in straight.ledger]
    storage = Storage(checkpoint)
    assert storage.parts() == []
    assert storage.read().notes["cluster"]["rounds"] == straight.rounds
    finished = fit(**arguments, cluster="none", checkpoint=checkpoint, resume=True, watch=watch)  # nothing left
    assert bits(finished, tmp_path / "finished") == expected


@pytest.mark.parametrize("missing", ["plan", "reports", *(f"reports.{part}" for part in Learned.__struct_fields__)])
def test_a_part_without_a_note_or_of_other_shards_is_refused(tmp_path: Path, missing: str) -> None:
    X, y = sparse_stream("logistic", n=90, seed=10)
    arguments: dict[str, Any] = {"checkpoint": tmp_path / "c", "every": 0.0, "cluster": "none"}
    files = shards_of(tmp_path, X, y, 3)

    def watch(status: Any) -> None:
        if status.shards_done == 3:
            raise Death

    with pytest.raises(Death):
        fit("adagrad", files, watch=watch, **arguments)
    storage = Storage(tmp_path / "c")
    path = tmp_path / "c.parts" / storage.parts()[0]
    content = model_file.read(path)
    rest = {name: value for name, value in content.header.items() if name not in ("format", "version")}
    name, _, field = missing.partition(".")
    if field:
        altered = [[{**report} for report in content.notes[name]] for _ in range(3)]
        del altered[0][0][field]
        altered[1][0]["shard"] += 1
        altered[2].pop()
        notes = [{**content.notes, name: reports} for reports in altered]
    else:
        notes = [{**content.notes, name: None}, {other: note for other, note in content.notes.items() if other != name}]
    for altered_notes in notes:
        model_file.write(path, content.kind, rest, content.arrays, altered_notes)
        with pytest.raises(ModelFileError, match=f"notes.{name}"):
            fit("adagrad", files, resume=True, **arguments)
    model_file.write(path, content.kind, rest, content.arrays, content.notes)
    assert fit("adagrad", files, resume=True, **arguments).rows == 90


def test_a_checkpoint_is_an_ordinary_model_of_the_merged_rows(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=200, seed=10)
    run = fit("adagrad", shards_of(tmp_path, X, y, 2), cluster="none", checkpoint=tmp_path / "ckpt")
    loaded = onsketch.load(tmp_path / "ckpt")
    assert (loaded.weights == run.learner.weights).all()
    assert model_file.read(tmp_path / "ckpt").notes["cluster"]["ledger"][0]["passes"] == 1


def test_refusals_say_why(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=80, seed=11)
    files = shards_of(tmp_path, X, y, 2)
    with pytest.raises(OptionError, match="diagonal"):
        fit({"method": "rfd-son", "diagonal": True}, files, cluster="none")
    with pytest.raises(InputError, match="standard input"):
        fit("adagrad", "-", cluster="none")
    with pytest.raises(InputError, match="listed twice"):
        fit("adagrad", [files[0], files[0]], cluster="none")
    with pytest.raises(OptionError, match="sync=0"):
        fit("adagrad", files, sync=0, cluster="none")
    with pytest.raises(OptionError, match="zero_based"):
        fit("adagrad", files, reading={"zero_based": "auto"}, cluster="none")
    with pytest.raises(OptionError, match="needs a checkpoint"):
        fit("adagrad", files, resume=True, cluster="none")
    fit("adagrad", files, cluster="none", checkpoint=tmp_path / "c")
    with pytest.raises(OptionError, match=r"another job \(sync: "):
        fit("adagrad", files, cluster="none", checkpoint=tmp_path / "c", resume=True, sync=4)
    with pytest.raises(OptionError, match="method"):
        fit({"ridge": 1.0}, files, cluster="none")
    with pytest.raises(OptionError, match=r"kons learners cannot be merged.*adagrad"):
        fit("kons", files, cluster="none")


# The program ---------------------------------------------------------------------------------------------


def test_the_program_trains_in_shards_and_resumes(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=200, seed=13)
    files = shards_of(tmp_path / "data", X, y, 3)
    recommended = {"method": "adagrad", "defaults": "recommended"}
    run = fit(recommended, files, sync=1, reading={"block_rows": 50}, cluster="none")
    expected = bits(run, tmp_path / "expected")
    command = ("train", "--cluster", "none", str(tmp_path / "data" / "*.svm"), "-l", "adagrad", "--sync", "1",
               "--block-rows", "50", "--checkpoint", str(tmp_path / "ckpt"), "--resume", "--every", "0",
               "--save", str(tmp_path / "model"))  # fmt: skip
    result = program(*command)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "model").read_bytes() == expected
    assert "round 1: 3/3 shards" in result.stdout
    assert "rows          200" in result.stdout
    again = program(*command)
    assert again.exit_code == 0
    assert "round 1" not in again.stdout
    assert (tmp_path / "model").read_bytes() == expected
    assert program(*command, "--plain").exit_code == 1  # another plan
    predicted = program("predict", str(tmp_path / "model"), files[0])
    assert len(predicted.stdout.splitlines()) == run.ledger[0].rows


def test_the_program_sketches_in_shards(tmp_path: Path) -> None:
    X, y = sparse_stream(n=100, seed=14)
    shards_of(tmp_path, X, y, 3)
    result = program(
        "sketch", "--cluster", "none", str(tmp_path / "*.svm"), "--size", "4", "--save", str(tmp_path / "s")
    )
    assert result.exit_code == 0, result.output
    assert "100 rows" in result.stdout
    assert onsketch.load(tmp_path / "s").n_rows == 100


@pytest.mark.parametrize("options", [("--holdout", "5"), ("--predictions", "p.txt"), ("--report", "r.html")])
def test_the_program_says_what_does_not_go_together(options: tuple[str, str]) -> None:
    result = program("train", "--cluster", "none", "a.svm", *options)
    assert result.exit_code == 2
    assert "--cluster" in result.output
    assert "it needs --cluster" in program("train", "a.svm", "--sync", "2").output
    refused = program("train", "--cluster", "none", "-l", "kons", __file__)
    assert (refused.exit_code, "kons learners cannot be merged" in refused.output) == (1, True)
    assert "-l adagrad" in refused.output


def test_the_program_trains_the_default_learner_in_shards(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=200, seed=13)
    shards_of(tmp_path / "data", X, y, 3)
    result = program("train", "--cluster", "none", str(tmp_path / "data" / "*.svm"), "--sync", "1", "--block-rows",
                     "50", "--save", str(tmp_path / "model"))  # fmt: skip
    assert result.exit_code == 0, result.output
    learner = onsketch.load(tmp_path / "model")
    assert (learner.method.name, learner.rounds) == ("auto", 200)


def test_without_ray_there_is_a_plain_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=40, seed=15)
    files = shards_of(tmp_path, X, y, 2)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"onsketch\[ray\]"):
        fit("adagrad", files)
    result = program("train", "--cluster", "auto", "-l", "adagrad", *files)
    assert (result.exit_code, "onsketch[ray]" in result.output) == (1, True)


# Sketches ------------------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.integers(2, 6), st.sampled_from(["fd", "fast-fd", "rfd", "fast-rfd"]), st.integers(0, 99))
@settings(max_examples=25)
def test_a_sketch_of_shards_meets_the_bound_of_frequent_directions(
    tmp_path_factory: Any, shards: int, m: int, kind: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(60, 8)) * 2.0 ** -np.arange(8)
    files = shards_of(tmp_path_factory.mktemp("rows"), A, np.zeros(60), shards, seed)
    summary = cluster.sketch(files, kind, m, cluster=Disorderly(seed, 3))
    assert summary.n_rows == 60
    exact = A.T @ A
    lost = np.linalg.eigvalsh(exact - summary.covariance())
    tail = np.cumsum(np.linalg.svd(A, compute_uv=False)[::-1] ** 2)[::-1]
    tails = np.append(tail, 0.0)
    bound = min(tails[k] / (m - k) for k in range(m))
    if kind.endswith("rfd"):
        assert np.abs(lost).max() <= bound / 2 + 1e-9
    else:
        assert lost.min() >= -1e-9
        assert lost.max() <= bound + 1e-9


@pytest.mark.parametrize("kind", ["fast-fd", "cfd", "pfd", "rp", "oja"])
def test_every_sketch_is_made_in_shards_and_resumed(tmp_path: Path, kind: str) -> None:
    X, y = sparse_stream(n=200, seed=12)
    files = shards_of(tmp_path / "data", X, y, 5)
    straight = cluster.sketch(files, kind, 4, cluster="none")
    assert straight.n_rows == 200

    def watch(status: Any) -> None:
        if status.round == 2 and status.shards_done == 4:
            raise Death

    arguments: dict[str, Any] = {"checkpoint": tmp_path / "c", "every": 0.0}
    with pytest.raises(Death):
        cluster.sketch(files, kind, 4, cluster="none", watch=watch, **arguments)
    assert Storage(tmp_path / "c").parts()
    again = cluster.sketch(files, kind, 4, cluster=Disorderly(1, 2), resume=True, **arguments)
    assert (again.matrix == straight.matrix).all()
    assert (onsketch.load(tmp_path / "c").matrix == straight.matrix).all()
    assert again.n_rows == 200
