"""Streams, learners and definitions for the tests of first-order methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import definitions
from onsketch.learners.first_order.learner import FirstOrderLearner
from onsketch.learners.methods import METHODS, compose_method
from onsketch.learners.options import resolve
from streams import labels_for, level

Floats = NDArray[np.float64]


SIGN_LOSSES = ("logistic", "hinge", "squared_hinge")


LOSSES = ("squared", "absolute", *SIGN_LOSSES, "quantile", "poisson", "huber", "epsilon_insensitive")


COMPOSITE: dict[str, dict[str, Any]] = {
    "none": {},
    "l1": {"l1": 0.05},
    "l2": {"l2": 0.3},
    "l1, l2": {"l1": 0.03, "l2": 0.1},
    "box": {"box": (-0.1, 0.2)},
    "all": {"l1": 0.02, "l2": 0.05, "box": (-0.3, 0.2)},
    "half a box": {"l1": 0.02, "box": (0.0, 0.3)},
}


EVERY_KIND: list[tuple[str, dict[str, Any]]] = [
    ("ogd", {}),
    ("ogd", {"l1": 0.01, "l2": 0.02, "average": True}),
    ("ogd", {"update": "dual", "l1": 0.01, "average": True}),
    ("adagrad", {}),
    ("adagrad", {"update": "dual", "l1": 0.01}),
    ("adagrad", {"l1": 0.01, "l2": 0.02, "average": True, "clip": 0.5}),
    ("adagrad", {"update": "dual", "l1": 0.01, "l2": 0.02, "average": True}),
    ("diagonal × newton", {}),
    ("diagonal × newton", {"summary": "curvature", "average": True}),
    ("diagonal × s-adagrad", {"box": (-0.1, 0.1)}),
    ("adam", {"average": True}),
    ("lazy-adam", {"average": True}),
    ("ftrl", {"l1": 0.1}),
    ("arow", {"average": True}),
]
"""One learner for each path through the code."""


every_kind = pytest.mark.parametrize(
    ("name", "options"), EVERY_KIND, ids=[f"{name} {options}" for name, options in EVERY_KIND]
)


def make(name: str, **options: Any) -> FirstOrderLearner:
    method = METHODS[name] if name in METHODS else compose_method(*name.split(" × "))
    return FirstOrderLearner(method, resolve(method.name, method.concerns, method.defaults, options))


def stream(n: int = 80, d: int = 9, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Rows with features from rare to frequent, one of them empty; targets and signs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < np.linspace(0.03, 0.5, d))
    X[min(7, n - 1)] = 0.0
    target = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    return X, target, np.where(target >= 0.0, 1.0, -1.0)


def state(learner: FirstOrderLearner) -> tuple[bytes, bytes, int, int]:
    """Everything that a later round could depend on."""
    count = learner._map.count
    packed = learner._state.table[:count].tobytes() + learner._map.features.tobytes()
    return packed, learner._state.clock.tobytes(), count, learner.rounds


def lazy_adam(X: Floats, y: Floats, o: definitions.Options) -> definitions.Result:
    """Adam on the features of the row only, with the bias correction of the round."""
    w, m, v = np.zeros((3, X.shape[1]))
    b1, b2 = o.betas
    predictions, iterates = [], [w]
    for t, x, target, c in definitions.rounds(X, y, o):
        on = x != 0
        z = definitions.clamp(w @ x, o.bound)
        g = c * definitions.loss_of(o).slope(z, target) * x
        m = np.where(on, b1 * m + (1 - b1) * g, m)
        v = np.where(on, b2 * v + (1 - b2) * g**2, v)
        step = o.step_size * m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + o.ridge)
        w = np.where(on, w - step, w)
        predictions.append(z)
        iterates.append(w)
    return definitions.result(predictions, iterates, o)


def defined(learner: FirstOrderLearner, X: Floats, y: Floats, **options: Any) -> definitions.Result:
    """What the definition makes of this stream under the learner's resolved options."""
    o = learner.options
    options |= {"step_size": o.step_size, "clip": o.clip, "ridge": 1.0 if o.ridge is None else o.ridge}
    name = learner.method.name
    if name == "lazy-adam":
        return lazy_adam(X, y, definitions.Options(**options))
    if name in METHODS:
        return definitions.run(name, X, y, **options)
    sketch, geometry = name.split(" × ")
    return definitions.compose_definition(X, y, sketch=sketch, geometry=geometry, **options)


def assert_agrees(name: str, *, sparse: bool = True, weighted: bool = False, **options: Any) -> None:
    X, target, signs = stream()
    loss = options.get("loss", "squared")
    y = signs if loss in SIGN_LOSSES else labels_for(loss, target)
    options |= level(loss)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], len(y)) if weighted else None
    learner = make(name, **options)
    expected = defined(learner, X, y, **options, sample_weight=weight)
    predictions = learner.learn(csr_array(X) if sparse else X, y, weight)
    np.testing.assert_allclose(predictions, expected.predictions, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(learner.weights, expected.weights, rtol=1e-8, atol=1e-9)
    bound = math.inf if learner.options.clip is None else learner.options.clip
    np.testing.assert_allclose(learner.predict(X), np.clip(X @ expected.weights, -bound, bound), rtol=1e-8, atol=1e-9)


# The definitions ------------------------------------------------------------------------------------------
