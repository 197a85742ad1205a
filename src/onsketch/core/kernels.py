"""Kernel functions: named ones and user functions.

==========  =================================  ========================
name        k(x, y)                            computed from
==========  =================================  ========================
linear      x·y                                products
polynomial  (γ x·y + coef0)^degree             products
rbf         exp(−γ |x − y|²)                   squared distances
laplacian   exp(−γ |x − y|₁)                   absolute distances
a callable  ``f(X, Y)``                        the rows themselves
==========  =================================  ========================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.jit.decorators import kernel

Array = NDArray[np.float64]
KernelFunction = Callable[[Array, Array], Any]

KERNELS = ("linear", "rbf", "laplacian", "polynomial")

PRODUCTS, SQUARED, ABSOLUTE, OWN = range(4)
"""Input of a kernel function: x·y, |x − y|², |x − y|₁, or the rows themselves for a user's function."""

_FORMS = {"linear": PRODUCTS, "polynomial": PRODUCTS, "rbf": SQUARED, "laplacian": ABSOLUTE}


@dataclass(frozen=True)
class Kernel:
    """A kernel between rows.

    A callable is given two arrays (n, d) and (m, d) and returns the (n, m) matrix of values, as
    ``sklearn.metrics.pairwise`` functions do. It must be symmetric and positive semi-definite.

    >>> import numpy as np
    >>> Kernel("rbf", gamma=0.5).between(np.array([[0.0], [2.0]]), np.array([[0.0]])).round(4)
    array([[1.    ],
           [0.1353]])
    """

    function: str | KernelFunction = "rbf"
    gamma: float | None = None
    """γ; left out, 1 over the number of features of the first rows."""
    degree: int = 3
    coef0: float = 1.0
    constant: float = 0.0
    """Added to every value: 1 stands for the constant feature of ``fit_intercept``."""

    def __post_init__(self) -> None:
        if not callable(self.function) and self.function not in _FORMS:
            raise OptionError(
                f"kernel={self.function!r}: expected one of {', '.join(map(repr, KERNELS))}, "
                "or a function of two arrays of rows.",
                kernel=self.function,
            )

    @property
    def form(self) -> int:
        """Input of the kernel function: PRODUCTS, SQUARED, ABSOLUTE or OWN."""
        return _FORMS[self.function] if isinstance(self.function, str) else OWN

    @property
    def name(self) -> str:
        """Its name, or that of the user's function."""
        if isinstance(self.function, str):
            return self.function
        return str(getattr(self.function, "__name__", repr(self.function)))

    def for_width(self, n_features: int, variance: float = 1.0) -> Kernel:
        """Return the kernel with γ = 1/(features·variance), where γ was left out."""
        return self if self.gamma is not None else replace(self, gamma=1.0 / (max(n_features, 1) * variance))

    def between(self, X: Array, Y: Array) -> Array:
        """The values of all pairs, (n, m), by a matrix product where the kernel allows it."""
        if self.form == SQUARED:
            # Distances do not depend on the origin; near the points, less is lost in the subtraction.
            centre = Y.mean(axis=0) if len(Y) else 0.0
            X, Y = X - centre, Y - centre
            lengths = np.einsum("ij,ij->i", X, X)[:, np.newaxis] + np.einsum("ij,ij->i", Y, Y)
            return self.of(np.asarray(np.maximum(lengths - 2.0 * (X @ Y.T), 0.0)))
        if self.form == PRODUCTS:
            return self.of(X @ Y.T)
        if self.form == ABSOLUTE:
            return self.of(_distances(X, Y, self.form))
        return self._called(X, Y)

    def of_row(self, x: Array, Y: Array) -> Array:
        """The values of one row with each of Y; distances are summed from differences, exact for equal rows."""
        if self.form == PRODUCTS:
            return self.of(Y @ x)
        if self.form == OWN:
            return np.asarray(self._called(x[np.newaxis], Y)[0])
        return self.of(_distances(x[np.newaxis], Y, self.form)[0])

    def diagonal(self, X: Array) -> Array:
        """k(x, x) of each row."""
        if self.form == OWN:
            return np.array([float(self._called(x[np.newaxis], x[np.newaxis])[0, 0]) for x in X])
        return self.of_self(np.einsum("ij,ij->i", X, X))

    def of_self(self, squares: Array) -> Array:
        """k(x, x) from |x|²; not for a user's function."""
        return self.of(squares.copy() if self.form == PRODUCTS else np.zeros_like(squares))

    def of(self, quantity: Array) -> Array:
        """The kernel from what it is computed from (see ``form``); the array may be overwritten."""
        gamma = 1.0 if self.gamma is None else self.gamma
        if self.form == PRODUCTS:
            if self.function == "polynomial":
                with np.errstate(over="ignore"):  # a value that is not finite is refused with its row
                    quantity = (gamma * quantity + self.coef0) ** self.degree
        else:
            quantity *= -gamma
            np.exp(quantity, out=quantity)
        return quantity + self.constant if self.constant else quantity

    def _called(self, X: Array, Y: Array) -> Array:
        assert callable(self.function)
        if not len(Y):
            return np.empty((len(X), 0))
        values = np.asarray(self.function(X, Y), dtype=np.float64)
        if values.shape != (len(X), len(Y)):
            raise InputError(
                f"kernel {self.name}: given rows {X.shape} and {Y.shape} it returned an array of shape {values.shape}; "
                f"it must return one of shape ({len(X)}, {len(Y)})."
            )
        if not np.isfinite(values).all():
            raise InputError(f"kernel {self.name}: it returned values that are not finite.")
        return values + self.constant


def _distances(X: Array, Y: Array, form: int) -> Array:
    """|x − y|² or |x − y|₁ of all pairs."""
    X, Y = (np.ascontiguousarray(rows, np.float64) for rows in (X, Y))
    if X.ndim != 2 or Y.ndim != 2 or X.shape[1] != Y.shape[1]:
        raise InputError(f"kernel: rows of shapes {X.shape} and {Y.shape} have not as many features.")
    distances = np.empty((len(X), len(Y)))
    _fill_distances(form, X, Y, distances)
    return distances


@kernel
def _fill_distances(form, X, Y, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = 0.0
            if form == ABSOLUTE:
                for f in range(X.shape[1]):
                    total += abs(X[i, f] - Y[j, f])
            else:
                for f in range(X.shape[1]):
                    total += (X[i, f] - Y[j, f]) * (X[i, f] - Y[j, f])
            out[i, j] = total
