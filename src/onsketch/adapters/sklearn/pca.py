"""Streaming PCA and truncated SVD by frequent directions, as transformers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from onsketch.adapters.sklearn.frames import validated
from onsketch.adapters.sklearn.saving import Saved
from onsketch.adapters.sklearn.streaming import LeadingDirections
from onsketch.core.matrices import sound
from onsketch.learners.rows import finite
from onsketch.sketches.base import whole_number

Floats = NDArray[np.float64]


class FrequentDirections(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Saved, BaseEstimator):  # type: ignore[misc]
    """Truncated SVD of a stream: the leading right singular vectors, without centring, by frequent directions.

    ``sklearn.decomposition.TruncatedSVD`` needs all rows at once; this takes them block by block. For a direction
    v of unit length the sketch B of m rows satisfies ``0 ≤ |Av|² − |Bv|² ≤ ‖A − A_k‖_F²/(m − k)`` for every k < m.
    Sparse rows stay sparse.

    Args:
        n_components: number of directions.
        sketch_size: m; None for ``3·n_components + 10``. Larger is more exact and slower.
        block_rows: rows absorbed at a time; None for 2m, or at least 256 if the first rows are sparse.

    Attributes:
        components_: (n_components, d), orthonormal; rows beyond the rank of the data are zero.
        singular_values_: of the rows along them, estimated; s² is at most ``escaped_`` from the truth, and mostly much
            closer.
        explained_variance_, explained_variance_ratio_: variance along the components, and its share of the total.
        escaped_: upper bound of the energy lost in any direction, in units of a squared singular value.
        mean_: zero here, the mean of the rows in :class:`SketchedPCA`.
        n_samples_seen_, n_features_in_, feature_names_in_.

    Mina Ghashami, Edo Liberty, Jeff Phillips, David Woodruff: "Frequent Directions: Simple and Deterministic Matrix
    Sketching", SIAM J. Computing 45, 2016.

    >>> from scipy.sparse import random_array
    >>> X = random_array((2000, 60_000), density=1e-3, format="csr", rng=0)
    >>> FrequentDirections(n_components=3).fit(X).transform(X).shape
    (2000, 3)
    """

    reads = (
        "transform", "inverse_transform", "components_", "singular_values_", "explained_variance_",
        "explained_variance_ratio_", "mean_", "escaped_", "n_samples_seen_",
    )  # fmt: skip
    writes = ("fit", "partial_fit")
    _centred = False
    _kept = ("n_features_in_",)

    def __init__(self, n_components: int = 2, *, sketch_size: int | None = None, block_rows: int | None = None) -> None:
        self.n_components = n_components
        self.sketch_size = sketch_size
        self.block_rows = block_rows

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from these rows only."""
        return self._take_in(X, first=True)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add these rows. The division of a stream into blocks does not change the result."""
        return self._take_in(X, first=not hasattr(self, "stream_"))

    def _take_in(self, X: Any, *, first: bool) -> Self:
        X = validated(self, sound(X), accept_sparse="csr", dtype=np.float64, reset=first)
        if first:
            self.stream_ = self._new_stream(X.shape[1], hasattr(X, "tocsr"))
        self.stream_.update(X)
        return self

    def _new_stream(self, n_features: int, sparse: bool) -> LeadingDirections:
        wanted = whole_number("n_components", self.n_components, at_least=1)
        if wanted > n_features:
            raise ValueError(f"n_components={wanted} is more than the rows have: n_features={n_features}.")
        size = 3 * wanted + 10 if self.sketch_size is None else self.sketch_size
        size = whole_number("sketch_size", size, at_least=wanted + 1)
        block = max(2 * size, 256 if sparse else 0) if self.block_rows is None else self.block_rows
        return LeadingDirections(n_features, size, self._centred, whole_number("block_rows", block, at_least=1))

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of these rows along the components, (rows, n_components)."""
        check_is_fitted(self, "stream_")
        X = validated(self, sound(X), accept_sparse="csr", dtype=np.float64, reset=False)
        components = self.components_
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(np.asarray(X @ components.T) - self.mean_ @ components.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the rows with these coordinates, (rows, d)."""
        check_is_fitted(self, "stream_")
        rows: Floats = np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_
        return rows

    @property
    def components_(self) -> Floats:
        """Directions, strongest first."""
        check_is_fitted(self, "stream_")
        return self.stream_.leading(self.n_components)[0]

    @property
    def singular_values_(self) -> Floats:
        """Estimated singular values along the components."""
        check_is_fitted(self, "stream_")
        return np.sqrt(self.stream_.leading(self.n_components)[1])

    @property
    def explained_variance_(self) -> Floats:
        """Squared singular values per row seen (less one when centred)."""
        return self.singular_values_**2 / max(self.n_samples_seen_ - self._centred, 1)

    @property
    def explained_variance_ratio_(self) -> Floats:
        """Squared singular values as parts of the total scatter, which is known exactly."""
        values: Floats = self.singular_values_**2
        scatter = self.stream_.about()[1]
        return values / scatter if scatter > 0.0 else values

    @property
    def mean_(self) -> Floats:
        """Mean of the rows, or zero without centring."""
        check_is_fitted(self, "stream_")
        return self.stream_.about()[0]

    @property
    def escaped_(self) -> float:
        """Upper bound of the energy lost in any direction."""
        check_is_fitted(self, "stream_")
        return self.stream_.escaped

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows so far."""
        check_is_fitted(self, "stream_")
        return self.stream_.seen

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stream_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SketchedPCA(FrequentDirections):
    """Streaming PCA by frequent directions: the leading directions of the rows about their mean.

    See :class:`FrequentDirections` for arguments and attributes. The mean changes as rows arrive, and the sketch
    accounts for that exactly (Ross, Lim, Lin and Yang 2008). Sparse rows are centred implicitly and stay sparse.

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import PCA
    >>> X, _ = load_digits(return_X_y=True)
    >>> pca = SketchedPCA(n_components=10)
    >>> for block in np.array_split(X, 20):
    ...     pca = pca.partial_fit(block)
    >>> def captured(components):
    ...     return np.sum(((X - X.mean(axis=0)) @ components.T) ** 2)
    >>> bool(captured(pca.components_) > 0.99 * captured(PCA(10).fit(X).components_))
    True
    """

    _centred = True
