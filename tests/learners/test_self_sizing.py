"""A sketch that chooses its own size, and learners moved to another size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from onsketch.errors import OptionError
from onsketch.learners.auto.classes import AutoClasses
from onsketch.learners.sketched.self_sizing import CEILING, CHECK, START, resize
from streams import sparse_stream


def streams(heavy: bool, n: int = 1500, d: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) if heavy else rng.normal(size=(n, 4)) @ rng.normal(size=(4, d))
    return X, np.sign(X[:, 0] + 0.1 * rng.normal(size=n))


@pytest.mark.parametrize("method", ["rfd-son", "fd-son", "ada-fd"])
@pytest.mark.parametrize("options", [{}, {"average": True}, {"diagonal": True}, {"dtype": "float32"}])
def test_another_size_changes_no_prediction(method: str, options: dict[str, Any]) -> None:
    """Weights, means of iterates and what is not known of a row stay; a larger sketch keeps the whole metric."""
    X, y = sparse_stream("logistic")
    learner = onsketch.learner(method, loss="logistic", sketch_size=4, ridge=1.0, **options)
    learner.learn(X[:50], y[:50])
    digits = 1e-4 if "dtype" in options else 1e-9
    weights, spectrum = learner.weights, learner.spectrum()
    leverage = learner.leverage(X) if method != "ada-fd" else None
    for size in (9, 16):
        resize(learner, size)
        np.testing.assert_allclose(learner.weights, weights, rtol=digits, atol=digits)
        np.testing.assert_allclose(
            learner.spectrum()[: len(spectrum)], spectrum, rtol=digits, atol=digits * spectrum[0]
        )
        if leverage is not None:
            np.testing.assert_allclose(learner.leverage(X), leverage, rtol=10 * digits, atol=10 * digits)
    resize(learner, 3)
    np.testing.assert_allclose(learner.weights, weights, rtol=digits, atol=digits)
    assert len(learner.spectrum()) <= 2
    assert learner.escaped > 0.0


@pytest.mark.parametrize("method", ["rfd-son", "fd-son"])
def test_a_grown_sketch_equals_one_that_was_always_large(method: str) -> None:
    """As long as nothing has escaped yet, the two know the same."""
    X, y = sparse_stream()
    small = onsketch.learner(method, sketch_size=6, ridge=1.0)
    large = onsketch.learner(method, sketch_size=12, ridge=1.0)
    small.learn(X[:11], y[:11])
    large.learn(X[:11], y[:11])
    resize(small, 12)
    np.testing.assert_allclose(small.learn(X[11:20], y[11:20]), large.learn(X[11:20], y[11:20]), atol=1e-9)


def test_decaying_spectra_keep_a_small_sketch_and_flat_ones_grow() -> None:
    sizes = []
    for heavy in (False, True):
        X, y = streams(heavy)
        learner = onsketch.learner("rfd-son", sketch_size="auto", summary="data")
        learner.learn(X, y)
        sizes.append(learner.sketch_size)
        assert np.isfinite(learner.weights).all()
    assert sizes == [START, CEILING]


def test_a_grown_sketch_shrinks_when_the_spectrum_decays_faster() -> None:
    heavy, light = streams(True, 600), streams(False, 6000)
    learner = onsketch.learner("rfd-son", sketch_size="auto", summary="data", forget=0.99)
    learner.learn(*heavy)
    before = learner.sketch_size
    assert before > START
    learner.learn(*light)
    assert learner.sketch_size < before


def test_blocks_sparse_rows_and_saving_change_nothing(tmp_path: Any) -> None:
    X, y = streams(True, 3 * CHECK)
    options: dict[str, Any] = {"sketch_size": "auto", "loss": "logistic"}
    whole = onsketch.learner("rfd-son", **options)
    expected = whole.learn(X, y)
    parts = onsketch.learner("rfd-son", **options)
    found = [parts.learn(csr_array(X[:100]), y[:100]), parts.learn(csr_array(X[100:600]), y[100:600])]
    parts.save(tmp_path / "model")
    parts = onsketch.load(tmp_path / "model")
    found.append(parts.learn(csr_array(X[600:]), y[600:]))
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert parts.sketch_size == whole.sketch_size > START
    np.testing.assert_array_equal(parts.predict(X[:5]), whole.predict(X[:5]))


def test_learners_of_different_sizes_merge_at_the_larger() -> None:
    options: dict[str, Any] = {"sketch_size": "auto", "summary": "curvature", "clip": None}
    one, two = (onsketch.learner("rfd-son", **options) for _ in range(2))
    one.learn(*streams(True))
    two.learn(*streams(False))
    untouched = two.predict(streams(True)[0][:3])
    one.merge(two)
    assert one.sketch_size == CEILING
    assert np.isfinite(one.weights).all()
    np.testing.assert_array_equal(two.predict(streams(True)[0][:3]), untouched)


@pytest.mark.parametrize("method", ["oja-son", "rp-son", "auto", "ada-ffd", "cfd-son"])
def test_sketches_that_cannot_tell_what_escapes_refuse(method: str) -> None:
    with pytest.raises(OptionError, match="sketch_size='auto'"):
        onsketch.learner(method, sketch_size="auto")


def test_many_classes_refuse_as_auto_does() -> None:
    with pytest.raises(OptionError, match="sketch_size='auto'"):
        AutoClasses("auto", 4, sketch_size="auto")
