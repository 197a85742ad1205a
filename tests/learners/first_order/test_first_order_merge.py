"""Merging first-order learners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from first_order_support import every_kind, make, state, stream
from onsketch.errors import OptionError


@every_kind
def test_merging_nothing_changes_nothing(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream()
    learner, twin, base, third = (make(name, **options) for _ in range(4))
    for each in (learner, twin, base, third):
        each.learn(X, target)
    expected, before = learner.weights, state(twin)
    again = learner.merge(twin, base=base)
    into_empty = make(name, **options).merge(twin)
    assert state(twin) == before == state(base)
    for merged in (again, into_empty, third.merge(make(name, **options))):
        np.testing.assert_allclose(merged.weights, expected, rtol=1e-10, atol=1e-12)
        assert merged.rounds == len(X)


@pytest.mark.parametrize("name", ["adagrad", "diagonal × newton", "arow", "ftrl"])
def test_features_of_one_learner_only_keep_their_weights(name: str) -> None:
    X, target, _ = stream(d=10)
    left, right = X.copy(), X.copy()
    left[:, 5:] = 0.0
    right[:, :5] = 0.0
    one, other = make(name, clip=None), make(name, clip=None)
    one.learn(csr_array(left), target)
    other.learn(csr_array(right), target)
    expected = one.weights + other.weights
    np.testing.assert_allclose(one.merge(other).weights, expected, rtol=1e-10)


@pytest.mark.parametrize("based", [False, True])
def test_merging_is_exact_for_least_squares_on_unit_rows(based: bool) -> None:
    rng = np.random.default_rng(0)
    X = np.eye(6)[rng.integers(6, size=300)] * rng.normal(size=(300, 1))
    y = X @ rng.normal(size=6) + rng.normal(size=300)
    options: dict[str, Any] = {"summary": "curvature", "clip": None, "ridge": 0.3}
    alone, one, other, base = (make("diagonal × newton", **options) for _ in range(4))
    alone.learn(X, y)
    start = 50 if based else 0
    for each in (one, other, base):
        each.learn(X[:start], y[:start])
    one.learn(X[start:170], y[start:170])
    other.learn(X[170:], y[170:])
    one.merge(other, base=base if based else None)
    np.testing.assert_allclose(one.weights, alone.weights, rtol=1e-10)
    assert one.rounds == alone.rounds


def test_dual_averaging_adds_up() -> None:
    X, target, _ = stream(n=60)
    whole, one, other = (make("adagrad", update="dual", step_size=1e-9, l1=0.1) for _ in range(3))
    whole.learn(X, target)  # so small a step that the gradients do not depend on the past
    one.learn(X[:25], target[:25])
    other.learn(X[25:], target[25:])
    np.testing.assert_allclose(one.merge(other).weights, whole.weights, rtol=1e-6)


@every_kind
def test_merging_shards_of_one_stream_helps(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream(n=1200)
    shards = [make(name, **options) for _ in range(2)]
    for shard, part in zip(shards, (slice(0, 500), slice(500, 1000)), strict=True):
        shard.learn(X[part], target[part])
    losses = [np.mean((shard.predict(X[1000:]) - target[1000:]) ** 2) for shard in shards]
    merged = shards[0].merge(shards[1])
    assert np.mean((merged.predict(X[1000:]) - target[1000:]) ** 2) <= 1.05 * max(losses)
    assert merged.rounds == 1000
    merged.learn(X[1000:], target[1000:])
    assert np.isfinite(merged.weights).all()


def test_merging_strangers_is_refused() -> None:
    X, target, _ = stream()
    learner = make("adagrad")
    with pytest.raises(OptionError, match="options"):
        learner.merge(make("adagrad", ridge=0.5))
    older = make("adagrad")
    older.learn(X, target)
    with pytest.raises(OptionError, match="base"):
        learner.merge(make("adagrad"), base=older)
