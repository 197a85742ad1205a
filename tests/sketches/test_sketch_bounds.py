"""What the papers prove about the sketches, and where what they say is not so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onsketch.sketch import (
    CompensativeFrequentDirections,
    FastFrequentDirections,
    FastRobustFrequentDirections,
    FrequentDirections,
    FrobeniusFrequentDirections,
    GreedyTruncation,
    Oja,
    ParameterizedFrequentDirections,
    RandomProjection,
    RobustFrequentDirections,
)
from onsketch.sketches.shrinking import ShrinkingSketch

Array = NDArray[np.float64]


@st.composite
def streams(draw: st.DrawFn) -> Array:
    """Rows of all kinds: decaying spectra, low rank, ties, zero rows, wide ranges of norms."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 12))
    kind = draw(st.sampled_from(["gaussian", "decay", "low rank", "axes", "small integers", "spikes"]))
    rows = rng.normal(size=(n, d))
    if kind == "decay":
        rows = rows * draw(st.floats(0.2, 0.9)) ** np.arange(d)
    elif kind == "low rank":
        rank = draw(st.integers(1, 3))
        rows = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    elif kind == "axes":
        rows = np.eye(d)[rng.integers(d, size=n)]
    elif kind == "small integers":
        rows = rng.integers(-1, 2, size=(n, d)).astype(float)
    elif kind == "spikes":
        rows = rows * 10.0 ** rng.uniform(-2, 2, size=(n, 1))
    return rows * draw(st.sampled_from([1.0, 1e-60, 1e60]))


def tails(rows: Array) -> Array:
    """``‖A − A_k‖_F²`` for k = 0, 1, …, d."""
    energy = np.zeros(rows.shape[1])
    values = np.linalg.svd(rows, compute_uv=False) ** 2
    energy[: len(values)] = values
    return np.append(np.cumsum(energy[::-1])[::-1], 0.0)


def tail_bound(rows: Array, size: int) -> float:
    """The least ``‖A − A_k‖_F² / (m − k)`` over k < m."""
    tail = tails(rows)
    return min(float(tail[min(k, len(tail) - 1)]) / (size - k) for k in range(size))


def error_spectrum(rows: Array, sketch: ShrinkingSketch) -> Array:
    """Eigenvalues of ``AᵀA − BᵀB``, ascending."""
    error = rows.T @ rows - sketch.matrix.T @ sketch.matrix
    return np.asarray(np.linalg.eigvalsh(error), dtype=np.float64)


def rounding(rows: Array) -> float:
    return 1e-11 * float(np.sum(rows * rows))


many = settings(max_examples=150)


@many
@given(streams(), st.integers(1, 8), st.sampled_from([FrequentDirections, FastFrequentDirections]))
def test_frequent_directions_keep_their_bound(
    rows: Array, size: int, kind: type[FrequentDirections] | type[FastFrequentDirections]
) -> None:
    sketch = kind(rows.shape[1], size).update(rows)
    error = error_spectrum(rows, sketch)
    assert error[0] >= -rounding(rows)
    assert error[-1] <= tail_bound(rows, size) + rounding(rows)


@many
@given(streams(), st.integers(1, 8), st.sampled_from([RobustFrequentDirections, FastRobustFrequentDirections]))
def test_robust_frequent_directions_halve_it(
    rows: Array, size: int, kind: type[RobustFrequentDirections] | type[FastRobustFrequentDirections]
) -> None:
    sketch = kind(rows.shape[1], size).update(rows)
    error = np.linalg.norm(rows.T @ rows - sketch.covariance(), 2)
    assert error <= tail_bound(rows, size) / 2 + rounding(rows)


@many
@given(streams(), st.integers(1, 8), st.booleans())
def test_compensation_keeps_the_size_of_the_bound(rows: Array, size: int, doubling: bool) -> None:
    sketch = CompensativeFrequentDirections(rows.shape[1], size, doubling).update(rows)
    assert np.abs(error_spectrum(rows, sketch)).max() <= tail_bound(rows, size) + rounding(rows)


@many
@given(streams(), st.integers(1, 8), st.sampled_from([0.1, 0.2, 0.5, 0.8, 1.0]), st.booleans())
def test_parameterised_bound_has_the_number_of_affected_values(
    rows: Array, size: int, fraction: float, doubling: bool
) -> None:
    sketch = ParameterizedFrequentDirections(rows.shape[1], size, fraction, doubling).update(rows)
    error = error_spectrum(rows, sketch)
    assert error[0] >= -rounding(rows)
    affected = max(1, int(fraction * size + 1e-9))
    assert error[-1] <= tail_bound(rows, affected) + rounding(rows)


@many
@given(streams(), st.integers(1, 8))
def test_escaped_mass_certifies_the_error_of_every_rule(rows: Array, size: int) -> None:
    d = rows.shape[1]
    for sketch in (
        FrequentDirections(d, size),
        FastFrequentDirections(d, size),
        ParameterizedFrequentDirections(d, size),
        ParameterizedFrequentDirections(d, size, 0.5, doubling=True),
        GreedyTruncation(d, size),
    ):
        error = error_spectrum(rows, sketch.update(rows))
        assert error[0] >= -rounding(rows)
        assert error[-1] <= sketch.escaped + rounding(rows)


@many
@given(streams(), st.integers(1, 8), st.sampled_from([1e-3, 1.0, 100.0]), st.booleans())
def test_robust_is_never_worse_conditioned_than_plain(rows: Array, size: int, ridge: float, doubling: bool) -> None:
    d = rows.shape[1]
    ridge = ridge * float(np.sum(rows * rows)) / len(rows) + 1e-120
    plain = (FastFrequentDirections if doubling else FrequentDirections)(d, size).update(rows)
    kind = FastRobustFrequentDirections if doubling else RobustFrequentDirections
    robust = kind(d, size, ridge).update(rows)
    ours = np.linalg.cond(robust.covariance())
    theirs = np.linalg.cond(plain.covariance() + ridge * np.eye(d))
    assert ours <= theirs * (1 + 1e-9)


def test_robust_can_be_worse_conditioned_than_the_exact_matrix() -> None:
    """Theorem 4 of Luo et al. 2019 has a second half, κ(RFD) ≤ κ(exact), which does not hold."""
    rows = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [10.0, 0.0, 0.0]])
    ridge = 1e-9
    sketch = RobustFrequentDirections(3, 2, ridge).update(rows)
    assert np.linalg.cond(sketch.covariance()) == pytest.approx(201.0, rel=1e-6)
    assert np.linalg.cond(rows.T @ rows + ridge * np.eye(3)) == pytest.approx(100.0, rel=1e-6)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_greedy_fails_where_frequent_directions_do_not(size: int) -> None:
    """Luo et al. 2019, appendix F: m − 1 orthogonal rows, then one direction, a little weaker, s times."""
    repeats, d = 500, size
    rows = np.vstack([np.eye(d)[: size - 1], np.tile(0.99 * np.eye(d)[size - 1], (repeats, 1))])
    exact = rows.T @ rows
    greedy = GreedyTruncation(d, size).update(rows)
    np.testing.assert_allclose(greedy.covariance(), np.diag([1.0] * (size - 1) + [0.0]), atol=1e-12)
    assert np.linalg.norm(exact - greedy.covariance(), 2) == pytest.approx(repeats * 0.99**2)
    shrunk = FrequentDirections(d, size).update(rows)
    assert np.linalg.norm(exact - shrunk.covariance(), 2) <= tail_bound(rows, size) + 1e-9
    assert tail_bound(rows, size) <= size


def test_random_projection_is_unbiased() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(70, 6)) * [3.0, 2.0, 1.0, 0.5, 0.1, 0.01]
    size, trials = 8, 600
    directions = np.vstack([np.eye(6), rng.normal(size=(10, 6))])
    exact = np.sum((rows @ directions.T) ** 2, axis=0)
    ratios = np.array(
        [
            np.sum((RandomProjection(6, size, seed).update(rows).matrix @ directions.T) ** 2, axis=0) / exact
            for seed in range(trials)
        ]
    )
    # Each ratio is χ²_m / m: of mean 1 and variance 2/m.
    deviation = np.sqrt(2 / size)
    assert np.abs(ratios.mean(axis=0) - 1).max() < 4 * deviation / np.sqrt(trials)
    np.testing.assert_allclose(ratios.std(axis=0), deviation, rtol=0.15)


def ill_conditioned(n: int, condition: float, scale: float, seed: int) -> Array:
    """Luo et al. 2016, section 5.1, d = 100: ninety eigenvalues of 1 and ten rising to κ, times ``scale``."""
    rng = np.random.default_rng(seed)
    spectrum = np.append(np.ones(90), np.linspace(1.0, condition, 11)[1:])
    basis = np.linalg.qr(rng.normal(size=(100, 100)))[0]
    return np.asarray(rng.normal(size=(n, 100)) * np.sqrt(scale * spectrum) @ basis.T)


def oja_errors(rows: Array, block: int) -> tuple[float, float]:
    """The largest relative error of the ten leading eigenvalues (their figure 2), after 500 rows and all."""
    sketch, errors = Oja(100, 10, block=block), []
    for piece in (rows[:500], rows[500:]):
        found = sketch.update(piece).spectrum
        exact = np.linalg.eigvalsh(rows[: sketch.n_rows].T @ rows[: sketch.n_rows])[::-1][:10]
        errors.append(float(np.max(np.abs(found - exact) / exact)))
    return errors[0], errors[1]


@pytest.mark.slow
@pytest.mark.parametrize(("block", "seeds"), [(1, 2), (10, 5)])
def test_oja_finds_the_leading_eigenvalues(block: int, seeds: int) -> None:
    # With steps of 1/t Oja's rule is not scale-free, and the scale of these rows was chosen for it: of
    # κ = 100 and 200 at scales 0.05, 0.1, 0.2, 0.5 and 1 this one serves best. At scale 1, the paper's own, the
    # error is 8 % at κ = 100 (next test) and 13 to 15 % at κ = 200; at scale 0.05 some streams are still far off.
    streams = (ill_conditioned(8000, condition=200, scale=0.1, seed=seed) for seed in range(seeds))
    errors = [oja_errors(rows, block) for rows in streams]
    assert np.median([late for _, late in errors]) < 0.05
    assert all(late < min(0.1, early / 4) for early, late in errors)


def test_oja_is_slower_on_rows_that_are_too_long_for_it() -> None:
    early, late = oja_errors(ill_conditioned(8000, condition=100, scale=1.0, seed=0), block=10)
    assert late < 0.12
    assert late < early / 2


@given(rows=streams(), size=st.integers(2, 6), ridge=st.sampled_from([0.0, 0.5]), seed=st.integers(0, 1000))
def test_each_frobenius_shrink_is_the_best_of_its_rank(rows: Array, size: int, ridge: float, seed: int) -> None:
    """luo2019, Corollary 1: no C + δI with C of rank m − 1 is nearer to what there was before the shrink."""
    top = np.abs(rows).max()
    rows = rows / top if top > 0 else rows
    d = rows.shape[1]
    sketch = FrobeniusFrequentDirections(d, size, ridge)
    rng = np.random.default_rng(seed)
    for row in rows:
        before = sketch.covariance() + np.outer(row, row)
        sketch.update(row)
        after = sketch.covariance()
        values = np.linalg.eigvalsh(before)[::-1]
        gone = values[size - 1 :]
        least = np.sqrt(((gone - gone.mean()) ** 2).sum()) if len(gone) else 0.0
        if np.linalg.matrix_rank(after - sketch.ridge * np.eye(d), tol=1e-7) < size:
            assert np.linalg.norm(before - after) <= least + 1e-9 * (1.0 + values[0])
        other = rng.normal(size=(size - 1, d))
        assert (
            np.linalg.norm(before - after) <= np.linalg.norm(before - other.T @ other - rng.random() * np.eye(d)) + 1e-9
        )
    trace = float((rows**2).sum()) + d * ridge
    assert np.trace(sketch.covariance()) == pytest.approx(trace, rel=1e-9, abs=1e-12)


@given(rows=streams(), size=st.integers(1, 6), doubling=st.booleans())
def test_frobenius_directions_lose_no_more_than_they_say(rows: Array, size: int, doubling: bool) -> None:
    top = np.abs(rows).max()
    rows = rows / top if top > 0 else rows
    sketch = FrobeniusFrequentDirections(rows.shape[1], size, doubling=doubling).update(rows)
    lost = np.linalg.eigvalsh(rows.T @ rows - sketch.matrix.T @ sketch.matrix)
    assert lost[0] >= -1e-9 * len(rows)
    assert lost[-1] <= sketch.escaped + 1e-9 * len(rows)
