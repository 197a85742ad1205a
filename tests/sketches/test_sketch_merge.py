"""Sketches of parts of a stream, put together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onsketch import sketch
from onsketch.core import draws

Array = NDArray[np.float64]
Make = Callable[[int, int, int], Any]

SKETCHES: dict[str, Make] = {
    "fd": lambda d, m, seed: sketch.FrequentDirections(d, m),
    "fast-fd": lambda d, m, seed: sketch.FastFrequentDirections(d, m),
    "rfd": lambda d, m, seed: sketch.RobustFrequentDirections(d, m, 0.5),
    "fast-rfd": lambda d, m, seed: sketch.FastRobustFrequentDirections(d, m, 0.5),
    "pfd": lambda d, m, seed: sketch.ParameterizedFrequentDirections(d, m, 0.5),
    "fast-pfd": lambda d, m, seed: sketch.ParameterizedFrequentDirections(d, m, 0.5, doubling=True),
    "cfd": lambda d, m, seed: sketch.CompensativeFrequentDirections(d, m),
    "fast-cfd": lambda d, m, seed: sketch.CompensativeFrequentDirections(d, m, doubling=True),
    "greedy": lambda d, m, seed: sketch.GreedyTruncation(d, m),
    "frobenius": lambda d, m, seed: sketch.FrobeniusFrequentDirections(d, m),
    "rp": sketch.RandomProjection,
    "oja": sketch.Oja,
    "block-oja": lambda d, m, seed: sketch.Oja(d, m, seed, block=4),
    "exact": lambda d, m, seed: sketch.Exact(d),
    "diagonal": lambda d, m, seed: sketch.Diagonal(d),
}

every_sketch = pytest.mark.parametrize("name", SKETCHES)


@st.composite
def parts(draw: st.DrawFn) -> list[Array]:
    """Two to four parts of a stream, of any lengths."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, 10))
    decay = draw(st.sampled_from([1.0, 0.8, 0.4]))
    lengths = draw(st.lists(st.integers(0, 25), min_size=2, max_size=4))
    return [rng.normal(size=(n, d)) * decay ** np.arange(d) for n in lengths]


def merged(make: Make, size: int, pieces: list[Array]) -> Any:
    first, *others = (make(piece.shape[1], size, seed).update(piece) for seed, piece in enumerate(pieces))
    for other in others:
        first.merge(other)
    return first


def tail_bound(rows: Array, size: int) -> float:
    energy = np.append(np.linalg.svd(rows, compute_uv=False) ** 2, np.zeros(size))
    return min(float(energy[k:].sum()) / (size - k) for k in range(size))


def rounding(rows: Array) -> float:
    return 1e-11 * float(np.sum(rows * rows)) + 1e-14


many = settings(max_examples=120)


@many
@given(parts(), st.integers(1, 7), st.sampled_from(["fd", "fast-fd"]))
def test_merged_frequent_directions_keep_their_bound(pieces: list[Array], size: int, name: str) -> None:
    rows, s = np.vstack(pieces), merged(SKETCHES[name], size, pieces)
    error = np.linalg.eigvalsh(rows.T @ rows - s.covariance())
    assert error[0] >= -rounding(rows)
    assert error[-1] <= min(tail_bound(rows, size), s.escaped) + rounding(rows)
    assert len(s.matrix) < 2 * size


@many
@given(parts(), st.integers(1, 7), st.sampled_from(["rfd", "fast-rfd", "cfd", "fast-cfd"]))
def test_merged_robust_and_compensative_keep_theirs(pieces: list[Array], size: int, name: str) -> None:
    rows, s = np.vstack(pieces), merged(SKETCHES[name], size, pieces)
    start = 0.5 if "rfd" in name else 0.0
    share = 2 if "rfd" in name else 1
    error = np.linalg.norm(rows.T @ rows + start * np.eye(rows.shape[1]) - s.covariance(), 2)
    assert error <= tail_bound(rows, size) / share + rounding(rows)


@many
@given(parts(), st.integers(1, 7), st.sampled_from(["pfd", "fast-pfd", "greedy"]))
def test_merged_without_guarantee_still_know_their_error(pieces: list[Array], size: int, name: str) -> None:
    rows, s = np.vstack(pieces), merged(SKETCHES[name], size, pieces)
    error = np.linalg.eigvalsh(rows.T @ rows - s.covariance())
    assert error[0] >= -rounding(rows)
    assert error[-1] <= s.escaped + rounding(rows)


@every_sketch
@pytest.mark.parametrize("size", [1, 5])
def test_merge_is_in_place_and_leaves_the_other_alone(name: str, size: int) -> None:
    rng = np.random.default_rng(0)
    one = SKETCHES[name](8, size, 0).update(rng.normal(size=(37, 8)))
    two = SKETCHES[name](8, size, 1).update(rng.normal(size=(26, 8)))
    untouched = copy.deepcopy(two)
    assert one.merge(two) is one
    assert one.n_rows == 63
    for attribute, value in vars(untouched).items():
        if not callable(value):
            np.testing.assert_array_equal(vars(two)[attribute], value, err_msg=attribute)
    before = one.matrix
    two.update(rng.normal(size=(30, 8)))
    np.testing.assert_array_equal(one.matrix, before)
    assert np.isfinite(one.update(rng.normal(size=(50, 8))).matrix).all()


@every_sketch
def test_a_merged_sketch_continues_equally_for_any_split(name: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 8))
    pieces = [rng.normal(size=(37, 8)), rng.normal(size=(26, 8))]
    whole, single = merged(SKETCHES[name], 4, pieces), merged(SKETCHES[name], 4, pieces)
    whole.update(rows)
    for row in rows:
        single.update(row)
    np.testing.assert_array_equal(whole.matrix, single.matrix)


@pytest.mark.parametrize("name", [name for name in SKETCHES if name not in ("rp", "oja", "block-oja", "diagonal")])
def test_merging_is_exact_while_the_rows_fit(name: str) -> None:
    rng = np.random.default_rng(0)
    pieces = [rng.normal(size=(3, 12)), rng.normal(size=(4, 12))]
    s = merged(SKETCHES[name], 8, pieces)
    rows = np.vstack(pieces)
    ridge = 0.5 if "rfd" in name else 0.0
    np.testing.assert_allclose(s.covariance(), rows.T @ rows + ridge * np.eye(12), atol=1e-11)


@every_sketch
def test_merging_with_an_empty_sketch(name: str) -> None:
    rows = np.random.default_rng(0).normal(size=(37, 8))
    full = SKETCHES[name](8, 4, 0).update(rows)
    expected = full.covariance()
    np.testing.assert_allclose(full.merge(SKETCHES[name](8, 4, 1)).covariance(), expected, atol=1e-10)
    empty = SKETCHES[name](8, 4, 2).merge(full)
    np.testing.assert_allclose(empty.covariance(), expected, atol=1e-10)
    assert empty.ridge == full.ridge
    nothing = SKETCHES[name](8, 4, 0).merge(SKETCHES[name](8, 4, 1))
    assert not nothing.matrix.any()
    assert nothing.update(rows).spectrum[0] > 0


@pytest.mark.parametrize("doubling", [False, True])
def test_ridges_add_up(doubling: bool) -> None:
    rng = np.random.default_rng(3)
    kind: Any = sketch.FastRobustFrequentDirections if doubling else sketch.RobustFrequentDirections
    one = kind(9, 4, 0.5).update(rng.normal(size=(31, 9)))
    two = kind(9, 4, 0.5).update(rng.normal(size=(22, 9)))
    stacked = np.linalg.svd(np.vstack([one.matrix, two.matrix]), compute_uv=False) ** 2
    expected = 0.5 + (one.ridge - 0.5) + (two.ridge - 0.5) + stacked[3] / 2
    one.merge(two)
    assert one.ridge == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(one.spectrum[:3], stacked[:3] - stacked[3], atol=1e-9)


def test_compensation_adds_up() -> None:
    rng = np.random.default_rng(3)
    one = sketch.CompensativeFrequentDirections(9, 4).update(rng.normal(size=(31, 9)))
    two = sketch.CompensativeFrequentDirections(9, 4).update(rng.normal(size=(22, 9)))
    plain = [sketch.FrequentDirections(9, 4) for _ in range(2)]
    rng = np.random.default_rng(3)
    plain[0].update(rng.normal(size=(31, 9)))
    plain[1].update(rng.normal(size=(22, 9)))
    plain[0].merge(plain[1])
    one.merge(two)
    assert one.escaped == pytest.approx(plain[0].escaped)
    np.testing.assert_allclose(one.spectrum[:3], plain[0].spectrum[:3] + one.escaped, rtol=1e-10)


def test_compensation_counts_a_direction_once() -> None:
    """Both parts keep the same direction, and the buffer has room for both: it is still one direction."""
    parts_of = [sketch.CompensativeFrequentDirections(4, 2, doubling=True) for _ in range(2)]
    for part in parts_of:
        part.update(np.diag([10.0, 1.0, 1.0, 1.0]))
    np.testing.assert_allclose(parts_of[0].spectrum, [100.0])
    np.testing.assert_allclose(parts_of[0].merge(parts_of[1]).spectrum, [200.0])


def test_projections_add_up_and_go_on_with_their_own_draws() -> None:
    rng = np.random.default_rng(3)
    parts_of = [rng.normal(size=(40, 6)), rng.normal(size=(23, 6)), rng.normal(size=(35, 6))]
    one = sketch.RandomProjection(6, 5, 0).update(parts_of[0])
    two = sketch.RandomProjection(6, 5, 1).update(parts_of[1])
    one.merge(two).update(parts_of[2])
    own = sketch.RandomProjection(6, 5, 0).update(np.vstack([parts_of[0], parts_of[2]]))
    np.testing.assert_allclose(one.matrix, own.matrix + two.matrix, atol=1e-12)
    with pytest.raises(ValueError, match="seed 1"):
        one.merge(sketch.RandomProjection(6, 5, 1))
    with pytest.raises(ValueError, match="seed 0"):
        sketch.RandomProjection(6, 5, 0).merge(one)
    assert draws.round_vector(0, 1, 5).shape == (5,)


@pytest.mark.parametrize("block", [1, 4])
def test_oja_keeps_the_leading_directions_of_the_stack(block: int) -> None:
    rng = np.random.default_rng(3)
    scales = np.geomspace(3.0, 0.1, 8)
    one = sketch.Oja(8, 3, block=block).update(rng.normal(size=(401, 8)) * scales)
    two = sketch.Oja(8, 3, block=block).update(rng.normal(size=(400, 8)) * scales)
    values, right = np.linalg.svd(np.vstack([one.matrix, two.matrix]))[1:]
    one.merge(two)
    np.testing.assert_allclose(one.spectrum, values[:3] ** 2, rtol=1e-9)
    expected = (right[:3].T * values[:3] ** 2) @ right[:3]
    np.testing.assert_allclose(one.covariance(), expected, atol=1e-6 * values[0] ** 2)


def test_oja_restarts_directions_without_energy() -> None:
    """Both parts saw one feature: two of three directions come out empty, and must not stay so."""
    rng = np.random.default_rng(3)
    one, two = sketch.Oja(4, 3), sketch.Oja(4, 3)
    one.update([[2.0, 0.0, 0.0, 0.0]])
    two.update([[1.0, 0.0, 0.0, 0.0]])
    one.merge(two)
    np.testing.assert_allclose(one.covariance(), np.diag([5.0, 0.0, 0.0, 0.0]), atol=1e-12)
    one.update(rng.normal(size=(200, 4)))
    assert (one.spectrum > 1.0).all()


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        (sketch.FrequentDirections(5, 3), sketch.FrequentDirections(5, 4), "size is 3 here and 4 there"),
        (
            sketch.FrequentDirections(5, 3),
            sketch.FrequentDirections(6, 3),
            "n_features is 5 here and 6 there",
        ),
        (sketch.FrequentDirections(5, 3), sketch.FastFrequentDirections(5, 3), "cannot merge FastFrequent"),
        (sketch.FrequentDirections(5, 3), sketch.GreedyTruncation(5, 3), "cannot merge Greedy"),
        (sketch.Exact(5), np.eye(5), "cannot merge ndarray into Exact"),
        (
            sketch.RobustFrequentDirections(5, 3, 1.0),
            sketch.RobustFrequentDirections(5, 3),
            "ridge is 1.0 here and 0.0 there",
        ),
        (
            sketch.ParameterizedFrequentDirections(5, 3, 0.2),
            sketch.ParameterizedFrequentDirections(5, 3, 0.5),
            "shrink_fraction is 0.2 here",
        ),
        (
            sketch.CompensativeFrequentDirections(5, 3),
            sketch.CompensativeFrequentDirections(5, 3, doubling=True),
            "doubling is False here",
        ),
        (sketch.RandomProjection(5, 3), sketch.RandomProjection(5, 3), "both drew from seed 0"),
        (sketch.Oja(5, 3), sketch.Oja(5, 3, block=3), "block is 1 here and 3 there"),
    ],
)
def test_what_does_not_fit_is_refused(one: Any, two: Any, reason: str) -> None:
    before = one.matrix
    with pytest.raises(ValueError, match=reason):
        one.merge(two)
    assert one.n_rows == 0
    np.testing.assert_array_equal(one.matrix, before)


@every_sketch
def test_a_sketch_does_not_merge_with_itself(name: str) -> None:
    s = SKETCHES[name](5, 3, 0)
    with pytest.raises(ValueError, match="itself"):
        s.merge(s)
