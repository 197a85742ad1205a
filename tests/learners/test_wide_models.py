"""A model may say that it is wider than any memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from onsketch.errors import InputError


def test_weights_of_a_width_beyond_memory_are_refused_by_name(tmp_path: Path) -> None:
    learner = onsketch.learner("adagrad")
    learner.learn(np.array([[1.0, 2.0]]), [1.0])
    learner._width = 1 << 60
    with pytest.raises(InputError, match=r"coefficients\(\)"):
        _ = learner.weights
    learner.save(tmp_path / "wide.model")
    again = onsketch.load(tmp_path / "wide.model")
    with pytest.raises(InputError, match=r"coefficients\(\)"):
        _ = again.weights
    features, values = again.coefficients()
    assert features.tolist() == [0, 1]
    assert np.isfinite(values).all()


@pytest.mark.parametrize("method", ["adagrad", "rfd-son", "auto"])
def test_the_last_feature_that_int64_can_number_survives_a_file(tmp_path: Path, method: str) -> None:
    learner = onsketch.learner(method)
    for _ in range(3):
        learner.learn_one([7, 2**63 - 1], [1.0, 0.5], 1.0)
    learner.save(tmp_path / "last.model")
    again = onsketch.load(tmp_path / "last.model")
    assert again.n_features == 2**63
    assert again.predict_one([2**63 - 1], [1.0]) == learner.predict_one([2**63 - 1], [1.0]) > 0.0


def test_a_block_without_rows_does_not_widen_a_model(tmp_path: Path) -> None:
    learner = onsketch.learner("ons", loss="logistic")
    learner.learn(np.array([[1.0, 2.0]]), [1.0])
    learner.learn(csr_array((0, 200_000)), [])
    assert learner.n_features == 2
    learner.save(tmp_path / "narrow.model")
    assert onsketch.load(tmp_path / "narrow.model").n_features == 2


def test_leverages_of_a_width_beyond_memory_are_refused() -> None:
    learner = onsketch.learner("ons", loss="logistic")
    learner.learn(np.array([[1.0, 2.0]]), [1.0])
    with pytest.raises(InputError, match="than this machine has"):
        learner.leverage(csr_array(([1.0], [0], [0, 1]), shape=(1, 1 << 40)))


def test_a_saved_model_of_a_million_features_predicts_as_the_one_that_stayed(tmp_path):
    """Not its bytes: places of rare features that are free may hold other numbers."""
    rng = np.random.default_rng(0)
    rows, entries, width = 16_000, 60, 1_000_000
    columns = rng.integers(width, size=(rows, entries))
    columns[:, : entries // 2] //= 20  # some features become frequent, so that places of rare ones are free again
    X = csr_array(
        (np.ones(columns.size), columns.ravel(), np.arange(0, columns.size + 1, entries)), shape=(rows, width)
    )
    X.sum_duplicates()
    y = rng.choice([-1.0, 1.0], size=rows)
    stayed = onsketch.learner("auto", loss="logistic")
    stayed.learn(X[:9000], y[:9000])
    stayed.save(tmp_path / "m")
    came_back = onsketch.load(tmp_path / "m")
    assert (stayed.learn(X[9000:], y[9000:]) == came_back.learn(X[9000:], y[9000:])).all()
    for mine, theirs in zip(stayed.coefficients(), came_back.coefficients(), strict=True):
        assert (mine == theirs).all()
    assert (stayed.predict(X[:500]) == came_back.predict(X[:500])).all()
