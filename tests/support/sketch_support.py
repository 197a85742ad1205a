"""The public sketches by name, rows for them and their state, as their tests take them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onsketch import sketch

Array = NDArray[np.float64]
Make = Callable[[int, int], sketch.Sketch]

SKETCHES: dict[str, Make] = {
    "fd": sketch.FrequentDirections,
    "fast-fd": sketch.FastFrequentDirections,
    "rfd": sketch.RobustFrequentDirections,
    "fast-rfd": lambda d, m: sketch.FastRobustFrequentDirections(d, m, ridge=0.5),
    "pfd": lambda d, m: sketch.ParameterizedFrequentDirections(d, m, 0.5),
    "fast-pfd": lambda d, m: sketch.ParameterizedFrequentDirections(d, m, 0.5, doubling=True),
    "cfd": sketch.CompensativeFrequentDirections,
    "fast-cfd": lambda d, m: sketch.CompensativeFrequentDirections(d, m, doubling=True),
    "greedy": sketch.GreedyTruncation,
    "frobenius": sketch.FrobeniusFrequentDirections,
    "fast-frobenius": lambda d, m: sketch.FrobeniusFrequentDirections(d, m, doubling=True),
    "rp": sketch.RandomProjection,
    "oja": sketch.Oja,
    "block-oja": lambda d, m: sketch.Oja(d, m, seed=3, block=4),
    "exact": lambda d, m: sketch.Exact(d),
    "diagonal": lambda d, m: sketch.Diagonal(d),
}

every_sketch = pytest.mark.parametrize("name", SKETCHES)


def some_rows(n: int = 90, d: int = 12, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * 0.8 ** np.arange(d)
    rows[rng.random((n, d)) < 0.3] = 0.0
    rows[min(7, n // 2)] = 0.0
    return rows


def state(of: sketch.Sketch) -> dict[str, Any]:
    return {name: copy.deepcopy(value) for name, value in vars(of).items() if not callable(value)}


def assert_same_state(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
