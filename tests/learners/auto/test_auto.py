"""The learner without tuning: blind to units, never far behind, the same in any layout."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import onsketch
from onsketch.data.synthetic import ill_conditioned, low_rank_regression
from onsketch.errors import OptionError, UpdateError
from onsketch.learners.auto.state import PATIENCE
from streams import LOSSES, REAL, level
from streams import mixed_units as stream


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(REAL), st.integers(0, 6))
def test_unit_and_offset_of_labels_do_not_matter(seed: int, loss: str, size: int) -> None:
    X, y = stream(loss, n=80, seed=seed, spread=0.0)
    unit, offset = 1e4, 1e5
    option = level(loss)
    scaled = {"epsilon": unit * option["epsilon"]} if "epsilon" in option else option  # it is in units of labels
    plain, other = (onsketch.learner("auto", loss=loss, sketch_size=size, **given) for given in (option, scaled))
    expected, found = plain.learn(X, y), other.learn(X, unit * y + offset)
    np.testing.assert_allclose(found[1:], unit * expected[1:] + offset, rtol=1e-5, atol=1e-5 * unit)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(LOSSES), st.floats(1e-20, 1e20), st.floats(0.0, 3.0))
def test_one_unit_of_all_features_does_not_matter(seed: int, loss: str, factor: float, spread: float) -> None:
    X, y = stream(loss, n=80, seed=seed, spread=spread)
    plain, other = (onsketch.learner("auto", loss=loss, sketch_size=4) for _ in range(2))
    np.testing.assert_allclose(other.learn(X * factor, y), plain.learn(X, y), rtol=1e-5, atol=1e-5 * np.abs(y).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_predictions_are_those_of_the_weights(loss: str) -> None:
    X, y = stream(loss)
    learner = onsketch.learner("auto", loss=loss, sketch_size=4, clip=None)
    for start in range(0, 150, 30):
        part = slice(start, start + 30)
        expected = X[part] @ learner.weights + learner.intercept if start else np.zeros(30)
        np.testing.assert_allclose(learner.predict(X[part]), expected, rtol=1e-9, atol=1e-9)
        first = learner.learn(X[part], y[part])[0]
        np.testing.assert_allclose(first, expected[0], rtol=1e-9, atol=1e-9)


def test_without_an_intercept_an_empty_row_is_predicted_0() -> None:
    X, y = stream("squared")
    learner = onsketch.learner("auto", fit_intercept=False)
    learner.learn(X, y)
    assert learner.predict(np.zeros((1, X.shape[1]))) == [0.0]
    assert learner.intercept == 0.0


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(LOSSES), st.lists(st.integers(1, 30), max_size=8), st.booleans())
def test_blocks_and_layouts_do_not_matter(seed: int, loss: str, cuts: list[int], sparse: bool) -> None:
    X, y = stream(loss, n=100, d=20, seed=seed, density=0.3, spread=0.4)
    whole, parts = (onsketch.learner("auto", loss=loss, sketch_size=3) for _ in range(2))
    edges = sorted({0, 100, *np.minimum(np.cumsum(cuts), 100).tolist()})
    form = csr_array if sparse else np.asarray
    found = [parts.learn(form(X[a:b]), y[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    assert (np.concatenate(found) == whole.learn(X, y)).all()
    assert (parts.weights == whole.weights).all()


def test_a_row_of_large_weight_does_not_decide_between_the_experts() -> None:
    X, y = stream("logistic", n=400, d=6)
    heavy: Any = onsketch.learner("auto", loss="logistic", sketch_size=4)
    heavy.learn(X[:20], y[:20], np.where(np.arange(20) == 10, 1e6, 1.0))
    assert heavy._core.mixture.shares.max() < 0.6
    margins = heavy.learn(X[20:], y[20:])  # nor are later rows too light to teach which of them is best
    assert np.mean(np.sign(margins) != y[20:]) < 0.15


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_a_row_of_weight_h_is_like_h_rows(loss: str) -> None:
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1500, 4))
        y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + 2.0 * rng.normal(size=1500) > 0, 1.0, -1.0)
        weights = np.where(y > 0, 6.0, 1.0)
        often = rng.permutation(np.repeat(np.arange(1500), weights.astype(int)))
        weighed, repeated, plain = (onsketch.learner("auto", loss=loss) for _ in range(3))
        weighed.learn(X, y, weights)
        repeated.learn(X[often], y[often])
        plain.learn(X, y)
        expected = repeated.predict(X)
        off = [np.mean((learner.predict(X) - expected) ** 2) for learner in (weighed, plain)]
        ratios.append(off[0] / off[1])
    assert np.mean(ratios) < 0.25**2


def test_predictions_stay_near_the_labels_seen() -> None:
    X, y = stream("squared", n=300)
    predictions = onsketch.learner("auto").learn(X, y)
    low, high = np.minimum.accumulate(y)[:-1], np.maximum.accumulate(y)[:-1]
    room = 0.1 * (high - low)
    assert predictions[0] == 0.0
    assert ((predictions[1:] >= low - room) & (predictions[1:] <= high + room)).all()
    assert np.abs(onsketch.learner("auto", clip=0.5).learn(X, y)).max() <= 0.5
    assert onsketch.learner("auto", clip=float("inf")).options.clip is None
    with pytest.raises(OptionError, match="labels"):
        onsketch.learner("rfd-son", clip="labels")


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_regression_is_as_good_as_offline_ridge_for_any_offset(offset: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7000, 30)) @ rng.normal(size=(30, 30))
    y = X @ rng.normal(size=30) + 40.0 * rng.normal(size=7000)
    y += offset * y.std()
    learner = onsketch.learner("auto")
    learner.learn(X[:5000], y[:5000])
    centred = X[:5000] - X[:5000].mean(axis=0)
    ridge = np.linalg.solve(centred.T @ centred + np.eye(30), centred.T @ (y[:5000] - y[:5000].mean()))
    offline = (X[5000:] - X[:5000].mean(axis=0)) @ ridge + y[:5000].mean()
    ours, theirs = (1.0 - np.mean((p - y[5000:]) ** 2) / np.var(y[5000:]) for p in (learner.predict(X[5000:]), offline))
    assert 0.1 < theirs < 0.9
    assert ours > theirs - 0.01


def test_a_saved_and_loaded_learner_resumes_bit_for_bit(tmp_path: Any) -> None:
    X, y = stream("logistic", n=300, d=30)
    whole, half = (onsketch.learner("auto", loss="logistic", sketch_size=4, forget=0.99) for _ in range(2))
    expected = whole.learn(csr_array(X), y)
    half.learn(csr_array(X[:170]), y[:170])
    half.save(tmp_path / "model")
    loaded = onsketch.load(tmp_path / "model")
    assert (loaded.learn(csr_array(X[170:]), y[170:]) == expected[170:]).all()
    assert (loaded.weights == whole.weights).all()


def rare(n: int = 1500, d: int = 30000, seed: int = 0) -> tuple[csr_array, np.ndarray]:
    """Rows of words, most of them met once or twice."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n), 20)
    X = csr_array((np.ones(rows.size), (rows, np.minimum(rng.pareto(0.5, rows.size) * 9, d - 1).astype(int))), (n, d))
    return X, np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)


@pytest.mark.parametrize("size", [0, 4])
def test_rare_features_are_kept_small_and_go_on_bit_for_bit(tmp_path: Any, size: int) -> None:
    X, y = rare()
    whole, half = (onsketch.learner("auto", loss="logistic", sketch_size=size) for _ in range(2))
    expected = whole.learn(X, y)
    half.learn(X[:930], y[:930])
    np.testing.assert_allclose(half.predict(X), X @ half.weights + half.intercept, atol=1e-9)
    half.save(tmp_path / "model")
    loaded = onsketch.load(tmp_path / "model")
    assert (loaded.learn(X[930:], y[930:]) == expected[930:]).all()
    assert (loaded.weights == whole.weights).all()
    met = np.bincount(X.indices)
    assert np.mean(met[met > 0] < PATIENCE) > 0.8
    assert whole.state_bytes()["packed"] / np.count_nonzero(met) < 200


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_refused_row_leaves_no_trace(dtype: str) -> None:
    X, y = stream("squared", n=60)
    one, two = (onsketch.learner("auto", sketch_size=3, dtype=dtype) for _ in range(2))
    one.learn(X, y)
    two.learn(X, y)
    with pytest.raises(UpdateError, match="row 0"):
        two.learn(X[:1], [1e149], sample_weight=[1e149])
    more, fresh = (onsketch.learner("auto", sketch_size=3, dtype=dtype, fit_intercept=False) for _ in range(2))
    with pytest.raises(UpdateError):
        more.learn(X[:1], [1e149], sample_weight=[1e149])
    assert (more.learn(X, y) == fresh.learn(X, y)).all()
    assert (one.learn(X, y) == two.learn(X, y)).all()


def test_float32_is_nearly_the_same() -> None:
    X, y = stream("logistic", n=400)
    single, double = (onsketch.learner("auto", loss="logistic", dtype=t).learn(X, y) for t in ("float32", "float64"))
    assert np.mean(np.sign(single) != np.sign(double)) < 0.03


def test_options_that_do_not_concern_it_are_refused() -> None:
    for option in ({"ridge": 1.0}, {"step_size": 0.1}, {"summary": "data"}, {"average": True}):
        with pytest.raises(OptionError, match="auto"):
            onsketch.learner("auto", **option)
    learner = onsketch.learner("auto")
    with pytest.raises(OptionError, match="cannot be merged"):
        onsketch.learner("auto", forget="auto").merge(onsketch.learner("auto", forget="auto"))
    with pytest.raises(OptionError, match="leverage"):
        learner.leverage(np.ones((1, 2)))
    with pytest.raises(OptionError, match="forget"):
        onsketch.learner("rfd-son", forget="auto")


def test_ill_conditioned_rows_do_not_hurt() -> None:
    errors = {}
    for condition in (10.0, 1000.0):
        X, y = ill_conditioned(4000, 50, condition, top=10)
        for name, options in (("auto", {}), ("adagrad", {"step_size": 0.1, "fit_intercept": True})):
            margins = onsketch.learner(name, loss="logistic", **options).learn(X, y)
            errors[name, condition] = np.mean(margins * y <= 0)
    assert errors["auto", 1000.0] < 0.4 * errors["adagrad", 1000.0]
    assert errors["auto", 1000.0] < 2.0 * errors["auto", 10.0]


def test_regression_in_any_unit_beats_the_mean() -> None:
    X, y = low_rank_regression(3000, 40, seed=1)
    X, y = X * 10.0 ** np.random.default_rng(0).uniform(-4, 4, X.shape[1]), 1e5 * y + 3e5
    predictions = onsketch.learner("auto", loss="squared").learn(X, y)
    residual = np.mean((predictions[1000:] - y[1000:]) ** 2) / np.var(y[1000:])
    assert residual < 0.2


@pytest.mark.parametrize("empty", [5, 50])
def test_rows_without_features_do_not_change_what_is_learned_of_the_others(empty: int) -> None:
    """They say nothing of how long rows are: the first ones once made all ridges and steps too small, for good."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 20))
    y = np.where(X @ rng.normal(size=20) > 0.0, 1.0, -1.0)
    plain = onsketch.learner("auto", loss="logistic").learn(X, y)
    first = onsketch.learner("auto", loss="logistic")
    first.learn(np.zeros((empty, 20)), np.where(np.arange(empty) % 2, 1.0, -1.0))
    errors = [np.mean(np.sign(margins) != y) for margins in (plain, first.learn(X, y))]
    assert errors[1] < errors[0] + 0.01


def test_two_standard_deviations_cover_what_they_should() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    y = X @ rng.normal(size=10) + 100.0 + rng.normal(size=2000)
    learner: Any = onsketch.learner("auto")
    for start in (200, 1000):
        learner.learn(X[learner.rounds : start], y[learner.rounds : start])
        rest = slice(start, None)
        off = np.abs(learner.predict(X[rest]) - y[rest]) / learner.deviation(X[rest])
        assert 0.93 < np.mean(off < 2.0) < 0.999
    with pytest.raises(OptionError, match="squared"):
        onsketch.learner("auto", loss="logistic").deviation(X)  # type: ignore[attr-defined]


def test_a_pickle_has_no_scratch_memory() -> None:
    X = np.random.default_rng(0).normal(size=(50, 30))
    learner: Any = onsketch.learner("auto", loss="squared")
    learner.learn(X, X[:, 0])
    twin = pickle.loads(pickle.dumps(learner))
    assert learner._core._spare
    assert not twin._core._spare
    np.testing.assert_array_equal(twin.learn(X, X[:, 0]), learner.learn(X, X[:, 0]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_weights_of_any_size_leave_a_model_that_can_be_saved(loss: str, dtype: str, tmp_path: Any) -> None:
    X = np.random.default_rng(0).normal(size=(20, 5))
    y = {"logistic": np.sign(X[:, 0]), "squared": X[:, 0], "poisson": np.abs(X[:, 0])}[loss]
    for weight in (1e-300, 1e30, 1e38, 1e49):
        model = onsketch.learner("auto", loss=loss, dtype=dtype)
        with contextlib.suppress(UpdateError):
            model.learn(X, y, np.full(20, weight))
        model.save(tmp_path / "model")
        assert np.array_equal(onsketch.load(tmp_path / "model").predict(X), model.predict(X))
