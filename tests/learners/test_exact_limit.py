"""A sketch that is large enough is no sketch at all: the exact methods come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onsketch
from streams import LOSSES, sparse_stream


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("loss", LOSSES)
def test_ada_ffd_with_twice_its_size_above_d_is_full_matrix_adagrad(loss: str, update: str) -> None:
    X, y = sparse_stream(loss)
    options: dict[str, Any] = {"loss": loss, "update": update, "ridge": 1.0, "step_size": 0.3}
    full = onsketch.learner("ada-full", **options)
    predictions = full.learn(X, y)
    for size in (5, 9, 20):  # 2·5 > 9 features
        learner = onsketch.learner("ada-ffd", sketch_size=size, **options)
        np.testing.assert_allclose(learner.learn(X, y), predictions, atol=1e-8)
        np.testing.assert_allclose(learner.weights, full.weights, atol=1e-8)


@pytest.mark.parametrize("sketch", ["fd", "rfd", "pfd", "cfd", "greedy", "ffd"])
@pytest.mark.parametrize("doubling", [False, True])
def test_shrinking_sketches_above_d_are_the_online_newton_step(sketch: str, doubling: bool) -> None:
    X, y = sparse_stream()
    options: dict[str, Any] = {"ridge": 1.0, "clip": 0.8}
    exact = onsketch.learner("ons", **options)
    predictions = exact.learn(X, y)
    if sketch in ("fd", "rfd", "pfd", "cfd", "greedy"):
        options["doubling"] = doubling
    learner = onsketch.compose(sketch=sketch, geometry="newton", sketch_size=10, **options)
    np.testing.assert_allclose(learner.learn(X, y), predictions, atol=1e-8)
    np.testing.assert_allclose(learner.leverage(X), exact.leverage(X), atol=1e-8)


def test_s_adagrad_and_ada_fd_above_d_are_full_matrix_adagrad() -> None:
    X, y = sparse_stream()
    full = onsketch.learner("ada-full", ridge=1.0).learn(X, y)
    np.testing.assert_allclose(onsketch.learner("ada-fd", sketch_size=10, ridge=1.0).learn(X, y), full, atol=1e-8)
    rooted = onsketch.compose(sketch="exact", geometry="s-adagrad", ridge=1.0).learn(X, y)
    np.testing.assert_allclose(onsketch.learner("s-adagrad", sketch_size=10, ridge=1.0).learn(X, y), rooted, atol=1e-8)


def test_curvature_rows_on_the_squared_loss_are_ridge_regression() -> None:
    X, y = sparse_stream()
    ridge = 0.7
    for learner in (
        onsketch.learner("ons", summary="curvature", ridge=ridge, clip=None),
        onsketch.learner("rfd-son", summary="curvature", ridge=ridge, clip=None, sketch_size=10),
    ):
        learner.learn(X, y)
        solution = np.linalg.solve(2 * X.T @ X + ridge * np.eye(X.shape[1]), 2 * X.T @ y)
        np.testing.assert_allclose(learner.weights, solution, atol=1e-9)


def test_no_sketch_is_gradient_descent_with_a_fixed_step() -> None:
    X, y = sparse_stream()
    weights = np.zeros(X.shape[1])
    for x, label in zip(X, y, strict=True):
        weights -= 0.5 / 4.0 * 2 * (weights @ x - label) * x
    for method in ("fd-son", "oja-son", "rp-son", "rfd-son"):
        learner = onsketch.learner(method, sketch_size=0, ridge=4.0, step_size=0.5, clip=None)
        learner.learn(X, y)
        np.testing.assert_allclose(learner.weights, weights, atol=1e-12)


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize(("size", "width"), [(7, 3), (30, 12), (5, 4)])
def test_in_float32_directions_beyond_the_features_are_none(size: int, width: int, update: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, width))
        y = np.sign(X @ rng.normal(size=width))
        options = {"sketch_size": size, "ridge": 1.0, "loss": "squared", "update": update}
        learner = onsketch.learner("oja-son", dtype="float32", **options)
        expected = onsketch.learner("oja-son", **options).learn(X, y)
        np.testing.assert_allclose(learner.learn(X, y), expected, atol=1e-2)
        assert np.count_nonzero(learner.spectrum()) <= width
