"""Estimators of scikit-learn and River: documented options, merging, refused frames, warnings, several targets."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import re
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import checks
from sklearn.exceptions import ConvergenceWarning

import onsketch
from onsketch import river, sklearn
from onsketch.errors import InputError, OptionError
from onsketch.learners.options import DECLARED, OF_THE_LEARNER_ALONE
from streams import sparse_stream, words

SKLEARN = (onsketch.sklearn.OnlineClassifier, onsketch.sklearn.OnlineRegressor)
RIVER = (onsketch.river.OnlineClassifier, onsketch.river.OnlineRegressor, onsketch.river.OnlineMultiTargetRegressor)
ALONE: dict[str, Any] = {"method": "adagrad", "scaling": "none", "step": "explicit"}
"""A learner that can be merged; two that have met different features add up exactly."""


@pytest.mark.parametrize(
    "documented",
    [onsketch.learner, onsketch.safe_learner, onsketch.compose, *SKLEARN, *RIVER],
    ids=lambda documented: f"{documented.__module__}.{documented.__qualname__}",
)
def test_the_docstring_lists_every_option_with_a_sentence_and_its_default(documented: Any) -> None:
    text = inspect.getdoc(documented)
    assert text is not None
    plain = " ".join(text.split())
    for name, option in DECLARED.items():
        if isinstance(documented, type) and name in OF_THE_LEARNER_ALONE:
            continue
        own = re.search(rf"^ *{name}:", documented.__doc__ or "", re.MULTILINE)
        assert own, name
        generated = " ".join(f"{name}: {option.sentence} Default: {option.shown}.".split())
        assert generated in plain or name == "clip", name
    parameters = inspect.signature(documented).parameters
    assert not isinstance(documented, type) or set(parameters) <= set(re.findall(r"^ *(\w+):", text, re.MULTILINE))


def test_optional_modules_are_attributes() -> None:
    assert {"sklearn", "river", "torch"} <= set(dir(onsketch))
    assert onsketch.sklearn.OnlineClassifier is SKLEARN[0]
    assert not {"sklearn", "river", "torch"} & set(onsketch.__all__)
    with pytest.raises(AttributeError, match="no attribute 'sklear'"):
        onsketch.sklear  # noqa: B018


# Merging ------------------------------------------------------------------------------------------------------


def test_merged_classifiers_are_the_merged_learners() -> None:
    X, y = sparse_stream("logistic", n=200)
    for options in (ALONE, {"method": "auto"}):
        one, other = (onsketch.sklearn.OnlineClassifier(shuffle=False, **options) for _ in range(2))
        one.fit(X[:100], y[:100])
        other.fit(X[100:], y[100:])
        before = other.predict_proba(X)
        expected = one.learner_.fork().merge(other.learner_)
        assert one.merge(other) is one
        np.testing.assert_allclose(one.decision_function(X), expected.predict(X), rtol=1e-12)
        np.testing.assert_array_equal(other.predict_proba(X), before)


def test_merged_regressors_know_what_both_have_learned() -> None:
    X, y = sparse_stream("squared", n=400)
    one, other = (onsketch.sklearn.OnlineRegressor(random_state=0) for _ in range(2))
    alone = one.fit(X[:40], y[:40]).score(X[300:], y[300:])
    assert one.merge(other.fit(X[40:300], y[40:300])).score(X[300:], y[300:]) > alone
    assert one.learner_.rounds == 300


def test_classes_are_merged_one_by_one_and_together() -> None:
    X, _ = sparse_stream("logistic", n=300)
    y = np.array(["a", "b", "c"])[np.arange(300) % 3]
    one, other = (onsketch.sklearn.OnlineClassifier(multiclass="one-vs-rest", shuffle=False, **ALONE) for _ in "ab")
    one.fit(X[:150], y[:150])
    other.fit(X[150:], y[150:])
    expected = [
        a.fork().merge(b).predict(X) for a, b in zip(one.learner_.learners, other.learner_.learners, strict=True)
    ]
    np.testing.assert_array_equal(one.merge(other).decision_function(X), np.transpose(expected))
    one.partial_fit(X, y)  # goes on
    parts = slice(150), slice(150, None)
    coupled = [onsketch.sklearn.OnlineClassifier(shuffle=False).fit(X[part], y[part]) for part in parts]
    learners = [copy.deepcopy(each.learner_) for each in coupled]
    merged = coupled[0].merge(coupled[1])
    expected = learners[0].merge(learners[1])
    assert merged.learner_.rounds == 300
    np.testing.assert_allclose(merged.decision_function(X), expected.predict(X), rtol=1e-9)


def test_what_does_not_go_together_is_refused_and_changes_nothing() -> None:
    X, y = words()
    model = onsketch.sklearn.OnlineClassifier(shuffle=False, **ALONE).fit(X, y)
    before = model.decision_function(X)
    other = onsketch.sklearn.OnlineClassifier(shuffle=False, **ALONE)
    for strange, reason in (
        (onsketch.sklearn.OnlineClassifier(shuffle=False, **ALONE, step_size=0.3).fit(X, y), "another step_size"),
        (onsketch.sklearn.OnlineClassifier(shuffle=False, **ALONE).fit(X[:, :3], y), "n_features_in_"),
        (onsketch.sklearn.OnlineClassifier(shuffle=False, **ALONE).fit(X, y == "yes"), "classes_"),
    ):
        with pytest.raises(OptionError, match=reason):
            model.merge(strange)
    with pytest.raises(ValueError, match="not fitted"):
        model.merge(other)
    scaled = [onsketch.sklearn.OnlineClassifier("adagrad").fit(X, y) for _ in range(2)]
    with pytest.raises(OptionError, match="scaling='none'"):
        scaled[0].merge(scaled[1])
    np.testing.assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("method", ["adagrad", "auto", "rfd-son"])
def test_frames_whose_words_come_in_another_order_are_merged_by_name(method: str) -> None:
    frame = pd.DataFrame({"colour": ["red", "blue", "green", "red"] * 20, "size": np.arange(80.0)})
    y = np.arange(80) % 2
    first, second = frame[:41], frame[41:][::-1]
    options: dict[str, Any] = {} if method == "auto" else {"scaling": "none"}
    make = lambda: onsketch.sklearn.OnlineClassifier(method, shuffle=False, random_state=0, **options)  # noqa: E731
    one, other = make().fit(first, y[:41]), make().fit(second, y[41:])
    assert one.encoded_names_ != other.encoded_names_
    same = make().fit(first, y[:41])
    weights = dict(zip(other.encoded_names_, other.coef_[0], strict=True))
    one.merge(other)
    assert set(one.encoded_names_) == set(weights)
    assert one.learner_.rounds == 80
    assert np.isfinite(one.predict_proba(frame)).all()
    mirrored = other.merge(same)
    order = [mirrored.encoded_names_.index(name) for name in one.encoded_names_]
    np.testing.assert_allclose(one.coef_[0], mirrored.coef_[0][order], rtol=1e-6, atol=1e-9)


def test_river_rows_with_features_and_classes_in_any_order_are_merged_by_name() -> None:
    rows = [({"a": 1.0, "b": 2.0}, "x"), ({"b": 1.0, "c": -1.0}, "y"), ({"c": 3.0, "a": 0.5}, "z")]
    make = lambda: onsketch.river.OnlineClassifier(multiclass="one-vs-rest", **ALONE)  # noqa: E731
    one, other = make(), make()
    for x, y in rows[:2]:
        one.learn_one(x, y)
    for x, y in rows[::-1]:
        other.learn_one(x, y)
    theirs = other.weights
    one.merge(other)
    assert one.classes == ["x", "y", "z"]
    X = np.array([[x.get(name, 0.0) for name in "abc"] for x, _ in rows])
    for code, label in enumerate(one.classes):
        signs = np.array([1.0 if y == label else -1.0 for _, y in rows])
        first, second = (onsketch.safe_learner(**ALONE, loss="logistic", clip=None, n_features=3) for _ in range(2))
        first.learn(X[:2], signs[:2])
        second.learn(X[::-1], signs[::-1])
        expected = first.merge(second).weights
        np.testing.assert_allclose([one.weights[name][code] for name in "abc"], expected, rtol=1e-12)
    assert one.predict_one({"c": 3.0, "a": 0.5}) == "z"
    fresh = make().merge(other)
    assert fresh.weights.keys() == theirs.keys()
    fresh.learn_one({"a": 1.0}, "x")
    assert fresh._learner.rounds == other._learner.rounds + 1
    regressors = [onsketch.river.OnlineRegressor() for _ in range(2)]
    for k, model in enumerate(regressors):
        for row in range(30):
            model.learn_one({f"f{(row + k) % 3}": 1.0, "g": float(row)}, float(row))
    assert regressors[0].merge(regressors[1])._learner.rounds == 60
    with pytest.raises(OptionError, match="another loss"):
        regressors[0].merge(onsketch.river.OnlineRegressor(loss="absolute"))


# Frames and warnings ------------------------------------------------------------------------------------------


DATED = pd.DataFrame({"a": [1.0, 2.0] * 5, "when": pd.date_range("2024-01-01", periods=10)})
HALVES = np.arange(10) // 5


def estimators_of_tables(X: Any) -> list[Callable[[], Any]]:
    """Fits of the estimators whose columns may hold anything."""
    return [
        lambda: onsketch.sklearn.OnlineClassifier("adagrad", shuffle=False).fit(X, HALVES),
        lambda: onsketch.sklearn.OnlineRegressor("adagrad", shuffle=False).partial_fit(X, HALVES),
    ]


def learners_of_numbers(X: Any) -> list[Callable[[], Any]]:
    """Calls of everything that takes rows of numbers only."""
    return [
        lambda: onsketch.sklearn.SketchedPCA(1).fit(X),
        lambda: onsketch.learner("adagrad").learn(X, HALVES),
        lambda: onsketch.sketch.FrequentDirections(2, 1).update(X),
        lambda: onsketch.river.OnlineClassifier("adagrad").learn_many(X, pd.Series(HALVES)),
    ]


@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_dates_in_frames_are_features(convert: Callable[[pd.DataFrame], Any]) -> None:
    X = convert(DATED)
    for fit in estimators_of_tables(X):
        model = fit()
        assert {"a", "when.days", "when.weekday=0", "when.month=1", "when.hour=0"} <= set(model.encoded_names_)
        learned = dict(zip(model.encoded_names_, np.ravel(model.coef_), strict=True))
        assert learned["when.days"] > 0.0  # the later rows have the larger label
        first, last = np.ravel((getattr(model, "decision_function", None) or model.predict)(X))[[0, -1]]
        assert first < last


@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas], ids=["pandas", "polars"])
def test_dates_are_refused_by_name_where_rows_are_numbers(convert: Callable[[pd.DataFrame], Any]) -> None:
    for learn in learners_of_numbers(convert(DATED)):
        with pytest.raises(InputError, match="'when' is of type"):
            learn()


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (pl.from_pandas(DATED).lazy(), "lazy frame"),
        (pd.DataFrame({"a": DATED.a, "when": DATED.when - DATED.when[0]}), "'when' is of type"),
        (DATED[["when"]].to_numpy(), "is a date or a duration"),
    ],
    ids=["lazy", "durations", "numpy"],
)
def test_lazy_frames_durations_and_arrays_of_dates_are_refused_by_name(X: Any, words: str) -> None:
    for learn in (*estimators_of_tables(X), *learners_of_numbers(X)):
        with pytest.raises(InputError, match=words):
            learn()


def test_dates_in_river_rows_and_lazy_targets_are_refused_by_name() -> None:
    model = onsketch.river.OnlineClassifier("adagrad")
    for when in (np.datetime64("2024-01-01"), np.timedelta64(3, "D"), pd.Timestamp("2024-01-01")):
        with pytest.raises(InputError, match="the feature 'when' is"):
            model.learn_one({"a": 1.0, "when": when}, True)
    y = pl.DataFrame({"y": [0, 1]})
    with pytest.raises(InputError, match="y: a lazy frame"):
        onsketch.sklearn.OnlineClassifier("adagrad").fit([[0.0], [1.0]], y.lazy())


def test_integers_beyond_floats_are_refused_and_dates_may_be_classes() -> None:
    X, y = np.eye(4), [0, 1, 0, 1]
    for made in (sklearn.OnlineClassifier().fit(X, y), sklearn.SketchedPCA(2).fit(X)):
        with pytest.raises(ValueError, match="int too large"):
            made.partial_fit([[10**400, 1, 1, 1]], [1])
    model = river.OnlineClassifier()
    days = [np.datetime64("2020-01-01"), np.datetime64("2020-01-02")]
    for k in range(10):
        model.learn_one({"a": float(k % 2)}, days[k % 2])
    assert model.predict_one({"a": 1.0}) == days[1].item()


def _table(k: int) -> pd.DataFrame:
    return pd.DataFrame({"a": [1.0, 2.0, 3.0], "w": [f"x{k}", f"y{k % 7}", "z"]})


def _streamed(made: Any, labels: Any) -> Any:
    for k, label in enumerate(labels):
        made.learn_one({"a": 1.0, "b": float(k)}, label)
    return made


SHARED: dict[str, tuple[Callable[[], Any], Callable[[Any, int], Any], Callable[[Any], Any]]] = {
    "words of frames": (
        lambda: sklearn.OnlineClassifier().fit(_table(0), [0, 1, 2]),
        lambda model, k: model.partial_fit(_table(k), [0, 1, 2]),
        lambda model: model.predict_proba(_table(0)),
    ),
    "directions": (
        lambda: sklearn.SketchedPCA(2).partial_fit(np.eye(6)),
        lambda model, k: model.partial_fit(np.eye(6) * k),
        lambda model: model.transform(np.eye(6)),
    ),
    "River's classes": (
        lambda: _streamed(river.OnlineClassifier("adagrad"), "xyz"),
        lambda model, k: model.learn_one({"a": 1.0, f"new{k}": 1.0}, f"class{k % 40}"),
        lambda model: model.predict_proba_one({"a": 1.0}),
    ),
    "River's numbers": (
        lambda: _streamed(river.OnlineRegressor(), [0.5, 1.5]),
        lambda model, k: model.learn_one({"a": 1.0, f"new{k % 300}": 1.0}, 0.1 * k),
        lambda model: model.predict_one({"a": 1.0}),
    ),
}


@pytest.mark.parametrize("kind", SHARED)
def test_copies_and_files_are_whole_while_other_threads_learn(kind: str, tmp_path: Path) -> None:
    make, learn, use = SHARED[kind]
    model, failures, ended = make(), [], threading.Event()

    def saved() -> Any:
        model.save(tmp_path / "model")
        return onsketch.load(tmp_path / "model")

    def repeated(call: Callable[[int], Any]) -> None:
        try:
            for k in itertools.count(1):
                if ended.is_set():
                    return
                call(k)
        except BaseException as error:
            failures.append(error)

    calls: list[Callable[[int], Any]] = [
        lambda k: learn(model, k), lambda k: learn(model, -k), lambda k: use(model), lambda k: use(saved()),
        lambda k: use(copy.deepcopy(model)), lambda k: use(pickle.loads(pickle.dumps(model))),
    ]  # fmt: skip
    threads = [threading.Thread(target=repeated, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    ended.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_passes_that_end_before_the_score_has_settled_warn() -> None:
    X, y = words()
    make = lambda **options: onsketch.sklearn.OnlineClassifier("adagrad", random_state=0, **options)  # noqa: E731
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        make(max_iter=2, tol=1e-3).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        make(early_stopping=True).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(max_iter=100, tol=1e-3).fit(X, y)
        make(max_iter=3).fit(X, y)


def test_none_is_one_thread_for_the_classes() -> None:
    X, _ = words()
    y = np.arange(len(X)) % 3
    for n_jobs, threads in ((None, 1), (1, 1), (2, 2)):
        model = onsketch.sklearn.OnlineClassifier("adagrad", multiclass="one-vs-rest", n_jobs=n_jobs).fit(X, y)
        assert model.learner_.threads == threads


# Several targets ----------------------------------------------------------------------------------------------


def test_river_learns_several_targets_like_separate_learners(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    W = rng.normal(size=(4, 2))
    model = onsketch.river.OnlineMultiTargetRegressor()
    shared = onsketch.sklearn.OnlineRegressor(shuffle=False, random_state=0)
    X = rng.normal(size=(200, 4))
    Y = X @ W + [5.0, -100.0]
    for x, y in zip(X.tolist(), Y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), {"u": y[0], "v": y[1]})
    shared.partial_fit(X, Y)
    said = model.predict_one(dict(enumerate(X[0].tolist())))
    assert list(said) == ["u", "v"]
    np.testing.assert_allclose(list(said.values()), shared.predict(X[:1])[0], rtol=1e-6)
    np.testing.assert_allclose(list(said.values()), Y[0], rtol=0.05)
    table = model.predict_many(pd.DataFrame(X[:3]))
    assert list(table.columns) == ["u", "v"]
    for wrong in ({"u": 1.0}, {"u": 1.0, "w": 2.0}, {"u": 1.0, "v": "two"}, {}):
        with pytest.raises(InputError, match="target"):
            model.learn_one({0: 1.0}, wrong)
    assert model.predict_one(dict(enumerate(X[0].tolist()))) == said
    model.save(tmp_path / "m")
    assert onsketch.load(tmp_path / "m").predict_one(dict(enumerate(X[0].tolist()))) == said
    frame = onsketch.river.OnlineMultiTargetRegressor()
    frame.learn_many(pd.DataFrame(X), pd.DataFrame(Y[:, ::-1], columns=["v", "u"]))
    again = frame.predict_one(dict(enumerate(X[0].tolist())))
    np.testing.assert_allclose([again["u"], again["v"]], list(said.values()), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_several_targets_pass_rivers_checks() -> None:
    model, names = onsketch.river.OnlineMultiTargetRegressor(), set()
    for check in checks.yield_checks(model):
        check(model.clone())
        names.add(check.__name__)
    assert len(names) > 10
