"""Dense learners: nothing depends on how rows come, and no row leads to NaN."""

from __future__ import annotations

import copy
import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from dense_support import (
    EVERYTHING,
    arrays_of,
    assert_same_state,
    everything,
    made,
    make,
    stream,
)
from onsketch.errors import OptionError, UpdateError


@pytest.mark.slow
@everything
def test_blocks_and_single_rows_are_bitwise_the_same(name: str) -> None:
    X, y = stream(n=300 if name.startswith(("ons", "radagrad")) else 80)
    whole, rows, parts = made(name, clip=0.5), made(name, clip=0.5), made(name, clip=0.5)
    wanted = whole.learn(X, y)
    one_by_one = [rows.learn(X[i : i + 1], y[i : i + 1]) for i in range(len(y))]
    edges = [0, *np.sort(np.random.default_rng(0).choice(len(y), 6, replace=False)), len(y)]
    in_parts = [parts.learn(X[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    for got, learner in ((one_by_one, rows), (in_parts, parts)):
        np.testing.assert_array_equal(np.concatenate(got), wanted)
        assert_same_state(learner, whole)


@everything
def test_sparse_rows_are_the_same_rows(name: str) -> None:
    X, y = stream()
    dense, sparse = made(name, fit_intercept=True), made(name, fit_intercept=True)
    np.testing.assert_array_equal(sparse.learn(csr_array(X), y), dense.learn(X, y))
    assert_same_state(sparse, dense)
    np.testing.assert_allclose(sparse.predict(csr_array(X)), dense.predict(X), atol=1e-12)


@everything
def test_the_intercept_is_a_constant_feature(name: str) -> None:
    X, y = stream()
    with_constant = np.column_stack([np.ones(len(y)), X])
    learner, plain = made(name, fit_intercept=True), made(name)
    np.testing.assert_allclose(learner.learn(X, y + 0.3), plain.learn(with_constant, y + 0.3), atol=1e-12)
    np.testing.assert_allclose(learner.intercept, plain.weights[0], atol=1e-12)
    np.testing.assert_allclose(learner.weights, plain.weights[1:], atol=1e-12)
    np.testing.assert_allclose(learner.predict(X), plain.predict(with_constant), atol=1e-12)
    features, values = learner.coefficients()
    np.testing.assert_array_equal(features, np.arange(7))
    np.testing.assert_array_equal(values, learner.weights)


@everything
def test_predictions_are_those_of_the_weights(name: str) -> None:
    X, y = stream()
    learner = made(name, clip=0.5)
    assert not learner.predict(X).any()
    learner.learn(X, y)
    before = copy.deepcopy(learner)
    np.testing.assert_allclose(learner.predict(X), np.clip(X @ learner.weights, -0.5, 0.5), atol=1e-12)
    assert_same_state(learner, before)


@pytest.mark.parametrize("name", [name for name in EVERYTHING if not name.startswith(("ada-lr", "radagrad"))])
def test_learners_grow_with_the_stream(name: str) -> None:
    X, y = stream(d=9)
    X[:30, 5:] = 0.0
    given = (
        {"fit_intercept": True} if EVERYTHING[name][1].get("ridge") == 0.0 else {"fit_intercept": True, "ridge": 2.0}
    )
    grown, fixed = made(name, **given), made(name, n_features=9, **given)
    got = np.concatenate([grown.learn(X[:30, :5], y[:30]), grown.learn(X[30:50], y[30:50])])
    np.testing.assert_allclose(got, fixed.learn(X[:50], y[:50]), atol=1e-9)
    # a narrower block leaves its other features at zero
    X[50:, 4:] = 0.0
    np.testing.assert_allclose(grown.learn(X[50:, :4], y[50:]), fixed.learn(X[50:], y[50:]), atol=1e-9)
    np.testing.assert_allclose(grown.weights, fixed.weights, atol=1e-9)
    assert grown.n_features == 9


@pytest.mark.parametrize("method", ["ada-lr", "radagrad"])
def test_random_maps_grow_with_the_stream(method: str) -> None:
    """A map of as many rows as features loses nothing; nor does RadaGrad's of fewer, while few directions were met."""
    X, y = stream(d=9)
    X[:30, 5:] = 0.0
    grown, fixed = make(method, sketch_size=12), make(method, sketch_size=12, n_features=9)
    got = np.concatenate([grown.learn(X[:30, :5], y[:30]), grown.learn(X[30:], y[30:])])
    np.testing.assert_allclose(got, fixed.learn(X, y), atol=1e-9)
    learner = make(method, sketch_size=3)
    few, wide = (learner.method.kind.dense_form(width, learner.options) for width in (5, 9))
    for row in X[:30, :5] * [1.0, 1.0, 0.0, 0.0, 0.0]:
        few.absorb(row)
        wide.absorb(np.pad(row, (0, 4)))
    few.widen(9)
    totals = [each.Q @ each.R if method == "radagrad" else each.projected for each in (few, wide)]
    np.testing.assert_allclose(*totals, atol=1e-9)


@pytest.mark.parametrize("method", ["ada-lr", "radagrad"])
def test_grown_random_maps_resume_from_a_file_and_ignore_refused_rows(method: str, tmp_path: Path) -> None:
    X, y = stream(d=9)
    learner = make(method, sketch_size=3)
    learner.learn(X[:20, :5], y[:20])
    before = copy.deepcopy(learner)
    with pytest.raises(UpdateError):
        learner.learn(1e149 * X[:1], y[:1], [1e149])
    assert_same_state(learner, before)
    learner.learn(X[20:40], y[20:40])
    learner.learn(X[40:50, :4], y[40:50])  # a narrower block
    learner.save(tmp_path / "model")
    twin = onsketch.load(tmp_path / "model")
    assert (twin.learn(X[50:], y[50:]) == learner.learn(X[50:], y[50:])).all()
    assert (twin.weights == learner.weights).all()


@pytest.mark.parametrize("method", ["ada-lr", "radagrad"])
def test_a_wide_row_that_is_refused_or_finds_no_memory_leaves_no_trace(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = stream(d=9)
    learner, twin = (make(method, sketch_size=3) for _ in range(2))
    with pytest.raises(UpdateError):
        learner.learn(1e149 * X[:1], y[:1], [1e149])
    for each in (learner, twin):
        each.learn(X[:20, :5], y[:20])

    def no_memory(*arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("onsketch.learners.dense.fourier.FourierSketch.of_columns", no_memory)
        with pytest.raises(MemoryError):
            learner.learn(X[:1], y[:1])
    assert (learner.learn(X[20:, :5], y[20:]) == twin.learn(X[20:, :5], y[20:])).all()
    assert (learner.weights == twin.weights).all()


def test_float32_holds_the_weights() -> None:
    X, y = stream()
    for name in ("ons", "ada-full", "s-adagrad, l2"):
        single, double = made(name, dtype="float32"), made(name)
        np.testing.assert_allclose(single.learn(X, y), double.learn(X, y), atol=1e-4)
        assert single._iterate.weights.dtype == np.float32
        assert single.state_bytes()["packed"] < double.state_bytes()["packed"]


@pytest.mark.slow
@everything
@pytest.mark.parametrize("extreme", ["lengths", "repeated", "labels", "tiny", "huge"])
def test_extremes_are_learned_or_refused_but_never_nan(name: str, extreme: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(25, 5)), rng.normal(size=25)
        X[rng.random(25) < 0.2] = 0.0
        if extreme == "lengths":
            X *= 10.0 ** rng.uniform(-60, 60, size=(25, 1))
        elif extreme == "repeated":
            X[3:] = X[rng.integers(3, size=22)] * 10.0 ** rng.integers(-3, 4, size=(22, 1))
        elif extreme == "labels":
            y *= 10.0 ** rng.uniform(-60, 60, size=25)
        else:
            X *= 1e-140 if extreme == "tiny" else 1e140
        for clip in (None, 1.0):
            learner = made(name, clip=clip)
            for i in range(25):
                before = copy.deepcopy(learner)
                try:
                    assert np.isfinite(learner.learn(X[i : i + 1], y[i : i + 1])).all()
                except UpdateError:
                    if "oja" not in name:  # whose directions meet the features before the row is refused
                        assert_same_state(learner, before)
                for key, value in arrays_of(learner).items():
                    assert np.isfinite(value).all(), key
            assert np.isfinite(learner.weights).all()
            assert np.isfinite(learner.predict(np.ones((1, 5)))).all()


def test_a_row_refused_inside_a_block_leaves_the_rows_before_it() -> None:
    X, y = stream()
    bad = X.copy()
    bad[30] = 1e149
    for name in ("ons", "ada-full"):
        learner, wanted = made(name, clip=None), made(name, clip=None)
        with pytest.raises(UpdateError) as refused:
            learner.learn(bad, y * 1e10)
        assert refused.value.row == 30
        np.testing.assert_array_equal(refused.value.predictions, wanted.learn(X[:30], y[:30] * 1e10))
        assert_same_state(learner, wanted)


@pytest.mark.parametrize("method", ["ons", "ada-full", "ada-lr"])
def test_huge_dimensions_are_refused_before_anything_is_allocated(method: str) -> None:
    make(method).learn(csr_array(np.eye(3)), np.ones(3))  # so that nothing is left to compile
    learner = make(method)
    rows = csr_array((np.ones(3), ([0, 1, 2], [5, 1_999_999, 7])), shape=(3, 2_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(OptionError, match=rf"{method}.* 2,000,000 features .*GB.*Use r") as refused:
            learner.learn(rows, np.ones(3))
        with pytest.raises(OptionError, match="20,001"):
            make(method, n_features=20_001)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000  # not even one dense row
    finally:
        tracemalloc.stop()
    assert isinstance(refused.value, ValueError)
    assert learner.n_features == 0
    assert np.isfinite(learner.learn(np.ones((2, 3)), np.ones(2))).all()


def test_wide_sparse_rows_run_where_memory_is_linear() -> None:
    rng = np.random.default_rng(0)
    d = 30_000
    rows = csr_array((rng.normal(size=40), (np.repeat(np.arange(8), 5), rng.integers(d, size=40))), shape=(8, d))
    for method, given in (("radagrad", {}), ("ada-ffd", {"l1": 0.01, "n_features": 30_000})):
        learner = make(method, sketch_size=4, **given)
        assert np.isfinite(learner.learn(rows, np.ones(8))).all()
        assert learner.state_bytes()["total"] < 8 * d * 20


def test_composite_terms_are_refused_where_they_mean_nothing() -> None:
    with pytest.raises(OptionError, match="ada-lr"):
        make("ada-lr", l1=0.1)
    with pytest.raises(OptionError, match="diagonal"):
        make("ada-full", l1=0.1, diagonal=True)
    with pytest.raises(OptionError, match="ridge"):
        make("ada-full", l1=0.1, ridge=0.0)


def test_least_squares_has_a_free_intercept_for_any_offset_of_the_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) + 1.0
    y = X @ rng.normal(size=5) + rng.normal(size=400)
    centred = X - X.mean(axis=0)
    offline = np.linalg.solve(centred.T @ centred + 0.5 * np.eye(5), centred.T @ y)
    for offset in (0.0, 1e3, 1e6):
        learner = onsketch.learner("ons", summary="curvature", clip=None, fit_intercept=True, ridge=1.0)
        learner.learn(X, y + offset)
        np.testing.assert_allclose(learner.weights, offline, atol=1e-6)
        assert learner.intercept - offset == pytest.approx(np.mean(y - X @ offline), abs=1e-5)
        np.testing.assert_allclose(learner.predict(X), X @ learner.weights + learner.intercept)
        absorbed = np.linalg.svd(np.column_stack([np.ones(400), X]), compute_uv=False) ** 2
        np.testing.assert_allclose(learner.spectrum(), 2.0 * absorbed, rtol=1e-5)
    learner.save(tmp_path / "model")
    np.testing.assert_array_equal(onsketch.load(tmp_path / "model").predict(X), learner.predict(X))
