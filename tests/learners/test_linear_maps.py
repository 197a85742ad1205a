"""What is left of luo2016's invariance under linear maps at ridge 0 (Appendix D), with a pseudo-inverse.

A step moves the prediction of x by ``x·A⁺g``. Under ``x → Mx`` the matrix becomes ``MAMᵀ``, and the number stays the
same for x and g in the span of the rows absorbed. A row that leaves the span is predicted as if the weights had nothing
to say of its new part, orthogonal to the span: and what is orthogonal is not the same after M, unless M is a rotation.
What differs then is carried along, and fades as rows come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onsketch


def predicted(X: Any, y: Any) -> Any:
    return onsketch.learner("ons", ridge=0.0, n_features=X.shape[1]).learn(X, y)


def stream(seed: int, n: int = 1_000, d: int = 5) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sign(X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)), rng.standard_normal((d, d))


@given(seed=st.integers(0, 10**6), rank=st.integers(1, 4))
def test_the_pseudo_inverse_is_invariant_within_the_span_and_only_there(seed: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    rows, M = rng.standard_normal((rank, 5)), rng.standard_normal((5, 5)) + 3.0 * np.eye(5)
    before, after = (np.linalg.pinv(G.T @ G, hermitian=True, rcond=1e-10) for G in (rows, rows @ M.T))
    g, inside, outside = rows[0], rng.standard_normal(rank) @ rows, rng.standard_normal(5)
    scale = np.linalg.norm(before)
    assert (M @ inside) @ after @ (M @ g) == pytest.approx(inside @ before @ g, rel=1e-5, abs=1e-5 * scale)
    if rank == 1:  # elsewhere the difference may happen to be small
        assert (M @ outside) @ after @ (M @ g) != pytest.approx(outside @ before @ g, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_rotations_change_nothing_and_other_maps_what_was_predicted_early(seed: int) -> None:
    X, y, M = stream(seed)
    plain = predicted(X, y)
    turned = predicted(X @ np.linalg.qr(M)[0].T, y)
    assert np.abs(plain - turned).max() <= 1e-10
    apart = np.abs(plain - predicted(X @ M.T, y))
    assert apart[:10].max() > 0.1
    assert apart[500:].mean() < 0.05


@given(seed=st.integers(0, 10**6))
def test_rows_of_one_direction_are_predicted_alike_under_any_map(seed: int) -> None:
    X, y, M = stream(seed, n=40)
    X = X[:, :1] * X[0]
    np.testing.assert_allclose(predicted(X @ M.T, y), predicted(X, y), atol=1e-8)
