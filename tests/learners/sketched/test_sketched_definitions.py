"""Every sketched method equals its plain d×d definition, whatever the loss, the update, the rows and the clip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import definitions
import onsketch
from onsketch import sketch
from onsketch.learners.methods import METHODS as METHODS_BY_NAME
from onsketch.learners.sketched.state import NUMBER
from streams import LOSSES, SMOOTH, level, sparse_stream

NAMED = (
    "rp-son", "fd-son", "rfd-son", "pfd-son", "cfd-son", "oja-son",
    "ada-gp", "ada-dp", "ada-fd", "ada-ffd", "s-adagrad",
)  # fmt: skip
COMBINATIONS = [
    (sketch, geometry)
    for sketch in ("fd", "rfd", "pfd", "cfd", "greedy", "ffd", "rp", "oja")
    for geometry in ("newton", "adagrad", "s-adagrad")
    if not (geometry == "s-adagrad" and sketch in ("rfd", "cfd"))
]
SHRINKING = ("fd", "rfd", "pfd", "cfd", "greedy")


def agree(learner: Any, definition: Any, X: Any, y: Any, weight: Any = None) -> None:
    predictions = learner.learn(X, y, sample_weight=weight)
    np.testing.assert_allclose(predictions, definition.predictions, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(learner.weights, definition.weights, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", NAMED)
def test_named_methods_for_every_loss_and_update(method: str, loss: str, update: str) -> None:
    X, y = sparse_stream(loss)
    newton = METHODS_BY_NAME[method].geometry == "newton"
    widest = 1.5 if loss == "poisson" else None  # without a bound explicit steps run away: slopes grow like e^z
    for size in (1, 3, 7):
        for clip in (widest, 0.5):
            options: dict[str, Any] = {"loss": loss, "update": update, "sketch_size": size, "clip": clip}
            options |= {"ridge": 2.0, "step_size": 0.3, **level(loss)}
            if newton:
                options["curvature_schedule"] = "1/sqrt(t)"
            agree(onsketch.learner(method, **options), definitions.run(method, X, y, **options), X, y)


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize(("sketch", "geometry"), COMBINATIONS)
def test_any_sketch_under_any_geometry(sketch: str, geometry: str, update: str) -> None:
    X, y = sparse_stream()
    variants: list[dict[str, Any]] = [
        {},
        {"diagonal": True},
        {"average": True},
        {"summary": "data"},
        {"summary": "curvature", "average": True, "clip": 0.5},
        {"sketch_size": 0},
        {"sketch_size": 0, "clip": 0.5},
        {"sketch_size": 12, "diagonal": True, "average": True},
    ]
    if sketch in SHRINKING:
        variants += [variant | {"doubling": True} for variant in variants]
    for variant in variants:
        options = {
            "update": update,
            "sketch_size": 3,
            "ridge": 2.0,
            "step_size": 0.3,
            "clip": None,
            **variant,
        }
        if sketch in SHRINKING:
            options.setdefault("doubling", False)
        definition = definitions.compose_definition(X, y, sketch=sketch, geometry=geometry, **options)
        agree(onsketch.compose(sketch=sketch, geometry=geometry, **options), definition, X, y)


@pytest.mark.parametrize("method", NAMED)
def test_sample_weights(method: str) -> None:
    X, y = sparse_stream()
    weight = np.random.default_rng(1).uniform(0.0, 3.0, size=len(y))
    weight[::7] = 0.0
    for summary in ("gradient", "curvature"):
        options: dict[str, Any] = {"sketch_size": 3, "ridge": 2.0, "step_size": 0.3, "summary": summary}
        if METHODS_BY_NAME[method].geometry == "newton" and summary == "gradient":
            options["curvature_schedule"] = "1/t"
        definition = definitions.run(method, X, y, sample_weight=weight, **options)
        agree(onsketch.learner(method, **options), definition, X, y, weight)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("doubling", [False, True])
def test_robust_sketch_without_a_ridge(loss: str, doubling: bool) -> None:
    """RFD₀ starts with the pseudo-inverse and its own projection; it stays there while the rank is below m.

    A sketch that never fills (size 12) is compared over fewer rows than features: past that, rows that nearly
    depend on others leave the pseudo-inverse itself without eight digits.
    """
    wide = np.random.default_rng(0).normal(size=(8, 30))
    for size in (2, 4, 12):
        X, y = sparse_stream(loss) if size < 12 else (wide, np.where(wide[:, 0] > 0, 1.0, -1.0))
        for clip in (None, 1.0):
            options: dict[str, Any] = {"loss": loss, "sketch_size": size, "ridge": 0.0, "clip": clip}
            options |= {"doubling": doubling, "projection": "before"}
            definition = definitions.run("rfd-son", X, y, curvature_schedule="1/t", **options)
            agree(onsketch.learner("rfd-son", **options), definition, X, y)


def test_intercept_is_a_constant_feature() -> None:
    X, y = sparse_stream("logistic")
    with_ones = np.column_stack([X, np.ones(len(y))])
    for method in ("rfd-son", "ada-ffd", "rp-son"):
        plain = onsketch.learner(method, loss="logistic", sketch_size=3)
        learner = onsketch.learner(method, loss="logistic", sketch_size=3, fit_intercept=True)
        np.testing.assert_allclose(learner.learn(X, y), plain.learn(with_ones, y), atol=1e-12)
        np.testing.assert_allclose(learner.predict(X), plain.predict(with_ones), atol=1e-12)
        np.testing.assert_allclose(learner.weights, plain.weights[:-1], atol=1e-12)
        assert learner.intercept == pytest.approx(plain.weights[-1], abs=1e-12)


@pytest.mark.parametrize("method", ["fd-son", "rfd-son", "cfd-son", "oja-son", "rp-son"])
def test_leverage_is_the_inverse_of_what_the_sketch_object_says(method: str) -> None:
    """The learner's metric against ``onsketch.sketch`` fed with the rows √σ·g that the learner must have absorbed."""
    X, y = sparse_stream()
    d, ridge = X.shape[1], 2.0
    summary: Any = {
        "fd-son": lambda: sketch.FastFrequentDirections(d, 3),
        "rfd-son": lambda: sketch.FastRobustFrequentDirections(d, 3, ridge=ridge),
        "cfd-son": lambda: sketch.CompensativeFrequentDirections(d, 3, doubling=True),
        "oja-son": lambda: sketch.Oja(d, 3),
        "rp-son": lambda: sketch.RandomProjection(d, 3),
    }[method]()
    learner = onsketch.learner(method, sketch_size=3, ridge=ridge)
    predictions = learner.learn(X, y)
    summary.update(np.sqrt(0.125) * (2 * (predictions - y))[:, None] * X)
    metric = (summary.ridge or ridge) * np.eye(d) + summary.matrix.T @ summary.matrix
    expected = np.einsum("ij,jk,ik->i", X, np.linalg.inv(metric), X)
    np.testing.assert_allclose(learner.leverage(X), expected, rtol=1e-8, atol=1e-10)
    never_seen = np.eye(d + 3)[-3:]
    np.testing.assert_allclose(learner.leverage(never_seen), 1.0 / learner._sketch.numbers[NUMBER.ridge])
