"""Blocks of a stream that grows wider, brought to one width."""

from __future__ import annotations

from typing import Any

import numpy as np


def widened(X: Any, n_features: int) -> Any:
    """The rows with empty features on the right, up to this width."""
    missing = n_features - X.shape[1]
    if missing <= 0:
        return X
    if hasattr(X, "indptr"):
        from scipy.sparse import csr_array

        return csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
    return np.pad(X, ((0, 0), (0, missing)))
