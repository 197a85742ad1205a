"""Input becomes rows of distinct features; every feature seen gets one slot, in order of appearance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from onsketch.errors import InputError
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.rows import Rows, as_rows

Row = list[tuple[int, float]]

indices = st.one_of(st.integers(0, 5), st.integers(0, 300), st.integers(0, 2**62))
entries = st.tuples(indices, st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
streams = st.lists(st.lists(entries, max_size=12), min_size=1, max_size=8)


def matrix(rows: list[Row]) -> csr_array:
    """The rows as they are, unsorted, repeated features and zeros included."""
    X = csr_array((len(rows), 2**62 + 1), dtype=np.float64)
    X.indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    X.indices = np.array([j for row in rows for j, _ in row], dtype=np.int64)
    X.data = np.array([value for row in rows for _, value in row], dtype=np.float64)
    return X


def summed(row: Row) -> dict[int, float]:
    total: dict[int, float] = {}
    for j, value in row:
        total[j] = total.get(j, 0.0) + value
    return total


def as_dicts(rows: Rows) -> list[dict[int, float]]:
    found = []
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        features, values = rows.indices[start:stop].tolist(), rows.values[start:stop].tolist()
        assert len(set(features)) == len(features)
        found.append(dict(zip(features, values, strict=True)))
    return found


@given(streams)
def test_repeated_features_are_summed_and_the_order_is_kept(rows: list[Row]) -> None:
    found = as_dicts(as_rows(matrix(rows), None))
    assert found == [summed(row) for row in rows]
    assert [list(row) for row in found] == [list(summed(row)) for row in rows]


@given(streams, st.booleans(), st.integers(0, 8))
def test_slots_follow_the_order_of_appearance(stream: list[Row], intercept: bool, cut: int) -> None:
    rows = as_rows(matrix(stream), None)
    slots = FeatureMap()
    order: list[int] = []
    cut = min(cut, rows.count)
    for start, stop in ((0, cut), (cut, rows.count)):
        indptr, found, values = slots.translate(rows.part(start, stop), learn=True, intercept=intercept)
        for i, row in enumerate(stream[start:stop]):
            expected = {j: value for j, value in summed(row).items() if value != 0.0}
            expected |= {INTERCEPT: 1.0} if intercept else {}
            order += [j for j in expected if j not in order]
            part = slice(indptr[i], indptr[i + 1])
            assert slots.features[found[part]].tolist() == list(expected)
            assert values[part].tolist() == list(expected.values())
    assert slots.features.tolist() == order
    assert slots.count == len(order)


@given(streams, streams)
def test_looking_up_leaves_out_what_was_not_seen(stream: list[Row], others: list[Row]) -> None:
    slots = FeatureMap()
    slots.translate(as_rows(matrix(stream), None), learn=True)
    seen = slots.features.tolist()
    indptr, found, values = slots.translate(as_rows(matrix(others), None), learn=False)
    assert slots.features.tolist() == seen
    for i, row in enumerate(others):
        expected = {j: value for j, value in summed(row).items() if value != 0.0 and j in seen}
        part = slice(indptr[i], indptr[i + 1])
        assert slots.features[found[part]].tolist() == list(expected)
        assert values[part].tolist() == list(expected.values())


@given(streams, streams, st.integers(0, 20))
def test_forgotten_features_were_never_seen(stream: list[Row], others: list[Row], count: int) -> None:
    slots = FeatureMap()
    slots.translate(as_rows(matrix(stream), None), learn=True)
    count = min(count, slots.count)
    fresh = FeatureMap()
    fresh.add(slots.features[:count].copy())
    slots.forget(count)
    assert slots.features.tolist() == fresh.features.tolist()
    twin = slots.copy()
    rows = as_rows(matrix(others), None)
    expected = fresh.translate(rows, learn=True)[1].tolist()
    for each in (slots, twin):
        assert each.translate(rows, learn=True)[1].tolist() == expected


def test_dense_rows_and_sparse_rows_share_their_slots() -> None:
    X = np.array([[0.0, 2.0, 0.0, 1.0], [3.0, 0.0, 1.0, 1.0]])
    dense, sparse = FeatureMap(), FeatureMap()
    one = dense.translate(as_rows(X, None), learn=True)
    other = sparse.translate(as_rows(csr_array(X), None), learn=True)
    for a, b in zip(one, other, strict=True):
        assert a.tolist() == b.tolist()
    assert dense.features.tolist() == [1, 3, 0, 2]
    wide = FeatureMap()
    wide.add(np.array([10**12, 1]))
    assert wide.translate(as_rows(X, None), learn=True)[1].tolist() == [1, 2, 3, 4, 2]


def test_many_features_in_any_index_space() -> None:
    rng = np.random.default_rng(0)
    for size in (3_000, 10_000, 10**9, 2**62):
        features = rng.permutation(np.unique(rng.integers(size, size=3_000)))
        slots = FeatureMap()
        for part in np.array_split(features, 50):
            slots.add(part)
        assert (slots.features == features).all()
        assert (slots.add(features[::-1].copy()) == np.arange(features.size)[::-1]).all()
        assert slots.nbytes < 64 * features.size


def test_arrays_that_cannot_be_written_to_are_taken() -> None:
    X = np.eye(3)
    X.flags.writeable = False
    rows = as_rows(X, None)
    assert rows.toarray().tolist() == X.tolist()
    sparse = csr_array(np.eye(3))
    sparse.data.flags.writeable = False
    assert as_rows(sparse, None).toarray().tolist() == X.tolist()
    assert type(as_rows(X.view(np.recarray), None).values) is np.ndarray


@pytest.mark.parametrize(("value", "words"), [(np.nan, "row 1, column 2 is nan"), (1e200, "column 2 is 1e\\+200")])
def test_unfit_values_are_named(value: float, words: str) -> None:
    X = np.ones((3, 4))
    X[1, 2] = value
    for given_rows in (X, csr_array(X)):
        with pytest.raises(InputError, match=words):
            as_rows(given_rows, None)
    X[1] = 9e149
    with pytest.raises(InputError, match="row 1 is longer"):
        as_rows(X, None)
