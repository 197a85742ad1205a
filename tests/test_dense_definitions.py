"""Dense learners (exact matrices, random maps, composite terms) against their definitions."""

from __future__ import annotations

import copy
import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import definitions
from onsketch.errors import InputError, OptionError, UpdateError
from onsketch.learners.dense.composite import Terms, proximal
from onsketch.learners.dense.exact_newton import ExactNewton
from onsketch.learners.dense.fourier import Rada, fourier_sample
from onsketch.learners.dense.inverse_factor import matrix_of
from onsketch.learners.dense.learner import DenseLearner
from onsketch.learners.dense.metric import Metric
from onsketch.learners.dense.spectral_rounds import SpectralRounds
from onsketch.learners.methods import METHODS, Method, compose_method
from onsketch.learners.options import resolve
from streams import LOSSES, SMOOTH, labels_for, level

pytestmark = pytest.mark.learners

Array = NDArray[np.float64]

TERMS: dict[str, dict[str, Any]] = {
    "l1": {"l1": 0.3},
    "l2": {"l2": 0.5},
    "box": {"box": (-0.05, 0.15)},
    "all": {"l1": 0.1, "l2": 0.2, "box": (-0.3, 0.1)},
    "away from zero": {"l1": 0.1, "box": (0.02, 0.3)},
}
COMPOSITE = ("ada-full", "ada-fd", "ada-ffd", "ada-gp", "ada-dp", "s-adagrad", "radagrad")
DENSE = ("ons", "ada-full", "ada-lr", "radagrad")


def stream(loss: str = "squared", n: int = 60, d: int = 7, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 1.5, d)
    X[rng.random((n, d)) < 0.2] = 0.0
    X[5] = 0.0
    X[9:12] = X[8]
    y = X @ rng.normal(size=d) / math.sqrt(d) + 0.1 * rng.normal(size=n)
    return X, labels_for(loss, y)


def make(method: str | Method, **given: Any) -> DenseLearner:
    parts = METHODS[method] if isinstance(method, str) else method
    given = {name: value for name, value in given.items() if name != "sketch_size" or "sketch_size" in parts.concerns}
    return DenseLearner(parts, resolve(parts.name, parts.concerns, parts.defaults, given))


def defined(method: str | Method, X: Array, y: Array, **given: Any) -> definitions.Result:
    parts = METHODS[method] if isinstance(method, str) else method
    geometry = {"low-rank": "low-rank", "rada": "rada"}.get(parts.sketch, parts.geometry)
    if parts.sketch in ("low-rank", "rada"):
        rows, signs = fourier_sample(given.get("seed", 0), given["sketch_size"], X.shape[1])
        given["Pi"] = definitions.subsampled_dct(rows, signs)
    defaults = dict(parts.defaults)
    return definitions.compose_definition(X, y, sketch=parts.sketch, geometry=geometry, **(defaults | given))


def assert_agrees(method: str | Method, X: Array, y: Array, tolerance: float = 1e-8, **given: Any) -> None:
    given = {"ridge": 1.0, "sketch_size": 3, **level(given.get("loss", "squared")), **given}
    sample_weight = given.pop("sample_weight", None)
    learner = make(method, **given)
    predictions = learner.learn(X, y, sample_weight)
    wanted = defined(method, X, y, sample_weight=sample_weight, **given)
    scale = max(1.0, float(np.abs(wanted.weights).max()))
    np.testing.assert_allclose(predictions, wanted.predictions, rtol=0, atol=tolerance * scale, err_msg=str(given))
    np.testing.assert_allclose(learner.weights, wanted.weights, rtol=0, atol=tolerance * scale, err_msg=str(given))


def arrays_of(learner: DenseLearner) -> dict[str, Any]:
    """Every array of a learner's state, by name."""
    found = dict(learner._iterate._asdict())
    engine = learner._engine
    holders = [engine.factor._asdict()] if isinstance(engine, ExactNewton) else [vars(engine.summary)]
    for holder in list(holders):
        holders += [vars(part) for part in holder.values() if hasattr(part, "__dict__")]
    for i, holder in enumerate(holders):
        found |= {f"{i}.{name}": value for name, value in holder.items() if isinstance(value, np.ndarray | float)}
    return found


def assert_same_state(one: DenseLearner, other: DenseLearner) -> None:
    first, second = arrays_of(one), arrays_of(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


# Definitions ----------------------------------------------------------------------------------------------


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


# What never depends on how the rows come -------------------------------------------------------------------

EVERYTHING: dict[str, tuple[str | Method, dict[str, Any]]] = {
    "ons": ("ons", {}),
    "ons, ridge 0": ("ons", {"ridge": 0.0}),
    "ons, dual": ("ons", {"update": "dual", "average": True, "diagonal": True}),
    "ada-full": ("ada-full", {}),
    "ada-full, diagonal": ("ada-full", {"diagonal": True}),
    "ada-lr": ("ada-lr", {}),
    "radagrad": ("radagrad", {"update": "dual"}),
    "ada-full, l1": ("ada-full", {"l1": 0.1}),
    "radagrad, box": ("radagrad", {"box": (-0.1, 0.1)}),
    "ada-fd, l1": ("ada-fd", {"l1": 0.1, "average": True}),
    "ada-ffd, l1": ("ada-ffd", {"l1": 0.1}),
    "ada-gp, l1": ("ada-gp", {"l1": 0.1}),
    "s-adagrad, l2": ("s-adagrad", {"l2": 0.1, "update": "dual"}),
    "oja, l1": (compose_method("oja", "adagrad"), {"l1": 0.1}),
}
everything = pytest.mark.parametrize("name", EVERYTHING)


def made(name: str, **more: Any) -> DenseLearner:
    method, given = EVERYTHING[name]
    return make(method, sketch_size=4, **given, **more)


@everything
def test_blocks_and_single_rows_are_bitwise_the_same(name: str) -> None:
    X, y = stream(n=300 if name.startswith(("ons", "radagrad")) else 80)
    whole, rows, parts = made(name, clip=0.5), made(name, clip=0.5), made(name, clip=0.5)
    wanted = whole.learn(X, y)
    one_by_one = [rows.learn(X[i : i + 1], y[i : i + 1]) for i in range(len(y))]
    edges = [0, *np.sort(np.random.default_rng(0).choice(len(y), 6, replace=False)), len(y)]
    in_parts = [parts.learn(X[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    for got, learner in ((one_by_one, rows), (in_parts, parts)):
        np.testing.assert_array_equal(np.concatenate(got), wanted)
        assert_same_state(learner, whole)


@everything
def test_sparse_rows_are_the_same_rows(name: str) -> None:
    X, y = stream()
    dense, sparse = made(name, fit_intercept=True), made(name, fit_intercept=True)
    np.testing.assert_array_equal(sparse.learn(csr_array(X), y), dense.learn(X, y))
    assert_same_state(sparse, dense)
    np.testing.assert_allclose(sparse.predict(csr_array(X)), dense.predict(X), atol=1e-12)


@everything
def test_the_intercept_is_a_constant_feature(name: str) -> None:
    X, y = stream()
    with_constant = np.column_stack([np.ones(len(y)), X])
    learner, plain = made(name, fit_intercept=True), made(name)
    np.testing.assert_allclose(learner.learn(X, y + 0.3), plain.learn(with_constant, y + 0.3), atol=1e-12)
    np.testing.assert_allclose(learner.intercept, plain.weights[0], atol=1e-12)
    np.testing.assert_allclose(learner.weights, plain.weights[1:], atol=1e-12)
    np.testing.assert_allclose(learner.predict(X), plain.predict(with_constant), atol=1e-12)
    features, values = learner.coefficients()
    np.testing.assert_array_equal(features, np.arange(7))
    np.testing.assert_array_equal(values, learner.weights)


@everything
def test_predictions_are_those_of_the_weights(name: str) -> None:
    X, y = stream()
    learner = made(name, clip=0.5)
    assert not learner.predict(X).any()
    learner.learn(X, y)
    before = copy.deepcopy(learner)
    np.testing.assert_allclose(learner.predict(X), np.clip(X @ learner.weights, -0.5, 0.5), atol=1e-12)
    assert_same_state(learner, before)


@pytest.mark.parametrize("name", [name for name in EVERYTHING if not name.startswith(("ada-lr", "radagrad"))])
def test_learners_grow_with_the_stream(name: str) -> None:
    X, y = stream(d=9)
    X[:30, 5:] = 0.0
    given = (
        {"fit_intercept": True} if EVERYTHING[name][1].get("ridge") == 0.0 else {"fit_intercept": True, "ridge": 2.0}
    )
    grown, fixed = made(name, **given), made(name, n_features=9, **given)
    got = np.concatenate([grown.learn(X[:30, :5], y[:30]), grown.learn(X[30:50], y[30:50])])
    np.testing.assert_allclose(got, fixed.learn(X[:50], y[:50]), atol=1e-9)
    # a narrower block leaves its other features at zero
    X[50:, 4:] = 0.0
    np.testing.assert_allclose(grown.learn(X[50:, :4], y[50:]), fixed.learn(X[50:], y[50:]), atol=1e-9)
    np.testing.assert_allclose(grown.weights, fixed.weights, atol=1e-9)
    assert grown.n_features == 9


@pytest.mark.parametrize("method", ["ada-lr", "radagrad"])
def test_random_maps_refuse_a_change_of_width(method: str) -> None:
    X, y = stream()
    learner = make(method, sketch_size=3)
    learner.learn(X[:20], y[:20])
    before = copy.deepcopy(learner)
    for block in (X[:, :5], np.column_stack([X, X])):
        with pytest.raises(InputError, match="number of features"):
            learner.learn(block, y)
    assert_same_state(learner, before)
    assert learner.n_features == 7
    learner.learn(X[20:], y[20:])


def test_float32_holds_the_weights() -> None:
    X, y = stream()
    for name in ("ons", "ada-full", "s-adagrad, l2"):
        single, double = made(name, dtype="float32"), made(name)
        np.testing.assert_allclose(single.learn(X, y), double.learn(X, y), atol=1e-4)
        assert single._iterate.weights.dtype == np.float32
        assert single.state_bytes()["packed"] < double.state_bytes()["packed"]


# What must never happen ------------------------------------------------------------------------------------


@everything
@pytest.mark.parametrize("extreme", ["lengths", "repeated", "labels", "tiny", "huge"])
def test_extremes_are_learned_or_refused_but_never_nan(name: str, extreme: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(25, 5)), rng.normal(size=25)
        X[rng.random(25) < 0.2] = 0.0
        if extreme == "lengths":
            X *= 10.0 ** rng.uniform(-60, 60, size=(25, 1))
        elif extreme == "repeated":
            X[3:] = X[rng.integers(3, size=22)] * 10.0 ** rng.integers(-3, 4, size=(22, 1))
        elif extreme == "labels":
            y *= 10.0 ** rng.uniform(-60, 60, size=25)
        else:
            X *= 1e-140 if extreme == "tiny" else 1e140
        for clip in (None, 1.0):
            learner = made(name, clip=clip)
            for i in range(25):
                before = copy.deepcopy(learner)
                try:
                    assert np.isfinite(learner.learn(X[i : i + 1], y[i : i + 1])).all()
                except UpdateError:
                    if "oja" not in name:  # whose directions meet the features before the row is refused
                        assert_same_state(learner, before)
                for key, value in arrays_of(learner).items():
                    assert np.isfinite(value).all(), key
            assert np.isfinite(learner.weights).all()
            assert np.isfinite(learner.predict(np.ones((1, 5)))).all()


def test_a_row_refused_inside_a_block_leaves_the_rows_before_it() -> None:
    X, y = stream()
    bad = X.copy()
    bad[30] = 1e149
    for name in ("ons", "ada-full"):
        learner, wanted = made(name, clip=None), made(name, clip=None)
        with pytest.raises(UpdateError) as refused:
            learner.learn(bad, y * 1e10)
        assert refused.value.row == 30
        np.testing.assert_array_equal(refused.value.predictions, wanted.learn(X[:30], y[:30] * 1e10))
        assert_same_state(learner, wanted)


@pytest.mark.parametrize("method", ["ons", "ada-full", "ada-lr"])
def test_huge_dimensions_are_refused_before_anything_is_allocated(method: str) -> None:
    make(method).learn(csr_array(np.eye(3)), np.ones(3))  # so that nothing is left to compile
    learner = make(method)
    rows = csr_array((np.ones(3), ([0, 1, 2], [5, 1_999_999, 7])), shape=(3, 2_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(OptionError, match=rf"{method}.* 2,000,000 features .*GB.*Use r") as refused:
            learner.learn(rows, np.ones(3))
        with pytest.raises(OptionError, match="20,001"):
            make(method, n_features=20_001)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000  # not even one dense row
    finally:
        tracemalloc.stop()
    assert isinstance(refused.value, ValueError)
    assert learner.n_features == 0
    assert np.isfinite(learner.learn(np.ones((2, 3)), np.ones(2))).all()


def test_wide_sparse_rows_run_where_memory_is_linear() -> None:
    rng = np.random.default_rng(0)
    d = 30_000
    rows = csr_array((rng.normal(size=40), (np.repeat(np.arange(8), 5), rng.integers(d, size=40))), shape=(8, d))
    for method, given in (("radagrad", {}), ("ada-ffd", {"l1": 0.01, "n_features": 30_000})):
        learner = make(method, sketch_size=4, **given)
        assert np.isfinite(learner.learn(rows, np.ones(8))).all()
        assert learner.state_bytes()["total"] < 8 * d * 20


def test_composite_terms_are_refused_where_they_mean_nothing() -> None:
    with pytest.raises(OptionError, match="ada-lr"):
        make("ada-lr", l1=0.1)
    with pytest.raises(OptionError, match="diagonal"):
        make("ada-full", l1=0.1, diagonal=True)
    with pytest.raises(OptionError, match="ridge"):
        make("ada-full", l1=0.1, ridge=0.0)


# Accuracy that lasts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [1.0, 0.0])
def test_the_inverse_does_not_drift(ridge: float) -> None:
    rng = np.random.default_rng(0)
    scales = 10.0 ** np.linspace(-3, 3, 6)
    X = rng.normal(size=(200_000, 6)) * scales
    learner = make("ons", ridge=ridge, summary="data", clip=None)
    learner.learn(X, rng.normal(size=len(X)))
    engine = learner._engine
    assert isinstance(engine, ExactNewton)
    wanted = (ridge * np.eye(6) + X.T @ X) / np.outer(scales, scales)
    got = matrix_of(engine.factor) / np.outer(scales, scales)
    np.testing.assert_allclose(got, wanted, atol=1e-10 * len(X))


def test_curvature_rows_solve_least_squares() -> None:
    X, y = stream(n=200)
    learner = make("ons", summary="curvature", clip=None, ridge=0.5)
    learner.learn(X, y)
    np.testing.assert_allclose(learner.weights, np.linalg.solve(0.5 * np.eye(7) + 2 * X.T @ X, 2 * X.T @ y), atol=1e-12)


def test_leverage_is_the_quadratic_form_of_the_inverse() -> None:
    X, y = stream()
    for diagonal in (False, True):
        learner = make("ons", summary="curvature", ridge=0.5, diagonal=diagonal)
        learner.learn(X, y)
        engine = learner._engine
        assert isinstance(engine, ExactNewton)
        new = np.random.default_rng(1).normal(size=(4, 7))
        x = new / np.sqrt(0.1 + learner._iterate.diagonal) if diagonal else new
        wanted = np.einsum("ij,jk,ik->i", x, np.linalg.inv(matrix_of(engine.factor)), x)
        np.testing.assert_allclose(learner.leverage(new), wanted, rtol=1e-10)
        wide = np.column_stack([new, np.full(4, 2.0)])
        extra = 4.0 / 0.5 / (0.1 if diagonal else 1.0)
        np.testing.assert_allclose(learner.leverage(csr_array(wide)), wanted + extra, rtol=1e-10)
    with pytest.raises(OptionError, match="leverage"):
        make("ada-full").leverage(X)


def test_leverage_without_ridge_is_infinite_outside_of_what_was_seen() -> None:
    learner = make("ons", ridge=0.0, summary="data")
    learner.learn(np.diag([2.0, 1.0, 0.0]), np.zeros(3))
    np.testing.assert_allclose(learner.leverage(np.eye(3)), [0.25, 1.0, np.inf])
    np.testing.assert_allclose(learner.leverage(np.eye(4)), [0.25, 1.0, np.inf, np.inf])


def test_radagrad_never_loses_orthogonality() -> None:
    rng = np.random.default_rng(0)
    summary = Rada(12, 4, 0.1, seed=0)
    for i in range(3000):
        summary.absorb(rng.normal(size=12) * 10.0 ** rng.integers(-2, 3) if i % 3 else np.eye(12)[i % 12])
    np.testing.assert_allclose(summary.Q.T @ summary.Q, np.eye(4), atol=1e-13)
    directions, _ = summary.spectrum()
    np.testing.assert_allclose(directions @ directions.T, np.eye(4), atol=1e-13)


def test_fourier_samples_are_rows_without_replacement_and_fair_signs() -> None:
    rows, signs = fourier_sample(3, 40, 100)
    assert len(set(rows.tolist())) == 40
    assert rows.min() >= 0
    assert rows.max() < 100
    np.testing.assert_array_equal(np.abs(signs), 1.0)
    many = fourier_sample(3, 0, 10_000)[1]
    assert abs(many.mean()) < 0.05
    mean = np.zeros((8, 8))
    for seed in range(2000):
        Pi = definitions.subsampled_dct(*fourier_sample(seed, 3, 8))
        mean += Pi.T @ Pi / 2000
    np.testing.assert_allclose(mean, np.eye(8), atol=0.1)


# Merging ---------------------------------------------------------------------------------------------------


def test_merged_curvature_learners_are_the_sequential_one() -> None:
    """Squared loss, no clip, step 1: recursive least squares, so that the merge is exact for any split."""
    X, y = stream(n=120)
    given = {"summary": "curvature", "clip": None, "ridge": 0.3, "fit_intercept": True}
    sequential = make("ons", **given)
    sequential.learn(X, y)
    one, two = make("ons", **given), make("ons", **given)
    one.learn(X[:50], y[:50])
    two.learn(X[50:, :], y[50:])
    untouched = copy.deepcopy(two)
    assert one.merge(two) is one
    assert_same_state(two, untouched)
    assert one.rounds == 120
    np.testing.assert_allclose(one.weights, sequential.weights, atol=1e-9)
    np.testing.assert_allclose(one.intercept, sequential.intercept, atol=1e-9)

    base = make("ons", **given)
    base.learn(X[:30], y[:30])
    left, right = copy.deepcopy(base), copy.deepcopy(base)
    left.learn(X[30:70], y[30:70])
    right.learn(X[70:], y[70:])
    left.merge(right, base)
    assert left.rounds == 120
    np.testing.assert_allclose(left.weights, sequential.weights, atol=1e-9)
    np.testing.assert_allclose(left.leverage(X), sequential.leverage(X), rtol=1e-9)
    # and it goes on from there
    np.testing.assert_allclose(left.learn(X[:9], y[:9]), sequential.learn(X[:9], y[:9]), atol=1e-9)


def test_merging_without_ridge() -> None:
    X, y = stream(n=120)
    given = {"summary": "curvature", "clip": None, "ridge": 0.0}
    sequential, one, two = (make("ons", **given) for _ in range(3))
    sequential.learn(X, y)
    one.learn(X[:50], y[:50])
    two.learn(X[50:], y[50:])
    np.testing.assert_allclose(one.merge(two).weights, sequential.weights, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["ons", "ada-full", "ada-lr", "radagrad, box", "ada-fd, l1", "ada-ffd, l1", "s-adagrad, l2"]
)
def test_merging_lies_between_and_adds_up(name: str) -> None:
    X, y = stream(n=100)
    one, two, narrow = made(name, clip=None), made(name, clip=None), made(name, clip=None)
    one.learn(X[:50], y[:50])
    two.learn(X[50:], y[50:])
    first, second = one.weights, two.weights
    merged = one.merge(two)
    assert merged.rounds == 100
    assert np.isfinite(merged.learn(X[:5], y[:5])).all()
    distance = np.linalg.norm(first - second)
    assert np.linalg.norm(merged.weights - first) <= 3 * distance
    # a learner that has learned nothing brings nothing
    alone = copy.deepcopy(two)
    np.testing.assert_allclose(alone.merge(narrow).weights, second, atol=1e-9)


def test_dual_averaging_merges_its_sums() -> None:
    X, y = stream(n=100)
    one, two = make("ada-full", update="dual", l1=0.01), make("ada-full", update="dual", l1=0.01)
    one.learn(X[:50], y[:50])
    two.learn(X[50:], y[50:])
    wanted = one._iterate.gradient_sum + two._iterate.gradient_sum
    one.merge(two)
    np.testing.assert_allclose(one._iterate.gradient_sum, wanted)
    engine = one._engine
    assert isinstance(engine, SpectralRounds)
    plain = -0.1 * engine.metric.solve(wanted)
    np.testing.assert_allclose(one.weights, proximal(engine.metric, plain, Terms(0.01, 0, -np.inf, np.inf), 10.0))


def test_merging_grows_to_the_wider() -> None:
    X, y = stream(n=60)
    narrow, wide = make("ons", summary="curvature", clip=None), make("ons", summary="curvature", clip=None)
    narrow.learn(X[:30, :4], y[:30])
    wide.learn(X[30:], y[30:])
    sequential = make("ons", summary="curvature", clip=None)
    sequential.learn(np.vstack([X[:30] * (np.arange(7) < 4), X[30:]]), y)
    np.testing.assert_allclose(narrow.merge(wide).weights, sequential.weights, atol=1e-9)


def test_merges_that_mean_nothing_are_refused() -> None:
    X, y = stream()
    one, two = make("ons", diagonal=True), make("ons", diagonal=True)
    with pytest.raises(OptionError, match="diagonal"):
        one.merge(two)
    learners = [make("ada-fd", l1=0.1, sketch_size=3) for _ in range(3)]
    for learner in learners:
        learner.learn(X, y)
    with pytest.raises(OptionError, match="base"):
        learners[0].merge(learners[1], learners[2])
    with pytest.raises(OptionError, match="base"):
        make("ons").merge(make("ons"), make("ons", ridge=3.0))
    ahead = make("ons")
    ahead.learn(X, y)
    with pytest.raises(OptionError, match="base"):
        make("ons").merge(make("ons"), ahead)
