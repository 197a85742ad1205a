"""Merged learners: exact where the mathematics says so, sane everywhere, the other one untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onsketch
from onsketch.errors import OptionError
from streams import sparse_stream

pytestmark = pytest.mark.learners

SHRINKING = ("fd", "rfd", "pfd", "cfd", "greedy", "ffd")


def halves(n: int = 200) -> Any:
    X, y = sparse_stream(n=n, seed=3)
    return (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :]), (X, y)


@pytest.mark.parametrize("sketch", SHRINKING)
def test_curvature_rows_on_the_squared_loss_merge_exactly(sketch: str) -> None:
    first, second, both = halves()
    options: dict[str, Any] = {"summary": "curvature", "ridge": 0.5, "clip": None, "sketch_size": 12}
    one, two, whole = (onsketch.compose(sketch=sketch, geometry="newton", **options) for _ in range(3))
    one.learn(*first)
    two.learn(*second)
    whole.learn(*both)
    before = two.weights.copy()
    assert one.merge(two) is one
    assert (two.weights == before).all()
    np.testing.assert_allclose(one.weights, whole.weights, atol=1e-9)
    np.testing.assert_allclose(one.leverage(both[0]), whole.leverage(both[0]), atol=1e-9)
    assert one.rounds == whole.rounds
    np.testing.assert_allclose(one.learn(*first), whole.learn(*first), atol=1e-8)


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("geometry", ["newton", "adagrad"])
@pytest.mark.parametrize("sketch", [*SHRINKING, "rp", "oja"])
def test_a_merged_learner_predicts_as_it_should_and_goes_on(sketch: str, geometry: str, update: str) -> None:
    first, second, (X, _) = halves()
    options: dict[str, Any] = {"update": update, "sketch_size": 4, "ridge": 4.0, "clip": 2.0, "average": True}
    one = onsketch.compose(sketch=sketch, geometry=geometry, **options)
    two = onsketch.compose(sketch=sketch, geometry=geometry, seed=1, **options)
    one.learn(*first)
    two.learn(*second)
    average = (one.rounds * one.weights + two.rounds * two.weights) / (one.rounds + two.rounds)
    one.merge(two)
    np.testing.assert_allclose(one.weights, average, atol=1e-10)  # the mean over all iterates of both
    np.testing.assert_allclose(one.predict(X), np.clip(X @ one.weights, -2, 2), atol=1e-10)
    assert np.isfinite(one.learn(*second)).all()


@pytest.mark.parametrize("sketch", [*SHRINKING, "rp", "oja"])
def test_merging_with_a_learner_that_has_seen_nothing_changes_nothing(sketch: str) -> None:
    first, _, (X, _) = halves()
    for geometry in ("newton", "adagrad"):
        options: dict[str, Any] = {"sketch_size": 4, "ridge": 4.0}
        one = onsketch.compose(sketch=sketch, geometry=geometry, **options)
        one.learn(*first)
        before = one.predict(X)
        one.merge(onsketch.compose(sketch=sketch, geometry=geometry, seed=1, **options))
        np.testing.assert_allclose(one.predict(X), before, atol=1e-9)
        assert one.rounds == len(first[1])


def test_dual_averaging_adds_gradients() -> None:
    first, second, (X, _) = halves()
    options: dict[str, Any] = {"update": "dual", "sketch_size": 12, "ridge": 4.0}
    one, two = onsketch.learner("ada-fd", **options), onsketch.learner("ada-fd", **options)
    one.learn(*first)
    two.learn(*second)
    one.merge(two)
    clone = onsketch.learner("ada-fd", **options)
    clone.merge(one)
    np.testing.assert_allclose(clone.predict(X), one.predict(X), atol=1e-10)


def test_refusals_say_why() -> None:
    make = onsketch.learner
    with pytest.raises(OptionError, match="same options"):
        make("fd-son", ridge=1.0).merge(make("fd-son", ridge=2.0))
    with pytest.raises(OptionError, match="cannot take in"):
        make("fd-son").merge(make("rfd-son"))
    with pytest.raises(OptionError, match="different seeds"):
        make("rp-son", seed=1).merge(make("rp-son", seed=1))
    with pytest.raises(OptionError, match="diagonal=True"):
        make("fd-son", diagonal=True).merge(make("fd-son", diagonal=True))
    with pytest.raises(OptionError, match="base"):
        make("fd-son").merge(make("fd-son"), base=make("fd-son"))
