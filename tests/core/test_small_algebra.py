"""What compiled rounds rest on: vectors in registers, and the spectrum of small matrices."""

from __future__ import annotations

import numpy as np
import pytest

from onsketch.core.eigen import eigh
from onsketch.core.secular import LINES, absorb_row
from onsketch.jit.decorators import kernel
from onsketch.jit.vectors import add, dot, rotate, times


@kernel
def _eigh(matrix, n, values, vectors, work):
    eigh(matrix, n, values, vectors, work)


@kernel
def _absorb_row(values, vectors, n, v, work, held, turn):
    return absorb_row(values, vectors, n, v, work, held, turn)


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


def _after_row(values: np.ndarray, vectors: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The spectrum after a row was absorbed, whatever was in the scratch before."""
    n = v.size
    width = -(-n // 4) * 4
    padded_values, padded_vectors, padded_v = np.full(width, np.nan), np.zeros((width, width)), np.zeros(width)
    padded_values[:n], padded_vectors[:n, :n], padded_v[:n] = values, vectors, v
    work, held, turn = (np.full(shape, np.nan) for shape in ((LINES, width + 4), (width, width), (width, width)))
    assert _absorb_row(padded_values, padded_vectors, n, padded_v, work, held, turn)
    assert (padded_vectors[:n, n:] == 0.0).all()
    return padded_values[:n], padded_vectors[:n, :n]


_SPECTRA = {
    "random": lambda rng, n: rng.random(n),
    "graded": lambda rng, n: 10.0 ** -rng.uniform(0, 30, n),
    "clustered": lambda rng, n: rng.integers(0, 3, n) + 1e-15 * rng.integers(0, 20, n),
    "close": lambda rng, n: 1.0 + 1e-13 * rng.random(n) * 10.0 ** rng.uniform(-3, 3),
    "with zeros": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, rng.random(n)),
    "integers": lambda rng, n: np.arange(n, dtype=float),
}

_ROWS = {
    "random": lambda rng, n: rng.normal(size=n),
    "graded": lambda rng, n: rng.normal(size=n) * 10.0 ** -rng.uniform(0, 25, n),
    "sparse": lambda rng, n: rng.normal(size=n) * (rng.random(n) < 0.4),
    "unit": lambda rng, n: np.eye(n)[rng.integers(n)],
    "nothing": lambda rng, n: np.zeros(n),
}


@pytest.mark.parametrize("spectrum", _SPECTRA)
@pytest.mark.parametrize("row", _ROWS)
def test_a_row_changes_a_spectrum_as_lapack_says(spectrum: str, row: str) -> None:
    """Random, graded and clustered spectra; rows along all eigenvectors, some or one of them; any scale."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 25))
        scale = 10.0 ** rng.uniform(-100, 100) if seed % 3 == 0 else 1.0
        values = scale * np.sort(_SPECTRA[spectrum](rng, n))[::-1]
        z = np.sqrt(scale) * _ROWS[row](rng, n) * (10.0 ** rng.uniform(-9, 9) if seed % 2 else 1.0)
        turned = np.eye(n) if seed % 4 == 0 else np.linalg.qr(rng.normal(size=(n, n)))[0]
        v = turned.T @ z
        matrix = turned.T @ (values[:, None] * turned) + np.outer(v, v)
        new_values, new_vectors = _after_row(values, turned, v)
        size = max(np.linalg.norm(matrix / scale) * scale, 1e-300)
        assert (np.diff(new_values) <= 0.0).all()
        np.testing.assert_allclose(new_vectors @ new_vectors.T, np.eye(n), atol=1e-14)
        np.testing.assert_allclose(
            new_vectors.T @ (new_values[:, None] / size * new_vectors), matrix / size, atol=2e-14
        )
        np.testing.assert_allclose(new_values / size, np.linalg.eigvalsh(matrix / size)[::-1], rtol=0.0, atol=2e-14)


def test_errors_of_many_rows_add_up_slowly() -> None:
    """Rows of very different sizes, the same one again and again among them."""
    rng = np.random.default_rng(0)
    n = 20
    values, vectors, matrix = np.zeros(n), np.eye(n), np.zeros((n, n))
    same = rng.normal(size=n)
    for _ in range(200):
        v = same if rng.random() < 0.3 else rng.normal(size=n) * 10.0 ** rng.uniform(-6, 0)
        matrix += np.outer(v, v)
        values, vectors = _after_row(values, vectors, v)
    top = np.linalg.norm(matrix)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(vectors.T @ (values[:, None] * vectors), matrix, rtol=0.0, atol=1e-12 * top)


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
