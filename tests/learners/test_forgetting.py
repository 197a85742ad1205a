"""A metric that fades: equal to its definition, and quicker to follow a stream that turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from definitions import LOSSES, exp_concavity
from onsketch.errors import OptionError
from streams import sparse_stream


def newton(
    X: np.ndarray, y: np.ndarray, sketch: str, size: int, ridge: float, forget: float, *, clip: float, curvature: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Fast FD-, RFD- or PFD-SON with A_t = λA_{t−1} + row, d×d: (predictions, weights).

    A shrink acts on the stored rows; after the step it writes the fade into them and lifts the ridge to its start.
    """
    d = X.shape[1]
    S, fade, now = np.zeros((0, d)), 1.0, ridge
    u, predictions = np.zeros(d), []
    for x, target in zip(X, y, strict=True):
        A = fade * (now * np.eye(d) + S.T @ S)
        z = u @ x
        if abs(z) > clip:
            towards = np.linalg.solve(A, x)
            u = u - (z - np.sign(z) * clip) / (x @ towards) * towards
            z = np.sign(z) * clip
        loss = LOSSES["logistic"]
        slope = loss.slope(z, target)
        assert loss.curvature is not None
        row = (
            np.sqrt(loss.curvature(z, target)) * x
            if curvature
            else np.sqrt(exp_concavity("logistic", clip)) * slope * x
        )
        S = np.vstack([S, row / np.sqrt(fade)])
        full = len(S) == 2 * size
        if full:
            _, singular, v = np.linalg.svd(S, full_matrices=False)
            energy = np.zeros(2 * size)
            energy[: singular.size] = singular**2
            rho = energy[size - 1]
            spared = size - max(1, int(0.2 * size + 1e-9)) if sketch == "pfd" else 0
            energy[spared:] = np.maximum(energy[spared:] - rho, 0.0)
            S = np.zeros((size - 1, d))
            S[: len(v)] = np.sqrt(energy[: min(size - 1, len(v))])[:, None] * v[: size - 1]
            now += 0.5 * rho if sketch == "rfd" else 0.0
        A = fade * (now * np.eye(d) + S.T @ S)
        u = u - np.linalg.solve(A, slope * x)
        if full:
            S, now, fade = np.sqrt(fade) * S, ridge + fade * (now - ridge), 1.0
        fade *= forget
        predictions.append(z)
    return np.array(predictions), u


@pytest.mark.parametrize("forget", [1.0, 0.97, 0.7])
@pytest.mark.parametrize("summary", ["gradient", "curvature"])
@pytest.mark.parametrize("sketch", ["fd", "rfd", "pfd"])
def test_newton_is_its_definition(sketch: str, summary: str, forget: float) -> None:
    X, y = sparse_stream("logistic", n=150)
    options: dict[str, Any] = {"loss": "logistic", "sketch_size": 4, "ridge": 0.7, "summary": summary, "clip": 2.0}
    learner = onsketch.learner(f"{sketch}-son", forget=forget, **options)
    expected, weights = newton(X, y, sketch, 4, 0.7, forget, clip=2.0, curvature=summary == "curvature")
    np.testing.assert_allclose(learner.learn(csr_array(X), y), expected, atol=1e-7)
    np.testing.assert_allclose(learner.weights, weights, atol=1e-7)


@pytest.mark.parametrize("forget", [1.0, 0.99, 0.5])
def test_adagrad_is_its_definition(forget: float) -> None:
    X, y = sparse_stream("logistic", n=200)
    w, energy, expected = np.zeros(X.shape[1]), np.zeros(X.shape[1]), []
    for x, target in zip(X, y, strict=True):
        expected.append(w @ x)
        g = LOSSES["logistic"].slope(w @ x, target) * x
        energy = energy + g**2
        w = w - 0.3 * g / (0.1 + np.sqrt(energy))
        energy = forget * energy
    learner = onsketch.learner("adagrad", loss="logistic", step_size=0.3, ridge=0.1, forget=forget)
    np.testing.assert_allclose(learner.learn(csr_array(X), y), expected, atol=1e-9)
    np.testing.assert_allclose(learner.weights, w, atol=1e-9)


def test_an_absent_feature_decays_like_any_other() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)) * (rng.random((400, 6)) < 0.7)
    X[:, 5] = 0.0
    X[[3, 399], 5] = 2.0
    y = np.sign(rng.normal(size=400))
    expected, _ = newton(X, y, "rfd", 3, 0.5, 0.95, clip=1.0, curvature=False)
    learner = onsketch.learner("rfd-son", loss="logistic", sketch_size=3, ridge=0.5, forget=0.95)
    np.testing.assert_allclose(learner.learn(csr_array(X), y), expected, atol=1e-7)


def turning(n: int = 8000, d: int = 10, period: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    angle = np.arange(n) * 2 * np.pi / period
    return X, np.where(np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] >= 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("rfd-son", {"summary": "curvature", "clip": None, "sketch_size": 8}),
        ("fd-son", {"summary": "curvature", "clip": None, "sketch_size": 12}),
        ("adagrad", {"step_size": 0.3}),
    ],
)
def test_a_drifting_stream_is_followed(method: str, options: dict[str, Any]) -> None:
    X, y = turning()
    error = {}
    for forget in (1.0, 0.98):
        margins = onsketch.learner(method, loss="logistic", forget=forget, **options).learn(X, y)
        error[forget] = np.mean(margins[2000:] * y[2000:] <= 0)
    assert error[0.98] < 0.6 * error[1.0]
    assert error[0.98] < 0.15


@pytest.mark.parametrize("method", ["rfd-son", "adagrad"])
def test_cuts_saving_and_long_streams(method: str, tmp_path: Any) -> None:
    X, y = turning(3000)
    make = {"loss": "logistic", "forget": 0.9} | ({"sketch_size": 3} if method == "rfd-son" else {})
    whole, parts = onsketch.learner(method, **make), onsketch.learner(method, **make)
    expected = whole.learn(X, y)
    parts.learn(X[:1234], y[:1234])
    parts.save(tmp_path / "model")
    assert (onsketch.load(tmp_path / "model").learn(X[1234:], y[1234:]) == expected[1234:]).all()
    assert np.isfinite(whole.weights).all()


def test_what_does_not_go_together_is_refused() -> None:
    for method, options in (
        ("rfd-son", {"update": "dual"}),
        ("rfd-son", {"average": True}),
        ("rfd-son", {"sketch_size": 0}),
        ("adagrad", {"l1": 0.1}),
        ("oja-son", {}),
        ("ftrl", {}),
    ):
        with pytest.raises(OptionError, match="forget"):
            onsketch.learner(method, forget=0.9, **options)
    one, two = (onsketch.learner("adagrad", forget=0.9) for _ in range(2))
    with pytest.raises(OptionError, match="forget"):
        one.merge(two)
