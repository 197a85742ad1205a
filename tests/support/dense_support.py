"""Dense learners as their tests make them: streams, learners, definitions, states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import definitions
from onsketch.learners.dense.exact_newton import ExactNewton
from onsketch.learners.dense.fourier import fourier_sample
from onsketch.learners.dense.learner import DenseLearner
from onsketch.learners.methods import METHODS, Method, compose_method
from onsketch.learners.options import resolve
from streams import labels_for, level

Array = NDArray[np.float64]

TERMS: dict[str, dict[str, Any]] = {
    "l1": {"l1": 0.3},
    "l2": {"l2": 0.5},
    "box": {"box": (-0.05, 0.15)},
    "all": {"l1": 0.1, "l2": 0.2, "box": (-0.3, 0.1)},
    "away from zero": {"l1": 0.1, "box": (0.02, 0.3)},
}
COMPOSITE = ("ada-full", "ada-fd", "ada-ffd", "ada-gp", "ada-dp", "s-adagrad", "radagrad")
DENSE = ("ons", "ada-full", "ada-lr", "radagrad")


def stream(loss: str = "squared", n: int = 60, d: int = 7, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 1.5, d)
    X[rng.random((n, d)) < 0.2] = 0.0
    X[5] = 0.0
    X[9:12] = X[8]
    y = X @ rng.normal(size=d) / math.sqrt(d) + 0.1 * rng.normal(size=n)
    return X, labels_for(loss, y)


def make(method: str | Method, **given: Any) -> DenseLearner:
    parts = METHODS[method] if isinstance(method, str) else method
    given = {name: value for name, value in given.items() if name != "sketch_size" or "sketch_size" in parts.concerns}
    return DenseLearner(parts, resolve(parts.name, parts.concerns, parts.defaults, given))


def defined(method: str | Method, X: Array, y: Array, **given: Any) -> definitions.Result:
    parts = METHODS[method] if isinstance(method, str) else method
    geometry = {"low-rank": "low-rank", "rada": "rada"}.get(parts.sketch, parts.geometry)
    if parts.sketch in ("low-rank", "rada"):
        rows, signs = fourier_sample(given.get("seed", 0), given["sketch_size"], X.shape[1])
        given["Pi"] = definitions.subsampled_dct(rows, signs)
    defaults = dict(parts.defaults)
    return definitions.compose_definition(X, y, sketch=parts.sketch, geometry=geometry, **(defaults | given))


def assert_agrees(method: str | Method, X: Array, y: Array, tolerance: float = 1e-8, **given: Any) -> None:
    given = {"ridge": 1.0, "sketch_size": 3, **level(given.get("loss", "squared")), **given}
    sample_weight = given.pop("sample_weight", None)
    learner = make(method, **given)
    predictions = learner.learn(X, y, sample_weight)
    wanted = defined(method, X, y, sample_weight=sample_weight, **given)
    scale = max(1.0, float(np.abs(wanted.weights).max()))
    np.testing.assert_allclose(predictions, wanted.predictions, rtol=0, atol=tolerance * scale, err_msg=str(given))
    np.testing.assert_allclose(learner.weights, wanted.weights, rtol=0, atol=tolerance * scale, err_msg=str(given))


def arrays_of(learner: DenseLearner) -> dict[str, Any]:
    """Every array of a learner's state, by name."""
    found = dict(learner._iterate._asdict())
    engine = learner._engine
    holders = [engine.factor._asdict()] if isinstance(engine, ExactNewton) else [vars(engine.summary)]
    for holder in list(holders):
        holders += [vars(part) for part in holder.values() if hasattr(part, "__dict__")]
    for i, holder in enumerate(holders):
        found |= {f"{i}.{name}": value for name, value in holder.items() if isinstance(value, np.ndarray | float)}
    return found


def assert_same_state(one: DenseLearner, other: DenseLearner) -> None:
    first, second = arrays_of(one), arrays_of(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


EVERYTHING: dict[str, tuple[str | Method, dict[str, Any]]] = {
    "ons": ("ons", {}),
    "ons, ridge 0": ("ons", {"ridge": 0.0}),
    "ons, dual": ("ons", {"update": "dual", "average": True, "diagonal": True}),
    "ada-full": ("ada-full", {}),
    "ada-full, diagonal": ("ada-full", {"diagonal": True}),
    "ada-lr": ("ada-lr", {}),
    "radagrad": ("radagrad", {"update": "dual"}),
    "ada-full, l1": ("ada-full", {"l1": 0.1}),
    "radagrad, box": ("radagrad", {"box": (-0.1, 0.1)}),
    "ada-fd, l1": ("ada-fd", {"l1": 0.1, "average": True}),
    "ada-ffd, l1": ("ada-ffd", {"l1": 0.1}),
    "ada-gp, l1": ("ada-gp", {"l1": 0.1}),
    "s-adagrad, l2": ("s-adagrad", {"l2": 0.1, "update": "dual"}),
    "oja, l1": (compose_method("oja", "adagrad"), {"l1": 0.1}),
}
everything = pytest.mark.parametrize("name", EVERYTHING)


def made(name: str, **more: Any) -> DenseLearner:
    method, given = EVERYTHING[name]
    return make(method, sketch_size=4, **given, **more)
