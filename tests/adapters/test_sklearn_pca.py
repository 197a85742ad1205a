"""Streaming PCA: exact where the sketch has room, within its guarantee elsewhere, whatever the cut and the format."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import onsketch
from onsketch.errors import ModelFileError
from onsketch.sklearn import FrequentDirections, SketchedPCA


def low_rank(rank: int, n: int = 200, d: int = 30, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, rank)) * 2.0 ** -np.arange(rank)) @ rng.normal(size=(rank, d)) + rng.normal(size=d)


def test_with_enough_directions_it_is_pca() -> None:
    X = low_rank(6)
    ours, exact = SketchedPCA(4, sketch_size=8, block_rows=16).fit(X), PCA(4).fit(X)
    np.testing.assert_allclose(np.abs(np.sum(ours.components_ * exact.components_, axis=1)), 1.0, atol=1e-8)
    np.testing.assert_allclose(ours.explained_variance_, exact.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(ours.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_allclose(ours.singular_values_, exact.singular_values_, rtol=1e-8)
    np.testing.assert_allclose(ours.mean_, exact.mean_, atol=1e-10)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(exact.transform(X)), atol=1e-7)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), exact.inverse_transform(exact.transform(X)),
                               atol=1e-7)  # fmt: skip


def test_without_centring_it_is_the_truncated_svd() -> None:
    X = low_rank(5)
    ours = FrequentDirections(3, sketch_size=8).fit(X)
    exact = TruncatedSVD(3, algorithm="arpack").fit(X)
    np.testing.assert_allclose(np.abs(np.sum(ours.components_ * exact.components_, axis=1)), 1.0, atol=1e-8)
    np.testing.assert_allclose(ours.singular_values_, exact.singular_values_, rtol=1e-8)


@given(st.integers(2, 12), st.integers(1, 40), st.booleans(), st.integers(0, 10_000))
def test_no_direction_loses_more_than_the_guarantee(size: int, block_rows: int, centred: bool, seed: int) -> None:
    """0 ⪯ AᵀA − BᵀB ⪯ escaped·I, and escaped ≤ ‖A − A_k‖²/(m − k) for every k < m, of centred rows too."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 15)) @ np.diag(rng.uniform(0.1, 3.0, 15)) + rng.normal(size=15)
    kind = SketchedPCA if centred else FrequentDirections
    stream = kind(1, sketch_size=size, block_rows=block_rows).fit(X).stream_
    A = X[: stream.count]
    A = A - A.mean(axis=0) if centred else A
    lost = np.linalg.eigvalsh(A.T @ A - stream.rows.T @ stream.rows)
    assert lost.min() >= -1e-8
    assert lost.max() <= stream.escaped + 1e-8
    energies = np.linalg.svd(A, compute_uv=False) ** 2
    bounds = [energies[k:].sum() / (size - k) for k in range(size)]
    assert stream.escaped <= min(bounds) + 1e-8


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("kind", [SketchedPCA, FrequentDirections])
def test_cutting_the_stream_changes_nothing(kind: Any, form: Any) -> None:
    X = low_rank(30) * (np.random.default_rng(1).random((200, 30)) < 0.5)
    whole = kind(3, block_rows=20).fit(form(X))
    for cut in (1, 13, 50):
        parts = kind(3, block_rows=20)
        for start in range(0, 200, cut):
            parts.partial_fit(form(X[start : start + cut]))
        assert (parts.components_ == whole.components_).all()
        assert (parts.transform(form(X)) == whole.transform(form(X))).all()
        assert parts.n_samples_seen_ == 200


@pytest.mark.parametrize("kind", [SketchedPCA, FrequentDirections])
def test_sparse_and_dense_rows_say_the_same(kind: Any) -> None:
    X = low_rank(30) * (np.random.default_rng(1).random((200, 30)) < 0.3)
    dense, sparse = kind(3, block_rows=20).fit(X), kind(3, block_rows=20).fit(csr_array(X))
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-8)
    np.testing.assert_allclose(sparse.explained_variance_ratio_, dense.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_allclose(sparse.transform(csr_array(X)), dense.transform(X), atol=1e-8)


def test_wide_sparse_rows_are_never_made_dense() -> None:
    X = random_array((3000, 60_000), density=5e-4, format="csr", rng=0)
    dense_bytes = X.shape[0] * X.shape[1] * 8
    tracemalloc.start()
    pca = SketchedPCA(5).fit(X)
    found = pca.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (3000, 5)
    assert peak < dense_bytes / 20  # 16 rows of the sketch and a few copies of them, not 3,000 rows


def test_digits_as_well_as_incremental_pca() -> None:
    X, _ = load_digits(return_X_y=True)
    centred = X - X.mean(axis=0)
    captured = {
        type(model).__name__: np.sum((centred @ model.fit(X).components_.T) ** 2)
        for model in (PCA(10), IncrementalPCA(10, batch_size=100), SketchedPCA(10))
    }
    assert captured["SketchedPCA"] > 0.995 * captured["PCA"]


def test_set_output_pickle_and_pipeline() -> None:
    X, _ = load_digits(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SketchedPCA(3)).set_output(transform="pandas")
    frame = pipeline.fit_transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["sketchedpca0", "sketchedpca1", "sketchedpca2"]
    again = pickle.loads(pickle.dumps(pipeline))
    assert (again.transform(X).to_numpy() == frame.to_numpy()).all()


def test_too_many_components_and_too_small_a_sketch_are_refused() -> None:
    X = low_rank(3, d=4)
    with pytest.raises(ValueError, match="n_components=5 is more than the rows have: n_features=4"):
        SketchedPCA(5).fit(X)
    with pytest.raises(ValueError, match="sketch_size must be a whole number, at least 4"):
        SketchedPCA(3, sketch_size=3).fit(X)
    few = FrequentDirections(3).fit(X[:1])  # one row has one direction
    assert (few.components_[1:] == 0.0).all()
    assert (few.transform(X)[:, 1:] == 0.0).all()


@pytest.mark.parametrize("kind", [SketchedPCA, FrequentDirections])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_a_saved_transformer_resumes_bit_for_bit(kind: Any, form: Any, tmp_path: Any) -> None:
    X = np.random.default_rng(0).normal(size=(700, 12)) * np.arange(1, 13)
    for rows in (0, 5, 300, 640):  # nothing kept yet, rows waiting, none waiting
        model = kind(n_components=3, sketch_size=5, block_rows=64)
        with pytest.raises(NotFittedError):
            model.save(tmp_path / "model")
        for part in np.array_split(X[:rows], 3) if rows else [X[:1]]:
            model.partial_fit(form(part))
        model.save(tmp_path / "model")
        again = onsketch.load(tmp_path / "model")
        assert type(again) is kind
        assert again.get_params() == model.get_params()
        for one in (model, again):
            one.partial_fit(form(X[rows:]))
        assert (again.components_ == model.components_).all()
        assert (again.transform(X) == model.transform(X)).all()
        assert again.escaped_ == model.escaped_
        assert again.n_samples_seen_ == model.n_samples_seen_


def test_a_forged_transformer_is_refused(tmp_path: Any) -> None:
    model = SketchedPCA(n_components=2).fit(np.random.default_rng(0).normal(size=(50, 6)))
    model.save(tmp_path / "model")
    content = onsketch.files.model_file.read(tmp_path / "model")
    header = {k: v for k, v in content.header.items() if k not in ("version", "format")}
    for change in ({"mean": np.zeros(5)}, {"count": np.array(-1)}):
        onsketch.files.model_file.write(tmp_path / "forged", "scikit-learn", header, content.arrays | change)
        with pytest.raises(ModelFileError):
            onsketch.load(tmp_path / "forged")
    onsketch.files.model_file.write(
        tmp_path / "forged", "scikit-learn", {**header, "parameters": {"m": 1}}, content.arrays
    )
    with pytest.raises(ModelFileError, match="does not describe an estimator"):
        onsketch.load(tmp_path / "forged")


@pytest.mark.parametrize("noise", [False, True], ids=["digits", "noise"])
def test_the_ratio_says_what_the_components_capture(noise: bool) -> None:
    X = np.random.default_rng(0).normal(size=(2000, 60)) if noise else load_digits(return_X_y=True)[0]
    pca = SketchedPCA(10).fit(X)
    centred = X - X.mean(axis=0)
    captured = np.sum((centred @ pca.components_.T) ** 2) / np.sum(centred**2)
    assert pca.explained_variance_ratio_.sum() == pytest.approx(captured, abs=0.005)
