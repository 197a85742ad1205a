"""The ridge of Newton methods, left out: 1, unless the rows are so long that 1 is nothing beside them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from streams import sparse_stream

pytestmark = pytest.mark.learners


def raw(n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Ten small features beside a column of identity numbers."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(60_000, 13_000_000, n), rng.integers(1, 11, size=(n, 9))]).astype(float)
    return X, np.where(X[:, 1:].sum(1) + rng.normal(size=n) > 50, 1.0, -1.0)


@pytest.mark.parametrize("method", ["fd-son", "rfd-son", "ons"])
def test_long_first_rows_raise_it(method: str) -> None:
    X, y = raw()
    left_out, whole = (onsketch.learner(method, loss="logistic", fit_intercept=True) for _ in range(2))
    given = onsketch.learner(method, loss="logistic", fit_intercept=True, ridge=1e-5 * float(X[0] @ X[0]))
    expected = given.learn(X, y)  # no row is refused
    assert (whole.learn(csr_array(X), y) == expected).all()
    assert (np.concatenate([left_out.learn(X[:1], y[:1]), left_out.learn(X[1:], y[1:])]) == expected).all()
    assert left_out.options.ridge == given.options.ridge


def test_short_ones_and_a_given_ridge_leave_it_alone() -> None:
    X, y = sparse_stream("logistic", n=50)
    learner = onsketch.learner("rfd-son", loss="logistic")
    learner.learn(X, y)
    assert learner.options.ridge == 1.0
    given = onsketch.learner("rfd-son", loss="logistic", ridge=2.0)
    given.learn(1e6 * X[:1], y[:1])
    assert given.options.ridge == 2.0
