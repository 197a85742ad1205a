"""The clip heeded before a prediction (luo2016) or after a step (luo2019, Algorithm 6), for every Newton learner."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import definitions
import onsketch
from onsketch.core.losses import LOSSES, loss_values
from onsketch.errors import OptionError
from streams import sparse_stream

NEWTON = ("ons", "rp-son", "fd-son", "rfd-son", "pfd-son", "cfd-son", "oja-son")


def agree(method: str, options: dict[str, Any], X: Any, y: Any, digits: float = 1e-8) -> None:
    learner = onsketch.learner(method, **options)
    definition = definitions.run(method, X, y, **options)
    np.testing.assert_allclose(learner.learn(X, y), definition.predictions, rtol=digits, atol=digits)
    np.testing.assert_allclose(learner.weights, definition.weights, rtol=digits, atol=digits)


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize("method", NEWTON)
def test_after_the_step_as_defined(method: str, loss: str) -> None:
    X, y = sparse_stream(loss)
    for size in (1, 3, 7):
        # random sketches miss directions, and predictions are not clipped: only the ridge keeps these in bounds
        ridge = 20.0 if method in ("rp-son", "oja-son") else 0.5
        options: dict[str, Any] = {"loss": loss, "ridge": ridge, "clip": 0.5, "projection": "after"}
        options["curvature_schedule"] = "1/sqrt(t)"
        if method != "ons":
            options["sketch_size"] = size
        agree(method, options, X, y)


@pytest.mark.parametrize("doubling", [False, True])
def test_after_the_step_without_a_ridge(doubling: bool) -> None:
    """RFD₀-SON as luo2019 runs it; the pseudo-inverse serves until the first shrink."""
    X, y = sparse_stream()
    for size in (2, 4):
        options = {"sketch_size": size, "ridge": 0.0, "projection": "after", "doubling": doubling}
        agree("rfd-son", options, X, y, digits=1e-5)


def test_after_the_step_with_rank_counting_and_adapted_features() -> None:
    X, y = sparse_stream()
    for sketch in ("ffd", "fd", "oja", "rp"):
        for variant in ({}, {"diagonal": True}, {"average": True}, {"summary": "curvature"}):
            options = {"sketch_size": 3, "ridge": 1.0, "clip": 0.4, "projection": "after", **variant}
            learner = onsketch.compose(sketch=sketch, geometry="newton", **options)
            definition = definitions.compose_definition(X, y, sketch=sketch, geometry="newton", **options)
            np.testing.assert_allclose(learner.learn(X, y), definition.predictions, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ons", "fd-son", "rfd-son", "pfd-son", "cfd-son"])
@given(seed=st.integers(0, 1000), scale=st.floats(-2.0, 2.0))
def test_no_step_carries_its_own_row_beyond_the_clip(method: str, seed: int, scale: float) -> None:
    """Whatever the rows' scale; and predictions are those of the weights, not clipped.

    Random sketches may miss the row, and then nothing but the ridge bounds the margins of the rows to come.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 6)) * 10.0**scale
    y = np.sign(X[:, 0])
    options: dict[str, Any] = {"projection": "after", "clip": 1.0} | ({} if method == "ons" else {"sketch_size": 3})
    learner = onsketch.learner(method, **options)
    for x, label in zip(X, y, strict=True):
        before = learner.predict(x[None])[0]
        assert learner.learn(x[None], [label])[0] == pytest.approx(before, rel=1e-9, abs=1e-9)
        assert abs(learner.predict(x[None])[0]) <= 1.0 + 1e-6


@pytest.mark.parametrize("method", ["rfd-son", "oja-son", "ons"])
def test_sparse_rows_and_blocks_change_nothing(method: str, tmp_path: Any) -> None:
    X, y = sparse_stream()
    options: dict[str, Any] = {"projection": "after", "clip": 0.5}
    whole = onsketch.learner(method, **options)
    expected = whole.learn(X, y)
    parts = onsketch.learner(method, **options)
    found = [parts.learn(csr_array(X[:33]), y[:33])]
    parts.save(tmp_path / "model")
    found.append(onsketch.load(tmp_path / "model").learn(csr_array(X[33:]), y[33:]))
    np.testing.assert_array_equal(np.concatenate(found), expected)


def test_what_is_left_open_is_decided_by_the_ridge() -> None:
    X, y = sparse_stream()
    for ridge, order in ((0.0, "after"), (1.0, "before")):
        open_, given = (onsketch.learner("rfd-son", ridge=ridge, projection=p, sketch_size=3) for p in (None, order))
        np.testing.assert_array_equal(open_.learn(X, y), given.learn(X, y))


def test_fewer_features_than_rows_of_the_sketch() -> None:
    """The sketch never shrinks, so that ridge 0 stays: the pseudo-inverse has to do, and does."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4)) * [1.0, 30.0, 0.1, 5.0]
    y = np.sign(X @ [1.0, 0.05, 3.0, -0.4])
    learner = onsketch.learner("rfd-son", ridge=0.0, sketch_size=20, projection="after")
    margins = learner.learn(X, y)
    assert np.isfinite(margins).all()
    assert np.mean(np.sign(margins[500:]) != y[500:]) < 0.15


def test_dual_averaging_and_methods_without_a_metric_refuse_it() -> None:
    with pytest.raises(OptionError, match="projection='after'"):
        onsketch.learner("rfd-son", projection="after", update="dual")
    with pytest.raises(OptionError, match="projection"):
        onsketch.learner("adagrad", projection="after")
    with pytest.raises(OptionError, match="'before', 'after'"):
        onsketch.learner("rfd-son", projection="between")


@given(
    name=st.sampled_from(["squared", "logistic", "squared_hinge", "poisson"]),
    bound=st.floats(0.05, 30.0),
    places=st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)),
)
def test_exp_concavity_is_what_assumption_2_asks_for(name: str, bound: float, places: tuple[float, ...]) -> None:
    """ℓ(z') ≥ ℓ(z) + ℓ'(z)(z' − z) + σ/2·(ℓ'(z)(z' − z))² on |z| ≤ C (luo2016)."""
    z, other, label = (bound * place for place in places)
    y = label if LOSSES[name].labels == "real" else (1.0 if label > 0 else -1.0)
    if name == "poisson":
        y = abs(label) / bound * math.exp(bound)
    sigma = LOSSES[name].exp_concavity(bound)
    slope = definitions.LOSSES[name].slope(z, y)
    here, there = loss_values(name, [z, other], [y, y])
    rise = slope * (other - z)
    assert there >= here + rise + 0.5 * sigma * rise * rise - 1e-9 * max(1.0, here, there)


@pytest.mark.parametrize(("name", "z", "other", "y"), [("squared", -1, 1, 1), ("squared_hinge", -1, 1, 1)])
@pytest.mark.parametrize("bound", [1.0, 2.0, 10.0])
def test_exp_concavity_is_tight(name: str, z: float, other: float, y: float, bound: float) -> None:
    label = bound * y if name == "squared" else float(y)
    z, other = bound * z, bound * other
    slope = definitions.LOSSES[name].slope(z, label)
    here, there = loss_values(name, [z, other], [label, label])
    rise = slope * (other - z)
    assert there == pytest.approx(here + rise + 0.5 * LOSSES[name].exp_concavity(bound) * rise * rise, abs=1e-9)
