"""The learner without tuning: equal to its definition, blind to units and offsets, bounded, resumable, mergeable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
import onsketch.core.losses
from definitions.auto import Definition, experts
from onsketch.core import scaling
from onsketch.errors import ModelFileError, OptionError, UpdateError
from onsketch.files import model_file
from onsketch.learners.auto import learner as module
from onsketch.learners.auto.classes import AutoClasses
from onsketch.learners.auto.state import FIRST, RIDGES, RUN
from onsketch.learners.auto.upkeep import kept_up, settled, sketched, written
from streams import LOSSES, blobs, level
from streams import mixed_units as stream


def in_slots(core: Any, d: int) -> tuple[Any, Any]:
    """The experts' weights with the sketch's part in them, and energies, by feature, after any upkeep that is due."""
    if core.state.running[RUN.status] >= RIDGES:
        core.state = kept_up(core.state)
    weights, energies = np.zeros((d + 1, *core.state.weights.shape[1:])), np.zeros((d + 1, FIRST))
    order = np.append(0, core.map.features + 1)
    weights[order], energies[order] = written(core.state)[: len(order)], core.state.energies[: len(order)]
    return weights, energies


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("forget", [1.0, 0.95])
@pytest.mark.parametrize("exact", [True, False])
def test_one_output_is_its_definition(monkeypatch: pytest.MonkeyPatch, loss: str, forget: float, exact: bool) -> None:
    X, y = stream(loss, n=120)
    monkeypatch.setattr(module.Core, "fits", lambda *_: exact)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 3.0], len(y))
    learner: Any = onsketch.learner("auto", loss=loss, sketch_size=4, forget=forget, **level(loss))
    definition = Definition(X.shape[1], loss, 4, exact=exact, forget=forget)
    expected = [definition.learn(*row) for row in zip(X, y, weights, strict=True)]
    size = np.abs(y).max()
    np.testing.assert_allclose(learner.learn(X, y, weights), expected, rtol=1e-6, atol=1e-6 * size)
    found, energies = in_slots(learner._core, X.shape[1])
    wanted = experts(definition)
    np.testing.assert_allclose(found, wanted["weights"], rtol=1e-6, atol=1e-7 * np.abs(wanted["weights"]).max())
    np.testing.assert_allclose(energies, wanted["energies"], rtol=1e-6)
    np.testing.assert_allclose(learner.shares, definition.mix[:-1], atol=1e-5)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("layout", [np.asarray, csr_array])
def test_many_classes_are_their_definition(monkeypatch: pytest.MonkeyPatch, exact: bool, layout: Any) -> None:
    X, y = blobs(n=80)
    X[np.random.default_rng(2).random(X.shape) < 0.3] = 0.0
    monkeypatch.setattr(module.Core, "fits", lambda *_: exact)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 3.0], len(y))
    learner = AutoClasses("auto", 4, sketch_size=4)
    definition = Definition(X.shape[1], "softmax", learner._core.directions, exact=exact, classes=4)
    expected = [definition.learn(x, float(label), h) for x, label, h in zip(X, y, weights, strict=True)]
    np.testing.assert_allclose(learner.learn(layout(X), y, weights), expected, atol=1e-5)
    found, energies = in_slots(learner._core, X.shape[1])
    wanted = experts(definition)
    np.testing.assert_allclose(found, wanted["weights"], rtol=1e-5, atol=1e-6 * np.abs(wanted["weights"]).max())
    np.testing.assert_allclose(energies, wanted["energies"], rtol=1e-5)


def rows_of(seed: int = 0, n: int = 1500, d: int = 6) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_of_a_feature_change_nothing(scale: float) -> None:
    X, y = rows_of()
    Z = X * np.array([scale, 1, 1, 1, 1, 1])
    plain, scaled = (onsketch.learner("auto").learn(rows, y) for rows in (X, Z))
    assert np.sqrt(np.mean((plain - y)[500:] ** 2)) == pytest.approx(
        np.sqrt(np.mean((scaled - y)[500:] ** 2)), rel=0.02
    )


def test_a_column_in_other_units_does_not_disturb_words() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((3000, 400)) < 0.03).astype(float)
    y = np.where(X @ rng.normal(size=400) > 0.0, 1.0, -1.0)
    wrong = [
        np.mean(onsketch.learner("auto", loss="logistic").learn(csr_array(rows), y) * y <= 0.0)
        for rows in (X, np.column_stack([X, 1e6 * (1.0 + 0.1 * rng.normal(size=3000))]))
    ]
    assert wrong[1] < wrong[0] + 0.01


def test_offsets_of_features_change_little() -> None:
    X, y = rows_of()
    errors = [np.mean((onsketch.learner("auto").learn(rows, y) - y)[500:] ** 2) for rows in (X, X + 100.0)]
    assert errors[1] < 1.1 * errors[0]


def test_a_line_extrapolates_and_normal_rows_reach_ridge_regression() -> None:
    t = np.arange(200.0)[:, None]
    model = onsketch.learner("auto", clip=None)
    model.learn(t, 100.0 + t[:, 0])
    assert model.predict([[200.0]])[0] == pytest.approx(300.0, abs=1.0)
    losses = []
    for seed in range(5):
        X, y = rows_of(seed, d=5)
        model = onsketch.learner("auto")
        model.learn(X[:500], y[:500])
        losses.append(np.mean((model.predict(X[500:]) - y[500:]) ** 2))
    assert np.mean(losses) < 1.05 * 0.25


def test_one_strange_value_spoils_no_later_row() -> None:
    X, y = rows_of(n=4000)
    Z = X.copy()
    Z[1000, 3] = 1e6
    plain, strange = ((onsketch.learner("auto").learn(rows, y) - y)[1001:] for rows in (X, Z))
    assert np.mean(strange**2) < 1.05 * np.mean(plain**2)


@pytest.mark.parametrize("leap", [1e9, 1e60, 1e145])
def test_a_scale_that_leaps_leaves_metrics_that_can_be_inverted(leap: float) -> None:
    rng = np.random.default_rng(0)
    model = onsketch.learner("auto", loss="logistic")
    for factor in (1.0, leap, 1.0, leap, 1.0):
        X = factor * rng.normal(size=(3, 4))
        model.learn(X, np.where(X[:, 0] > 0.0, 1.0, -1.0))
    X = leap * rng.normal(size=(500, 4))
    y = np.where(X @ [1.0, -1.0, 0.5, 0.0] > 0.0, 1.0, -1.0)
    assert np.mean(model.learn(X, y)[250:] * y[250:] <= 0.0) < 0.1


def test_numbers_are_bounded_by_default() -> None:
    X, y = rows_of()
    bounded, free = onsketch.learner("auto"), onsketch.learner("auto", clip=None)
    for model in (bounded, free):
        model.learn(X, y)
    room = 0.1 * np.ptp(y)
    assert bounded.predict(1e6 * X).max() == pytest.approx(y.max() + room)
    np.testing.assert_allclose(free.predict(1e6 * X), 1e6 * X @ free.weights + free.intercept, rtol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("width", [6, 300])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_files_blocks_and_forks_go_on_bit_for_bit(loss: str, width: int, dtype: str, tmp_path: Path) -> None:
    X, y = stream(loss, n=400, d=width, density=0.2 if width > 50 else 0.8)
    model = onsketch.learner("auto", loss=loss, dtype=dtype, forget=0.999)
    whole = model.fork().learn(X, y)
    model.learn(X[:150], y[:150])
    model.save(tmp_path / "model")
    again, fork = onsketch.load(tmp_path / "model"), model.fork()
    rest = model.learn(X[150:], y[150:])
    assert np.array_equal(rest, whole[150:])
    assert np.array_equal(fork.learn(X[150:], y[150:]), rest)
    one_by_one = [again.learn(csr_array(X[i : i + 1]), y[i : i + 1]) for i in range(150, 400)]
    assert np.array_equal(np.concatenate(one_by_one), rest)


@pytest.mark.parametrize("classes", [1, 3])
def test_files_go_on_bit_for_bit_while_features_keep_coming(classes: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n, path = 330, tmp_path / "model"
    X = np.hstack([rng.normal(size=(n, 12)), np.eye(n)])
    y = (X[:, :3] @ rng.normal(size=(3, max(classes, 2)))).argmax(axis=1)
    labels = y if classes > 1 else 2.0 * y - 1.0

    def fresh() -> Any:
        return AutoClasses("auto", classes) if classes > 1 else onsketch.learner("auto", loss="logistic")

    straight, kept = fresh(), fresh()
    for start in range(0, n, 33):
        rows, part = X[start : start + 33, : 45 + start], labels[start : start + 33]
        straight.learn(rows, part)
        kept.learn(rows, part)
        kept.save(path)
        kept = onsketch.load(path)
        one, two = straight._arrays(), kept._arrays()
        assert one.keys() == two.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], two[name], err_msg=f"{name} after {start + 33} rows")


def test_a_heavy_row_does_not_spoil_later_ones() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((3000, 100)) < 0.1).astype(float)
    y = np.where(X @ rng.normal(size=100) > 0.0, 1.0, -1.0)
    weights = np.ones(3000)
    even = onsketch.learner("auto", loss="logistic").learn(X, y)
    weights[1000] = 1e6
    heavy = onsketch.learner("auto", loss="logistic").learn(X, y, weights)
    wrong = [np.mean(out[1001:] * y[1001:] <= 0.0) for out in (even, heavy)]
    assert wrong[1] < 2.0 * wrong[0]


def test_a_prediction_is_what_learning_returns_and_it_is_linear() -> None:
    X, y = rows_of()
    model = onsketch.learner("auto", loss="logistic")
    model.learn(X[:500], np.sign(y[:500]))
    for i in range(500, 520):
        before = model.predict(X[i : i + 1])
        np.testing.assert_allclose(model.weights @ X[i] + model.intercept, before[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.learn(X[i : i + 1], np.sign(y[i : i + 1])), before, rtol=1e-12)


def test_a_refused_row_leaves_no_trace() -> None:
    X, y = rows_of()
    model = onsketch.learner("auto")
    model.learn(X[:100], y[:100])
    twin = model.fork()
    with pytest.raises(onsketch.errors.UpdateError):
        model.learn(np.column_stack([X[100:101], [[1.0]]]), [1e120])
    assert model.n_features == 6
    assert np.array_equal(model.learn(X[100:], y[100:]), twin.learn(X[100:], y[100:]))


@pytest.mark.parametrize("classes", [False, True])
def test_a_row_without_a_finite_prediction_is_refused_and_leaves_no_trace(classes: bool) -> None:
    X, y = stream("logistic", n=60, seed=3)
    made: Any = AutoClasses(n_classes=2) if classes else onsketch.learner("auto", loss="logistic")
    y = (y > 0).astype(np.int64) if classes else y
    made.learn(X[:50], y[:50])
    made._core.state.weights[:] = 1e308  # no rows lead here
    before = {name: array.copy() for name, array in made._arrays().items()}
    with pytest.raises(UpdateError):
        made.learn(X[50:], y[50:])
    after = made._arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [("temperatures", 2, -1e308), ("temperatures", 0, 1e308), ("hardness", 1, 0.0), ("shares", 0, 2.0),
     ("stack", 3, 1e150), ("ways", 1, -1.0)],
)  # fmt: skip
def test_a_mixture_that_no_rows_lead_to_is_refused(tmp_path: Path, field: str, place: int, value: float) -> None:
    X, y = stream("logistic", n=60, seed=3)
    made = onsketch.learner("auto", loss="logistic")
    made.learn(X, y)
    made.save(tmp_path / "m")
    content = model_file.read(tmp_path / "m")
    model_file.build(content)
    content.arrays[f"mixture.{field}"][place] = value
    with pytest.raises(ModelFileError, match=f"mixture.{field}"):
        model_file.build(content)


def test_a_list_of_centred_features_with_one_twice_is_refused(tmp_path: Path) -> None:
    X, y = stream("logistic", n=60, seed=3)
    made = onsketch.learner("auto", loss="logistic")
    made.learn(X, y)
    made.save(tmp_path / "m")
    content = model_file.read(tmp_path / "m")
    model_file.build(content)
    listed, figures = content.arrays["state.listed"], content.arrays["state.figures"]
    assert len(listed) > 1
    figures[listed[0], scaling.PLACE], listed[0] = 0.0, listed[-1]  # the places fit
    with pytest.raises(ModelFileError, match="twice"):
        model_file.build(content)


@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize("count", [2.0, 4.0, 1e9])
def test_a_count_of_classes_without_arrays_is_refused(tmp_path: Path, many: bool, count: float) -> None:
    X, _ = stream("logistic", n=60, seed=3)
    made: Any = AutoClasses(n_classes=3) if many else onsketch.learner("auto", loss="logistic")
    made.learn(X, np.arange(60) % 3 if many else np.arange(60) % 2 * 2.0 - 1.0)
    made.save(tmp_path / "m")
    content = model_file.read(tmp_path / "m")
    model_file.build(content)
    content.arrays["state.running"][RUN.classes] = count
    with pytest.raises(ModelFileError, match="classes"):
        model_file.build(content)


@pytest.mark.parametrize(("loss", "width"), [("squared", 6), ("logistic", 6), ("logistic", 400)])
def test_merged_shards_are_better_than_one_shard(loss: str, width: int) -> None:
    rng = np.random.default_rng(3)
    X = (
        rng.normal(size=(4000, width))
        * (rng.random((4000, width)) < 20 / (20 + width))
        * 10 ** rng.uniform(-2, 2, width)
    )
    y = (X / X.std(axis=0)) @ rng.normal(size=width) + 0.3 * rng.normal(size=4000)
    y = np.sign(y) if loss == "logistic" else y

    def score(model: Any) -> float:
        return float(onsketch.core.losses.loss_values(loss, model.predict(X[3000:]), y[3000:]).mean())

    shards = [onsketch.learner("auto", loss=loss) for _ in range(3)]
    whole = onsketch.learner("auto", loss=loss)
    whole.learn(X[:3000], y[:3000])
    for k, shard in enumerate(shards):
        shard.learn(X[k:3000:3], y[k:3000:3])
    alone = score(shards[0])
    shards[0].merge(shards[1]).merge(shards[2])
    assert shards[0].rounds == 3000
    assert score(shards[0]) < 1.02 * alone
    if width == 6:
        assert score(shards[0]) < 1.1 * score(whole)
    shards[0].learn(X[3000:], y[3000:])


def test_classes_may_come_later_and_survive_a_file(tmp_path: Path) -> None:
    X, y = blobs(n=600)
    model = AutoClasses("auto", 1)
    for i in range(0, 600, 20):
        while model.n_classes <= y[i : i + 20].max():
            model.add_class()
        model.learn(X[i : i + 20], y[i : i + 20])
    model.save(tmp_path / "classes")
    again: Any = onsketch.load(tmp_path / "classes")
    assert np.mean(again.predict(X).argmax(axis=1) == y) > 0.8
    assert np.array_equal(again.learn(X, y), model.learn(X, y))


@pytest.mark.parametrize("width", [6, 300])
def test_any_number_of_classes_survives_a_file(tmp_path: Path, width: int) -> None:
    X, y = blobs(n=60, d=width)
    model: Any = AutoClasses("auto", 2)
    for count in range(2, 40):
        while model.n_classes < count:
            model.add_class()
        model.save(tmp_path / "classes")
        again: Any = onsketch.load(tmp_path / "classes")
        assert again.n_classes == count
        assert np.array_equal(again.predict(X[:5]), model.predict(X[:5]))
        assert np.array_equal(again.learn(X[:5], y[:5] % count), model.learn(X[:5], y[:5] % count))
        model = again


@pytest.mark.parametrize("width", [6, 300])
def test_shards_of_classes_merge(width: int) -> None:
    X, y = blobs(n=1300, d=width)
    shards = [AutoClasses("auto", 4) for _ in range(2)]
    order = np.array([2, 0, 3, 1])  # the second has met the classes in another order, and some of them only
    shards[0].learn(X[:500], y[:500])
    shards[1].learn(X[500:1000], np.argsort(order)[y[500:1000]])
    few = AutoClasses("auto", 2)
    few.learn(X[:500][y[:500] < 2], y[:500][y[:500] < 2])

    def errors(model: AutoClasses) -> float:
        return float(np.mean(model.predict(X[1000:]).argmax(axis=1) != y[1000:]))

    alone = errors(shards[0])
    shards[0].merge(shards[1], order.tolist())
    assert shards[0].rounds == 1000
    assert errors(shards[0]) <= alone + 0.01
    few.merge(shards[0])
    assert few.n_classes == 4
    assert errors(few) <= alone + 0.03
    np.testing.assert_allclose(few.predict_proba(X).sum(axis=1), 1.0)
    few.learn(X[1000:], y[1000:])
    empty = AutoClasses("auto", 0).merge(few)
    assert np.array_equal(empty.predict(X), few.predict(X))
    with pytest.raises(OptionError, match="forget"):
        AutoClasses(n_classes=2, forget=0.9).merge(AutoClasses(n_classes=2, forget=0.9))


@pytest.mark.parametrize("width", [6, 300])
def test_the_weights_of_classes_say_what_is_predicted(width: int) -> None:
    X, y = blobs(n=800, d=width)
    model = AutoClasses("auto", 4)
    model.learn(X, y)
    margins = X @ model.weights.T + model.intercept
    assert np.mean(margins.argmax(axis=1) == model.predict(X).argmax(axis=1)) > 0.97
    assert model.shares.shape == (len(model.share_names),)


def test_drift_of_classes_is_followed_at_any_rate(tmp_path: Path) -> None:
    X, y = blobs(n=2400)
    y = np.where(np.arange(2400) // 600 % 2 == 0, y, (y + 1) % 4)
    errors = {}
    for forget in (1.0, 0.99, "auto"):
        model = AutoClasses("auto", 4, forget=forget)
        errors[forget] = np.mean(model.learn(X, y).argmax(axis=1) != y)
    assert max(errors[0.99], errors["auto"]) < errors[1.0] - 0.04
    assert model.shares[0] < 0.5
    model.save(tmp_path / "model")
    again: Any = onsketch.load(tmp_path / "model")
    assert again.add_class() == model.add_class() == 4
    assert np.array_equal(
        again.learn(X[:50], y[:50]), np.vstack([model.learn(X[:7], y[:7]), model.learn(X[7:50], y[7:50])])
    )


def test_drift_is_followed_at_any_rate() -> None:
    X, y = rows_of(n=3000)
    y = np.sign(y) * np.where(np.arange(3000) < 1500, 1.0, -1.0)
    for forget in (0.99, "auto"):
        margins = onsketch.learner("auto", loss="logistic", forget=forget).learn(X, y)
        assert np.mean(margins[2200:] * y[2200:] <= 0.0) < 0.2


def test_a_learner_of_three_features_is_small(tmp_path: Path) -> None:
    X, y = rows_of(d=3)
    model = onsketch.learner("auto")
    model.learn(X, y)
    model.save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 30_000
    assert model.state_bytes()["total"] < 30_000


def test_predictions_survive_the_change_from_exact_metrics_to_a_sketch() -> None:
    X, y = rows_of(d=40)
    model: Any = onsketch.learner("auto")
    model.learn(X, y)
    before = model.predict(X[:50])
    model._core.state = sketched(model._core.state, 20)
    np.testing.assert_allclose(model.predict(X[:50]), before, rtol=1e-9)


def test_deviations_cover_the_labels() -> None:
    X, y = rows_of(n=3000)
    model: Any = onsketch.learner("auto")
    model.learn(X[:2000], y[:2000])
    away = np.abs(model.predict(X[2000:]) - y[2000:])
    assert 0.93 < np.mean(away < 2.0 * model.deviation(X[2000:])) < 0.999


@pytest.mark.parametrize("size", [0, 1, 4])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_small_sketch_survives_a_file_and_a_merge(size: int, dtype: str, tmp_path: Path) -> None:
    X, y = stream("logistic", n=200, d=300, density=0.2)
    options: Any = {"loss": "logistic", "sketch_size": size, "dtype": dtype}
    one, two = (onsketch.learner("auto", **options) for _ in range(2))
    one.learn(X[:100], y[:100])
    two.learn(X[100:], y[100:])
    one.merge(two)
    one.save(tmp_path / "model")
    again = onsketch.load(tmp_path / "model")
    assert np.array_equal(again.learn(X, y), one.learn(X, y))


@pytest.mark.parametrize("width", [6, 400])
def test_the_order_of_a_merge_does_not_matter(width: int) -> None:
    X, y = stream("logistic", n=600, d=width, density=0.1 if width > 6 else 0.8)
    one, two = (onsketch.learner("auto", loss="logistic") for _ in range(2))
    one.learn(X[:400], y[:400])
    two.learn(X[400:], y[400:])
    other = two.fork().merge(one)
    np.testing.assert_allclose(one.merge(two).predict(X), other.predict(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_many_dense_rows_are_predicted_as_single_ones(loss: str) -> None:
    X, y = stream(loss, n=400, d=9)
    model = onsketch.learner("auto", loss=loss)
    model.learn(X, y)
    far = X * np.where(np.arange(len(X)) % 5 == 0, 1e3, 1.0)[:, None]
    one_by_one = [model.predict(far[i : i + 1])[0] for i in range(len(far))]
    np.testing.assert_allclose(model.predict(far), one_by_one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", [6, 300])
def test_directions_are_those_of_the_curvature(width: int) -> None:
    X, y = stream("squared", n=300, d=width, density=0.2 if width > 6 else 0.8)
    model = onsketch.learner("auto", sketch_size=4)
    model.learn(X, y)
    energies, features, vectors = model.directions()
    assert features[0] == -1
    assert len(features) == vectors.shape[1] == width + 1
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(len(vectors)), atol=1e-8)
    assert (np.diff(energies) <= 0.0).all()
    assert np.array_equal(energies, model.spectrum())
    if width == 6:  # the exact metric: ridge + curvature
        inverse = settled(model._core.state).metrics[0, 0, :7, :7]  # type: ignore[attr-defined]
        largest = 1.0 / np.linalg.eigvalsh(inverse)[0] - model.ridge
        assert energies[0] == pytest.approx(largest, rel=1e-9)
