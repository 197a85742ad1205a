"""Long streams in float32: as accurate as in float64."""

from __future__ import annotations

import numpy as np
import pytest

import onsketch
from onsketch.learners.sketched.oja_basis import OJA_SQUARE
from onsketch.learners.sketched.packed import CLOCK, COLUMN
from onsketch.learners.sketched.reading import fill_rows
from onsketch.learners.sketched.state import COUNT, SQUARE

BLOCK = 20_000
FIRST_ORDER = ("ogd", "adagrad", "lazy-adam", "adam", "ftrl", "arow")
LONG = (*FIRST_ORDER, "rp-son", "rfd-son", "oja-son", "auto")
SMALL_MATRICES = {"rp-son": SQUARE.gram, "fd-son": SQUARE.gram, "rfd-son": SQUARE.gram, "oja-son": OJA_SQUARE.factor}


def error_of(method: str, dtype: str, rows: int, noise: float, width: int = 10) -> float:
    """Return the RMSE on new labels w·x + noise, after so many Gaussian rows with such labels."""
    random, w = np.random.default_rng(1), np.random.default_rng(0).normal(size=width)
    asked = np.random.default_rng(2).normal(size=(200, width))
    learner = onsketch.safe_learner(method, loss="squared", dtype=dtype)
    for _ in range(rows // BLOCK):
        X = random.normal(size=(BLOCK, width))
        learner.learn(X, X @ w + noise * random.normal(size=BLOCK))
    return float(np.sqrt(noise**2 + np.mean((learner.predict(asked) - asked @ w) ** 2)))


def assert_as_accurate(method: str, rows: int, noise: float = 0.1) -> None:
    error = error_of(method, "float32", rows, noise)
    assert error <= 1.1 * max(error_of(method, "float64", rows, noise), 0.01)


@pytest.mark.parametrize("method", ["rp-son", "rfd-son", "oja-son", "adagrad", "auto"])
def test_a_hundred_thousand_rows(method):
    assert_as_accurate(method, 100_000)


def test_labels_without_noise():
    assert_as_accurate("auto", 100_000, noise=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", LONG)
def test_a_million_rows(method):
    assert_as_accurate(method, 1_000_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["fd-son", "pfd-son", "cfd-son", "ada-fd", "ada-ffd", "s-adagrad", "ada-gp", "ada-dp"]
)
def test_other_sketches_on_a_hundred_thousand_rows(method):
    assert_as_accurate(method, 100_000)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ons", "ada-full", "ada-lr", "radagrad"])
def test_full_matrices_on_ten_thousand_rows(method):
    assert_as_accurate(method, BLOCK)


@pytest.mark.slow
@pytest.mark.parametrize("make", [onsketch.learner, onsketch.safe_learner])
def test_one_row_eight_hundred_thousand_times(make):
    row = np.random.default_rng(0).normal(size=(1, 10))
    learner = make("oja-son", loss="logistic", dtype="float32")
    for _ in range(32):
        learner.learn(np.repeat(row, 25_000, axis=0), np.ones(25_000))
        assert learner.predict(row)[0] > 0.0


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("method", SMALL_MATRICES)
def test_small_matrices_are_those_of_the_rows(method, update):
    """K = SSᵀ, and for Oja's sketch F(ZZᵀ)Fᵀ = I, to within what one rounding after another adds up to."""
    random = np.random.default_rng(0)
    learner = onsketch.learner(method, sketch_size=3, ridge=10.0, update=update, dtype="float32")
    for _ in range(5):
        X = random.normal(size=(4_000, 6)) * [1.5, 1.2, 1.0, 0.7, 0.5, 0.2]
        learner.learn(X, np.where(X @ np.ones(6) + random.normal(size=4_000) > 0.0, 1.0, -1.0))
    table, sketch = learner._table, learner._sketch
    n = int(sketch.counts[COUNT.rows])
    rows = np.empty((int(table.clock[CLOCK.seen]), table.rows.shape[1]))
    fill_rows(table, rows)
    S = rows[:, COLUMN.sketch : COLUMN.sketch + n].T
    small = sketch.squares[SMALL_MATRICES[method], :n, :n]
    expected, found = (np.eye(n), small @ (S @ S.T) @ small.T) if method == "oja-son" else (S @ S.T, small)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.slow
def test_ten_thousand_rows_in_float32_are_learned_by_kons():
    """The matrices and rows of kernel learners are float64; only what they are given is in float32."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.0, 1.0, size=(10_000, 2)).astype(np.float32)
    y = np.sin(3.0 * X[:, 0]) * X[:, 1] + 0.1 * random.normal(size=len(X))
    learner = onsketch.safe_learner("kons", loss="squared", summary="curvature")
    margins = learner.learn(X, y)
    assert np.sqrt(np.mean((margins[-2_000:] - y[-2_000:]) ** 2)) <= 0.11
    assert learner.diagnostics()["rows_kept"] <= 500
