"""OGD, AdaGrad, diagonal Newton, Adam, FTRL and AROW agree with their definitions, whatever the options."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

import definitions
from onsketch.errors import OptionError, UpdateError
from onsketch.learners.first_order import learner as first_order
from onsketch.learners.first_order.learner import FirstOrderLearner
from onsketch.learners.first_order.steps import TIMER
from onsketch.learners.methods import METHODS, compose_method
from onsketch.learners.options import resolve
from streams import labels_for, level

pytestmark = pytest.mark.learners

Floats = NDArray[np.float64]

SIGN_LOSSES = ("logistic", "hinge", "squared_hinge")
LOSSES = ("squared", "absolute", *SIGN_LOSSES, "quantile", "poisson")

COMPOSITE: dict[str, dict[str, Any]] = {
    "none": {},
    "l1": {"l1": 0.05},
    "l2": {"l2": 0.3},
    "l1, l2": {"l1": 0.03, "l2": 0.1},
    "box": {"box": (-0.1, 0.2)},
    "all": {"l1": 0.02, "l2": 0.05, "box": (-0.3, 0.2)},
    "half a box": {"l1": 0.02, "box": (0.0, 0.3)},
}

EVERY_KIND: list[tuple[str, dict[str, Any]]] = [
    ("ogd", {}),
    ("ogd", {"l1": 0.01, "l2": 0.02, "average": True}),
    ("ogd", {"update": "dual", "l1": 0.01, "average": True}),
    ("adagrad", {}),
    ("adagrad", {"update": "dual", "l1": 0.01}),
    ("adagrad", {"l1": 0.01, "l2": 0.02, "average": True, "clip": 0.5}),
    ("adagrad", {"update": "dual", "l1": 0.01, "l2": 0.02, "average": True}),
    ("diagonal × newton", {}),
    ("diagonal × newton", {"summary": "curvature", "average": True}),
    ("diagonal × s-adagrad", {"box": (-0.1, 0.1)}),
    ("adam", {"average": True}),
    ("lazy-adam", {"average": True}),
    ("ftrl", {"l1": 0.1}),
    ("arow", {"average": True}),
]
"""One learner for each path through the code."""

every_kind = pytest.mark.parametrize(
    ("name", "options"), EVERY_KIND, ids=[f"{name} {options}" for name, options in EVERY_KIND]
)


def make(name: str, **options: Any) -> FirstOrderLearner:
    method = METHODS[name] if name in METHODS else compose_method(*name.split(" × "))
    return FirstOrderLearner(method, resolve(method.name, method.concerns, method.defaults, options))


def stream(n: int = 80, d: int = 9, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Rows with features from rare to frequent, one of them empty; targets and signs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < np.linspace(0.03, 0.5, d))
    X[min(7, n - 1)] = 0.0
    target = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    return X, target, np.where(target >= 0.0, 1.0, -1.0)


def state(learner: FirstOrderLearner) -> tuple[bytes, bytes, bytes, int, int]:
    """Everything that a later round could depend on."""
    count = learner._map.count
    packed = learner._table[:count].tobytes() + learner._map.features.tobytes()
    now = learner._clock[TIMER.rounds] - learner._clock[TIMER.start]
    window = learner._window[: now + 1 if len(learner._window) > 1 else 1]
    return packed, learner._clock.tobytes(), window.tobytes(), count, learner.rounds


def lazy_adam(X: Floats, y: Floats, o: definitions.Options) -> definitions.Result:
    """Adam on the features of the row only, with the bias correction of the round."""
    w, m, v = np.zeros((3, X.shape[1]))
    b1, b2 = o.betas
    predictions, iterates = [], [w]
    for t, x, target, c in definitions.rounds(X, y, o):
        on = x != 0
        z = definitions.clamp(w @ x, o.bound)
        g = c * definitions.loss_of(o).slope(z, target) * x
        m = np.where(on, b1 * m + (1 - b1) * g, m)
        v = np.where(on, b2 * v + (1 - b2) * g**2, v)
        step = o.step_size * m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + o.ridge)
        w = np.where(on, w - step, w)
        predictions.append(z)
        iterates.append(w)
    return definitions.result(predictions, iterates, o)


def defined(learner: FirstOrderLearner, X: Floats, y: Floats, **options: Any) -> definitions.Result:
    """What the definition makes of this stream under the learner's resolved options."""
    o = learner.options
    options |= {"step_size": o.step_size, "clip": o.clip, "ridge": 1.0 if o.ridge is None else o.ridge}
    name = learner.method.name
    if name == "lazy-adam":
        return lazy_adam(X, y, definitions.Options(**options))
    if name in METHODS:
        return definitions.run(name, X, y, **options)
    sketch, geometry = name.split(" × ")
    return definitions.compose_definition(X, y, sketch=sketch, geometry=geometry, **options)


def assert_agrees(name: str, *, sparse: bool = True, weighted: bool = False, **options: Any) -> None:
    X, target, signs = stream()
    loss = options.get("loss", "squared")
    y = signs if loss in SIGN_LOSSES else labels_for(loss, target)
    options |= level(loss)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], len(y)) if weighted else None
    learner = make(name, **options)
    expected = defined(learner, X, y, **options, sample_weight=weight)
    predictions = learner.learn(csr_array(X) if sparse else X, y, weight)
    np.testing.assert_allclose(predictions, expected.predictions, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(learner.weights, expected.weights, rtol=1e-8, atol=1e-9)
    bound = math.inf if learner.options.clip is None else learner.options.clip
    np.testing.assert_allclose(learner.predict(X), np.clip(X @ expected.weights, -bound, bound), rtol=1e-8, atol=1e-9)


# The definitions ------------------------------------------------------------------------------------------


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


# One pass, however it is cut ------------------------------------------------------------------------------


@every_kind
def test_one_call_equals_many_bit_for_bit(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream(n=60)
    whole, cut, dense = make(name, **options), make(name, **options), make(name, **options)
    predictions = whole.learn(csr_array(X), target)
    for i, row in enumerate(X):
        assert cut.learn(csr_array(row[None]), target[i : i + 1])[0] == predictions[i]
        assert dense.learn(row[None], target[i : i + 1])[0] == predictions[i]
    assert state(whole) == state(cut) == state(dense)


@pytest.mark.parametrize("update", ["mirror", "dual"])
def test_windows_end_at_the_same_round_however_the_stream_is_cut(update: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_order, "WINDOW", 13)
    X, target, _ = stream(n=60)
    options = {"update": update, "average": True, "l1": 0.01, "l2": 0.02}
    whole, cut = make("ogd", **options), make("ogd", **options)
    predictions = whole.learn(X, target)
    for i, row in enumerate(X):
        assert cut.learn(row[None], target[i : i + 1])[0] == predictions[i]
    assert state(whole) == state(cut)
    expected = defined(whole, X, target, **options)
    np.testing.assert_allclose(predictions, expected.predictions, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(whole.weights, expected.weights, rtol=1e-9, atol=1e-10)


# Hard streams ---------------------------------------------------------------------------------------------


@every_kind
def test_extreme_rows_never_make_nan(name: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    X, _, signs = stream(n=300, seed=2)
    X *= 10.0 ** rng.uniform(-60.0, 60.0, size=(len(X), 1))
    learner = make(name, **options)
    learned = 0
    for row, label in zip(X, signs, strict=True):
        try:
            assert np.isfinite(learner.learn(row[None], [label])).all()
            learned += 1
        except UpdateError:
            pass
        assert np.isfinite(learner._table[: learner._map.count]).all()
    assert np.isfinite(learner.weights).all()
    assert learner.rounds == learned
    assert learned > 100


@every_kind
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_refused_row_leaves_no_trace(name: str, options: dict[str, Any], dtype: str) -> None:
    X, target, _ = stream(n=40)
    X = np.column_stack([X, np.zeros(len(X))])
    learner, other = make(name, dtype=dtype, **options), make(name, dtype=dtype, **options)
    other.learn(csr_array(X[:20]), target[:20])
    X[20, [3, 9]] = 1e120, -1e149  # feature 9 is met for the first time
    target[20] = 1e149
    weight = np.ones(len(X))
    weight[20] = 1e100
    with pytest.raises(UpdateError) as caught:
        learner.learn(csr_array(X), target, weight)
    assert caught.value.row == 20
    assert len(caught.value.predictions) == 20
    assert state(learner) == state(other)
    assert learner.learn(X[21:], target[21:]).tolist() == other.learn(X[21:], target[21:]).tolist()
    assert state(learner) == state(other)


@njit
def dense_recursion(
    features: Any, values: Any, signs: Any, d: int, start: int, adagrad: bool, dual: bool, options: Any
) -> Any:
    """Rows of one feature each, hinge loss, as the definition has it but quick: last and mean weights."""
    step, ridge, l1, l2 = options
    w, total, sums, energy, metric = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    for i in range(features.size):
        t = start + i + 1
        j = features[i]
        g = -signs[i] * values[i] if signs[i] * values[i] * w[j] < 1.0 else 0.0
        energy[j] += g * g
        sums[j] += g
        for k in range(d):
            metric[k] = ridge + math.sqrt(energy[k]) if adagrad else math.sqrt(t)
            v = -step * sums[k] / metric[k] if dual else w[k] - (step * g / metric[k] if k == j else 0.0)
            s = step * t if dual else step
            size = max(abs(v) - s * l1 / metric[k], 0.0) / (1.0 + s * l2 / metric[k])
            w[k] = math.copysign(size, v)
            total[k] += w[k]
    return w, total / (start + features.size)


@pytest.mark.parametrize("start", [0, 10_000_000])
@pytest.mark.parametrize(("l1", "l2"), [(1e-4, 0.0), (0.0, 1e-3), (1e-6, 3e-2), (1e-4, 1e-9), (1e-5, 100.0)])
@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("name", ["ogd", "adagrad"])
def test_long_sleeps(name: str, update: str, l1: float, l2: float, start: int) -> None:
    """Features met once in 2 … 20,000 rounds, over 200,000 rounds from the first or the ten millionth on."""
    rng = np.random.default_rng(5)
    n, d = 200_000, 5
    features = rng.choice(d, size=n, p=[0.5, 0.4893, 0.01, 0.00065, 0.00005]).astype(np.int32)
    values = rng.uniform(0.5, 2.0, size=n)
    signs = np.where(rng.random(n) < 0.2 + 0.15 * features, 1.0, -1.0)
    X = csr_array((values, features, np.arange(n + 1)), shape=(n, d))
    options = {"step_size": 0.5, "l1": l1, "l2": l2, "update": update, "average": True, "loss": "hinge"}
    ridge = {} if name == "ogd" else {"ridge": 0.1}
    learner = make(name, **options, **ridge)
    learner._clock[[TIMER.rounds, TIMER.start]] = start
    learner.learn(X, signs)
    last, mean = dense_recursion(
        features, values, signs, d, start, name == "adagrad", update == "dual", (0.5, 0.1, l1, l2)
    )
    largest = np.abs(last).max()
    np.testing.assert_allclose(learner.weights, mean, rtol=1e-7, atol=1e-9 * largest * n / (n + start))
    plain = make(name, **{**options, "average": False}, **ridge)
    plain._clock[[TIMER.rounds, TIMER.start]] = start
    plain.learn(X, signs)
    np.testing.assert_allclose(plain.weights, last, rtol=1e-7, atol=1e-9 * largest)


# Reading and memory ---------------------------------------------------------------------------------------


def test_leverage_is_the_diagonal_metric() -> None:
    X, target, _ = stream(d=9)
    X[7, 0] = 1.0  # AROW learns nothing from a round without a slope
    rows = np.random.default_rng(0).normal(size=(5, 9)) * [1, 1e6, 1, 1, 0, 1, 1, 1, 0]
    rows[2] = 0.0
    with_ones = np.column_stack([rows, np.ones(5)])
    seen = np.append(np.append((X[:, :6] ** 2).sum(axis=0), np.zeros(3)), len(X))
    for name, precision in (("diagonal × newton", 0.5 + seen), ("arow", 1.0 + seen / 0.5)):
        summary = {"summary": "data"} if "newton" in name else {}
        learner = make(name, ridge=0.5, fit_intercept=True, **summary)
        before = (with_ones**2).sum(axis=1) / (0.5 if "newton" in name else 1.0)
        np.testing.assert_allclose(learner.leverage(rows), before, rtol=1e-12)
        learner.learn(csr_array(X[:, :6]), target)
        expected = (with_ones**2 / precision).sum(axis=1)
        np.testing.assert_allclose(learner.leverage(rows), expected, rtol=1e-10)
    with pytest.raises(OptionError, match="leverage"):
        make("adagrad").leverage(X)


def test_plain_adagrad_keeps_two_numbers_per_feature() -> None:
    X, target, _ = stream()
    for dtype, size in (("float64", 8), ("float32", 4)):
        learner = make("adagrad", dtype=dtype)
        learner.learn(X, target)
        assert learner.state_bytes()["packed"] == 9 * (2 * size + 8 + 4)
        assert learner.state_bytes()["total"] >= learner.state_bytes()["packed"]


@pytest.mark.parametrize("options", [{}, {"l1": 1e-3, "l2": 1e-3, "average": True}])
@pytest.mark.parametrize("name", ["ogd", "adagrad"])
def test_single_precision_is_close(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream(n=300)
    double, single = make(name, **options), make(name, dtype="float32", **options)
    np.testing.assert_allclose(
        double.learn(X, target), single.learn(X, target), rtol=1e-3, atol=1e-3 * np.abs(target).max()
    )
    np.testing.assert_allclose(double.weights, single.weights, rtol=1e-3, atol=1e-4)


def test_adam_refuses_very_many_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_order, "DENSE_LIMIT", 4)
    X, target, _ = stream(d=9)
    learner = make("adam")
    learner.learn(X[:, :4], target)
    before = state(learner)
    with pytest.raises(OptionError, match="lazy-adam"):
        learner.learn(X, target)
    assert state(learner) == before


def test_impossible_options_are_refused() -> None:
    with pytest.raises(OptionError, match="contain 0"):
        make("adagrad", box=(0.1, 1.0))
    with pytest.raises(OptionError, match="ridge"):
        make("adagrad", ridge=0.0)
    with pytest.raises(OptionError, match="curvature"):
        make("adagrad", summary="curvature", loss="hinge")


# Merging --------------------------------------------------------------------------------------------------


@every_kind
def test_merging_nothing_changes_nothing(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream()
    learner, twin, base, third = (make(name, **options) for _ in range(4))
    for each in (learner, twin, base, third):
        each.learn(X, target)
    expected, before = learner.weights, state(twin)
    again = learner.merge(twin, base=base)
    into_empty = make(name, **options).merge(twin)
    assert state(twin) == before == state(base)
    for merged in (again, into_empty, third.merge(make(name, **options))):
        np.testing.assert_allclose(merged.weights, expected, rtol=1e-10, atol=1e-12)
        assert merged.rounds == len(X)


@pytest.mark.parametrize("name", ["adagrad", "diagonal × newton", "arow", "ftrl"])
def test_features_of_one_learner_only_keep_their_weights(name: str) -> None:
    X, target, _ = stream(d=10)
    left, right = X.copy(), X.copy()
    left[:, 5:] = 0.0
    right[:, :5] = 0.0
    one, other = make(name, clip=None), make(name, clip=None)
    one.learn(csr_array(left), target)
    other.learn(csr_array(right), target)
    expected = one.weights + other.weights
    np.testing.assert_allclose(one.merge(other).weights, expected, rtol=1e-10)


@pytest.mark.parametrize("based", [False, True])
def test_merging_is_exact_for_least_squares_on_unit_rows(based: bool) -> None:
    rng = np.random.default_rng(0)
    X = np.eye(6)[rng.integers(6, size=300)] * rng.normal(size=(300, 1))
    y = X @ rng.normal(size=6) + rng.normal(size=300)
    options: dict[str, Any] = {"summary": "curvature", "clip": None, "ridge": 0.3}
    alone, one, other, base = (make("diagonal × newton", **options) for _ in range(4))
    alone.learn(X, y)
    start = 50 if based else 0
    for each in (one, other, base):
        each.learn(X[:start], y[:start])
    one.learn(X[start:170], y[start:170])
    other.learn(X[170:], y[170:])
    one.merge(other, base=base if based else None)
    np.testing.assert_allclose(one.weights, alone.weights, rtol=1e-10)
    assert one.rounds == alone.rounds


def test_dual_averaging_adds_up() -> None:
    X, target, _ = stream(n=60)
    whole, one, other = (make("adagrad", update="dual", step_size=1e-9, l1=0.1) for _ in range(3))
    whole.learn(X, target)  # so small a step that the gradients do not depend on the past
    one.learn(X[:25], target[:25])
    other.learn(X[25:], target[25:])
    np.testing.assert_allclose(one.merge(other).weights, whole.weights, rtol=1e-6)


@every_kind
def test_merging_shards_of_one_stream_helps(name: str, options: dict[str, Any]) -> None:
    X, target, _ = stream(n=1200)
    shards = [make(name, **options) for _ in range(2)]
    for shard, part in zip(shards, (slice(0, 500), slice(500, 1000)), strict=True):
        shard.learn(X[part], target[part])
    losses = [np.mean((shard.predict(X[1000:]) - target[1000:]) ** 2) for shard in shards]
    merged = shards[0].merge(shards[1])
    assert np.mean((merged.predict(X[1000:]) - target[1000:]) ** 2) <= 1.05 * max(losses)
    assert merged.rounds == 1000
    merged.learn(X[1000:], target[1000:])
    assert np.isfinite(merged.weights).all()


def test_merging_strangers_is_refused() -> None:
    X, target, _ = stream()
    learner = make("adagrad")
    with pytest.raises(OptionError, match="options"):
        learner.merge(make("adagrad", ridge=0.5))
    older = make("adagrad")
    older.learn(X, target)
    with pytest.raises(OptionError, match="base"):
        learner.merge(make("adagrad"), base=older)
