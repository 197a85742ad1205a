"""Each sketch against its definition written with plain SVDs, and what no input may change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

from onsketch import sketch
from onsketch.core import draws
from onsketch.core.shrinking import COMPENSATIVE, FD, GREEDY, PARAMETERIZED, ROBUST, ridge_growth, shrink
from sketch_support import SKETCHES, Array, assert_same_state, every_sketch, some_rows, state

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
