"""First-order learners on streams: cut anywhere, refused rows, long absences, single precision, what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import njit
from scipy.sparse import csr_array

from first_order_support import defined, every_kind, make, state, stream
from onsketch.errors import OptionError, UpdateError
from onsketch.learners.first_order import learner as first_order
from onsketch.learners.first_order.steps import TIMER


@every_kind
def test_one_call_equals_many_bit_for_bit(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream(n=60)
    whole, cut, dense = make(name, **options), make(name, **options), make(name, **options)
    predictions = whole.learn(csr_array(X), target)
    for i, row in enumerate(X):
        assert cut.learn(csr_array(row[None]), target[i : i + 1])[0] == predictions[i]
        assert dense.learn(row[None], target[i : i + 1])[0] == predictions[i]
    assert state(whole) == state(cut) == state(dense)


@pytest.mark.parametrize("update", ["mirror", "dual"])
def test_rounds_that_move_every_feature_do_not_depend_on_the_cut(update: str) -> None:
    X, target, _ = stream(n=60)
    options = {"update": update, "average": True, "l1": 0.01, "l2": 0.02}
    whole, cut = make("ogd", **options), make("ogd", **options)
    predictions = whole.learn(X, target)
    for i, row in enumerate(X):
        assert cut.learn(row[None], target[i : i + 1])[0] == predictions[i]
    assert state(whole) == state(cut)
    expected = defined(whole, X, target, **options)
    np.testing.assert_allclose(predictions, expected.predictions, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(whole.weights, expected.weights, rtol=1e-9, atol=1e-10)


@every_kind
def test_extreme_rows_never_make_nan(name: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    X, _, signs = stream(n=300, seed=2)
    X *= 10.0 ** rng.uniform(-60.0, 60.0, size=(len(X), 1))
    learner = make(name, **options)
    learned = 0
    for row, label in zip(X, signs, strict=True):
        try:
            assert np.isfinite(learner.learn(row[None], [label])).all()
            learned += 1
        except UpdateError:
            pass
        assert np.isfinite(learner._state.table[: learner._map.count]).all()
    assert np.isfinite(learner.weights).all()
    assert learner.rounds == learned
    assert learned > 100


@every_kind
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_refused_row_leaves_no_trace(name: str, options: dict[str, Any], dtype: str) -> None:
    X, target, _ = stream(n=40)
    X = np.column_stack([X, np.zeros(len(X))])
    learner, other = make(name, dtype=dtype, **options), make(name, dtype=dtype, **options)
    other.learn(csr_array(X[:20]), target[:20])
    X[20, [3, 9]] = 1e120, -1e149  # feature 9 is met for the first time
    target[20] = 1e149
    weight = np.ones(len(X))
    weight[20] = 1e100
    with pytest.raises(UpdateError) as caught:
        learner.learn(csr_array(X), target, weight)
    assert caught.value.row == 20
    assert len(caught.value.predictions) == 20
    assert state(learner) == state(other)
    assert learner.learn(X[21:], target[21:]).tolist() == other.learn(X[21:], target[21:]).tolist()
    assert state(learner) == state(other)


@njit
def dense_recursion(
    features: Any, values: Any, signs: Any, d: int, start: int, adagrad: bool, dual: bool, options: Any
) -> Any:
    """Rows of one feature each, hinge loss, as the definition has it but quick: last and mean weights."""
    step, ridge, l1, l2 = options
    w, total, sums, energy, metric = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    for i in range(features.size):
        t = start + i + 1
        j = features[i]
        g = -signs[i] * values[i] if signs[i] * values[i] * w[j] < 1.0 else 0.0
        energy[j] += g * g
        sums[j] += g
        for k in range(d):
            metric[k] = ridge + math.sqrt(energy[k]) if adagrad else math.sqrt(t)
            v = -step * sums[k] / metric[k] if dual else w[k] - (step * g / metric[k] if k == j else 0.0)
            s = step * t if dual else step
            size = max(abs(v) - s * l1 / metric[k], 0.0) / (1.0 + s * l2 / metric[k])
            w[k] = math.copysign(size, v)
            total[k] += w[k]
    return w, total / (start + features.size)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 10_000_000])
@pytest.mark.parametrize(("l1", "l2"), [(1e-4, 0.0), (0.0, 1e-3), (1e-6, 3e-2), (1e-4, 1e-9), (1e-5, 100.0)])
@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("name", ["ogd", "adagrad"])
def test_long_absences(name: str, update: str, l1: float, l2: float, start: int) -> None:
    """Features met once in 2 … 20,000 rounds, over 200,000 rounds from the first or the ten millionth on."""
    rng = np.random.default_rng(5)
    n, d = 200_000, 5
    features = rng.choice(d, size=n, p=[0.5, 0.4893, 0.01, 0.00065, 0.00005]).astype(np.int32)
    values = rng.uniform(0.5, 2.0, size=n)
    signs = np.where(rng.random(n) < 0.2 + 0.15 * features, 1.0, -1.0)
    X = csr_array((values, features, np.arange(n + 1)), shape=(n, d))
    options = {"step_size": 0.5, "l1": l1, "l2": l2, "update": update, "average": True, "loss": "hinge"}
    ridge = {} if name == "ogd" else {"ridge": 0.1}
    learner = make(name, **options, **ridge)
    learner._state.clock[[TIMER.rounds, TIMER.start]] = start
    learner.learn(X, signs)
    last, mean = dense_recursion(
        features, values, signs, d, start, name == "adagrad", update == "dual", (0.5, 0.1, l1, l2)
    )
    largest = np.abs(last).max()
    np.testing.assert_allclose(learner.weights, mean, rtol=1e-7, atol=1e-9 * largest * n / (n + start))
    plain = make(name, **{**options, "average": False}, **ridge)
    plain._state.clock[[TIMER.rounds, TIMER.start]] = start
    plain.learn(X, signs)
    np.testing.assert_allclose(plain.weights, last, rtol=1e-7, atol=1e-9 * largest)


def test_leverage_is_the_diagonal_metric() -> None:
    X, target, _ = stream(d=9)
    X[7, 0] = 1.0  # AROW learns nothing from a round without a slope
    rows = np.random.default_rng(0).normal(size=(5, 9)) * [1, 1e6, 1, 1, 0, 1, 1, 1, 0]
    rows[2] = 0.0
    with_ones = np.column_stack([rows, np.ones(5)])
    seen = np.append(np.append((X[:, :6] ** 2).sum(axis=0), np.zeros(3)), len(X))
    for name, precision in (("diagonal × newton", 0.5 + seen), ("arow", 1.0 + seen / 0.5)):
        summary = {"summary": "data"} if "newton" in name else {}
        learner = make(name, ridge=0.5, fit_intercept=True, **summary)
        before = (with_ones**2).sum(axis=1) / (0.5 if "newton" in name else 1.0)
        np.testing.assert_allclose(learner.leverage(rows), before, rtol=1e-12)
        learner.learn(csr_array(X[:, :6]), target)
        expected = (with_ones**2 / precision).sum(axis=1)
        np.testing.assert_allclose(learner.leverage(rows), expected, rtol=1e-10)
    with pytest.raises(OptionError, match="leverage"):
        make("adagrad").leverage(X)


def test_plain_adagrad_keeps_two_numbers_per_feature() -> None:
    X, target, _ = stream()
    for dtype, size in (("float64", 8), ("float32", 4)):
        learner = make("adagrad", dtype=dtype)
        learner.learn(X, target)
        assert learner.state_bytes()["packed"] == 9 * (2 * size + 8 + 4)
        assert learner.state_bytes()["total"] >= learner.state_bytes()["packed"]


@pytest.mark.parametrize("options", [{}, {"l1": 1e-3, "l2": 1e-3, "average": True}])
@pytest.mark.parametrize("name", ["ogd", "adagrad"])
def test_single_precision_is_close(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream(n=300)
    double, single = make(name, **options), make(name, dtype="float32", **options)
    np.testing.assert_allclose(
        double.learn(X, target), single.learn(X, target), rtol=1e-3, atol=1e-3 * np.abs(target).max()
    )
    np.testing.assert_allclose(double.weights, single.weights, rtol=1e-3, atol=1e-4)


def test_adam_refuses_very_many_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_order, "DENSE_LIMIT", 4)
    X, target, _ = stream(d=9)
    learner = make("adam")
    learner.learn(X[:, :4], target)
    before = state(learner)
    with pytest.raises(OptionError, match="lazy-adam"):
        learner.learn(X, target)
    assert state(learner) == before


def test_impossible_options_are_refused() -> None:
    with pytest.raises(OptionError, match="contain 0"):
        make("adagrad", box=(0.1, 1.0))
    with pytest.raises(OptionError, match="ridge"):
        make("adagrad", ridge=0.0)
    with pytest.raises(OptionError, match="curvature"):
        make("adagrad", summary="curvature", loss="hinge")
