"""Streams that go on: ten million rounds, thousands of changes of basis, refused rows in between."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack

import definitions
import onsketch
from onsketch.errors import UpdateError
from streams import sparse_stream

SKETCHED = ("fd-son", "rfd-son", "cfd-son", "oja-son", "rp-son", "ada-fd", "ada-ffd", "s-adagrad", "ada-gp")


@pytest.mark.slow
@pytest.mark.parametrize("update", ["mirror", "dual"])
def test_features_absent_for_thousands_of_shrinks_catch_up(update: str) -> None:
    """Against the definition, in which 200 features that are always equal are one of √200 times their value."""
    rng, groups, equal, n = np.random.default_rng(0), 20, 200, 4000
    few = rng.normal(size=(n, 10)) * (rng.random((n, 10)) < 0.5)
    absent = rng.normal(size=(n, groups)) * (rng.random((n, groups)) < 0.3) / math.sqrt(equal)
    absent[100:-20] = 0.0
    X = np.hstack([few, math.sqrt(equal) * absent])
    y = X @ rng.normal(size=X.shape[1]) / 3.0
    rows = hstack([csr_array(few), csr_array(np.repeat(absent, equal, axis=1))]).tocsr()
    options: dict[str, Any] = {"sketch_size": 3, "ridge": 1.0, "doubling": False, "update": update}
    learner = onsketch.learner("rfd-son", **options)
    margins = learner.learn(rows, y)
    weights = learner.weights
    reduced = np.concatenate([weights[:10], math.sqrt(equal) * weights[10:].reshape(groups, equal).mean(axis=1)])
    expected = definitions.run("rfd-son", X, y, **options)
    np.testing.assert_allclose(margins, expected.predictions, atol=1e-8)
    np.testing.assert_allclose(reduced, expected.weights, atol=1e-8)


@pytest.mark.parametrize("update", ["mirror", "dual"])
def test_between_changes_of_basis_all_features_are_brought_up_to_date(update: str, tmp_path: Path) -> None:
    """Saved and loaded on the way or not, the model is the same file, and its weights are the definition's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 40)) * np.where(np.arange(40) == 0, 30.0, 1.0)
    X[rng.random(X.shape) < 0.8] = 0.0
    y = X @ rng.normal(size=40) / 8.0
    options: dict[str, Any] = {"sketch_size": 3, "ridge": 10.0, "update": update}
    learner = onsketch.learner("oja-son", **options)
    for k, (row, label) in enumerate(zip(X, y, strict=True)):
        learner.learn(csr_array(row[None]), [label])
        if k % 25 == 0:
            learner.save(tmp_path / "model")
            learner = onsketch.load(tmp_path / "model")
    np.testing.assert_allclose(learner.weights, definitions.run("oja-son", X, y, **options).weights, atol=1e-8)
    uninterrupted = onsketch.learner("oja-son", **options)
    uninterrupted.learn(csr_array(X), y)
    learner.save(tmp_path / "model")
    uninterrupted.save(tmp_path / "uninterrupted")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "uninterrupted").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adagrad", "oja-son", "rfd-son"])
def test_ten_million_rounds(method: str) -> None:
    rng = np.random.default_rng(0)
    X = csr_array(rng.normal(size=(100_000, 3)) * [1.0, 30.0, 0.01])
    y = np.sign(X @ [1.0, 0.02, 50.0])
    options: dict[str, Any] = {} if method == "adagrad" else {"sketch_size": 2}
    learner = onsketch.learner(method, **options)
    for _ in range(100):
        predictions = learner.learn(X, y)
        assert np.isfinite(predictions).all()
    assert learner.rounds == 10_000_000
    assert np.isfinite(learner.weights).all()
    assert np.mean(np.sign(predictions) != y) < 0.35


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", SKETCHED)
def test_a_refused_row_is_as_if_it_had_never_come(method: str, dtype: str) -> None:
    """Even when it brings features of its own, and is followed by rows that do."""
    X, y = sparse_stream(n=90)
    wild = np.zeros((1, X.shape[1] + 4))
    wild[0, [0, 3, 9, 10, 12]] = [1e140, 1.0, 1.0, 1e140, 1e140]
    options: dict[str, Any] = {"sketch_size": 3, "ridge": 1.0, "clip": None, "dtype": dtype}
    plain, tried = onsketch.learner(method, **options), onsketch.learner(method, **options)
    for learner in (plain, tried):
        learner.learn(X[:30, :5], y[:30])
    with pytest.raises(UpdateError):
        tried.learn(np.vstack([wild, np.ones_like(wild)]), [1e140, 1.0])
    assert tried.rounds == 30
    assert tried.weights.shape == plain.weights.shape
    # but for rounding: features of the refused row may have been brought up to date earlier
    tolerance = {"atol": 1e-10 if dtype == "float64" else 1e-4}
    np.testing.assert_allclose(tried.weights, plain.weights, **tolerance)
    np.testing.assert_allclose(tried.learn(X[30:], y[30:]), plain.learn(X[30:], y[30:]), **tolerance)
    np.testing.assert_allclose(tried.weights, plain.weights, **tolerance)
    assert np.isfinite(tried.weights).all()


@pytest.mark.parametrize("method", SKETCHED)
def test_single_precision_is_close_and_never_overflows(method: str) -> None:
    X, y = sparse_stream(n=120)
    single = onsketch.learner(method, sketch_size=3, ridge=2.0, dtype="float32")
    double = onsketch.learner(method, sketch_size=3, ridge=2.0)
    np.testing.assert_allclose(single.learn(X, y), double.learn(X, y), atol=2e-3)
    for scale in (1e30, 1e38, 1e45, 1e60):
        learner = onsketch.learner(method, sketch_size=2, dtype=np.float32)
        try:
            learner.learn(scale * X, y)
        except UpdateError as error:
            assert np.isfinite(np.asarray(error.predictions)).all()  # noqa: PT017
        assert np.isfinite(learner.weights).all()


@pytest.mark.parametrize("method", ["adagrad", "fd-son", "oja-son", "ada-ffd", "ons"])
def test_copies_and_threads_do_not_share_state(method: str) -> None:
    X, y = sparse_stream(n=200)
    options: dict[str, Any] = {"sketch_size": 3} if method in ("fd-son", "oja-son", "ada-ffd") else {}
    learner = onsketch.learner(method, **options)
    learner.learn(X[:100], y[:100])
    twins = [copy.deepcopy(learner), pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)]
    threads = [threading.Thread(target=twin.learn, args=(X[100:], y[100:])) for twin in twins]
    before = learner.weights.copy()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (learner.weights == before).all()
    learner.learn(X[100:], y[100:])
    for twin in twins:
        assert (twin.weights == learner.weights).all()


@pytest.mark.parametrize("sketch", ["fd", "rfd", "ffd", "rp", "oja"])
def test_several_threads_may_read_at_once(sketch: str) -> None:
    X, y = sparse_stream(n=300, seed=2)
    learner = onsketch.compose(sketch=sketch, geometry="newton", sketch_size=6)
    learner.learn(X, y)
    many = csr_array(np.tile(X, (20, 1)))
    leverage, margins = learner.leverage(many), learner.predict(many)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: learner.leverage(many), range(8)):
            assert (found == leverage).all()
        for found in pool.map(lambda _: learner.predict(many), range(8)):
            assert (found == margins).all()
