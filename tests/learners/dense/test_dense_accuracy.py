"""Dense learners: accuracy that lasts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import definitions
from dense_support import (
    make,
    stream,
)
from onsketch.errors import OptionError
from onsketch.learners.dense.exact_newton import ExactNewton
from onsketch.learners.dense.fourier import Rada, fourier_sample
from onsketch.learners.dense.inverse_factor import matrix_of


@pytest.mark.parametrize("ridge", [1.0, 0.0])
def test_the_inverse_does_not_drift(ridge: float) -> None:
    rng = np.random.default_rng(0)
    scales = 10.0 ** np.linspace(-3, 3, 6)
    X = rng.normal(size=(200_000, 6)) * scales
    learner = make("ons", ridge=ridge, summary="data", clip=None)
    learner.learn(X, rng.normal(size=len(X)))
    engine = learner._engine
    assert isinstance(engine, ExactNewton)
    wanted = (ridge * np.eye(6) + X.T @ X) / np.outer(scales, scales)
    got = matrix_of(engine.factor) / np.outer(scales, scales)
    np.testing.assert_allclose(got, wanted, atol=1e-10 * len(X))


def test_curvature_rows_solve_least_squares() -> None:
    X, y = stream(n=200)
    learner = make("ons", summary="curvature", clip=None, ridge=0.5)
    learner.learn(X, y)
    np.testing.assert_allclose(learner.weights, np.linalg.solve(0.5 * np.eye(7) + 2 * X.T @ X, 2 * X.T @ y), atol=1e-12)


def test_leverage_is_the_quadratic_form_of_the_inverse() -> None:
    X, y = stream()
    for diagonal in (False, True):
        learner = make("ons", summary="curvature", ridge=0.5, diagonal=diagonal)
        learner.learn(X, y)
        engine = learner._engine
        assert isinstance(engine, ExactNewton)
        new = np.random.default_rng(1).normal(size=(4, 7))
        x = new / np.sqrt(0.1 + learner._iterate.diagonal) if diagonal else new
        wanted = np.einsum("ij,jk,ik->i", x, np.linalg.inv(matrix_of(engine.factor)), x)
        np.testing.assert_allclose(learner.leverage(new), wanted, rtol=1e-10)
        wide = np.column_stack([new, np.full(4, 2.0)])
        extra = 4.0 / 0.5 / (0.1 if diagonal else 1.0)
        np.testing.assert_allclose(learner.leverage(csr_array(wide)), wanted + extra, rtol=1e-10)
    with pytest.raises(OptionError, match="leverage"):
        make("ada-full").leverage(X)


def test_leverage_without_ridge_is_infinite_outside_of_what_was_seen() -> None:
    learner = make("ons", ridge=0.0, summary="data")
    learner.learn(np.diag([2.0, 1.0, 0.0]), np.zeros(3))
    np.testing.assert_allclose(learner.leverage(np.eye(3)), [0.25, 1.0, np.inf])
    np.testing.assert_allclose(learner.leverage(np.eye(4)), [0.25, 1.0, np.inf, np.inf])


def test_radagrad_never_loses_orthogonality() -> None:
    rng = np.random.default_rng(0)
    summary = Rada(12, make("radagrad", sketch_size=4, ridge=0.1).options)
    for i in range(3000):
        summary.absorb(rng.normal(size=12) * 10.0 ** rng.integers(-2, 3) if i % 3 else np.eye(12)[i % 12])
    np.testing.assert_allclose(summary.Q.T @ summary.Q, np.eye(4), atol=1e-13)
    directions, _ = summary.spectrum()
    np.testing.assert_allclose(directions @ directions.T, np.eye(4), atol=1e-13)


def test_fourier_samples_are_rows_without_replacement_and_fair_signs() -> None:
    rows, signs = fourier_sample(3, 40, 100)
    assert len(set(rows.tolist())) == 40
    assert rows.min() >= 0
    assert rows.max() < 100
    np.testing.assert_array_equal(np.abs(signs), 1.0)
    many = fourier_sample(3, 0, 10_000)[1]
    assert abs(many.mean()) < 0.05
    mean = np.zeros((8, 8))
    for seed in range(2000):
        Pi = definitions.subsampled_dct(*fourier_sample(seed, 3, 8))
        mean += Pi.T @ Pi / 2000
    np.testing.assert_allclose(mean, np.eye(8), atol=0.1)
