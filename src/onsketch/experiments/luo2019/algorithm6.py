"""RFD-SON as the paper's Algorithm 6 has it: the feasible set of a row is heeded after its step, not before.

The library's learners clip a prediction by a projection *before* it is made, as luo2016 does, and let the step that
follows carry the row's own margin anywhere. Algorithm 6 predicts unclipped, steps, and then projects onto
``|w·x_t| ≤ 1`` for the *same* row. Since the row has just entered A, both the step and that projection go along
``A⁻¹x``: together they are a step that stops where the row's margin reaches ±1.

At ridge 0 that is what keeps the parameter-free learner sound. There a step in a direction new to the sketch changes
the row's margin by ``1/((σ + 1/t)·ℓ')``, four times the way to the label for late rows, and a row nearly dependent on
earlier ones makes ‖w‖ large; once the ridge has grown, steps are too small to take any of it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from onsketch.core.tolerances import CUTOFF
from onsketch.experiments.contest import measured
from onsketch.experiments.design import Result
from onsketch.experiments.streams import Sources

Array = NDArray[np.float64]


class Algorithm6:
    """Squared loss, σ = 1/8, η = 1/t, C = 1; a buffer of 2m rows.

    Between shrinks ``w = base + Sᵀa``, so that a row costs O(nnz·m + m³).

    >>> learner = Algorithm6(2, size=2)
    >>> learner.learn(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, 1.0])).round(3).tolist()
    [0.0, 0.444]
    """

    loss = "squared"

    def __init__(self, n_features: int, size: int, ridge: float = 0.0) -> None:
        self._m, self._ridge, self._rounds, self._n = size, ridge, 0, 0
        self._S = np.zeros((2 * size, n_features))
        self._gram = np.zeros((2 * size, 2 * size))
        self._a = np.zeros(2 * size)
        self._base = np.zeros(n_features)

    def learn(self, X: Any, y: Array) -> Array:
        """One pass; the margins predicted before each row is learned."""
        rows = csr_array(X)
        margins = np.empty(len(y))
        for t, label in enumerate(y):
            span = slice(rows.indptr[t], rows.indptr[t + 1])
            margins[t] = self._round(rows.indices[span], rows.data[span], float(label))
        return margins

    def predict(self, X: Any) -> Array:
        """Margins."""
        return np.asarray(X @ (self._base + self._S[: self._n].T @ self._a[: self._n]))

    def _round(self, index: NDArray[Any], x: Array, label: float) -> float:
        self._rounds += 1
        n = self._n
        along = self._S[:n, index] @ x
        margin = float(self._base[index] @ x + self._a[:n] @ along)
        slope, square = 2.0 * (margin - label), float(x @ x)
        if slope == 0.0 or square == 0.0:
            return margin
        scale = np.sqrt(0.125 + 1.0 / self._rounds) * slope
        self._S[n] = 0.0
        self._S[n, index] = scale * x
        self._gram[n, :n] = self._gram[:n, n] = scale * along
        self._gram[n, n] = scale * scale * square
        self._n = n + 1
        along = np.append(along, scale * square)
        if self._n == 2 * self._m:
            along = self._shrink() @ along
        self._step(index, x, margin, slope, square, along)
        return margin

    def _shrink(self) -> Array:
        """Take the m-th eigenvalue off, half of it to the ridge; returns the transform of the rows."""
        values, vectors = np.linalg.eigh(self._gram)
        values, vectors = values[::-1][: self._m], vectors[:, ::-1]
        lost = max(float(values[-1]), 0.0)
        left = np.maximum(values[:-1] - lost, 0.0)
        shares = np.where(left > CUTOFF * values[0], left / np.maximum(values[:-1], 1e-300), 0.0)
        transform = (vectors[:, : self._m - 1] * np.sqrt(shares)).T
        self._base += self._S.T @ self._a
        self._a[:] = 0.0
        self._n = self._m - 1
        self._S[: self._n] = transform @ self._S
        self._gram[:] = 0.0
        self._gram[range(self._n), range(self._n)] = left
        self._ridge += lost / 2.0
        return np.asarray(transform)

    def _step(self, index: NDArray[Any], x: Array, margin: float, slope: float, square: float, along: Array) -> None:
        """Go along A⁻¹x (its pseudo-inverse at ridge 0), no further than where the margin is ±1."""
        gram = self._gram[: self._n, : self._n]
        if self._ridge > 0.0:
            inside = np.linalg.solve(gram + self._ridge * np.eye(self._n), along)
            reach = (square - float(along @ inside)) / self._ridge
        else:
            values, vectors = np.linalg.eigh(gram)
            kept = values > CUTOFF * values[-1]
            inside = vectors[:, kept] @ ((vectors[:, kept].T @ along) / values[kept] ** 2)
            reach = float(along @ inside)
        if reach <= 0.0:
            return
        arrived = min(max(margin - slope * reach, -1.0), 1.0)
        way = (margin - arrived) / reach
        if self._ridge > 0.0:
            self._base[index] -= way * x / self._ridge
            self._a[: self._n] += way * inside / self._ridge
        else:
            self._a[: self._n] -= way * inside


def learn_as_printed(
    sources: Sources, stream: Mapping[str, Any], method: str, options: Mapping[str, Any], seed: int
) -> Result:
    """One pass of Algorithm 6, measured as the library's learners are."""
    data = sources.stream(**stream)
    return measured(Algorithm6(data.X.shape[1], options["sketch_size"], options["ridge"]), data)
