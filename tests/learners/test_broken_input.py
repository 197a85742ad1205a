"""Nothing with a broken structure reaches a compiled loop: matrices that are none, and values that are masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csr_array

import onsketch
from onsketch import sketch
from onsketch.core.matrices import check_csr
from onsketch.errors import InputError
from onsketch.learners.rows import as_rows

WIDTH = 6


def raw(indptr: Any, indices: Any, values: Any, rows: int) -> csr_array:
    """A CSR matrix of these arrays, which SciPy does not look at."""
    X = csr_array((rows, WIDTH))
    X.indptr, X.indices, X.data = np.array(indptr), np.array(indices), np.array(values, dtype=np.float64)
    return X


BROKEN = {
    "the intercept's own key": raw([0, 2], [0, -1], [1, 1], 1),
    "a negative index": raw([0, 2], [0, -7], [1, 1], 1),
    "a negative index, ascending": raw([0, 2], [-7, 0], [1, 1], 1),
    "an index beyond the width": raw([0, 2], [0, WIDTH], [1, 1], 1),
    "an index beyond the width, not ascending": raw([0, 2], [WIDTH, 0], [1, 1], 1),
    "a broken row after one that repeats": raw([0, 2, 4], [1, 1, 2, 99], [1, 1, 1, 1], 2),
    "row ends beyond the entries": raw([0, 1, 10**7], [0, 1], [1, 1], 2),
    "row ends that fall": raw([0, 2, 1], [0, 1], [1, 1], 2),
    "a negative row end": raw([0, -3, 2], [0, 1], [1, 1], 2),
    "a beginning that is not 0": raw([1, 2], [0, 1], [1, 1], 1),
    "too few row ends": raw([0, 1], [0, 1], [1, 1], 2),
    "fewer values than indices": raw([0, 2], [0, 1], [1], 1),
    "fewer indices than values": raw([0, 2], [0], [1, 1], 1),
    "indices that are not whole": raw([0, 2], [0.0, 1.0], [1, 1], 1),
    "no rows, and an end": raw([3], [0, 1, 2], [1, 1, 1], 0),
}


def broken_coo() -> coo_array:
    X = coo_array(([1.0, 2.0], ([0, 1], [0, 2])), shape=(2, WIDTH))
    X.coords = (np.array([0, 5000]), np.array([0, 2]))
    return X


def broken_csc() -> csc_array:
    X = csc_array(np.eye(WIDTH))
    X.indices = X.indices + 10_000
    return X


@pytest.mark.parametrize("X", [*BROKEN.values(), broken_coo(), broken_csc()], ids=[*BROKEN, "COO", "CSC"])
def test_a_matrix_that_is_none_is_refused_and_nothing_learned(X: Any) -> None:
    learner = onsketch.learner("adagrad", loss="squared", fit_intercept=True)
    learner.learn(np.ones((2, WIDTH)), [1.0, 2.0])
    before = learner.weights, learner.intercept
    for act in (lambda: learner.learn(X, np.ones(X.shape[0])), lambda: learner.predict(X)):
        with pytest.raises(InputError, match="X: "):
            act()
    assert learner.rounds == 2
    assert (learner.weights == before[0]).all()
    assert learner.intercept == before[1]
    with pytest.raises(InputError):
        sketch.FrequentDirections(WIDTH, 3).update(X)


@given(
    st.lists(st.integers(-2, 8), min_size=1, max_size=6),
    st.lists(st.integers(-2, WIDTH + 1), max_size=6),
    st.integers(0, 4),
)
def test_learners_and_sketches_accept_the_same_matrices(indptr: list[int], indices: list[int], rows: int) -> None:
    sound = len(indptr) == rows + 1 and indptr[0] == 0 and indptr == sorted(indptr) and indptr[-1] <= len(indices)
    sound = sound and all(0 <= j < WIDTH for j in indices[: indptr[-1]])
    X = raw(np.array(indptr, np.int64), np.array(indices, np.int64), np.ones(len(indices)), rows)
    for check in (lambda X: as_rows(X, None), check_csr):
        if sound:
            check(X)
        else:
            with pytest.raises(InputError):
                check(X)


def test_masked_values_are_refused_and_an_empty_mask_is_none() -> None:
    X, y = np.ones((3, 2)), np.ones(3)
    hidden = np.ma.MaskedArray(X, mask=[[False, False], [False, True], [False, False]])
    learner = onsketch.learner("adagrad", loss="squared")
    with pytest.raises(InputError, match=r"X: .*masked.*1, 1"):
        learner.learn(hidden, y)
    with pytest.raises(InputError, match=r"X: .*masked"):
        learner.learn([*hidden], y)
    with pytest.raises(InputError, match=r"y: .*masked"):
        learner.learn(X, np.ma.masked_equal([1.0, 2.0, 1.0], 2.0))
    with pytest.raises(InputError, match=r"sample_weight: .*masked"):
        learner.learn(X, y, np.ma.masked_equal([1.0, 2.0, 1.0], 2.0))
    with pytest.raises(InputError, match="masked"):
        sketch.Exact(2).update(hidden)
    assert learner.rounds == 0
    learner.learn(np.ma.MaskedArray(X), np.ma.MaskedArray(y))
    assert learner.rounds == 3
