"""``auto`` on streams that drift: a rate of forgetting that is given, and one that it finds by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from streams import mixed_units as stream


def test_a_rotating_stream_is_followed_by_forgetting() -> None:
    rng = np.random.default_rng(0)
    n, d = 6000, 10
    X = rng.normal(size=(n, d))
    angle = np.arange(n) * 2 * np.pi / 2000
    y = np.where(np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] >= 0, 1.0, -1.0)
    kept, forgetting = (
        np.mean(onsketch.learner("auto", loss="logistic", forget=f).learn(X, y)[1000:] * y[1000:] <= 0)
        for f in (1.0, 0.998)
    )
    assert forgetting < kept < 0.1


def flipping(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(n, 5))
    return X, np.where(X[:, 0] + 0.5 * X[:, 1] >= 0, 1.0, -1.0) * np.where(np.arange(n) // (n // 4) % 2, 1.0, -1.0)


def test_forgetting_by_itself_is_nearly_as_good_as_the_best_rate() -> None:
    X, y = flipping()
    errors = {
        rate: np.mean(onsketch.learner("auto", loss="logistic", forget=rate).learn(X, y) * y <= 0)
        for rate in ("auto", 1.0, 0.998, 0.995, 0.99, 0.98)
    }
    chosen = errors.pop("auto")
    assert chosen < 1.2 * min(errors.values())
    assert chosen < 0.7 * errors[1.0]


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_automatic_forgetting_costs_little_on_a_stationary_stream(loss: str) -> None:
    X, y = stream(loss, n=3000, d=6)
    still, chosen = (onsketch.learner("auto", loss=loss, forget=rate).learn(X, y) for rate in (1.0, "auto"))
    cost = [
        np.mean(margins * y <= 0) if loss == "logistic" else np.mean((margins - y)[1:] ** 2)
        for margins in (still, chosen)
    ]
    assert cost[1] <= 1.05 * cost[0]


def test_automatic_forgetting_is_linear_and_resumes_bit_for_bit(tmp_path: Any) -> None:
    X, y = flipping(600)
    whole, half = (onsketch.learner("auto", loss="logistic", sketch_size=4, forget="auto") for _ in range(2))
    expected = whole.learn(X, y)
    half.learn(csr_array(X[:330]), y[:330])
    half.save(tmp_path / "model")
    loaded = onsketch.load(tmp_path / "model")
    assert (loaded.learn(X[330:], y[330:]) == expected[330:]).all()
    np.testing.assert_allclose(loaded.predict(X[:9]), X[:9] @ loaded.weights + loaded.intercept, rtol=1e-9, atol=1e-9)
    assert loaded.shares.sum() == pytest.approx(1.0)
