"""What compiled rounds rest on: vectors in registers, and the spectrum of small matrices."""

from __future__ import annotations

import numpy as np
import pytest

from onsketch.eigen import eigh
from onsketch.numerics import kernel
from onsketch.vectors import add, dot, rotate, times

pytestmark = pytest.mark.learners


@kernel
def _eigh(matrix, n, values, vectors, work):
    eigh(matrix, n, values, vectors, work)


@kernel
def _times(source, start, matrix, out):
    times(source, start, matrix.shape[0], matrix, 0, matrix.shape[1], out)


@kernel
def _dot(matrix, row, vector):
    return dot(matrix, row * matrix.shape[1], vector, 0, matrix.shape[1])


@kernel
def _add(target, factor, source):
    add(target, 0, factor, source, 0, target.size)


@kernel
def _rotate(matrix, c, s):
    rotate(matrix, 0, matrix.shape[1], c, s, matrix.shape[1])


@pytest.mark.parametrize("n", range(1, 14))
@pytest.mark.parametrize("kind", ["full", "low rank", "repeated", "zero", "graded"])
def test_spectra_are_those_of_lapack(n: int, kind: str) -> None:
    """Whatever was in the scratch and in the padding before."""
    rng = np.random.default_rng(n)
    matrix = rng.normal(size=(n, n))
    if kind == "low rank":
        matrix[:, n // 2 :] = 0.0
    matrix = matrix @ matrix.T
    if kind == "repeated":
        matrix = 3.0 * np.eye(n)
    elif kind == "zero":
        matrix = np.zeros((n, n))
    elif kind == "graded":
        matrix *= np.outer(scale := 10.0 ** -np.arange(n), scale)
    width = -(-n // 4) * 4
    values, vectors, work = (np.full(shape, np.nan) for shape in (width, (width, width), (2, width)))
    before = matrix.copy()
    _eigh(matrix, n, values, vectors, work)
    assert (matrix == before).all()
    values, vectors = values[:n], vectors[:n, :n]
    assert (np.diff(values) <= 0.0).all()
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=1e-13)
    scale = max(np.abs(matrix).max(), 1e-300)
    np.testing.assert_allclose(vectors.T @ (values[:, None] * vectors), matrix, rtol=0.0, atol=1e-13 * n * scale)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1], rtol=0.0, atol=1e-13 * n * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [4, 8, 12, 16, 20, 28, 32, 44])
def test_products_of_rows_and_matrices(width: int, dtype: type) -> None:
    rng = np.random.default_rng(width)
    source, matrix, out = rng.normal(size=9).astype(dtype), rng.normal(size=(6, width)), np.full(width, np.nan)
    _times(source, 2, matrix, out)
    np.testing.assert_allclose(out, source[2:8].astype(float) @ matrix, rtol=1e-12, atol=1e-13)
    vector = rng.normal(size=width)
    assert _dot(matrix, 4, vector) == pytest.approx(matrix[4] @ vector)
    expected = vector + 0.3 * matrix[0]
    _add(vector, 0.3, matrix)
    np.testing.assert_allclose(vector, expected)
    turned = np.stack([0.8 * matrix[0] + 0.6 * matrix[1], 0.8 * matrix[1] - 0.6 * matrix[0]])
    _rotate(matrix, 0.8, 0.6)
    np.testing.assert_allclose(matrix[:2], turned)
