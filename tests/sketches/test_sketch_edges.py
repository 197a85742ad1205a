"""Rows of any size, no rows, refused rows and arguments: no sketch gives NaN or changes when it refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array

from onsketch import sketch
from onsketch.core.tolerances import LARGEST
from sketch_support import SKETCHES, Array, Make, assert_same_state, every_sketch, some_rows, state


@every_sketch
@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((30, 5)),
        np.tile([1.0, -2.0, 0.0, 3.0, 1.0], (30, 1)),
        np.eye(5)[np.arange(30) % 5],
        np.random.default_rng(0).normal(size=(30, 1)),
        np.random.default_rng(0).normal(size=(30, 5)) * 10.0 ** np.linspace(-60, 60, 30)[:, None],
        np.random.default_rng(0).normal(size=(30, 5)) * 10.0 ** np.linspace(60, -60, 30)[:, None],
        np.random.default_rng(0).normal(size=(30, 5)) * np.array([1e-60, 1e60, 1.0, 1e-30, 1e30]),
        np.random.default_rng(0).normal(size=(30, 5)) * 1e-170,
        np.full((30, 5), 4e149),
    ],
    ids=["zero", "repeated", "axes", "one feature", "growing", "falling", "columns", "tiny", "huge"],
)
def test_nothing_gives_nan(name: str, size: int, rows: Array) -> None:
    s = SKETCHES[name](rows.shape[1], size).update(rows)
    assert s.n_rows == 30
    for numbers in (s.matrix, s.spectrum, np.array(s.ridge), s.covariance()):
        assert np.isfinite(numbers).all()
    assert (s.spectrum >= 0).all()


@pytest.mark.parametrize("name", [name for name in SKETCHES if name not in ("rp", "oja", "block-oja", "diagonal")])
def test_with_capacity_for_all_rows_or_features_it_is_exact(name: str) -> None:
    few, many = some_rows(6), some_rows(60, 5)
    ridge = SKETCHES[name](12, 7).ridge
    s = SKETCHES[name](12, 7).update(few)
    np.testing.assert_allclose(s.covariance(), few.T @ few + ridge * np.eye(12), atol=1e-12)
    s = SKETCHES[name](5, 6).update(many)
    np.testing.assert_allclose(s.covariance(), many.T @ many + ridge * np.eye(5), atol=1e-11)


@every_sketch
def test_no_rows_and_size_zero(name: str) -> None:
    s = SKETCHES[name](12, 4)
    assert not s.matrix.any()
    assert s.update(np.zeros((0, 12))).n_rows == 0
    empty = SKETCHES[name](12, 0).update(some_rows(50))
    assert empty.n_rows == 50
    assert empty.matrix.shape[1] == 12
    if name not in ("exact", "diagonal"):
        assert empty.matrix.size == empty.spectrum.size == 0


@every_sketch
def test_refused_rows_leave_the_sketch_as_it_was(name: str) -> None:
    s = SKETCHES[name](12, 4).update(some_rows(45))
    before = state(s)
    for value, reason in [(np.nan, "not finite"), (-np.inf, "not finite"), (2 * LARGEST, "too large")]:
        bad = some_rows(20)
        bad[13, 5] = value
        for form in (bad, csr_array(bad)):
            with pytest.raises(ValueError, match=f"row 13, column 5 is {reason}"):
                s.update(form)
    long = np.full((2, 12), 0.9 * LARGEST)
    long[0] = 0.0
    for form in (long, csr_array(long)):
        with pytest.raises(ValueError, match="row 1 is longer than"):
            s.update(form)
    for rows, reason in [
        (np.zeros(11), "11 features, the sketch has 12"),
        (csr_array(np.zeros((2, 13))), "13 features, the sketch has 12"),
        (np.zeros((2, 2, 12)), "3-dimensional"),
        (np.array(1.0), "0-dimensional"),
        (["a"] * 12, "real numbers"),
        ([[1.0], [1.0, 2.0]], "real numbers"),
        (np.ones(12) * 1j, "complex"),
        (csr_array(np.ones((1, 12)) * 1j), "complex"),
    ]:
        with pytest.raises(ValueError, match=reason):
            s.update(rows)
    assert_same_state(before, state(s))


def test_one_long_entry_is_allowed() -> None:
    row = np.array([LARGEST, 0.0, 0.0, 0.0])
    for form in (row, csr_array(row[None])):
        assert sketch.FrequentDirections(4, 2).update(form).spectrum[0] == pytest.approx(1e300)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: sketch.FrequentDirections(0, 3), "n_features must be a whole number, at least 1"),
        (lambda: sketch.FrequentDirections(2.5, 3), "n_features must be a whole number"),  # type: ignore[arg-type]
        (lambda: sketch.FastFrequentDirections(3, -1), "size must be a whole number, at least 0"),
        (lambda: sketch.Oja(3, True), "size must be a whole number"),
        (lambda: sketch.Oja(3, 2, block=0), "block must be a whole number, at least 1"),
        (lambda: sketch.RandomProjection(3, 2, seed=-1), "seed must be a whole number, at least 0"),
        (lambda: sketch.RandomProjection(3, 2, seed=2**63), "seed must be a whole number"),
        (lambda: sketch.RobustFrequentDirections(3, 2, -1.0), "ridge must lie in"),
        (lambda: sketch.FastRobustFrequentDirections(3, 2, float("inf")), "ridge must lie in"),
        (lambda: sketch.RobustFrequentDirections(3, 2, "x"), "ridge must be a number"),  # type: ignore[arg-type]
        (lambda: sketch.ParameterizedFrequentDirections(3, 2, 0.0), r"shrink_fraction must lie in \(0, 1\]"),
        (lambda: sketch.ParameterizedFrequentDirections(3, 2, float("nan")), "shrink_fraction must lie in"),
        (lambda: sketch.ParameterizedFrequentDirections(3, "a"), "size must be"),  # type: ignore[arg-type]
    ],
)
def test_impossible_arguments(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize("kind", [sketch.FrequentDirections, sketch.CompensativeFrequentDirections])
def test_equal_eigenvalues_leave_nothing_in_any_basis(kind: Make) -> None:
    """Their difference is rounding error, and compensation must not make a direction of it."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        rows = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        assert not kind(4, 4).update(rows).matrix.any()


def test_numpy_integers_are_whole_numbers() -> None:
    assert sketch.FrequentDirections(*np.array([3, 2])).update(np.eye(3)).n_rows == 3


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e60])
@pytest.mark.parametrize("block", [1, 6, 300])
def test_oja_directions_stay_orthonormal_on_long_rows(block: int, scale: float) -> None:
    """Rows with |x|² of 500 and more, where a Cholesky factorisation of a product of steps breaks down."""
    rows = scale * np.random.default_rng(0).normal(size=(600, 20)) * np.geomspace(20, 0.01, 20)
    s = sketch.Oja(20, 6, block=block).update(rows)
    directions = s._directions
    np.testing.assert_allclose(directions @ directions.T, np.eye(6), atol=1e-13)


def test_oja_takes_in_a_direction_that_comes_late() -> None:
    rng = np.random.default_rng(0)
    rows = np.zeros((3000, 6))
    rows[:, :3] = rng.normal(size=(3000, 3)) * [0.5, 0.3, 0.1]
    rows[1000:, 4] = rng.normal(size=2000) * 3.0
    captured = []
    for seed in range(10):
        s = sketch.Oja(6, 2, seed=seed).update(rows)
        top = np.linalg.svd(s.matrix)[2][0]
        assert abs(top[4]) > 0.99
        captured.append(s.spectrum[0] / np.sum(rows[:, 4] ** 2))
        assert not s.matrix[:, [3, 5]].any()
    assert np.min(captured) > 0.7  # how soon the direction is taken in depends on where the sketch starts
    assert np.mean(captured) > 0.85
