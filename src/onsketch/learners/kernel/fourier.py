"""Random Fourier features: rows in which a linear method sees a kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.learners.rows import Rows, as_rows
from onsketch.sketches.base import real_number, whole_number

Array = NDArray[np.float64]

_AT_ONCE = 1 << 22
"""Numbers of frequencies or of projected rows held at a time."""


class RandomFourierFeatures:
    r"""``z(x) = √(1/m)·(cos(ω_i·x), sin(ω_i·x))`` for m random frequencies, with ``z(x)·z(y) ≈ k(x, y)``.

    For the rbf kernel ``exp(−γ|x − y|²)`` the entries of ω are Gaussian with variance 2γ, for the laplacian
    ``exp(−γ|x − y|₁)`` Cauchy with scale γ. The error of each pair is about 1/√m.

    The frequencies of a feature depend on (seed, feature) alone, so that rows may come dense or sparse, in any
    blocks, of growing width, and nothing is fitted or stored: ``transform`` is a pure function.

    Cost per row: O(m·non-zeros).

    Ali Rahimi, Benjamin Recht: "Random features for large-scale kernel machines", NIPS 2007.

    >>> import numpy as np, onsketch
    >>> from onsketch.kernel import RandomFourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> y = np.where((X**2).sum(axis=1) > 1.4, 1.0, -1.0)  # no line separates a disc from its outside
    >>> features = RandomFourierFeatures(100, gamma=0.5)
    >>> margins = onsketch.learner("rfd-son", sketch_size=30).learn(features.transform(X), y)
    >>> bool(np.mean(np.sign(margins[1000:]) != y[1000:]) < 0.1)
    True
    """

    def __init__(self, n_frequencies: int = 200, gamma: float = 1.0, kernel: str = "rbf", seed: int = 0) -> None:
        self.n_frequencies = whole_number("n_frequencies", n_frequencies, at_least=1)
        self.gamma = real_number("gamma", gamma, above=0.0, at_most=1e150, closed=False)
        if kernel not in ("rbf", "laplacian"):
            raise OptionError(
                f"kernel={kernel!r}: random Fourier features are for 'rbf' and 'laplacian'.", kernel=kernel
            )
        self.kernel = kernel
        self.seed = whole_number("seed", seed, at_least=0, below=2**63)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"RandomFourierFeatures({settings})"

    @property
    def n_features(self) -> int:
        """Width of the transformed rows: 2m."""
        return 2 * self.n_frequencies

    def frequencies(self, features: NDArray[np.int64]) -> Array:
        """The frequencies of these features, (features, m)."""
        from onsketch.core import draws

        out = np.empty((len(features), self.n_frequencies))
        for row, feature in zip(out, features, strict=True):
            if self.kernel == "rbf":
                draws.fill_gaussian(self.seed, draws.FREQUENCY, int(feature), row)
            else:
                pairs = draws.gaussian(self.seed, draws.FREQUENCY, int(feature), 2 * self.n_frequencies)
                np.divide(pairs[::2], pairs[1::2], out=row)  # a quotient of Gaussians is Cauchy
        out *= math.sqrt(2.0 * self.gamma) if self.kernel == "rbf" else self.gamma
        return out

    def transform(self, X: Any) -> Array:
        """The rows (n, 2m), dense, for an array or a SciPy sparse matrix (n, d)."""
        rows = as_rows(X, None)
        out = np.empty((rows.count, self.n_features))
        matrix, features = (rows.toarray(), np.arange(rows.n_features)) if rows.dense else _compact(rows)
        phases = np.zeros((rows.count, self.n_frequencies))
        step = max(1, _AT_ONCE // self.n_frequencies)
        for start in range(0, features.size, step):
            phases += matrix[:, start : start + step] @ self.frequencies(features[start : start + step])
        if not np.isfinite(phases).all():
            raise InputError("X: its products with the frequencies are not finite; rescale the rows or lower gamma.")
        scale = 1.0 / math.sqrt(self.n_frequencies)
        np.cos(phases, out=out[:, : self.n_frequencies])
        np.sin(phases, out=out[:, self.n_frequencies :])
        out *= scale
        return out


def _compact(rows: Rows) -> tuple[Any, NDArray[np.int64]]:
    """Return sparse rows with a column for each feature that occurs, and these features."""
    from scipy.sparse import csc_array

    first, last = int(rows.indptr[0]), int(rows.indptr[-1])
    seen, place = np.unique(rows.indices[first:last], return_inverse=True)
    owner = np.repeat(np.arange(rows.count), np.diff(rows.indptr))
    compact = csc_array((rows.values[first:last], (owner, place)), shape=(rows.count, seen.size))
    return compact, seen.astype(np.int64)
