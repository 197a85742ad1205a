"""``auto`` learners merged: near one stream, whatever the order, base, units and offsets; and they go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from onsketch.learners.base import Learner
from streams import mixed_units as stream
from streams import sparse_stream


def learners(loss: str, pieces: list[Any], base: Learner | None = None, **options: Any) -> list[Learner]:
    """One learner for each piece of a stream."""
    made = [onsketch.learner("auto", loss=loss, **options) if base is None else base.fork() for _ in pieces]
    for learner, (X, y) in zip(made, pieces, strict=True):
        learner.learn(X, y)
    return made


def signs(n: int = 3000, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows in units far apart, labels by a noisy line."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + 0.5 + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return X * 10.0 ** rng.uniform(-3, 3, d), y


def numbers(n: int = 3000, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 10)) @ rng.normal(size=(10, 10))
    y = X @ rng.normal(size=10) + 5.0 * rng.normal(size=n)
    return X, y + offset * y.std()


def words(n: int = 3000) -> tuple[Any, np.ndarray]:
    """Wide sparse rows of rare features, most of which never get sketch columns."""
    rng = np.random.default_rng(2)
    indices = (3000 * rng.random((n, 20)) ** 3).astype(int)
    X = np.zeros((n, 3000))
    np.put_along_axis(X, indices, 1.0, axis=1)
    return csr_array(X), np.where(X @ rng.normal(size=3000) + rng.logistic(size=n) > 0.0, 1.0, -1.0)


STREAMS = {
    "units far apart": (signs, "logistic"),
    "numbers": (numbers, "squared"),
    "an offset": (lambda: numbers(offset=1e6), "squared"),
    "wide rows": (words, "logistic"),
}


def mean_loss(loss: str, learner: Learner, X: Any, y: np.ndarray) -> float:
    z = learner.predict(X)
    return float(np.mean((z - y) ** 2) / np.var(y) if loss == "squared" else np.logaddexp(0.0, -y * z).mean())


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("start", [0, 400])
def test_merged_learners_are_near_one_stream(name: str, start: int) -> None:
    """Four of them lose at most 3 % of what learning has gained (wide rows of rare features: 30 %)."""
    make, loss = STREAMS[name]
    X, y = make()
    base = onsketch.learner("auto", loss=loss)
    base.learn(X[:start], y[:start])
    edges = np.linspace(start, 2400, 5).astype(int)
    pieces = [(X[a:b], y[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    forks = learners(loss, pieces, base)
    (whole,) = learners(loss, [(X[:2400], y[:2400])])
    held = X[2400:], y[2400:]
    alone = [mean_loss(loss, fork, *held) for fork in forks]
    merged = forks[0].merge(forks[1], base=base).merge(forks[2].merge(forks[3], base=base), base=base)
    assert merged.rounds == 2400
    found, best = mean_loss(loss, merged, *held), mean_loss(loss, whole, *held)
    nothing = 1.0 if loss == "squared" else np.log(2.0)
    assert found < best + (0.3 if name == "wide rows" else 0.03) * (nothing - best)
    assert found < np.mean(alone)
    after = merged.learn(*held)  # and it goes on
    assert np.isfinite(after).all()


def test_a_feature_that_went_and_came_back_in_both_parts_is_merged() -> None:
    """The parts became centred anew, so that the base's rows are in neither mean."""
    rng = np.random.default_rng(0)

    def rows(n: int, there: float) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 4))
        y = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=n)
        X[:, 0] = there * (X[:, 0] + 20.0)
        return X, y

    base = onsketch.learner("auto", loss="squared")
    base.learn(*rows(100, 1.0))
    forks = [base.fork(), base.fork()]
    for fork in forks:
        for n, there in ((160, 0.0), (146, 1.0)):
            fork.learn(*rows(n, there))
    held = rows(1000, 1.0)
    alone = [mean_loss("squared", fork, *held) for fork in forks]
    forks[0].merge(forks[1], base=base)
    assert mean_loss("squared", forks[0], *held) < max(alone)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("start", [0, 200])
def test_the_order_does_not_matter(name: str, start: int) -> None:
    make, loss = STREAMS[name]
    X, y = make()
    X, y = X[:800], y[:800]
    base = onsketch.learner("auto", loss=loss)
    base.learn(X[:start], y[:start])
    pieces = [(X[start:450], y[start:450]), (X[450:], y[450:])]
    one, two = learners(loss, pieces, base)
    other, first = (learner.fork() for learner in (two, one))
    before = two.predict(X)
    one.merge(two, base=base)
    assert (two.predict(X) == before).all()
    other.merge(first, base=base)
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-6, atol=1e-6 * np.abs(y).max())
    np.testing.assert_allclose(one.leverage(X), other.leverage(X), rtol=1e-5)
    np.testing.assert_allclose(one.shares, other.shares, atol=1e-6)  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [0, 4])
def test_who_has_learned_nothing_changes_nothing(size: int) -> None:
    X, y = stream("squared", n=120)
    base = onsketch.learner("auto", sketch_size=size)
    one = base.fork()
    one.learn(X, y)
    expected = one.predict(X)
    assert (base.fork().merge(one).predict(X) == expected).all()
    assert (one.merge(base).predict(X) == expected).all()
    later = one.fork()
    later.learn(X, y)
    expected = later.predict(X)
    assert (one.fork().merge(later, base=one).predict(X) == expected).all()
    assert (later.merge(one.fork(), base=one).predict(X) == expected).all()


def test_one_unit_of_all_features_does_not_matter() -> None:
    X, y = stream("logistic", n=200, spread=1.0)
    predictions = []
    for unit in (1.0, 1e-7):
        one, two = learners("logistic", [(X[:100] * unit, y[:100]), (X[100:] * unit, y[100:])], sketch_size=4)
        predictions.append(one.merge(two).predict(X * unit))
    np.testing.assert_allclose(*predictions, rtol=1e-5, atol=1e-6)


def test_a_feature_seen_by_one_part_keeps_its_weight() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 20))
    X[:400, 10:] = X[400:, :10] = 0.0
    y = X.sum(axis=1)
    one, two = learners("squared", [(X[:400], y[:400]), (X[400:], y[400:])], sketch_size=20)
    both = np.append(one.weights[:10], two.weights[10:])
    np.testing.assert_allclose(one.merge(two).weights, both, atol=0.05)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_merged_and_saved_learner_resumes_bit_for_bit(tmp_path: Any, dtype: str) -> None:
    X, y = sparse_stream("logistic", n=300, seed=3)
    options: dict[str, Any] = {"sketch_size": 4, "dtype": dtype}
    one, two = learners("logistic", [(X[:100], y[:100]), (X[100:200], y[100:200])], **options)
    one.merge(two)
    one.save(tmp_path / "model")
    loaded = onsketch.load(tmp_path / "model")
    assert (loaded.learn(X[200:], y[200:]) == one.learn(X[200:], y[200:])).all()
    np.testing.assert_allclose(one.predict(X), X @ one.weights + one.intercept, rtol=1e-5, atol=1e-5)


def test_a_merged_learner_has_no_spare_memory(tmp_path: Any) -> None:
    """Of wide rows no feature is centred; merged, it takes no more than when it is loaded."""
    X, y = words(1000)
    one, two = learners("logistic", [(X[:500], y[:500]), (X[500:], y[500:])])
    one.merge(two)
    one.save(tmp_path / "m")
    assert one.state_bytes()["total"] <= 1.01 * onsketch.load(tmp_path / "m").state_bytes()["total"]
