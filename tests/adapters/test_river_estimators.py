"""Rows as dictionaries: the learners' own results, whatever the order of features, and memory for those seen only."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, datasets, evaluate, linear_model, metrics, preprocessing

import onsketch
from onsketch.errors import InputError, ModelFileError, UpdateError
from onsketch.learners.multiclass import OneVersusRest
from onsketch.river import OnlineClassifier, OnlineRegressor


def stream(n: int = 200, d: int = 6, seed: int = 0) -> list[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return [({f"x{j}": float(v) for j, v in enumerate(x)}, bool(x @ w > 0.0)) for x in X]


def table(rows: list[tuple[dict[str, float], Any]]) -> tuple[pd.DataFrame, pd.Series]:
    return pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows])


def test_one_row_at_a_time_is_the_learner() -> None:
    rows = stream()
    model = OnlineClassifier("ada-ffd", sketch_size=3, scaling="none", step="explicit")
    for x, y in rows:
        model.learn_one(x, y)
    X, y = table(rows)
    learner = onsketch.learner("ada-ffd", loss="logistic", sketch_size=3, fit_intercept=True)
    learner.learn(X.to_numpy(), np.where(y, 1.0, -1.0))
    assert list(model.weights) == list(X.columns)
    np.testing.assert_allclose(list(model.weights.values()), learner.weights, atol=1e-10)
    margin = learner.predict(X.to_numpy()[:1])[0]
    assert model.predict_proba_one(rows[0][0])[True] == pytest.approx(1.0 / (1.0 + np.exp(-margin)))


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_the_order_of_features_changes_not_a_bit(random: Any) -> None:
    plain, shuffled = OnlineClassifier(sketch_size=3), OnlineClassifier(sketch_size=3)
    for x, y in stream(n=40):
        names = random.sample(list(x), k=random.randint(1, len(x)))
        part = {name: x[name] for name in x if name in names}
        assert plain.predict_proba_one(part) == shuffled.predict_proba_one({name: x[name] for name in names})
        plain.learn_one(part, y)
        shuffled.learn_one({name: x[name] for name in names}, y)
    assert plain.weights == shuffled.weights


def test_many_rows_at_once_are_the_rows_one_by_one() -> None:
    rows = [(x, ["cat", "dog", "eel"][i % 3]) for i, (x, _) in enumerate(stream())]
    one, many = OnlineClassifier(sketch_size=3), OnlineClassifier(sketch_size=3)
    for x, y in rows:
        one.learn_one(x, y)
    X, y = table(rows)
    for start in (0, 50, 100, 150):
        many.learn_many(X[start : start + 50], y[start : start + 50])
    assert one.classes == many.classes == ["cat", "dog", "eel"]
    np.testing.assert_allclose(many.predict_proba_many(X), [list(one.predict_proba_one(x).values()) for x, _ in rows])
    assert list(many.predict_many(X)) == [one.predict_one(x) for x, _ in rows]


def test_classes_that_come_late_are_learned_as_if_known() -> None:
    rows = [(x, "early" if i < 100 or i % 2 else "late") for i, (x, _) in enumerate(stream())]
    model = OnlineClassifier("adagrad", scaling="none", step="explicit")
    for x, y in rows:
        model.learn_one(x, y)
    X, y = table(rows)
    known = OneVersusRest("adagrad", 2, loss="logistic", fit_intercept=True)
    known.learn(X.to_numpy(), (y == "late").to_numpy().astype(int))
    np.testing.assert_allclose(np.array(list(model.weights.values())).T, known.weights, atol=1e-10)


def test_memory_is_that_of_the_features_seen() -> None:
    rng = np.random.default_rng(0)
    few, many = OnlineClassifier("adagrad"), OnlineClassifier("adagrad")
    for i in range(3000):
        few.learn_one({f"word {j}": 1.0 for j in rng.integers(50, size=5)}, bool(i % 2))
        many.learn_one({f"word {i} {j}": 1.0 for j in range(5)}, bool(i % 2))
    assert len(few._names.of) == 50
    assert few._learner.state_bytes()["total"] < 10_000
    assert few._raw_memory_usage < many._raw_memory_usage / 20
    before = few._raw_memory_usage
    for _ in range(100):  # reading makes nothing grow, whatever is asked
        few.predict_one({f"never learned {rng.random()}": 1.0})
    assert few._raw_memory_usage <= before


def test_labels_true_and_false_are_one_learner() -> None:
    model = OnlineClassifier()
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    model.learn_one({"a": 1.0}, np.bool_(True))
    assert set(model.predict_proba_one({"b": 1.0})) == {False, True}
    assert isinstance(model._learner, onsketch.Learner)
    with pytest.raises(InputError, match="'maybe' comes after labels True and False"):
        model.learn_one({"a": 1.0}, "maybe")


def test_words_are_features_and_none_is_nothing() -> None:
    rows = [{"age": 3.0, "job": "cook", "pay": None}, {"age": 1.0, "job": None, "pay": 2.5}] * 20
    one, many = OnlineClassifier(), OnlineClassifier()
    for k, row in enumerate(rows):
        one.learn_one(row, k % 2 == 0)
    many.learn_many(pd.DataFrame(rows), pd.Series([k % 2 == 0 for k in range(40)]))
    assert set(one.weights) == set(many.weights) == {"age", "job=cook", "pay"}
    assert one.predict_one({"age": 2.0, "job": "cook"}) is True
    assert one.predict_proba_one(rows[0]) == pytest.approx(many.predict_proba_one(rows[0]), rel=1e-6)
    numbers, words = ({"a": 3.0}, {"a": "3.0"})  # as in a CSV file
    assert one.predict_proba_one(numbers) == one.predict_proba_one(words)


def test_unfit_rows_are_refused_by_name_and_leave_no_trace() -> None:
    for model in (OnlineClassifier(), OnlineRegressor()):
        for x, y in stream(n=30):
            model.learn_one(x, y)
        before = pickle.dumps(model)
        for x, match in [
            ({"x0": 1.0, "colour": ["red"]}, r"'colour' is \['red'\]; expected a number, a word or None"),
            ({"new": float("nan")}, "'new' is nan"),
            ({"x1": float("inf"), "new": 1.0}, "'x1' is inf"),
            ({"new": 1e200}, "'new' is 1e"),
        ]:
            with pytest.raises(InputError, match=match):
                model.learn_one(x, True)
        with pytest.raises(InputError, match="nan"):
            model.learn_many(pd.DataFrame({"x0": [1.0, np.nan], "new": 1.0}), pd.Series([True, False]))
        with pytest.raises(InputError, match="expected a number, a word or None"):
            model.learn_many(pd.DataFrame({"new": [["red"]]}), pd.Series([True]))
        assert pickle.dumps(model) == before


def test_a_target_that_is_not_a_number_leaves_no_trace() -> None:
    model = OnlineRegressor()
    with pytest.raises((InputError, ValueError)):
        model.learn_one({"a": 1.0}, float("nan"))
    assert model._names.of == {}
    assert model.predict_one({"a": 1.0}) == 0.0


@pytest.mark.parametrize("options", [{}, {"multiclass": "shared", "loss": "softmax"}])
def test_pickles_and_model_files_go_on_bit_for_bit(options: dict[str, Any], tmp_path: Path) -> None:
    rows = [(x, i % 3) for i, (x, _) in enumerate(stream())]
    model = OnlineClassifier(sketch_size=3, **options)
    for x, y in rows[:100]:
        model.learn_one(x, y)
    model.save(tmp_path / "model")
    twins = [pickle.loads(pickle.dumps(model)), onsketch.load(tmp_path / "model")]
    for x, y in rows[100:]:
        for again in twins:
            assert again.predict_proba_one(x) == model.predict_proba_one(x)
            again.learn_one(x, y)
        model.learn_one(x, y)
    fresh = OnlineRegressor(box=(-1.0, 1.0), method="ada-fd")
    fresh.save(tmp_path / "fresh")
    assert onsketch.load(tmp_path / "fresh")._get_params() == fresh._get_params()


def test_names_that_a_file_cannot_hold_are_refused(tmp_path: Path) -> None:
    model = OnlineClassifier()
    model.learn_one({("a", "pair"): 1.0}, True)
    with pytest.raises(ValueError, match="feature names that are words or numbers"):
        model.save(tmp_path / "model")
    onsketch.files.model_file.write(tmp_path / "model", "river", {"class": "HoeffdingTree"}, {})
    with pytest.raises(ModelFileError, match="does not describe an estimator"):
        onsketch.load(tmp_path / "model")


def test_in_a_pipeline_it_beats_logistic_regression() -> None:
    def score(model: Any) -> float:
        pipeline = compose.Pipeline(preprocessing.StandardScaler(), model)
        return evaluate.progressive_val_score(datasets.Phishing(), pipeline, metrics.LogLoss()).get()

    assert score(OnlineClassifier("ada-ffd")) < score(linear_model.LogisticRegression())


def test_loss_without_probabilities_says_so() -> None:
    model = OnlineClassifier(loss="hinge")
    for x, y in stream(n=50):
        model.learn_one(x, y)
    assert model.predict_one(x) in (True, False)
    with pytest.raises(NotImplementedError, match="gives no probabilities"):
        model.predict_proba_one(x)


def test_without_river_the_message_names_the_extra() -> None:
    script = "import sys; sys.modules['river'] = None\nimport onsketch\nimport onsketch.river"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'onsketch[river]'" in run.stderr


@pytest.mark.parametrize("options", [{}, {"multiclass": "shared", "loss": "softmax"}])
@pytest.mark.parametrize("labels", [["a", "b", "c"], [True, False, True]])
def test_a_refused_row_leaves_no_class_and_no_name(options: dict[str, Any], labels: list[Any]) -> None:
    plain = {"scaling": "none", "curvature_schedule": "1/t"}
    if not options or labels[0] is True:
        plain["step"] = "explicit"
    model = OnlineClassifier("rfd-son", ridge=1e-60, **options, **plain)
    wild = {"x0": 1e140, "new": -1e140}

    for x, _ in stream(n=20):
        model.learn_one(x, labels[0])
    classes, names = model.classes, dict(model._names.of)
    before = pickle.dumps(model)
    with pytest.raises(UpdateError):
        model.learn_one(wild, labels[2])
    assert (model.classes, model._names.of) == (classes, names)
    assert pickle.dumps(model) == before
    frame = pd.DataFrame([x for x, _ in stream(n=3)] + [{**stream(n=1)[0][0], **wild}]).fillna(0.0)
    with pytest.raises(UpdateError, match="row 3: ") as caught:
        model.learn_many(frame, pd.Series([labels[1], labels[0], labels[1], labels[2]]))
    assert caught.value.row == 3
    assert set(model.classes) == set(labels[:2])
    assert "new" in model._names.of  # three rows of that frame have been learned
    for x, y in stream(n=20):
        model.learn_one(x, labels[0] if y else labels[1])


@pytest.mark.parametrize("label", [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT, ["a"], np.array([1, 2])])
def test_labels_that_are_no_class_are_refused(label: Any) -> None:
    model = OnlineClassifier("adagrad")
    with pytest.raises(InputError, match="which is no class"):
        model.learn_one({"a": 1.0}, label)
    assert (model.classes, model._names.of, model._learner) == ([], {}, None)
    model.learn_one({"a": 1.0}, "word")
    with pytest.raises(InputError, match=r"label at row 1 .* Nothing was learned"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), ["other", label])
    assert model.classes == ["word"]


def test_weights_are_those_of_the_learner_and_zero_is_absence() -> None:
    rows = [{"a": 1.0, "b": -0.5}, {"a": -1.0, "b": 0.3}, {"a": 0.2, "b": 2.0}]
    for kind, labels in ((OnlineClassifier, [True, False, True]), (OnlineRegressor, [1.0, -2.0, 0.5])):
        weighted, fewer = kind("adagrad"), kind("adagrad")
        for x, y, w in zip(rows, labels, (2.0, 0.0, 1.0), strict=True):
            weighted.learn_one(x, y, w=w)
        for x, y, w in ((rows[0], labels[0], 2.0), (rows[2], labels[2], 1.0)):
            fewer.learn_one(x, y, w=w)
        assert weighted.weights == fewer.weights
        many = kind("adagrad")
        many.learn_many(pd.DataFrame([rows[0], rows[2]]), pd.Series([labels[0], labels[2]]), w=[2.0, 1.0])
        assert many.weights == fewer.weights


def test_labels_zero_and_one_are_one_learner() -> None:
    truths, numbers = OnlineClassifier("adagrad"), OnlineClassifier("adagrad")
    for x, y in (({"a": 1.0}, True), ({"a": -1.0}, False), ({"a": 2.0}, True)):
        truths.learn_one(x, y)
        numbers.learn_one(x, int(y))
    assert isinstance(numbers._learner, onsketch.Learner)
    assert numbers.classes == [0, 1]
    assert numbers.predict_proba_one({"a": 1.0})[1] == truths.predict_proba_one({"a": 1.0})[True]
    assert numbers.predict_one({"a": 1.0}) == 1
    numbers.learn_one({"a": 0.0, "b": 3.0}, 2)  # a third class: what was learned so far is learned again, as classes
    words = OnlineClassifier("adagrad")
    for x, y in (({"a": 1.0}, "1"), ({"a": -1.0}, "0"), ({"a": 2.0}, "1"), ({"a": 0.0, "b": 3.0}, "2")):
        words.learn_one(x, y)
    assert numbers.classes == [1, 0, 2]
    assert {int(name): p for name, p in words.predict_proba_one({"b": 1.0}).items()} == numbers.predict_proba_one(
        {"b": 1.0}
    )


def test_polars_frames_are_learned_as_pandas_frames() -> None:
    pl = pytest.importorskip("polars")
    data = {"a": [1.0, -1.0, 0.5], "b": [0.0, 2.0, 1.0]}
    ours, theirs = OnlineClassifier(), OnlineClassifier()
    ours.learn_many(pl.DataFrame(data), pl.Series([True, False, True]))
    theirs.learn_many(pd.DataFrame(data), pd.Series([True, False, True]))
    assert ours.weights == theirs.weights
    assert list(ours.predict_many(pl.DataFrame(data))) == list(theirs.predict_many(pd.DataFrame(data)))
    assert ours.predict_proba_many(pl.DataFrame(data)).equals(theirs.predict_proba_many(pd.DataFrame(data)))


@pytest.mark.parametrize("method", ["adagrad", "auto"])
def test_numbers_beyond_float64_are_refused_in_plain_words(method: str) -> None:
    model = OnlineRegressor(method)
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    before = model.predict_one({"a": 1.0, "b": 2.0})
    for x, y in (({"a": 10**400, "b": 1.0}, 1.0), ({"a": 1.0, "b": 1.0}, 10**400), ({"a": 1.0, "b": 1.0}, "word")):
        with pytest.raises(InputError):
            model.learn_one(x, y)
    assert model.predict_one({"a": 1.0, "b": 2.0}) == before


@pytest.mark.parametrize("error", [UpdateError("a row", 1, np.zeros(1)), MemoryError(), KeyboardInterrupt()])
def test_names_are_kept_for_rows_that_were_learned_before_an_error(error: BaseException, monkeypatch: Any) -> None:
    """A feature with a weight keeps its name whatever ends a block; names met before the first row are forgotten."""
    model = OnlineRegressor("adagrad")
    model.learn_one({"a": 1.0}, 1.0)
    learn = type(model._learner).learn

    def failing(self: Any, X: Any, y: Any, weights: Any) -> None:
        if len(model._names.of) == 2:
            learn(self, X, y, weights)
        raise error

    monkeypatch.setattr(type(model._learner), "learn", failing)
    with pytest.raises(type(error)):
        model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    assert list(model._names.of) == ["a", "b"]
    with pytest.raises(type(error)):
        model.learn_one({"a": 1.0, "b": 2.0, "c": 3.0}, 1.0)
    assert list(model._names.of) == ["a", "b"]
    assert set(model.weights) == {"a", "b"}
