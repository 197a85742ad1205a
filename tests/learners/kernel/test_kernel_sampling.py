"""KORS: the theorem where it has bite, and the sketch as a sketch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from onsketch.core import state
from onsketch.errors import InputError, OptionError
from onsketch.kernel import effective_dimension, online_effective_dimension
from onsketch.sketch import RowSampling

Array = Any


def low_rank_rows(n: int, seed: int) -> Array:
    """Rows of about unit length in three directions, one of them ten times rarer than the others."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3)) / np.sqrt(3.0)
    rows[:, 2] *= rng.random(n) < 0.1
    return rows


@pytest.mark.slow
def test_the_theorem_holds_where_it_has_bite() -> None:
    """Effective dimension below 3 and 5,000 rows: at every checkpoint, in most of the runs, bounds and size."""
    T, ridge, accuracy, runs = 5_000, 200.0, 0.9, 12
    budget = RowSampling.theoretical_budget(T, accuracy)
    good = 0
    for seed in range(runs):
        rows = low_rank_rows(T, seed)
        sketch = RowSampling(3, ridge=ridge, accuracy=accuracy, budget=budget, seed=seed)
        fine, online, before = True, 0.0, np.zeros((3, 3))
        for stop in range(500, T + 1, 500):
            block = rows[stop - 500 : stop]
            # leverage of the block's first row as if it came next: the estimate is above the truth
            x = block[0]
            score = x @ np.linalg.solve(before + np.outer(x, x) + ridge * np.eye(3), x)
            fine &= bool(sketch.leverage(x)[0] >= score)
            sketch.update(block)
            for x in block:
                before = before + np.outer(x, x)
                online += x @ np.linalg.solve(before + ridge * np.eye(3), x)
            exact = before + ridge * np.eye(3)
            inverse_root = np.linalg.inv(np.linalg.cholesky(exact))
            spread = np.linalg.eigvalsh(inverse_root @ (sketch.covariance() + ridge * np.eye(3)) @ inverse_root.T)
            fine &= bool(spread[0] >= 1 - accuracy and spread[-1] <= 1 + accuracy)
            fine &= sketch.size <= 3 * budget * online
        assert sketch.size < 0.2 * T  # the theorem has bite: most rows are left out
        assert sketch.diagnostics()["online_effective_dimension"] >= online
        good += fine
    assert good >= 0.9 * runs


def test_estimates_are_exact_when_everything_is_kept_and_above_otherwise() -> None:
    rows = low_rank_rows(300, 1)
    whole = RowSampling(3, ridge=2.0, accuracy=0.3, floor=1.0).update(rows)
    assert (whole.indices == np.arange(300)).all()
    assert (whole.weights == 1.0).all()
    np.testing.assert_allclose(whole.covariance(), rows.T @ rows, atol=1e-10)
    scores = [x @ np.linalg.solve(rows.T @ rows + np.outer(x, x) + 2.0 * np.eye(3), x) for x in rows[:50]]
    np.testing.assert_allclose(whole.leverage(rows[:50]), 1.3 * np.array(scores), atol=1e-12)
    K = rows @ rows.T
    found = whole.diagnostics()
    np.testing.assert_allclose(found["effective_dimension"], effective_dimension(K, 2.0), atol=1e-8)
    np.testing.assert_allclose(found["online_effective_dimension"], 1.3 * online_effective_dimension(K, 2.0), rtol=1e-9)


def test_online_and_offline_effective_dimension_are_ordered_as_the_paper_says() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    for ridge in (0.1, 1.0, 10.0):
        offline, online = effective_dimension(K, ridge), online_effective_dimension(K, ridge)
        logdet = np.linalg.slogdet(K / ridge + np.eye(120))[1]
        assert offline <= online <= logdet
        assert logdet <= 2 * offline * (np.log(np.linalg.norm(K, 2) / ridge + 1) + 1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_cuts_forms_and_seeds(kernel: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 4)) * (rng.random((200, 4)) < 0.7)
    options: dict[str, Any] = {"kernel": kernel, "gamma": 0.5, "budget": 0.5}
    whole = RowSampling(4, **options).update(rows)
    assert 3 < whole.size < 150
    parts, sparse, other = RowSampling(4, **options), RowSampling(4, **options), RowSampling(4, seed=1, **options)
    for row in rows:
        parts.update(row)
    sparse.update(csr_array(rows))
    other.update(rows)
    for same in (parts, sparse):
        assert (same.indices == whole.indices).all()
        assert (same.weights == whole.weights).all()
        assert (same.rows == whole.rows).all()
    assert other.indices.tolist() != whole.indices.tolist()
    assert (whole.rows == rows[whole.indices]).all()
    if kernel == "rbf":
        with pytest.raises(OptionError, match="rows and weights"):
            _ = whole.matrix


def test_merging_stacks_the_weighted_rows() -> None:
    rows = low_rank_rows(400, 2)
    one, two = RowSampling(3, budget=2.0).update(rows[:200]), RowSampling(3, budget=2.0, seed=1).update(rows[200:])
    expected = one.covariance() + two.covariance()
    size = one.size + two.size
    other = two.covariance()
    one.merge(two)
    np.testing.assert_allclose(one.covariance(), expected, atol=1e-10)
    np.testing.assert_allclose(two.covariance(), other)
    assert one.size == size
    assert one.n_rows == 400
    assert (rows[one.indices] == one.rows).all()
    # the factor goes on as if the rows had come here
    A = one.covariance() + np.eye(3)
    x = np.array([0.3, -1.0, 2.0])
    alone = x @ np.linalg.solve(A, x)
    np.testing.assert_allclose(one.leverage(x), 1.5 * alone / (1 + alone), atol=1e-10)


def test_repeated_rows_enter_logarithmically_and_never_break_the_factor() -> None:
    for scale, ridge in ((1.0, 1.0), (1e8, 1.0), (1.0, 1e-12)):
        sketch = RowSampling(2, ridge=ridge, budget=2.0).update(np.full((3000, 2), scale))
        assert np.isfinite(sketch.leverage([[1.0, 0.0]])).all()
        assert sketch.size < 120
        if scale == ridge == 1.0:
            np.testing.assert_allclose(sketch.covariance(), 3000.0, rtol=0.7)


def test_what_cannot_be_is_named() -> None:
    for name, value in (
        ("ridge", 0.0),
        ("ridge", np.nan),
        ("accuracy", 0.0),
        ("accuracy", 1.5),
        ("budget", -1.0),
        ("floor", 1.5),
        ("gamma", 0.0),
        ("degree", 0),
        ("coef0", -1.0),
        ("kernel", "sigmoid"),
        ("seed", -1),
    ):
        with pytest.raises(OptionError, match=name):
            RowSampling(3, **{name: value})
    sketch = RowSampling(3, kernel=lambda X, Y: -X @ Y.T)
    with pytest.raises(InputError, match="not positive semi-definite"):
        sketch.update(np.ones((2, 3)))
    assert sketch.n_rows == sketch.size == 0
    turning = RowSampling(1, kernel=lambda X, Y: np.cos(3 * X) @ np.cos(3 * Y).T - 0.5 * X @ Y.T, ridge=0.1, floor=1.0)
    with pytest.raises(InputError, match="not positive semi-definite"):
        turning.update(np.linspace(0.0, 2.0, 30)[:, np.newaxis])
    assert turning.size == turning.n_rows == 0
    with pytest.raises(InputError, match="features"):
        RowSampling(3).update(np.ones((2, 4)))
    with pytest.raises(OptionError, match="cannot hold"):
        sketch.save("nowhere")
    with pytest.raises(OptionError, match="accuracy"):
        RowSampling.theoretical_budget(10, 0.0)
    assert onsketch.sketches.RowSampling is RowSampling


def test_a_kernel_that_raises_leaves_the_dictionary_as_it_was() -> None:
    def failing(A: Any, B: Any) -> Any:
        if np.abs(A).max() > 5.0:
            raise RuntimeError("out of luck")
        return A @ B.T

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    sketch, twin, wild = (RowSampling(3, kernel=failing, ridge=0.1) for _ in range(3))
    sketch.update(rows[:20])
    twin.update(rows[:20])
    with pytest.raises(RuntimeError, match="out of luck"):
        sketch.update(np.vstack([10.0 * rows[:1] / np.abs(rows[:1]).max() * 0.4, rows[20:], np.full((1, 3), 7.0)]))
    wild.update(rows[20:])
    wild._rows[wild.size - 1] = 7.0
    with pytest.raises(RuntimeError, match="out of luck"):
        sketch.merge(wild)
    for one in (sketch, twin):
        one.update(rows[20:])
    assert sketch.n_rows == twin.n_rows == 40
    assert sketch.diagnostics() == twin.diagnostics()
    assert (sketch.rows == twin.rows).all()
    mine, theirs = state.pack(sketch._sampler), state.pack(twin._sampler)
    assert all(np.array_equal(mine[name], theirs[name]) for name in theirs)
