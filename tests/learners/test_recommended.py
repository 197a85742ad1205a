"""Recommended defaults: one name for the form that estimators and program use."""

from __future__ import annotations

import numpy as np
import pytest

import onsketch
from onsketch.errors import OptionError
from streams import sparse_stream


@pytest.mark.parametrize("method", ["rfd-son", "oja-son", "adagrad", "ons", "auto"])
def test_safe_learner_is_the_learner_with_recommended_defaults(method: str) -> None:
    X, y = sparse_stream("logistic")
    recommended = onsketch.learner(method, defaults="recommended", loss="logistic")
    safe = onsketch.safe_learner(method, loss="logistic")
    assert recommended.options == safe.options
    assert np.array_equal(recommended.learn(X, y), safe.learn(X, y))


def test_the_default_is_the_form_of_the_paper() -> None:
    assert onsketch.learner("rfd-son", defaults="paper").options == onsketch.learner("rfd-son").options
    assert onsketch.learner("rfd-son", defaults="recommended").options.scaling == "magnitude"


def test_other_defaults_are_refused_by_name() -> None:
    with pytest.raises(OptionError, match="defaults='safe': expected 'paper' or 'recommended'"):
        onsketch.learner("rfd-son", defaults="safe")
