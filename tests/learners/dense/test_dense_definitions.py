"""Dense learners (exact matrices, random maps, composite terms) against their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dense_support import (
    COMPOSITE,
    TERMS,
    assert_agrees,
    make,
    stream,
)
from onsketch.learners.dense.composite import Terms, proximal
from onsketch.learners.dense.metric import Metric
from onsketch.learners.methods import Method, compose_method
from streams import LOSSES, SMOOTH


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("update", ["mirror", "dual"])
def test_ons_is_its_definition(loss: str, update: str) -> None:
    X, y = stream(loss)
    summaries = ("gradient", "data", "curvature") if loss in SMOOTH else ("gradient", "data")
    for summary, clip, diagonal, average in itertools.product(summaries, (0.4, None), (False, True), (False, True)):
        given = {"loss": loss, "update": update, "summary": summary, "clip": clip, "diagonal": diagonal}
        if summary == "gradient":
            given["curvature_schedule"] = "1/sqrt(t)"
        assert_agrees("ons", X, y, average=average, **given)


@pytest.mark.parametrize("schedule", ["none", "1/t", "1/sqrt(t)"])
def test_ons_takes_schedules_curvature_steps_and_sample_weights(schedule: str) -> None:
    X, y = stream()
    weights = np.random.default_rng(1).uniform(0, 3, len(y))
    weights[7] = 0.0
    assert_agrees("ons", X, y, curvature_schedule=schedule, sample_weight=weights)
    assert_agrees("ons", X, y, curvature_schedule=schedule, curvature=0.7, step_size=0.3, ridge=0.2)


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("summary", ["gradient", "data", "curvature"])
@pytest.mark.parametrize("width", [7, 20])
def test_ons_without_ridge_takes_the_pseudo_inverse(update: str, summary: str, width: int) -> None:
    """Seven features reach full rank; of twenty, which depend on six, the matrix stays singular."""
    X, y = stream(n=40, d=width, seed=3)
    if width == 20:
        X = X[:, :6] @ np.random.default_rng(0).normal(size=(6, 20))
    for clip, average in itertools.product((0.4, 1.0), (False, True)):
        given = {"ridge": 0.0, "update": update, "summary": summary, "clip": clip, "average": average}
        assert_agrees("ons", X, y, **given)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ada-full", "ada-lr", "radagrad"])
@pytest.mark.parametrize("update", ["mirror", "dual"])
def test_dense_adagrads_are_their_definitions(method: str, update: str) -> None:
    cases = itertools.product(LOSSES, ("gradient", "data", "curvature"), (0.4, None), (False, True))
    for i, (loss, summary, clip, diagonal) in enumerate(cases):
        if summary == "curvature" and loss not in SMOOTH:
            continue
        X, y = stream(loss, n=40)
        given = {"loss": loss, "update": update, "summary": summary, "clip": clip, "diagonal": diagonal}
        assert_agrees(method, X, y, step_size=0.3, average=i % 2 == 0, ridge=0.5, seed=i, **given)


@pytest.mark.parametrize("size", [0, 1, 7, 12])
@pytest.mark.parametrize("method", ["ada-lr", "radagrad"])
def test_random_maps_of_any_size(method: str, size: int) -> None:
    X, y = stream(n=40)
    if size == 0:
        learner = make(method, sketch_size=0, step_size=0.1)
        assert np.isfinite(learner.learn(X, y)).all()
        assert learner.weights.any() == (method == "radagrad")
    else:
        assert_agrees(method, X, y, sketch_size=size, step_size=0.3)


def test_ada_lr_with_the_whole_map_is_ada_full_on_the_range() -> None:
    X, y = stream()
    predictions = make("ada-lr", sketch_size=7, step_size=0.3).learn(X, y)
    np.testing.assert_allclose(predictions, make("ada-full", step_size=0.3).learn(X, y), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", COMPOSITE)
@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("terms", TERMS)
def test_composite_steps_are_their_definitions(method: str, update: str, terms: str) -> None:
    for i, (loss, clip) in enumerate(itertools.product(("squared", "logistic", "hinge"), (0.4, None))):
        X, y = stream(loss, n=25, seed=i)
        given = {"loss": loss, "clip": clip, "average": i % 2 == 1, "ridge": 0.3, "step_size": 0.3}
        assert_agrees(method, X, y, update=update, **given, **TERMS[terms])


PARTS = [
    compose_method(sketch, geometry)
    for sketch, geometry in itertools.product(
        ("exact", "fd", "rfd", "pfd", "cfd", "greedy", "ffd", "rp", "oja"), ("adagrad", "s-adagrad")
    )
    if not (geometry == "s-adagrad" and sketch in ("rfd", "cfd"))
]


@pytest.mark.slow
@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: parts.name)
def test_any_sketch_takes_composite_terms(parts: Method) -> None:
    X, y = stream()
    for doubling, summary, update in itertools.product((False, True), ("gradient", "data"), ("mirror", "dual")):
        if "doubling" in parts.concerns:
            given = {"doubling": doubling}
        elif doubling:
            continue
        else:
            given = {}
        assert_agrees(parts, X, y, summary=summary, update=update, step_size=0.3, l1=0.05, l2=0.1, **given)


def test_proximal_steps_are_optimal_for_many_features() -> None:
    """``H(v − w)`` lies in the subdifferential of s·φ, for metrics of any condition."""
    rng = np.random.default_rng(0)
    for flat, spread in itertools.product((1e-3, 0.1, 1.0), (1.0, 1e3, 1e6)):
        V = np.linalg.qr(rng.normal(size=(2000, 12)))[0].T
        for inside in (flat + flat * spread * rng.random(12), flat * 10.0 ** rng.uniform(-2, 2, 12)):
            metric = Metric(V, inside, flat)
            v = rng.normal(size=2000)
            terms = Terms(0.3 * flat, 0.0, -1.0, 1.5)
            w = proximal(metric, v, terms, 1.0)
            pull = metric.times(v - w)
            tolerance = 1e-10 * float(np.abs(metric.times(v)).max())
            free = (w != 0.0) & (w > -1.0) & (w < 1.5)
            np.testing.assert_allclose(pull[free], 0.3 * flat * np.sign(w[free]), atol=tolerance)
            assert (np.abs(pull[w == 0.0]) <= 0.3 * flat + tolerance).all()
            assert (pull[w == 1.5] >= 0.3 * flat - tolerance).all()
            assert (pull[w == -1.0] <= -0.3 * flat + tolerance).all()
            assert (w == 0.0).any()
            assert free.any()
