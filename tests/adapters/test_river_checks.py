"""River's own suite of checks, with pandas, on several methods."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from river import checks

import onsketch
from onsketch.river import OnlineClassifier, OnlineRegressor

FAMILIES = ["auto", "rfd-son", "oja-son", "ada-ffd", "adagrad", "ons"]
METHODS = list(onsketch.methods()) if os.environ.get("ONSKETCH_EVERY_METHOD") else FAMILIES
"""A method of each family, whose kernels the suite compiles anyway; ONSKETCH_EVERY_METHOD=1 runs them all."""
MODELS = [
    *(kind(method) for method in METHODS for kind in (OnlineClassifier, OnlineRegressor)),
    OnlineClassifier(multiclass="shared", loss="softmax"),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.method}-{getattr(m, 'multiclass', '')}")
def test_every_check_passes(model: Any) -> None:
    random.seed(0)  # the checks drop and shuffle features at random
    assert model._unit_test_skips() == set()
    names = set()
    for check in checks.yield_checks(model):
        check(model.clone())
        names.add(check.__name__)
    assert {"check_learn_many_matches_learn_one", "check_predict_many_matches_predict_one"} <= names
