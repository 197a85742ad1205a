"""Dense learners that have seen different rows become one."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from dense_support import (
    assert_same_state,
    made,
    make,
    stream,
)
from onsketch.errors import OptionError
from onsketch.learners.dense.composite import Terms, proximal
from onsketch.learners.dense.spectral_rounds import SpectralRounds


def test_merged_curvature_learners_are_the_sequential_one() -> None:
    """Squared loss, no clip, step 1: recursive least squares, so that the merge is exact for any split."""
    X, y = stream(n=120)
    given = {"summary": "curvature", "clip": None, "ridge": 0.3, "fit_intercept": True}
    sequential = make("ons", **given)
    sequential.learn(X, y)
    one, two = make("ons", **given), make("ons", **given)
    one.learn(X[:50], y[:50])
    two.learn(X[50:, :], y[50:])
    untouched = copy.deepcopy(two)
    assert one.merge(two) is one
    assert_same_state(two, untouched)
    assert one.rounds == 120
    np.testing.assert_allclose(one.weights, sequential.weights, atol=1e-9)
    np.testing.assert_allclose(one.intercept, sequential.intercept, atol=1e-9)

    base = make("ons", **given)
    base.learn(X[:30], y[:30])
    left, right = copy.deepcopy(base), copy.deepcopy(base)
    left.learn(X[30:70], y[30:70])
    right.learn(X[70:], y[70:])
    left.merge(right, base)
    assert left.rounds == 120
    np.testing.assert_allclose(left.weights, sequential.weights, atol=1e-9)
    np.testing.assert_allclose(left.leverage(X), sequential.leverage(X), rtol=1e-9)
    # and it goes on from there
    np.testing.assert_allclose(left.learn(X[:9], y[:9]), sequential.learn(X[:9], y[:9]), atol=1e-9)


def test_merging_without_ridge() -> None:
    X, y = stream(n=120)
    given = {"summary": "curvature", "clip": None, "ridge": 0.0}
    sequential, one, two = (make("ons", **given) for _ in range(3))
    sequential.learn(X, y)
    one.learn(X[:50], y[:50])
    two.learn(X[50:], y[50:])
    np.testing.assert_allclose(one.merge(two).weights, sequential.weights, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["ons", "ada-full", "ada-lr", "radagrad, box", "ada-fd, l1", "ada-ffd, l1", "s-adagrad, l2"]
)
def test_merging_lies_between_and_adds_up(name: str) -> None:
    X, y = stream(n=100)
    one, two, narrow = made(name, clip=None), made(name, clip=None), made(name, clip=None)
    one.learn(X[:50], y[:50])
    two.learn(X[50:], y[50:])
    first, second = one.weights, two.weights
    merged = one.merge(two)
    assert merged.rounds == 100
    assert np.isfinite(merged.learn(X[:5], y[:5])).all()
    distance = np.linalg.norm(first - second)
    assert np.linalg.norm(merged.weights - first) <= 3 * distance
    # a learner that has learned nothing brings nothing
    alone = copy.deepcopy(two)
    np.testing.assert_allclose(alone.merge(narrow).weights, second, atol=1e-9)


def test_dual_averaging_merges_its_sums() -> None:
    X, y = stream(n=100)
    one, two = make("ada-full", update="dual", l1=0.01), make("ada-full", update="dual", l1=0.01)
    one.learn(X[:50], y[:50])
    two.learn(X[50:], y[50:])
    wanted = one._iterate.gradient_sum + two._iterate.gradient_sum
    one.merge(two)
    np.testing.assert_allclose(one._iterate.gradient_sum, wanted)
    engine = one._engine
    assert isinstance(engine, SpectralRounds)
    plain = -0.1 * engine.metric.solve(wanted)
    np.testing.assert_allclose(one.weights, proximal(engine.metric, plain, Terms(0.01, 0, -np.inf, np.inf), 10.0))


def test_merging_grows_to_the_wider() -> None:
    X, y = stream(n=60)
    narrow, wide = make("ons", summary="curvature", clip=None), make("ons", summary="curvature", clip=None)
    narrow.learn(X[:30, :4], y[:30])
    wide.learn(X[30:], y[30:])
    sequential = make("ons", summary="curvature", clip=None)
    sequential.learn(np.vstack([X[:30] * (np.arange(7) < 4), X[30:]]), y)
    np.testing.assert_allclose(narrow.merge(wide).weights, sequential.weights, atol=1e-9)


def test_merges_that_mean_nothing_are_refused() -> None:
    X, y = stream()
    one, two = make("ons", diagonal=True), make("ons", diagonal=True)
    with pytest.raises(OptionError, match="diagonal"):
        one.merge(two)
    learners = [make("ada-fd", l1=0.1, sketch_size=3) for _ in range(3)]
    for learner in learners:
        learner.learn(X, y)
    with pytest.raises(OptionError, match="base"):
        learners[0].merge(learners[1], learners[2])
    with pytest.raises(OptionError, match="base"):
        make("ons").merge(make("ons"), make("ons", ridge=3.0))
    ahead = make("ons")
    ahead.learn(X, y)
    with pytest.raises(OptionError, match="base"):
        make("ons").merge(make("ons"), ahead)
