"""Implicit steps under the softmax loss: they end where their slopes are."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from definitions.softmax import implicit
from onsketch.core.softmax import CLOSE, solve


def slopes_of(z: Any, y: int, tau: Any, h: float) -> tuple[Any, int]:
    slopes = np.empty(len(z))
    count = solve(np.ascontiguousarray(z, float), y, np.ascontiguousarray(tau, float), h, slopes)
    return slopes, count


@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 12),
    spread=st.floats(0.0, 12.0),
    length=st.floats(-8.0, 6.0),
    weight=st.floats(-3.0, 3.0),
    zeros=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_an_implicit_step_ends_where_its_slopes_are(
    seed: int, classes: int, spread: float, length: float, weight: float, zeros: bool
) -> None:
    """p' = softmax(z − hτ(p' − e_y)): the definition itself, whatever the sizes."""
    rng = np.random.default_rng(seed)
    z, y = spread * rng.normal(size=classes), int(rng.integers(classes))
    tau = 10.0**length * rng.uniform(0.1, 1.0, classes)
    if zeros:
        tau[rng.random(classes) < 0.5] = 0.0
    h = 10.0**weight
    slopes, count = slopes_of(z, y, tau, h)
    moved = z - h * tau * slopes
    p = np.exp(moved - moved.max())
    p /= p.sum()
    expected = p - np.eye(classes)[y]
    long = np.max(h * tau)
    np.testing.assert_allclose(slopes, expected, atol=1e-7, rtol=1e-5 * max(1.0, np.log1p(long)))
    assert count <= 60
    assert abs(slopes.sum()) < 2 * CLOSE  # 0, but where the others' sum is above 1 by what is close enough
    assert slopes[y] <= 0.0
    assert (np.delete(slopes, y) >= 0.0).all()


@given(seed=st.integers(0, 10**6), length=st.floats(-4.0, 3.0))
@settings(max_examples=40, deadline=None)
def test_an_implicit_step_is_the_minimiser(seed: int, length: float) -> None:
    rng = np.random.default_rng(seed)
    z, y, tau = 3.0 * rng.normal(size=5), int(rng.integers(5)), 10.0**length * rng.uniform(0.2, 1.0, 5)
    np.testing.assert_allclose(slopes_of(z, y, tau, 1.5)[0], implicit(z, y, tau, 1.5), atol=1e-7)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_longer_steps_go_further_and_never_beyond_the_label(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, y, tau = 4.0 * rng.normal(size=6), int(rng.integers(6)), rng.uniform(0.1, 1.0, 6)
    before = -1.0
    for h in 10.0 ** np.arange(-3, 25, 2.0):
        slopes, _ = slopes_of(z, y, tau, h)
        assert slopes[y] >= before - 1e-12  # 1 − p'_y falls
        before = slopes[y]
        moves = h * tau * slopes
        assert np.isfinite(moves).all()
        assert np.abs(moves).max() <= np.ptp(z) + 3.0 + np.log1p(6 * h)  # a logarithm, whatever the weight
    assert before > -1e-6


def test_a_weight_is_as_many_short_steps_in_the_limit() -> None:
    z, y, tau = np.array([0.5, -1.0, 0.2]), 1, np.array([1.0, 0.5, 2.0])
    gaps = []
    for short in (1e-2, 1e-3):
        many = z.copy()
        for _ in range(5):
            many = many - short * tau * slopes_of(many, y, short * tau, 1.0)[0]
        once = z - 5.0 * short * tau * slopes_of(z, y, short * tau, 5.0)[0]
        gaps.append(np.abs(many - once).max() / np.abs(once - z).max())
    assert gaps[1] < gaps[0] / 5.0 < 0.02


# --- the definition
