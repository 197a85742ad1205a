"""Merged learners: exact where the mathematics says so, sane everywhere, the other one untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onsketch
from onsketch.errors import OptionError
from streams import sparse_stream

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
def test_a_merged_learner_predicts_well_and_keeps_learning(sketch: str, geometry: str, update: str) -> None:
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


@pytest.mark.parametrize("sketch", SHRINKING)
def test_a_common_start_is_counted_once(sketch: str) -> None:
    """Curvature rows on the squared loss, nothing shrunk: merging forks of a base is learning everything in turn."""
    X, y = sparse_stream(n=60, seed=4)
    options: dict[str, Any] = {"summary": "curvature", "ridge": 0.5, "clip": None, "sketch_size": 40, "average": True}
    base, whole = (onsketch.compose(sketch=sketch, geometry="newton", **options) for _ in range(2))
    base.learn(X[:20], y[:20])
    whole.learn(X, y)
    one, two = base.fork(), base.fork()
    one.learn(X[20:40], y[20:40])
    two.learn(X[40:], y[40:])
    before = base.predict(X), two.predict(X)
    one.merge(two, base=base)
    assert (base.predict(X) == before[0]).all()
    assert (two.predict(X) == before[1]).all()
    assert one.rounds == 60
    np.testing.assert_allclose(one.leverage(X), whole.leverage(X), atol=1e-8)
    one_now, whole_now = (learner.fork() for learner in (one, whole))
    np.testing.assert_allclose(one_now.learn(X, y), whole_now.learn(X, y), atol=1e-8)


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("geometry", ["newton", "adagrad"])
@pytest.mark.parametrize("sketch", [*SHRINKING, "rp", "oja"])
def test_merging_a_fork_that_learned_nothing_changes_nothing(sketch: str, geometry: str, update: str) -> None:
    if (sketch, update) == ("cfd", "dual"):
        pytest.skip("a merged cfd sketch is shrunk once more, and dual averaging reads its weights off the sketch")
    first, second, (X, _) = halves()
    base = onsketch.compose(sketch=sketch, geometry=geometry, update=update, sketch_size=4, ridge=4.0)
    base.learn(*first)
    one, idle = base.fork(seed=1), base.fork(seed=2)
    one.learn(*second)
    before = one.predict(X)
    one.merge(idle, base=base)
    assert one.rounds == 200
    np.testing.assert_allclose(one.predict(X), before, atol=1e-8)
    assert np.isfinite(one.learn(*first)).all()


@pytest.mark.parametrize("method", ["ogd", "adagrad", "lazy-adam", "ada-fd", "ada-ffd", "s-adagrad", "ada-full"])
@pytest.mark.parametrize("start", [0, 100])
def test_displacements_are_averaged_where_steps_shrink_slowly(method: str, start: int) -> None:
    """Learners that have gone the same way are not sent twice as far; adding up diverged from three learners on."""
    _, _, (X, y) = halves()
    base = onsketch.learner(method)
    base.learn(X[:start], y[:start])
    one, two = base.fork(), base.fork()
    for learner in (one, two):
        learner.learn(X[100:], y[100:])
    one.merge(two, base=base)
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-6, atol=1e-9)


NEWTON = ["ons", "fd-son", "rfd-son", "cfd-son", "pfd-son", "oja-son", "rp-son"]


@pytest.mark.parametrize("summary", ["gradient", "curvature"])
@pytest.mark.parametrize("start", [0, 2000])
@pytest.mark.parametrize("method", NEWTON)
def test_newton_learners_that_know_the_same_do_not_overshoot(method: str, start: int, summary: str) -> None:
    """Eight learners of the same distribution stay near their mean, also where no sketch shows what they know."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 12))
    y = np.where(X @ rng.normal(size=12) + rng.logistic(size=6000) > 0.0, 1.0, -1.0)
    options: dict[str, Any] = {"loss": "logistic", "summary": summary, "ridge": 1.0, "clip": None}
    if summary == "gradient":
        options |= {"curvature": 0.1, "clip": 10.0}
    if method != "ons":
        options["sketch_size"] = 3
    base = onsketch.learner(method, **options)
    base.learn(X[:start], y[:start])
    forks = [base.fork(seed=k + 1) for k in range(8)]
    for k, learner in enumerate(forks):
        part = slice(2000 + 500 * k, 2500 + 500 * k)
        learner.learn(X[part], y[part])
    mean = np.mean([learner.weights for learner in forks], axis=0)
    while len(forks) > 1:
        forks = [one.merge(two, base=base) for one, two in zip(forks[::2], forks[1::2], strict=True)]
    merged, plain = (np.logaddexp(0.0, -y * (X @ weights)).mean() for weights in (forks[0].weights, mean))
    assert merged < plain + 0.1
    assert forks[0].rounds == start + 4000


@pytest.mark.parametrize("method", NEWTON)
def test_a_feature_seen_by_one_learner_keeps_its_weight(method: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 20))
    y = X.sum(axis=1)
    X[:200, 10:] = X[200:, :10] = 0.0
    options: dict[str, Any] = {"clip": None, "ridge": 1e3, "curvature": 0.1}
    if method != "ons":
        options["sketch_size"] = 20
    one, two = (onsketch.learner(method, seed=seed, **options) for seed in (1, 2))
    one.learn(X[:200], y[:200])
    two.learn(X[200:], y[200:])
    both = np.append(one.weights[:10], two.weights[10:])
    slack = 0.5 if method == "rp-son" else 0.02  # a projection does not keep the two apart
    np.testing.assert_allclose(one.merge(two).weights, both, atol=slack * np.abs(both).max())


def test_what_the_shrinks_lost_bounds_what_merging_with_a_base_loses() -> None:
    first, second, (X, _) = halves(400)
    options: dict[str, Any] = {"summary": "data", "ridge": 1.0, "sketch_size": 5}
    base = onsketch.learner("fd-son", **options)
    base.learn(*first)
    one, two = base.fork(), base.fork()
    one.learn(X[200:300], second[1][:100])
    two.learn(X[300:], second[1][100:])
    escaped = [float(part._sketch.numbers[3]) for part in (base, one, two)]
    one.merge(two, base=base)
    exact = onsketch.sketches.Exact(X.shape[1]).update(X).covariance()
    kept = np.linalg.inv(_metric(one, X))
    lost = np.linalg.norm(exact + np.eye(len(exact)) - kept, 2)
    assert lost <= 2 * sum(escaped) + 1e-9


def _metric(learner: Any, X: Any) -> Any:
    """A⁻¹ from leverages of unit vectors and of their sums."""
    d = X.shape[1]
    eye = np.eye(d)
    single = learner.leverage(eye)
    pairs = np.array([learner.leverage(eye[i] + eye) for i in range(d)])
    return (pairs - single[:, None] - single[None, :]) / 2.0


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
    one, two = make("rp-son", seed=1), make("rp-son", seed=1)
    one.learn(*halves()[0])
    two.learn(*halves()[1])
    before = {name: array.copy() for name, array in one._arrays().items()}
    with pytest.raises(OptionError, match="different seeds"):
        one.merge(two)
    assert all((array == before[name]).all() for name, array in one._arrays().items())  # it is as it was
    with pytest.raises(OptionError, match="diagonal=True"):
        make("fd-son", diagonal=True).merge(make("fd-son", diagonal=True))
    with pytest.raises(OptionError, match="base"):
        make("fd-son").merge(make("fd-son"), base=make("rfd-son"))
    learned = make("fd-son")
    learned.learn(*halves()[0])
    with pytest.raises(OptionError, match="base has learned more"):
        make("fd-son").merge(make("fd-son"), base=learned)
