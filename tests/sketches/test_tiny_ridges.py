"""Frequent directions keep their digits however small the ridge is, for rows of few features."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import definitions
import onsketch

SQUARE = 1e4
"""Mean square of a feature."""


def stream(seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with more to a sketch than they have features, and noisy labels."""
    rng = np.random.default_rng(seed)
    X = math.sqrt(SQUARE) * rng.standard_normal((60, d))
    return X, np.sign(X @ rng.standard_normal(d) + math.sqrt(SQUARE) * rng.standard_normal(60))


@given(
    share=st.one_of(st.just(0.0), st.floats(-11.0, -4.0).map(lambda power: 10.0**power)),
    shape=st.sampled_from([(5, 4), (5, 10), (12, 5)]),
    order=st.sampled_from(["before", "after"]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=40, deadline=None)
def test_a_tiny_ridge_is_its_definition(share: float, shape: tuple[int, int], order: str, seed: int) -> None:
    """Both sides decompose what the ridge is a small share of: rounding errors over that share are allowed."""
    d, m = shape
    X, y = stream(seed, d)
    options = {"sketch_size": m, "ridge": share * d * SQUARE, "projection": order}
    ours = onsketch.learner("rfd-son", **options).learn(X, y)
    theirs = definitions.run("rfd-son", X, y, **options).predictions
    allowed = max(1e-3, 1e-12 / share) if share else 1e-5
    assert np.abs(ours - theirs).max() <= allowed * max(1.0, np.abs(theirs).max())


@pytest.mark.parametrize("method", ["fd-son", "rfd-son"])
@pytest.mark.parametrize("power", [-16, -14, -12, -10, -9, -8, -7, -6])
def test_rows_within_the_span_are_never_refused_and_are_learned(method: str, power: int) -> None:
    """Features of very different scales, fewer than the sketch has rows: the task is easy without a ridge."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((800, 6)) * np.logspace(0, -2, 6)
    y = np.sign(X @ (rng.standard_normal(6) / np.logspace(0, -2, 6)))
    ridge = 10.0**power * float((X**2).sum(1).mean())
    missed = onsketch.learner(method, sketch_size=10, ridge=ridge, projection="before").learn(X, y) * y <= 0.0
    assert missed[400:].mean() <= 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_ridge_that_is_raised_keeps_the_digits(seed: int) -> None:
    """Rows that grow raise a ridge that nobody gave; more rows than features wait in the sketch."""
    X, y = stream(seed, 5)
    X *= np.linspace(1.0, 1e4, len(X))[:, None]
    ours = onsketch.learner("rfd-son", sketch_size=10).learn(X, y)
    share = {"ridge": 1.0, "ridge_share": 1e-7}
    theirs = definitions.run("rfd-son", X, y, sketch_size=10, **share).predictions
    assert np.abs(ours - theirs).max() <= 1e-3


def test_learners_merged_at_a_tiny_ridge_go_on() -> None:
    """Rows of four features in sketches of ten depend on each other: an inverse would have lost its digits."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    y = np.sign(X @ np.array([1.0, -2.0, 0.5, 1.0]) + 0.1 * rng.normal(size=300))
    for ridge in (1e-11, 1e-6, 1e-3):
        one, other = (onsketch.learner("fd-son", loss="squared", ridge=ridge, sketch_size=10) for _ in range(2))
        one.learn(X[:100], y[:100])
        other.learn(X[100:200], y[100:200])
        one.merge(other)
        assert np.mean(one.learn(X[200:], y[200:]) * y[200:] <= 0.0) < 0.12
