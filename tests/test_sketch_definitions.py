"""Each sketch against its definition written with plain SVDs, and what no input may change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, csr_matrix

from onsketch import sketch
from onsketch.core import draws
from onsketch.core.shrinking import COMPENSATIVE, FD, GREEDY, PARAMETERIZED, ROBUST, ridge_growth, shrink
from onsketch.core.tolerances import LARGEST

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


# The definitions ------------------------------------------------------------------------------------------


def shrinking(rows: Array, size: int, capacity: int, affected: int, compensate: bool) -> tuple[Array, float]:
    """``BᵀB`` and Σρ of the frequent-directions family, by an SVD of the stack at every shrink."""
    held, kept, escaped = np.zeros((0, rows.shape[1])), 0, 0.0
    for row in rows:
        held = np.vstack([held, row])
        if len(held) == capacity:
            _, values, right = np.linalg.svd(held, full_matrices=False)
            squares = np.zeros(max(size, len(values)))
            squares[: len(values)] = values**2
            rho = squares[size - 1]
            squares[size - affected :] -= rho
            kept = size - 1
            held = np.zeros((kept, rows.shape[1]))
            held[: len(right)] = np.sqrt(squares[:kept])[: len(right), None] * right[:kept]
            escaped += rho
    result = held.T @ held
    if compensate:
        for row in held[:kept]:
            result += escaped * np.outer(row, row) / (row @ row)
    return result, escaped


def oja(rows: Array, size: int, seed: int, block: int) -> tuple[Array, Array]:
    """``BᵀB`` and λ: all Gaussian columns from the start, inner products over the features seen."""
    n, d = rows.shape
    V = draws.feature_columns(seed, range(d), size)
    energy, seen, waiting = np.zeros(size), np.zeros(d, dtype=bool), np.zeros((d, d))

    def gram_schmidt(V: Array) -> Array:
        done: list[Array] = []
        for v in V:
            w = v.copy()
            for _ in range(2):
                for q in done:
                    w = w - (q[seen] @ w[seen]) * q
            if w[seen] @ w[seen] > 1e-12 * (v[seen] @ v[seen]):
                w = w / np.linalg.norm(w[seen])
            else:
                w[seen] = 0.0
            done.append(w)
        return np.array(done)

    for t in range(1, n + 1):
        a = rows[t - 1]
        if (new := (a != 0) & ~seen).any():
            seen |= new
            V = gram_schmidt(V)
        energy = energy + (V[:, seen] @ a[seen]) ** 2
        waiting += min(1 / t, 1e4 / block / max(a @ a, 1e-300)) * np.outer(a, a)
        if t % block == 0:
            V = gram_schmidt(V + (V * seen) @ waiting)
            waiting[:] = 0.0
    visible = V * seen
    return (visible.T * energy) @ visible, energy


@pytest.mark.parametrize("size", [1, 2, 5, 8, 11])
@pytest.mark.parametrize("n", [3, 17, 60])
def test_frequent_directions_family(size: int, n: int) -> None:
    rows, d = some_rows(n), 12
    for doubling in (False, True):
        capacity = 2 * size if doubling else size
        plain, escaped = shrinking(rows, size, capacity, size, compensate=False)
        fd = (sketch.FastFrequentDirections if doubling else sketch.FrequentDirections)(d, size).update(rows)
        np.testing.assert_allclose(fd.covariance(), plain, atol=1e-8)
        assert fd.escaped == pytest.approx(escaped, abs=1e-8)
        assert fd.ridge == 0.0
        kind = sketch.FastRobustFrequentDirections if doubling else sketch.RobustFrequentDirections
        rfd = kind(d, size, ridge=0.25).update(rows)
        assert rfd.ridge == pytest.approx(0.25 + escaped / 2, abs=1e-8)
        np.testing.assert_allclose(rfd.matrix.T @ rfd.matrix, plain, atol=1e-8)
        np.testing.assert_allclose(rfd.covariance(), plain + rfd.ridge * np.eye(d), atol=1e-8)
        cfd = sketch.CompensativeFrequentDirections(d, size, doubling).update(rows)
        compensated, _ = shrinking(rows, size, capacity, size, compensate=True)
        np.testing.assert_allclose(cfd.covariance(), compensated, atol=1e-8)
        for fraction in (0.2, 0.5, 1.0):
            affected = max(1, int(fraction * size))
            expected, _ = shrinking(rows, size, capacity, affected, compensate=False)
            pfd = sketch.ParameterizedFrequentDirections(d, size, fraction, doubling).update(rows)
            np.testing.assert_allclose(pfd.covariance(), expected, atol=1e-8)
    expected, _ = shrinking(rows, size, size, 1, compensate=False)
    np.testing.assert_allclose(sketch.GreedyTruncation(d, size).update(rows).covariance(), expected, atol=1e-8)


@pytest.mark.parametrize(
    ("rule", "fraction", "left", "shown", "lost", "grown"),
    [
        (FD, 1.0, [7.0, 3.0, 2.0], 0.0, 2.0, 0.0),
        (ROBUST, 1.0, [7.0, 3.0, 2.0], 0.0, 2.0, 1.0),
        (PARAMETERIZED, 0.75, [9.0, 3.0, 2.0], 0.0, 2.0, 0.0),
        (PARAMETERIZED, 0.1, [9.0, 5.0, 4.0], 0.0, 2.0, 0.0),
        (COMPENSATIVE, 1.0, [7.0, 3.0, 2.0], 12.0, 2.0, 0.0),
        (GREEDY, 1.0, [9.0, 5.0, 4.0], 0.0, 0.0, 0.0),
    ],
)
def test_rules(rule: int, fraction: float, left: list[float], shown: float, lost: float, grown: float) -> None:
    energy, true = np.zeros(3), np.zeros(3)
    rho = shrink(rule, 4, fraction, 10.0, np.array([9.0, 5.0, 4.0, 2.0]), energy, true)
    assert (rho, true.tolist(), (energy - true).tolist()) == (lost, left, [shown] * 3)
    assert ridge_growth(rule, rho) == grown


@pytest.mark.parametrize(("fraction", "size", "affected"), [(0.2, 4, 1), (0.2, 10, 2), (0.29, 100, 29)])
def test_number_of_affected_values(fraction: float, size: int, affected: int) -> None:
    values = np.sqrt(np.arange(size + 1.0, 1.0, -1.0))  # eigenvalues size + 1, …, 2
    s = sketch.ParameterizedFrequentDirections(size, size, fraction).update(np.diag(values))
    expected = values**2
    expected[size - affected :] -= 2.0
    np.testing.assert_allclose(s.spectrum, expected, atol=1e-10)


def test_random_projection() -> None:
    rows = some_rows(70)
    expected = sum(np.outer(draws.round_vector(4, t, 5), row) for t, row in enumerate(rows, start=1))
    np.testing.assert_allclose(sketch.RandomProjection(12, 5, seed=4).update(rows).matrix, expected, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["short rows", "capped steps"])
@pytest.mark.parametrize("block", [1, 3])
@pytest.mark.parametrize("size", [1, 4, 14])
def test_oja(size: int, block: int, scale: float) -> None:
    """Features come one after the other, so that the start of late ones is seen."""
    rows = scale * some_rows(40)
    for t in range(12):
        rows[2 * t, t + 1 :] = rows[2 * t + 1, t + 1 :] = 0.0
    expected, energy = oja(rows, size, 7, block)
    s = sketch.Oja(12, size, seed=7, block=block).update(rows)
    np.testing.assert_allclose(s.covariance(), expected, atol=1e-8 * scale**2)
    np.testing.assert_allclose(s.spectrum, np.sort(energy)[::-1][:12], atol=1e-8 * scale**2)


def test_exact_and_diagonal() -> None:
    rows = some_rows(100)
    exact, diagonal = sketch.Exact(12).update(rows), sketch.Diagonal(12).update(rows)
    np.testing.assert_allclose(exact.covariance(), rows.T @ rows, atol=1e-12)
    np.testing.assert_allclose(exact.matrix.T @ exact.matrix, rows.T @ rows, atol=1e-10)
    np.testing.assert_allclose(diagonal.covariance(), np.diag(np.sum(rows**2, axis=0)), atol=1e-12)


@every_sketch
def test_spectrum_belongs_to_the_matrix(name: str) -> None:
    s = SKETCHES[name](12, 5).update(some_rows())
    values = np.linalg.svd(s.matrix, compute_uv=False) ** 2
    np.testing.assert_allclose(s.spectrum, values, atol=1e-10)
    assert (np.diff(s.spectrum) <= 0).all()


def test_conventions_of_the_buffer() -> None:
    rows = some_rows(9, 12)
    plain, fast = sketch.FrequentDirections(12, 3), sketch.FastFrequentDirections(12, 3)
    held = []
    for row in rows:
        plain.update(row)
        fast.update(row)
        assert plain.matrix.shape == (3, 12)
        assert not plain.matrix[2].any()
        held.append(len(fast.matrix))
    assert held == [1, 2, 3, 4, 5, 2, 3, 4, 5]


# What changes nothing -------------------------------------------------------------------------------------


@every_sketch
@pytest.mark.parametrize("size", [1, 4])
def test_any_split_into_blocks_gives_the_same_bits(name: str, size: int) -> None:
    rows = some_rows(n=100, d=9)
    whole, single, pieces = (SKETCHES[name](9, size) for _ in range(3))
    whole.update(rows)
    for row in rows:
        single.update(row)
    for piece in np.split(rows, [1, 2, 2, 7, 8, 40, 73]):
        pieces.update(piece)
        pieces.matrix  # noqa: B018 (reading must not disturb)
    assert whole.n_rows == single.n_rows == pieces.n_rows == 100
    assert whole.ridge == single.ridge == pieces.ridge
    np.testing.assert_array_equal(whole.matrix, single.matrix)
    np.testing.assert_array_equal(whole.matrix, pieces.matrix)


@every_sketch
def test_sparse_rows_are_the_same_rows(name: str) -> None:
    rows = some_rows(80)
    dense = SKETCHES[name](12, 4).update(rows)
    for form in (csr_array, csr_matrix, coo_array):
        np.testing.assert_array_equal(SKETCHES[name](12, 4).update(form(rows)).matrix, dense.matrix)
    unsorted = csr_array(rows)
    unsorted.indices, unsorted.data = unsorted.indices[::-1].copy(), unsorted.data[::-1].copy()
    unsorted.indptr = (unsorted.indptr[-1] - unsorted.indptr[::-1]).copy()
    unsorted = csr_array((unsorted.data, unsorted.indices, unsorted.indptr), unsorted.shape)
    backwards = SKETCHES[name](12, 4).update(rows[::-1])
    np.testing.assert_array_equal(SKETCHES[name](12, 4).update(unsorted).matrix, backwards.matrix)


def test_duplicate_entries_of_a_sparse_row_add_up() -> None:
    twice = csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    assert sketch.Diagonal(3).update(twice).energy.tolist() == [0.0, 9.0, 0.0]
    assert twice.nnz == 2


@every_sketch
def test_reading_changes_nothing(name: str) -> None:
    s = SKETCHES[name](12, 4).update(some_rows(45))
    before = state(s)
    first = s.matrix
    s.covariance()
    _ = s.spectrum, s.ridge, repr(s)
    first[:] = np.nan
    assert_same_state(before, state(s))
    assert np.isfinite(s.matrix).all()


@every_sketch
def test_input_is_not_altered_nor_kept(name: str) -> None:
    rows = some_rows(45)
    mine = rows.copy()
    s = SKETCHES[name](12, 4).update(mine)
    np.testing.assert_array_equal(mine, rows)
    before = s.matrix
    mine[:] = 0.0
    np.testing.assert_array_equal(s.matrix, before)


@every_sketch
def test_lists_integers_and_float32_are_rows_too(name: str) -> None:
    rows = np.random.default_rng(2).integers(-3, 4, size=(30, 4))
    expected = SKETCHES[name](4, 3).update(rows.astype(float)).matrix
    for form in (rows, rows.tolist(), rows.astype(np.float32), np.asfortranarray(rows), csr_array(rows)):
        np.testing.assert_array_equal(SKETCHES[name](4, 3).update(form).matrix, expected)


# The edges ------------------------------------------------------------------------------------------------


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
def test_with_room_for_all_rows_or_features_it_is_exact(name: str) -> None:
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


def test_one_long_entry_may_stand_alone() -> None:
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
