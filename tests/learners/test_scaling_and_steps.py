"""scaling="magnitude" and step="implicit": no unit matters, no step passes the label, and nothing else changes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import onsketch
from onsketch.core.errors import OptionError, UpdateError
from onsketch.core.scaling import MEAN, SQUARE, VALUES, VISITS
from onsketch.learners.multiclass.shared import SharedSketch
from streams import LOSSES, level

SAFE = {"scaling": "magnitude", "step": "implicit", "clip": None, "fit_intercept": True}
METHODS = ("rfd-son", "oja-son", "rp-son", "adagrad", "ogd", "s-adagrad")


def stream(rows: int = 300, seed: int = 0, real: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)) * (rng.random((rows, 6)) < 0.7)
    z = X @ [1.0, -2.0, 0.5, 0.0, 1.0, 3.0] + 0.5
    return X, z + 0.1 * rng.normal(size=rows) if real else np.where(z > 0.0, 1.0, -1.0)


def learner(method: str, loss: str = "logistic", **more: Any) -> onsketch.Learner:
    return onsketch.learner(method, loss=loss, **{**SAFE, **more})


@pytest.mark.parametrize("method", METHODS)
def test_units_of_features_and_rows_do_not_matter(method: str) -> None:
    X, y = stream()
    units = np.array([1e-9, 1e9, 1.0, 1e4, 1e-3, 7.0])
    plain, other = learner(method), learner(method)
    np.testing.assert_allclose(other.learn(X * units, y), plain.learn(X, y), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.weights * units, plain.weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", ["rfd-son", "adagrad"])
def test_the_unit_of_labels_does_not_matter(method: str) -> None:
    X, y = stream(real=True)
    options = {"summary": "curvature"} if method == "rfd-son" else {}
    plain, other = learner(method, "squared", **options), learner(method, "squared", **options)
    np.testing.assert_allclose(other.learn(X, 1e6 * y), 1e6 * plain.learn(X, y), rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_parts_sparse_rows_and_saved_learners_give_the_same(method: str, tmp_path: Path) -> None:
    X, y = stream()
    whole, parts, thin = learner(method), learner(method), learner(method)
    margins = whole.learn(X, y)
    halves = [parts.learn(X[:120], y[:120])]
    parts.save(tmp_path / "model")
    parts = onsketch.load(tmp_path / "model")
    halves.append(parts.learn(X[120:], y[120:]))
    assert np.array_equal(np.concatenate(halves), margins)
    np.testing.assert_allclose(thin.learn(sparse.csr_matrix(X), y), margins, rtol=1e-9, atol=1e-12)
    assert np.array_equal(parts.weights, whole.weights)
    assert np.array_equal(parts.fork().predict(X), whole.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_margins_are_predicted_before_a_row_is_learned(method: str) -> None:
    X, y = stream(60)
    model = learner(method)
    for row, label in zip(X, y, strict=True):
        before = model.predict([row]) if model.rounds else np.zeros(1)
        np.testing.assert_allclose(model.learn([row], [label]), before, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.predict(X), X @ model.weights + model.intercept, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", METHODS)
def test_an_implicit_step_goes_towards_the_label_and_does_not_pass_it(method: str, loss: str) -> None:
    """However long the step: the margin ends between where it was and the label (0 loss, for hinges)."""
    if loss in ("absolute", "hinge", "quantile", "epsilon_insensitive") and method.endswith("son"):
        pytest.skip("no curvature")
    if method == "oja-son":
        pytest.skip("its directions turn with the row, so that the metric of the step is not known before")
    rng = np.random.default_rng(1)
    signs = loss in ("logistic", "hinge", "squared_hinge")
    options = {"summary": "curvature", "ridge": 0.1} if method.endswith("son") else {"step_size": 1e6}
    model = onsketch.learner(method, loss=loss, step="implicit", clip=None, **options, **level(loss))
    for _ in range(40):
        x = rng.normal(size=(1, 4)) * (1.0 if loss == "poisson" else 10.0 ** rng.integers(-1, 2))
        y = np.sign(rng.normal(size=1)) if signs else rng.normal(size=1)
        if loss == "poisson":  # what the margin is drawn to is the label's logarithm
            y = np.exp(y)
        before = float(model.learn(x, y)[0])
        after = float(model.predict(x)[0])
        if signs:
            low, high = sorted((before * y[0], max(before * y[0], 1.0 if loss != "logistic" else np.inf)))
            assert low - 1e-6 <= after * y[0] <= high + 1e-6
        else:
            low, high = sorted((before, np.log(y[0]) if loss == "poisson" else y[0]))
            slack = 1e-6 * (1.0 + abs(before))
            assert low - slack <= after <= high + slack


def test_one_row_in_wrong_units_does_little_and_a_wrong_start_is_left_behind() -> None:
    X, y = stream(2000)
    clean = learner("rfd-son").learn(X, y)
    for where in (0, 200):
        spoiled = X.copy()
        spoiled[where] *= 1e6
        margins = learner("rfd-son").learn(spoiled, y)
        worse = np.mean(np.sign(margins[500:]) != y[500:]) - np.mean(np.sign(clean[500:]) != y[500:])
        assert worse < 0.02


def test_a_scale_is_bounded_in_what_one_value_can_do() -> None:
    X, y = stream(2000)
    spoiled = X.copy()
    spoiled[700, 2] = 1e12
    scales = []
    for rows in (X, spoiled):
        model: Any = learner("adagrad")
        model.learn(rows, y)
        scales.append(model._stage._of(np.arange(6))[1])
    np.testing.assert_allclose(scales[1], scales[0], rtol=0.05)


def test_a_refused_row_leaves_the_scales_as_they_were() -> None:
    X, y = stream(50, real=True)
    model = onsketch.learner("adagrad", scaling="magnitude", loss="squared")
    y /= 1e60
    model.learn(X, y)
    arrays = {name: array.copy() for name, array in model._arrays().items()}
    with pytest.raises(UpdateError) as refused:
        model.learn(np.vstack([X[:2], X[2:4]]), np.array([y[0], 1e149, y[2], y[3]]))
    assert refused.value.row == 1
    twin = onsketch.learner("adagrad", scaling="magnitude", loss="squared")
    twin._width = model._width
    twin._restore(arrays)
    twin.learn(X[:1], y[:1])
    for name, array in twin._arrays().items():
        assert np.array_equal(array, model._arrays()[name]), name


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(OptionError, match="scaling"):
        onsketch.learner("kons", scaling="magnitude", kernel=lambda X, Z: X @ Z.T)
    with pytest.raises(OptionError, match=r"implicit.*update='dual'"):
        onsketch.learner("ada-fd", step="implicit", update="dual")
    a, b = learner("adagrad"), learner("adagrad")
    with pytest.raises(OptionError, match="scaling='none'"):
        a.merge(b)


@pytest.mark.parametrize("method", ["ons", "adagrad"])
def test_learners_that_hold_the_same_scales_merge(method: str) -> None:
    """Newton steps on the curvature as if one learner had seen all rows; of new features, too."""
    X, y = stream(300, real=True)
    X[:150, 0], X[150:, 1] = 0.0, 0.0
    measured = onsketch.safe_learner(method)
    measured.learn(X[100:150], y[100:150])
    base = onsketch.safe_learner(method)
    base.hold_scales(measured)
    whole, one, two = base.fork(), base.fork(), base.fork()
    whole.learn(X, y)
    one.learn(X[:150], y[:150])
    two.learn(X[150:], y[150:])
    one.merge(two, base=base)
    assert one.rounds == 300
    if method == "ons":
        np.testing.assert_allclose(one.predict(X), whole.predict(X), rtol=1e-6, atol=1e-6 * np.abs(y).max())
    assert np.mean((one.predict(X) - y) ** 2) <= 1.5 * np.mean((whole.predict(X) - y) ** 2)
    with pytest.raises(OptionError, match="units of its own"):
        one.merge(measured)


def test_importance_of_an_implicit_step_is_like_repetition() -> None:
    """A row of weight 3 moves its margin nearly as three rows would, and never past the label."""
    x, y = np.array([[1.0, 2.0]]), np.array([1.0])
    once, heavy = (onsketch.learner("ogd", loss="squared", step="implicit", step_size=100.0) for _ in range(2))
    once.learn(x, y)
    heavy.learn(x, y, [1e6])
    assert float(once.predict(x)[0]) < float(heavy.predict(x)[0]) <= 1.0


def test_unsupported_steps_of_dense_learners_are_refused_and_not_recommended() -> None:
    with pytest.raises(OptionError, match="explicit steps"):
        onsketch.learner("ada-fd", l1=0.01, step="implicit")
    learner = onsketch.safe_learner("ada-fd", l1=0.01)
    learner.learn(np.eye(3), np.ones(3))
    assert np.isfinite(learner.weights).all()


@pytest.mark.parametrize("method", ["ons", "rfd-son", "fd-son"])
def test_a_line_is_learned_in_any_order(method: str) -> None:
    t = np.arange(200.0)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(200) if seed else np.arange(200)
        model = onsketch.safe_learner(method)
        model.learn(t[order, None], 100.0 + t[order])
        assert float(model.predict([[200.0]])[0]) == pytest.approx(300.0, abs=1.0)


@pytest.mark.parametrize("method", ["ons", "rfd-son", "fd-son"])
def test_few_normal_rows_are_learned_like_ridge_regression(method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=2500)
    model = onsketch.safe_learner(method)
    model.learn(X[:500], y[:500])
    exact = np.linalg.lstsq(X[:500], y[:500], rcond=None)[0]
    errors = [np.mean((found - y[500:]) ** 2) for found in (model.predict(X[500:]), X[500:] @ exact)]
    assert errors[0] < 1.1 * errors[1]


@pytest.mark.parametrize("method", ["adam", "adagrad", "rfd-son", "kons"])
def test_numbers_far_from_zero_are_learned(method: str) -> None:
    X, y = stream(600, real=True)
    model = onsketch.safe_learner(method)
    model.learn(X, 1000.0 + y)
    assert np.mean((model.predict(X) - 1000.0 - y) ** 2) < 0.3 * np.var(y)


@pytest.mark.parametrize("method", ["adagrad", "ftrl", "adam", "arow", "rfd-son", "oja-son", "ons"])
@pytest.mark.parametrize("real", [False, True])
def test_predictions_stay_when_scales_change_later(method: str, real: bool) -> None:
    if method == "arow":
        if real:
            pytest.skip("arow is for classes")
        options = {"loss": "squared_hinge"}
    else:
        options = {"loss": "squared" if real else "logistic"}
    X, y = stream(600, real=real)
    X, y = 5.0 + X * np.linspace(1.0, 4.0, 600)[:, None], 30.0 + 10.0 * y if real else y
    model: Any = onsketch.safe_learner(method, **options)
    model.learn(X, y)
    stage, before, weights = model._stage, model.predict(X[:10] / 2.0), model.weights
    old = stage._law
    stage._law.figures[1:4, SQUARE] *= 16.0  # the squared deviations
    if real:
        stage._law.labels[0, [MEAN, SQUARE]] += 70.0, 90000.0
    stage._rewrite(model)
    assert stage._law is not old
    np.testing.assert_allclose(model.weights, weights, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.predict(X[:10] / 2.0), before, rtol=1e-8, atol=1e-8)


def far_from_zero() -> tuple[Any, Any]:
    """Rows and numbers with offsets; some features are rare, and not in the last rows: their shrinks are deferred."""
    X, y = stream(600, real=True)
    X[::2, 3:], X[500:, 3:] = 0.0, 0.0
    return 5.0 * (X != 0.0) + X, 30.0 + 10.0 * y


@pytest.mark.parametrize("method", ["adagrad", "ftrl"])
@pytest.mark.parametrize("terms", [{"l1": 0.003}, {"l2": 0.01}, {"l1": 0.003, "l2": 0.01}])
def test_predictions_stay_when_scales_change_under_l1_and_l2(method: str, terms: dict[str, float]) -> None:
    X, y = far_from_zero()
    model: Any = onsketch.safe_learner(method, **terms)
    model.learn(X, y)
    before, weights = model.predict(X[:10]), model.weights
    model._stage._law.labels[0, [MEAN, SQUARE]] += 70.0, 90000.0
    model._stage._rewrite(model)
    np.testing.assert_allclose(model.weights, weights, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.predict(X[:10]), before, rtol=1e-8)


def test_scales_stay_if_there_is_no_memory_to_rewrite_weights(monkeypatch: Any) -> None:
    X, y = far_from_zero()
    model: Any = onsketch.safe_learner("adagrad")
    model.learn(X, y)
    before = model.predict(X[:10])
    model._stage._law.labels[0, [MEAN, SQUARE]] += 70.0, 90000.0

    def refuse(change: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(model._inner, "_shift", refuse)
        with pytest.raises(MemoryError):
            model._stage._rewrite(model)
    assert np.array_equal(model.predict(X[:10]), before)
    model._stage._rewrite(model)
    assert float(model._stage.units[1][0]) > 100.0
    np.testing.assert_allclose(model.predict(X[:10]), before, rtol=1e-8)


@pytest.mark.parametrize("method", ["adagrad", "rfd-son", "ons"])
def test_many_narrow_rows_are_predicted_like_few(method: str) -> None:
    """The features that they lack are 0, which is far from the centres."""
    X, y = stream(400, real=True)
    model = onsketch.safe_learner(method)
    model.learn(1000.0 + X, y)
    narrow = 1000.0 + X[:300, :3]
    few = np.concatenate([model.predict(narrow[i : i + 50]) for i in range(0, 300, 50)])
    np.testing.assert_allclose(model.predict(narrow), few, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", ["adagrad", "rfd-son", "ons", "kons", "ada-fd", "shared"])
def test_narrow_rows_are_wide_ones_with_zeros(method: str) -> None:
    """A stage that adds centred features which rows lack makes these rows wider."""
    X, y = stream(330, real=True)
    if method == "shared":
        y = (y > 0.0).astype(int)
        make = partial(SharedSketch, "rfd-son", 2, sketch_size=4, scaling="magnitude", fit_intercept=True)
    else:
        make = partial(onsketch.safe_learner, method)
    cut, padded = make(), make()
    X[:, 3:] += 5.0
    X[300:, 3:] = 0.0
    for model, narrow in ((cut, X[300:, :3]), (padded, X[300:])):
        model.learn(X[:20], y[:20])
        model.learn(narrow[:15], y[300:315])
        model.learn(X[20:300], y[20:300])
        model.learn(narrow[15:], y[315:])
    for sparsely in (np.asarray, sparse.csr_array):
        found = cut.predict(sparsely(X[300:, :3]))
        np.testing.assert_allclose(found, padded.predict(X[300:]), rtol=1e-9, atol=1e-9)


def test_reading_weights_leaves_the_map_of_features_to_other_readers() -> None:
    X = sparse.random_array((100, 5000), density=0.01, format="csr", rng=np.random.default_rng(0))
    model: Any = learner("adagrad")
    model.learn(X, stream(100)[1])
    parts, size = model._stage.map.parts, model.state_bytes()
    assert len(model.coefficients()[0]) + 1 == model._stage.map.count
    assert model._stage.map.holds(parts)
    assert model.state_bytes() == size


@pytest.mark.parametrize("method", ["adagrad", "rfd-son", "ons", "kons", "rp-son"])
def test_the_first_rows_are_learned_as_if_scales_had_been_known(method: str) -> None:
    """So their order does not matter to scales, and a learner that holds these scales learns the same."""
    X, y = stream(256, real=True)
    X[:, 2] = 100.0 + X[:, 2]
    model: Any = onsketch.safe_learner(method, seed=0)
    model.learn(X, y)
    twin: Any = onsketch.safe_learner(method, seed=0)
    twin.hold_scales(model)
    twin.learn(X, y)
    np.testing.assert_allclose(twin.predict(X), model.predict(X), rtol=1e-6, atol=1e-6)


def test_kernel_methods_do_not_depend_on_units() -> None:
    X, y = stream(300)
    plain, other = (onsketch.safe_learner("pros-n-kons", loss="logistic") for _ in range(2))
    units = [1e-6, 1e3, 1.0, 1e6, 7.0, 1e-3]
    np.testing.assert_allclose(other.learn(X * units, y), plain.learn(X, y), rtol=1e-6, atol=1e-6)
    assert plain.diagnostics()["rows_kept"] > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["adagrad", "rfd-son", "ons", "kons"])
def test_learners_that_hold_scales_of_wide_rows_survive_a_file_after_narrow_ones(method: str, tmp_path: Path) -> None:
    X, y = stream(100, real=True)
    measured: Any = onsketch.safe_learner(method)
    measured.learn(X[:50], y[:50])
    model: Any = onsketch.safe_learner(method)
    model.hold_scales(measured)
    model.learn(X[50:, :3], y[50:])
    model.save(tmp_path / "model")
    assert np.array_equal(onsketch.load(tmp_path / "model").predict(X), model.predict(X))
    assert np.array_equal(model.fork().predict(X), model.predict(X))


def test_merged_scales_count_the_rows_of_both() -> None:
    X, y = stream(300, real=True)
    measured: Any = onsketch.safe_learner("adagrad")
    measured.learn(X[:50], y[:50])
    base: Any = onsketch.safe_learner("adagrad")
    base.hold_scales(measured)
    one, two = base.fork(), base.fork()
    one.learn(X[:150], y[:150])
    two.learn(X[150:], y[150:])
    one.merge(two, base=base)
    whole = base.fork()
    whole.learn(X, y)
    assert one._stage.rounds == 300
    found, expected = (part._stage._law.figures[: part._stage.map.count] for part in (one, whole))
    for figure in (VALUES, VISITS, MEAN, SQUARE):
        np.testing.assert_allclose(found[:, figure], expected[:, figure], rtol=0.1, atol=0.1)
