"""Data frames with words and gaps, and several targets to a row, through the estimators of scikit-learn."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import onsketch
from onsketch import data
from onsketch.errors import InputError, OptionError, UpdateError
from onsketch.learners.multiclass import SharedSketch
from onsketch.sklearn import OnlineClassifier, OnlineRegressor

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
FAST = {"method": "adagrad", "random_state": 0}


def frame(rows: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(40.0, 10.0, rows), "colour": rng.choice(["red", "green", "blue"], rows)})
    return table, np.where(table.colour == "red", table.age > 30.0, table.age > 60.0).astype(int)


def test_words_are_features_and_their_names_are_kept() -> None:
    X, y = frame()
    model = OnlineClassifier(**FAST).fit(X, y)
    assert sorted(model.encoded_names_) == ["age", "colour=blue", "colour=green", "colour=red"]
    assert model.feature_names_in_.tolist() == ["age", "colour"]
    assert model.coef_.shape == (1, 4)
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"age": "years"}))


def test_pandas_polars_and_arrow_give_the_same_weights() -> None:
    X, y = frame()
    forms = [X, pa.Table.from_pandas(X, preserve_index=False)]
    polars = pytest.importorskip("polars")
    forms.append(polars.DataFrame({name: X[name].tolist() for name in X}))
    weights = [OnlineClassifier(**FAST).fit(form, y).coef_.tolist() for form in forms]
    assert weights[0] == weights[1] == weights[2]


def test_the_rules_are_those_of_the_programs_tables() -> None:
    X, _ = frame(20)
    X.loc[3, "age"], X.loc[5, "colour"] = np.nan, None
    model = OnlineClassifier(**FAST, missing="indicate").fit(X, np.arange(20) % 2)
    text = io.BytesIO(X.to_csv(index=False).encode())
    with data.stream(text, "csv", label="none", unlabelled=True, names=True, everyday=True) as blocks:
        (block,) = blocks
        names = dict(blocks.names)
    theirs = [
        {names[j]: v for j, v in zip(row.indices.tolist(), row.data.tolist(), strict=True)}
        for row in (block.X[[k]] for k in range(20))
    ]
    rows = model._rows(X)
    ours = [
        {model.encoded_names_[j]: v for j, v in zip(row.indices.tolist(), row.data.tolist(), strict=True)}
        for row in (rows[[k]] for k in range(20))
    ]
    assert ours == theirs


def test_numbers_that_are_missing_are_refused_unless_asked_for() -> None:
    X, y = frame()
    X.loc[3, "age"] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN.*'age'.*missing='indicate'"):
        OnlineClassifier(**FAST, missing="error").fit(X, y)
    assert "age is missing" in OnlineClassifier(**FAST).fit(X, y).encoded_names_
    assert "age is missing" in OnlineClassifier(**FAST).fit(X[["age"]], y).encoded_names_
    assert "age is missing" in OnlineClassifier(**FAST, missing="indicate").fit(X, y).encoded_names_
    assert "age is missing" not in OnlineClassifier(**FAST, missing="zero").fit(X, y).encoded_names_
    numbers = X[["age"]].to_numpy()
    with pytest.raises(ValueError, match="contains NaN"):
        OnlineClassifier(**FAST).fit(numbers, y)
    assert OnlineClassifier(**FAST, missing="indicate").fit(numbers, y).encoded_names_ == ["x0", "x0 is missing"]
    with pytest.raises(OptionError, match="missing='drop'"):
        OnlineClassifier(**FAST, missing="drop").fit(numbers, y)


def test_a_stream_of_frames_is_one_frame_and_new_words_may_come(tmp_path: Any) -> None:
    X, y = frame()
    whole = OnlineClassifier(**FAST).partial_fit(X, y, classes=[0, 1])
    parts = OnlineClassifier(**FAST)
    for cut in (slice(0, 50), slice(50, 300)):
        parts.partial_fit(X[cut], y[cut], classes=[0, 1])
    assert parts.encoded_names_ == whole.encoded_names_
    assert parts.coef_.tolist() == whole.coef_.tolist()
    unknown = X.assign(colour="mauve")
    before = parts.decision_function(unknown)
    parts.save(tmp_path / "model")
    again = onsketch.load(tmp_path / "model")
    assert again.decision_function(unknown).tolist() == before.tolist()
    for model in (parts, again):
        model.partial_fit(unknown[:50], y[:50])
        assert model.encoded_names_[-1] == "colour=mauve"
    assert parts.coef_.tolist() == again.coef_.tolist()


def test_a_column_that_is_empty_at_first_may_have_words_later() -> None:
    X, y = frame()
    first, then = X.assign(late=None), X.assign(late="now")
    model = OnlineClassifier(**FAST).partial_fit(first, y, classes=[0, 1])
    model.partial_fit(then, y)
    assert "late=now" in model.encoded_names_
    assert np.array_equal(model.predict(then[list(then)]), model.predict(then))


def test_many_words_do_not_collide() -> None:
    words = pd.DataFrame({"id": [f"user {k // 2}" for k in range(40_000)], "age": np.arange(40_000) % 7})
    model = OnlineClassifier(**FAST).partial_fit(words, np.arange(40_000) % 2, classes=[0, 1])
    assert len(model.encoded_names_) == 20_001


def test_what_is_refused_leaves_no_word_of_a_frame() -> None:
    X, y = frame()
    model = OnlineClassifier(**FAST).partial_fit(X, y, classes=[0, 1])
    names, before = model.encoded_names_, model.decision_function(X)
    for refused in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            refused(X.assign(colour="mauve"), y[:-1])
        with pytest.raises(ValueError, match=r"label 7|one class"):
            refused(X[:1].assign(colour="mauve"), [7])
        assert model.encoded_names_ == names
        assert model.decision_function(X).tolist() == before.tolist()


def test_a_model_of_words_says_that_it_wants_a_frame() -> None:
    X, y = frame()
    model = OnlineClassifier(**FAST).fit(X, y)
    for ask in (model.predict, lambda rows: model.partial_fit(rows, y[:2])):
        with pytest.raises(InputError, match="fitted on a data frame with the columns 'age', 'colour'"):
            ask(np.ones((2, 2)))
    with pytest.raises(InputError, match=r"column 'when' is of type duration.* Leave it out, or give") as refusal:
        model.fit(X.assign(when=pd.Timedelta(days=1)), y)
    assert "ignore" not in str(refusal.value)


def several(rows: int = 400) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 6)) * [1.0, 100.0, 0.01, 1.0, 1.0, 10.0]
    return X, X @ (rng.normal(size=(6, 3)) / X.std(axis=0)[:, None]) + [0.0, 5.0, -3.0]


def test_several_targets_through_one_sketch_are_each_alone() -> None:
    X, Y = several()
    options = {"summary": "curvature", "ridge": 0.03, "scaling": "magnitude", "fit_intercept": True, "sketch_size": 4}
    shared = SharedSketch("rfd-son", 3, loss="squared", **options)
    margins = shared.learn(X, Y)
    for k in range(3):
        alone = onsketch.learner("rfd-son", loss="squared", clip=None, **options)
        assert margins[:, k] == pytest.approx(alone.learn(X, Y[:, k]), rel=1e-6, abs=1e-6)
        assert shared.weights[k] == pytest.approx(alone.weights, rel=1e-6)


@pytest.mark.parametrize(("method", "loss"), [("rfd-son", "absolute"), ("ada-fd", "squared"), ("rfd-son", "squared")])
def test_the_unit_of_a_target_does_not_matter(method: str, loss: str, tmp_path: Any) -> None:
    """Targets of 1e-3 and of 1e6 together are learned as well as targets of one size: factors of 2 are exact."""
    X, Y = several()
    units = np.array([2.0**-10, 1.0, 2.0**20])
    plain, mixed = (OnlineRegressor(method, loss=loss, shuffle=False).fit(X[:200], Y[:200] * c) for c in (1.0, units))
    mixed.save(tmp_path / "model")
    mixed = onsketch.load(tmp_path / "model")
    plain.partial_fit(X[200:], Y[200:])
    mixed.partial_fit(X[200:], Y[200:] * units)
    assert mixed.predict(X) == pytest.approx(plain.predict(X) * units, rel=1e-9)
    assert mixed.predict(X) == pytest.approx(X @ mixed.coef_.T + mixed.intercept_, rel=1e-9)
    assert (np.mean(np.abs(mixed.predict(X) / units - Y), axis=0) < 0.5 * np.mean(np.abs(Y - Y.mean(0)), axis=0)).all()


@pytest.mark.parametrize("first", [0.0, 0.01, 1e-6, 1e-160])
def test_a_tiny_first_target_does_not_fix_the_scale(first: float) -> None:
    X, Y = several()
    Y[0, 1] = first
    found = OnlineRegressor("rfd-son", loss="absolute", shuffle=False).fit(X, Y).predict(X)
    assert (np.mean(np.abs(found - Y), axis=0) < 0.5 * np.mean(np.abs(Y - Y.mean(0)), axis=0)).all()


def test_scales_of_targets_know_nothing_of_a_row_that_is_refused(monkeypatch: Any) -> None:
    X, Y = several(60)
    model, twin = (SharedSketch("rfd-son", 3, loss="absolute", scaling="magnitude", sketch_size=4) for _ in range(2))
    for each in (model, twin):
        each.learn(X[:40], Y[:40])

    def refuse_the_third_row(*block: Any) -> int:
        model._clock[0] += 2
        return 2

    monkeypatch.setattr(model, "_play", refuse_the_third_row)
    with pytest.raises(UpdateError, match="row 2"):
        model.learn(X[40:], Y[40:] * 1e3)
    twin.learn(X[40:42], Y[40:42] * 1e3)
    assert (model._arrays()["stage.law.labels"] == twin._arrays()["stage.law.labels"]).all()


def test_a_regressor_of_several_targets(tmp_path: Any) -> None:
    X, Y = several()
    model = OnlineRegressor(random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.95
    assert (model.coef_.shape, model.intercept_.shape) == ((3, 6), (3,))
    assert model.predict(X) == pytest.approx(X @ model.coef_.T + model.intercept_)
    model.save(tmp_path / "model")
    assert (onsketch.load(tmp_path / "model").predict(X) == model.predict(X)).all()
    with pytest.raises(ValueError, match="number of targets"):
        model.partial_fit(X, Y[:, :2])
    with pytest.raises(OptionError, match="no sketch to share"):
        OnlineRegressor("adagrad").fit(X, Y)


def test_a_classifier_of_several_labels(tmp_path: Any) -> None:
    X, Y = several()
    labels = (Y > [0.0, 5.0, -3.0]).astype(int)
    model = OnlineClassifier(random_state=0, max_iter=2).fit(X, labels)
    assert np.mean(model.predict(X) == labels) > 0.93
    assert model.predict_proba(X).shape == (400, 3)
    assert model.multilabel_
    model.save(tmp_path / "model")
    assert (onsketch.load(tmp_path / "model").predict(X) == model.predict(X)).all()
    warm = OnlineClassifier(random_state=0, warm_start=True).fit(X, labels)
    assert warm.fit(X, labels).learner_.rounds == 2 * len(X)
    one = warm.fit(X, labels[:, 0])
    assert not one.multilabel_
    assert one.learner_.rounds == len(X)
    with pytest.raises(ValueError, match="0 and 1 each"):
        OnlineClassifier().fit(X, labels * 2 + np.arange(400)[:, None] % 2)


def test_two_columns_of_one_name_are_refused() -> None:
    X, y = frame(40)
    twice = pd.concat([X, X[["colour"]]], axis=1)
    with pytest.raises(InputError, match="two columns have the name 'colour'"):
        OnlineClassifier(**FAST).fit(twice, y)
    numbers = pd.DataFrame(np.arange(80.0).reshape(40, 2), columns=["a", "a"])
    with pytest.raises(InputError, match="two columns have the name 'a'"):
        OnlineClassifier(**FAST).fit(numbers, y)
