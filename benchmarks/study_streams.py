"""The study's made streams: those that drift, and numbers to be predicted."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np


def _from_river(stream: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    rows = list(islice(stream, n))
    return np.array([list(x.values()) for x, _ in rows]), np.array([1.0 if y else -1.0 for _, y in rows])


def drifting(name: str, seed: int, n: int = 8000) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels whose law changes on the way; "stands still" is one whose law does not."""
    rng = np.random.default_rng(seed)
    if name == "SEA":
        from river.datasets import synth

        parts = [_from_river(synth.SEA(variant=v, seed=seed + v, noise=0.1), n // 4) for v in range(4)]
        return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    if name == "moving hyperplane":
        from river.datasets import synth

        return _from_river(synth.Hyperplane(seed=seed, n_features=10, n_drift_features=5, mag_change=0.01), n)
    X, t = rng.normal(size=(n, 10)), np.arange(n)
    angle = 2.0 * np.pi * t / 2000 if name == "turning" else np.zeros(n)
    z = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] + 0.3 * rng.normal(size=n)
    y = np.where(z >= 0.0, 1.0, -1.0)
    return X, y * np.where(t // 2000 % 2, -1.0, 1.0) if name == "sign flips" else y


DRIFTS = ("SEA", "moving hyperplane", "sign flips", "turning", "stands still")
FIXED = (1.0, 0.9995, 0.999, 0.998, 0.995, 0.99, 0.98)
"""Rates of forgetting, the best of which is chosen in hindsight."""


def numbers(name: str, seed: int, n: int = 7000) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features and labels by a noisy line; "units": each feature in a unit of its own."""
    d, noise = {"10 features": (10, 1.0), "50 features": (50, 1.0), "200 features": (200, 1.0)}.get(name, (30, 2.0))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    signal = X @ rng.normal(size=d)
    y = signal + noise * signal.std() * rng.normal(size=n)
    return X * 10.0 ** rng.uniform(-3, 3, d) if name == "units" else X, y


NUMBERS = ("10 features", "50 features", "200 features", "units")
OFFSETS = (0.0, 1e3, 1e6)
"""Added to the labels, in their standard deviations."""
