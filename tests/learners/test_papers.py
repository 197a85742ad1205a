"""What the papers claim of the learners, on their synthetic stream and on real data where it is at hand."""

from __future__ import annotations

from typing import Any

import numpy as np

import onsketch
from onsketch.data.synthetic import ill_conditioned
from readers import read_libsvm


def online_error(method: str, X: Any, y: Any, **options: Any) -> float:
    return float(np.mean(np.sign(onsketch.learner(method, **options).learn(X, y)) != y))


def test_sketched_newton_is_nearly_invariant_to_the_condition_number() -> None:
    """luo2016 Fig. 1: T = 10,000, d = 100, σ = 1/8, C = 1, m = 10, ridge (step for AdaGrad) tuned at each condition."""
    errors: dict[str, list[float]] = {}
    for condition in (10, 200):
        X, y = ill_conditioned(n=10_000, d=100, condition=condition, seed=0)
        for method in ("oja-son", "fd-son", "rfd-son"):
            options: dict[str, Any] = {"sketch_size": 10, "curvature": 0.125, "clip": 1.0}
            grid = [2.0**j for j in (8, 10, 12, 14)]
            tuned = min(online_error(method, X, y, ridge=ridge, **options) for ridge in grid)
            errors.setdefault(method, []).append(tuned)
        tuned = min(online_error("adagrad", X, y, step_size=2.0**j) for j in range(-8, -2))
        errors.setdefault("adagrad", []).append(tuned)
    easy, hard = errors.pop("adagrad")
    assert easy < 0.09
    assert hard > 0.14
    for at_10, at_200 in errors.values():
        assert at_10 < 0.135
        assert at_200 < hard
        assert at_200 - at_10 < 0.35 * (hard - easy)


def test_parameter_free_rfd_son_on_a9a() -> None:
    """luo2019 Table 2: RFD₀-SON, 70/30 split, one pass: 83.2 to 83.3 % test accuracy for m = 5, 10, 20."""
    X, y = read_libsvm("a9a")
    accuracies = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [int(0.7 * len(y))])
        learner = onsketch.learner("rfd-son", sketch_size=20, ridge=0.0, curvature=0.125, curvature_schedule="1/t")
        learner.learn(X[train], y[train])
        accuracies.append(np.mean(np.sign(learner.predict(X[test])) == y[test]))
    assert 0.828 < np.mean(accuracies) < 0.842
