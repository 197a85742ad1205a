"""OGD, AdaGrad, diagonal Newton, Adam, FTRL and AROW agree with their definitions, whatever the options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from first_order_support import COMPOSITE, LOSSES, assert_agrees, every_kind, make, stream
from onsketch.errors import OptionError
from onsketch.learners.methods import METHODS


@pytest.mark.slow
@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("composite", COMPOSITE)
@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("name", ["ogd", "adagrad", "diagonal × s-adagrad"])
def test_composite_steps(name: str, update: str, composite: str, average: bool, clip: float | None) -> None:
    ridge = {} if name == "ogd" else {"ridge": 0.2}
    options = {"update": update, "average": average, "clip": clip, "step_size": 0.3, **COMPOSITE[composite]}
    which = list(COMPOSITE).index(composite)
    loss = ("logistic", "squared")[which % 2]
    assert_agrees(name, loss=loss, weighted=which % 3 == 0, sparse=which % 2 == 0, **ridge, **options)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("name", ["ogd", "adagrad", "diagonal × s-adagrad", "diagonal × newton"])
def test_steps_for_every_loss(name: str, update: str, loss: str) -> None:
    # clipped at 1, rounding alone would decide on which side of the hinge's kink a projected row falls
    schedule = {"curvature_schedule": "1/sqrt(t)", "clip": 0.7} if "newton" in name else {}
    for sparse, weighted in ((True, False), (False, True)):
        assert_agrees(name, update=update, loss=loss, sparse=sparse, weighted=weighted, **schedule)


@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("summary", ["gradient", "data", "curvature"])
def test_diagonal_newton(summary: str, update: str, average: bool, clip: float | None) -> None:
    for weighted, loss in ((True, "squared"), (False, "squared_hinge")):
        options: dict[str, Any] = {"summary": summary, "update": update, "average": average, "clip": clip}
        assert_agrees("diagonal × newton", loss=loss, weighted=weighted, **options)


@pytest.mark.parametrize("schedule", ["none", "1/t", "1/sqrt(t)"])
def test_curvature_schedules(schedule: str) -> None:
    assert_agrees("diagonal × newton", curvature_schedule=schedule, weighted=True)
    assert_agrees("diagonal × newton", curvature_schedule=schedule, curvature=0.7, loss="logistic")


@pytest.mark.parametrize("geometry", ["adagrad", "s-adagrad"])
@pytest.mark.parametrize("summary", ["data", "curvature"])
def test_other_summaries(geometry: str, summary: str) -> None:
    assert_agrees(f"diagonal × {geometry}", summary=summary, weighted=True)
    assert_agrees(f"diagonal × {geometry}", summary=summary, loss="logistic", update="dual", l1=0.01)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["adam", "lazy-adam", "ftrl", "arow"])
def test_rules_for_every_loss(name: str, loss: str) -> None:
    if loss not in (METHODS[name].moves.losses or (loss,)):
        with pytest.raises(OptionError, match="arow"):
            make(name, loss=loss)
        return
    for sparse, weighted, clip in ((True, False, None), (False, True, 0.4)):
        for average in (False, True) if name != "ftrl" else (False,):
            assert_agrees(name, loss=loss, sparse=sparse, weighted=weighted, clip=clip, average=average)


def test_options_of_rules() -> None:
    assert_agrees("ftrl", l1=0.2)
    assert_agrees("ftrl", l1=0.1, l2=0.5, step_size=0.5, ridge=0.3, loss="logistic")
    assert_agrees("adam", betas=(0.0, 0.5), ridge=1e-3)
    assert_agrees("lazy-adam", betas=(0.5, 0.0), step_size=0.2)
    assert_agrees("arow", ridge=0.1)


@every_kind
def test_the_intercept_is_a_constant_feature(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream()
    learner = make(name, fit_intercept=True, **options)
    predictions = learner.learn(csr_array(X), target)
    plain = make(name, **options)
    with_ones = np.column_stack([X, np.ones(len(X))])
    np.testing.assert_allclose(plain.learn(with_ones, target), predictions, rtol=1e-9, atol=1e-10)
    found = np.append(learner.weights, learner.intercept)
    np.testing.assert_allclose(found, plain.weights, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(learner.predict(X), plain.predict(with_ones), rtol=1e-9, atol=1e-10)
