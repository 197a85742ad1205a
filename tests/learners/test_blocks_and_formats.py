"""The same rows give the same learner, however they are cut into blocks and however they are stored."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array, csr_matrix

import onsketch
from onsketch.errors import InputError, UpdateError
from onsketch.learners.methods import METHODS as METHODS_BY_NAME
from onsketch.learners.rows import as_rows
from streams import sparse_stream

METHODS = [name for name in onsketch.methods() if name not in ("ada-lr", "radagrad")]


def make(method: str, **options: Any) -> Any:
    concerns = METHODS_BY_NAME[method].concerns
    options.setdefault("kernel", "linear")  # kernel methods have weights then
    return onsketch.learner(method, **{k: v for k, v in options.items() if k in concerns})


@pytest.mark.parametrize("method", onsketch.methods())
def test_one_call_equals_many_bit_for_bit(method: str) -> None:
    X, y = sparse_stream(n=120)
    options: dict[str, Any] = {"sketch_size": 3, "n_features": X.shape[1], "average": True}
    whole = make(method, **options)
    predictions = whole.learn(X, y)
    for edges in (range(len(y) + 1), [0, 1, 7, 40, 41, 120]):
        parts = make(method, **options)
        pieces = [parts.learn(X[a:b], y[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        assert (np.concatenate(pieces) == predictions).all()
        assert (parts.weights == whole.weights).all()
        assert (parts.predict(X) == whole.predict(X)).all()


@pytest.mark.parametrize("options", [{}, {"diagonal": True, "dtype": "float32"}, {"update": "dual"}], ids=str)
@pytest.mark.parametrize("method", ["rfd-son", "oja-son", "rp-son", "ada-fd", "ada-ffd"])
def test_dense_rows_without_zeros_share_their_slots(method: str, options: dict[str, Any]) -> None:
    """To the bit what single rows and sparse rows give, whatever was seen before and whichever row is refused."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) * np.geomspace(1.0, 100.0, 80)[:, None]
    y = np.where(rng.random(80) < 0.5, -1.0, 1.0)
    zero, wild = X.copy(), X.copy()
    zero[[20, 30], [0, 3]] = 0.0
    wild[40] = 1e150 / 3.0
    for known, rows in itertools.product((0, 2), (X, np.asfortranarray(X), zero, wild)):
        whole, single, sparse = (make(method, sketch_size=3, loss="squared", **options) for _ in range(3))
        for learner in (whole, single, sparse):
            learner.learn(X[:5, :known], y[:5])
        labels = np.where(np.abs(rows[:, 0]) > 1e100, 1e140, y)
        expected = []
        for i in range(80):
            with contextlib.suppress(UpdateError):
                expected.append(single.learn(rows[i : i + 1], labels[i : i + 1])[0])
        for learner, form in ((whole, rows), (sparse, csr_array(rows))):
            predictions = learned_but_for_refused(learner, form, labels)
            assert len(expected) == 80 - (rows is wild)
            assert predictions == expected
            assert (learner.weights == single.weights).all()


def learned_but_for_refused(learner: Any, X: Any, y: Any) -> list[float]:
    try:
        return list(learner.learn(X, y))
    except UpdateError as error:
        refused = error.row
        return [*error.predictions, *learned_but_for_refused(learner, X[refused + 1 :], y[refused + 1 :])]


@pytest.mark.parametrize("method", METHODS)
def test_sparse_equals_dense(method: str) -> None:
    X, y = sparse_stream(n=120)
    dense, sparse = make(method, sketch_size=3, ridge=1.0), make(method, sketch_size=3, ridge=1.0)
    np.testing.assert_allclose(sparse.learn(csr_array(X), y), dense.learn(X, y), atol=1e-12)
    np.testing.assert_allclose(sparse.weights, dense.weights, atol=1e-12)
    np.testing.assert_allclose(sparse.predict(X), dense.predict(csr_matrix(X)), atol=1e-12)


@pytest.mark.parametrize("scaling", ["none", "magnitude"])
@pytest.mark.parametrize("method", ["adagrad", "ftrl", "oja-son", "rfd-son"])
def test_many_dense_rows_are_predicted_as_few(method: str, scaling: str) -> None:
    """Many dense rows are predicted by weights written out: with features never seen, and values beyond all scales."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 7)) * [1e-3, 1.0, 1e3, 1.0, 0.0, 2.0, 1.0]
    learner = onsketch.learner(method, loss="logistic", scaling=scaling, fit_intercept=True)
    learner.learn(X[:300, :6], np.sign(X[:300, 1] + 0.1))
    X[[300, 301], [0, 1]] = 1e40, -1e36
    few = np.concatenate([learner.predict(X[start : start + 50]) for start in range(0, 600, 50)])
    np.testing.assert_allclose(learner.predict(X), few, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(learner.predict(csr_array(X)), few, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["adagrad", "oja-son", "rfd-son", "ons"])
def test_unsorted_repeated_and_explicitly_zero_entries(method: str) -> None:
    X, y = sparse_stream(n=40)
    rows, columns = np.nonzero(X)
    rng = np.random.default_rng(0)
    order = rng.permutation(rows.size)
    halves = np.concatenate([order, order])  # every value in two halves, in random order within the row
    values = np.append(X[rows, columns][halves] / 2, [0.0, 0.0])  # and two explicit zeros
    places = (np.append(rows[halves], [3, 4]), np.append(columns[halves], [0, 1]))
    messy = coo_array((values, places), shape=X.shape).tocsr(copy=True)
    data, indices = messy.data.copy(), messy.indices.copy()
    plain, learner = make(method, sketch_size=3), make(method, sketch_size=3)
    np.testing.assert_allclose(learner.learn(messy, y), plain.learn(X, y), atol=1e-10)
    assert (messy.data == data).all()  # the caller's matrix is left alone
    assert (messy.indices == indices).all()
    unsorted = csr_array((X[rows, columns][::-1], columns[::-1], np.append(0, np.cumsum((X != 0).sum(1)[::-1]))))
    expected = make(method, sketch_size=3).learn(X[::-1], y[::-1])
    np.testing.assert_allclose(make(method, sketch_size=3).learn(unsorted, y[::-1]), expected, atol=1e-10)


@pytest.mark.parametrize("method", ["adagrad", "ftrl", "fd-son", "oja-son", "rp-son", "ada-ffd"])
def test_state_follows_the_features_seen_not_the_index_space(method: str) -> None:
    X, y = sparse_stream(n=60)
    small = csr_array(X)
    spread = np.sort(np.random.default_rng(0).choice(10**9, size=X.shape[1], replace=False))
    large = csr_array((small.data, spread[small.indices], small.indptr), shape=(len(y), 10**9))
    near, far = make(method, sketch_size=3), make(method, sketch_size=3)
    predictions = far.learn(large, y)
    if method != "oja-son":  # whose starting columns are drawn by feature
        np.testing.assert_allclose(predictions, near.learn(small, y), atol=1e-12)
        assert far.state_bytes() == near.state_bytes()
    features, weights = far.coefficients()
    assert (features == spread).all()
    assert np.isfinite(weights).all()
    assert far.state_bytes()["total"] < 10**6


@pytest.mark.parametrize("method", ["adagrad", "fd-son", "oja-son", "rp-son", "ada-ffd"])
def test_memory_is_that_of_the_packed_rows(method: str) -> None:
    X, y = onsketch.data.text_like(n=3000, d=30_000, nonzeros=60, seed=1)
    learner = make(method, sketch_size=10)
    learner.learn(X, y)
    size = learner.state_bytes()
    assert size["total"] <= 1.3 * size["packed"] + 200_000  # the second part: what does not grow with the features


def test_a_learner_grows_with_the_stream_unless_n_features_is_given() -> None:
    X, y = sparse_stream(n=60)
    for method in ("adagrad", "rfd-son", "ons"):
        learner = make(method, sketch_size=3)
        learner.learn(X[:20, :4], y[:20])
        learner.learn(X[20:], y[20:])
        assert learner.weights.shape == (X.shape[1],)
        learner.predict(X[:, :2])
        fixed = make(method, sketch_size=3, n_features=5)
        for width in (4, 6):
            with pytest.raises(onsketch.core.errors.InputError, match=f"{width} features.*n_features=5"):
                fixed.learn(X[:, :width], y)


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["fd-son", "rfd-son", "oja-son", "rp-son", "ada-ffd", "ada-fd", "s-adagrad"]),
    st.integers(0, 6),
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
)
def test_random_streams_random_cuts(seed: int, method: str, size: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    n, d = sum(cuts), int(rng.integers(1, 12))
    X = csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4))
    y = np.sign(rng.normal(size=n))
    whole, parts = make(method, sketch_size=size, ridge=0.5), make(method, sketch_size=size, ridge=0.5)
    predictions = whole.learn(X, y)
    edges = np.cumsum([0, *cuts])
    pieces = [parts.learn(X[a:b], y[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    assert (np.concatenate(pieces) == predictions).all()
    assert (parts.weights == whole.weights).all()


@pytest.mark.parametrize("method", ["adagrad", "ftrl", "oja-son", "auto"])
def test_checked_labels_and_weights_may_be_of_any_type_and_stride(method: str) -> None:
    """Compiled loops are called without a look at types; what is not float64 in a row is made so before."""
    X = np.random.default_rng(0).normal(size=(50, 4))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    c = np.arange(1.0, 51.0)
    rows = as_rows(X, None)
    plain = onsketch.learner(method, loss="logistic")
    expected = plain.learn(X, y, c)
    forms = [
        (y.astype(np.int64), c.astype(np.int64)),
        (np.repeat(y, 2)[::2], np.repeat(c, 3)[::3]),
        (y.astype(np.float32), c.astype(">f8")),
        (y[::-1].copy()[::-1], c),
    ]
    for labels, weights in forms:
        learner = onsketch.learner(method, loss="logistic")
        assert (learner.learn_checked(rows, labels, weights) == expected).all()
        assert (learner.weights == plain.weights).all()
    for labels, weights in [(y[:-1], c), (y, c[:-1]), (y[:, np.newaxis], c)]:
        learner = onsketch.learner(method, loss="logistic")
        with pytest.raises(InputError, match="for 50 rows"):
            learner.learn_checked(rows, labels, weights)
        assert learner.rounds == learner.n_features == 0
