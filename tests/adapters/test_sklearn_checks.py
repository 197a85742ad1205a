"""scikit-learn's own suite of checks, on several methods."""

from __future__ import annotations

import os
from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

import onsketch
from onsketch.sklearn import FrequentDirections, OnlineClassifier, OnlineRegressor, SketchedPCA

FAMILIES = ["auto", "rfd-son", "oja-son", "ada-ffd", "adagrad", "ons"]
METHODS = list(onsketch.methods()) if os.environ.get("ONSKETCH_EVERY_METHOD") else FAMILIES
"""A method of each family, whose kernels the suite compiles anyway; ONSKETCH_EVERY_METHOD=1 runs them all."""

NOT_REPETITION = {
    f"check_sample_weight_equivalence_on_{form}_data": (
        "A row of weight 2 is one step along a gradient twice as long; the same row twice is two steps, the second "
        "taken from where the first one ended, with a smaller slope. For a learner that sees a row once the two differ."
    )
    for form in ("dense", "sparse")
}
"""scikit-learn expects the same of SGDClassifier and SGDRegressor, for the same reason."""

EXACT = ("rfd-son", "ons")
"""Least squares by these are recursive least squares when the sketch has room for every direction, and there the two
are the same: without scales, which see a row of weight 2 once, the regressors pass these checks as well."""

EXACT_KERNELS = ("kons", "pros-n-kons")
"""Kernel methods, which have no scales, for which that holds as they come."""


def failures(estimator: Any, expected: dict[str, str]) -> dict[str, str]:
    """What did not pass, by name; what was expected to fail counts only when it does not."""
    results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert len(results) > 40
    found = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
    failed_as_expected = {r["check_name"] for r in results if r["status"] == "xfail"}
    return found | dict.fromkeys(expected.keys() - failed_as_expected, "passes now")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS)
def test_the_classifier(method: str) -> None:
    assert failures(OnlineClassifier(method), NOT_REPETITION) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_classifier_with_a_shared_sketch() -> None:
    assert failures(OnlineClassifier(multiclass="shared", loss="softmax"), NOT_REPETITION) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS)
def test_the_regressor(method: str) -> None:
    assert failures(OnlineRegressor(method), {} if method in EXACT_KERNELS else NOT_REPETITION) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_the_regressor_of_other_losses(loss: str) -> None:
    assert failures(OnlineRegressor(loss=loss), NOT_REPETITION) == {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", EXACT)
def test_the_regressor_whose_scales_no_row_moves(method: str) -> None:
    assert failures(OnlineRegressor(method, scaling="none"), {}) == {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("transformer", [FrequentDirections(), SketchedPCA()])
def test_the_transformers(transformer: Any) -> None:
    assert failures(transformer, {}) == {}
