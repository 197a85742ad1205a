"""A model may say that it is wider than any memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
