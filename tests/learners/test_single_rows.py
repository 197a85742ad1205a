"""Single rows: prepared calls come to the same bits as the general path, whatever the rows."""

import gc
import pickle
import signal
import sys
import weakref
from collections import Counter, OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import onsketch
from onsketch.adapters.river import classifier
from onsketch.core.errors import InputError, UpdateError
from onsketch.learners import single
from onsketch.learners.scaled import stage
from onsketch.river import OnlineClassifier, OnlineRegressor

METHODS = ["adagrad", "ogd", "ftrl", "adam", "lazy-adam", "auto", "oja-son", "rfd-son", "fd-son",
           "rp-son"]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def few_early_rows():
    """Scales settle soon; before, all rows take the general path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "EARLY_ROWS", 8)
        yield


@pytest.fixture
def general(monkeypatch):
    """Returns a function after which all rows take the general path."""
    return lambda: monkeypatch.setattr(single, "_COST", 1 << 62)


def prepared(model):
    """True if the learner of an estimator has prepared calls."""
    return bool(model._learner.single._free)


NAMES = [f"feature {i}" for i in range(12)]


def rows(count=120):
    """Rows with zeros, a feature that is 0 at first, a row much longer than others, one in another order, and some with
    features that no other has.
    """
    X = np.random.default_rng(0).normal(size=(count, len(NAMES)))
    X[np.random.default_rng(1).random(X.shape) < 0.1] = 0.0
    X[: count // 2, 3] = 0.0
    X[70] *= 1e4
    found = [dict(zip(NAMES, row.tolist(), strict=True)) for row in X]
    found[90] = dict(reversed(found[90].items()))
    for i in (91, 95, 105, 110):
        found[i] = {**found[i], "another": 1.0, f"another {i}": 0.5}
    return found


def played(model, labels, spoiled=()):
    """What a model says of some rows before and after it has learned them, with rows put in that it refuses."""
    said = []
    for i, (x, y) in enumerate(zip(rows(), labels, strict=True)):
        if i in spoiled:
            with pytest.raises(InputError):
                model.learn_one({**x, NAMES[0]: float("nan")}, y)
            with pytest.raises(InputError):
                model.predict_one({**x, NAMES[5]: np.float64(1e300)})
        if i % 3 == 0:
            said.append(model.predict_one(x))
        model.learn_one(x, y)
        if i % 3 == 0:
            said.append(
                model.predict_proba_one(x)[True] if hasattr(model, "predict_proba_one") else model.predict_one(x)
            )
    return said


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [OnlineClassifier, OnlineRegressor])
def test_rows_with_the_same_features(general, method, kind):
    values = [x[NAMES[0]] - x[NAMES[1]] for x in rows()]
    labels = [value > 0.0 for value in values] if kind is OnlineClassifier else values
    fast, slow = kind(method), kind(method)
    first = played(fast, labels, spoiled=(40, 41, 100))
    assert prepared(fast)
    general()
    assert played(slow, labels, spoiled=(40, 41, 100)) == first
    assert not prepared(slow)
    assert fast.weights == slow.weights


def test_threads_may_predict_at_once():
    model = OnlineClassifier("adagrad")
    played(model, [x[NAMES[0]] > 0.0 for x in rows()])
    wanted = [pickle.loads(pickle.dumps(model)).predict_proba_one(x) for x in rows()]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(model.predict_proba_one, rows())) == wanted


def test_a_label_that_is_no_label_is_refused_as_ever():
    model = OnlineRegressor("adagrad")
    played(model, [x[NAMES[0]] for x in rows()])
    for label in (float("nan"), 1e300):
        with pytest.raises(InputError):
            model.learn_one(rows()[0], label)
    model.learn_one(rows()[0], 1.0)


def test_an_integer_beyond_float64_leaves_the_fast_path_with_an_error():
    model = OnlineClassifier(method="adagrad")
    for k in range(40):
        model.learn_one({"a": 1.0 + k, "b": 2.0}, k % 2 == 0)
    for ask in (model.predict_one, model.predict_proba_one):
        with pytest.raises(InputError, match="beyond"):
            ask({"a": 1.0, "b": 10**400})
    assert model.predict_one({"a": 1.0, "b": 2.0}) in (True, False)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
def test_a_signals_handler_may_use_the_learner():
    """An interrupt may arrive at any point of the fast path."""
    model, met = OnlineClassifier(method="adagrad"), []
    rows = [{"a": float(k % 3), "b": 0.5, "c": 1.0} for k in range(50)]
    model.learn_one(rows[0], True)
    before = signal.signal(signal.SIGALRM, lambda *_: met.append(model._learner.rounds + len(model._learner.weights)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        for k in range(200_000):
            model.learn_one(rows[k % 50], k % 2 == 0)
            if len(met) >= 30:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert met == sorted(met)


def texts(count=400, words=3000, seed=0):
    """Rows of words, most of which are rare, so that new ones keep coming.

    Some rows are long, empty or of two words. Some have names and values of other types, zeros, or a large value.
    """
    rng = np.random.default_rng(seed)
    p = 1.0 / np.arange(1, words + 1)
    found = []
    for i in range(count):
        size = 300 if i % 97 == 96 else 0 if i % 89 == 88 else 2 if i % 31 == 30 else 25
        x = {f"w{j}": float(rng.integers(1, 4)) for j in rng.choice(words, size=size, p=p / p.sum())}
        if i % 7 == 6:
            x |= {int(j): 1 for j in rng.integers(0, 50, 3)} | {0.5: True, True: 2, "often 0": 0.0}
        if i % 11 == 10:
            x |= {"numpy": np.float64(0.5), "narrow": np.float32(0.25)}
        if i % 61 == 60:
            x |= {"far": 1e5 * (1.0 + i)}
        kind = (dict, Counter, OrderedDict, partial(defaultdict, float))[i % 4]
        found.append(kind(x))
    return found


def read(model, labels):
    """What a model says of texts before it learns them, with rows in between that it refuses."""
    said = []
    for i, (x, y) in enumerate(zip(texts(), labels, strict=True)):
        if i % 50 == 49:
            before = dict(model._names.of)
            for wrong in (float("nan"), 10**400, np.ones(1), 1e300):
                with pytest.raises(InputError):
                    model.learn_one({**x, "new": 1.0, "wrong": wrong}, y)
                assert model._names.of == before
        said.append(model.predict_one({**x, f"never met {i}": 3.0}))
        if hasattr(model, "predict_proba_one"):
            said.append(model.predict_proba_one(x))
        model.learn_one(x, y)
    return said


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [OnlineClassifier, OnlineRegressor])
def test_rows_whose_features_change(general, method, kind):
    rng = np.random.default_rng(1)
    labels = (rng.random(400) < 0.5).tolist() if kind is OnlineClassifier else rng.normal(size=400).tolist()
    fast, slow = kind(method), kind(method)
    first = read(fast, labels)
    assert prepared(fast)
    general()
    assert read(slow, labels) == first
    assert list(fast._names.of.items()) == list(slow._names.of.items())
    assert fast.weights == slow.weights
    assert fast._learner.n_features == slow._learner.n_features
    once = pickle.loads(pickle.dumps(fast))
    assert [once.predict_one(x) for x in texts(20, seed=2)] == [slow.predict_one(x) for x in texts(20, seed=2)]


@pytest.mark.parametrize("method", ["adagrad", "auto", "oja-son"])
def test_a_loaded_estimator_goes_on_as_the_saved_one(tmp_path, method):
    model = OnlineClassifier(method)
    read(model, [i % 3 == 0 for i in range(400)])
    model.save(tmp_path / "model")
    loaded = onsketch.load(tmp_path / "model")
    for i, x in enumerate(texts(200, seed=3)):
        assert model.predict_proba_one(x) == loaded.predict_proba_one(x)
        model.learn_one(x, i % 2 == 0)
        loaded.learn_one(x, i % 2 == 0)
    assert prepared(loaded)
    assert model.weights == loaded.weights


def test_threads_may_predict_while_one_learns():
    model = OnlineClassifier("adagrad")
    read(model, [i % 3 == 0 for i in range(400)])
    dictionaries = texts(seed=4)
    wanted = [model.predict_proba_one(x) for x in dictionaries]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(model.predict_proba_one, dictionaries)) == wanted
        asked = [pool.submit(model.predict_proba_one, x) for x in dictionaries]
        for i, x in enumerate(dictionaries):
            model.learn_one(x, i % 2 == 0)
        assert all(0.0 <= one.result()[True] <= 1.0 for one in asked)
    assert model._learner.rounds == 400 + len(dictionaries)


@pytest.mark.parametrize("method", ["adagrad", "auto", "oja-son"])
def test_threads_that_learn_at_once_lose_no_name(method):
    model, dictionaries, before = OnlineClassifier(method), texts(800), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(model.learn_one, dictionaries, [i % 2 == 0 for i in range(len(dictionaries))]))
    finally:
        sys.setswitchinterval(before)
    names = model._names.of
    assert names.keys() == {name for x in dictionaries for name in x}
    assert sorted(names.values()) == list(range(len(names)))
    assert model._learner.rounds == len(dictionaries)


@pytest.mark.parametrize("method", ["adagrad", "auto"])
@pytest.mark.parametrize("third", [150, 399])
def test_a_third_label_after_rows_of_two(general, method, third):
    labels = [2 if i >= third and i % 5 == 0 else i % 2 for i in range(400)]
    labels[399] = 2
    said = []
    for slow in (False, True):
        if slow:
            general()
        model = OnlineClassifier(method)
        for x, y in zip(texts(), labels, strict=True):
            model.learn_one(x, y)
        said.append([model.predict_proba_one(x) for x in texts(50, seed=5)])
        assert list(said[-1][0]) == [0, 1, 2]
    assert said[0] == said[1]


@pytest.mark.parametrize("method", ["adagrad", "auto"])
def test_a_refused_row_of_two_labels_is_not_learned_again_at_a_third(method):
    said = []
    for refused in (False, True):
        model = OnlineClassifier(method)
        for i, x in enumerate(texts(100)):
            model.learn_one(x, i % 2)
            if refused and i % 10 == 0:
                with pytest.raises(ValueError, match=r"longer|beyond|within"):
                    model.learn_one({**x, "large": 1e300}, 1)
        model.learn_one(texts(1)[0], 2)
        said.append([model.predict_proba_one(x) for x in texts(50, seed=5)])
    assert said[0] == said[1]


def test_rows_of_labels_0_and_1_are_stored_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(classifier, "_ROOM", 3000)
    model = OnlineClassifier("adagrad")
    for i, x in enumerate(texts(200)):
        model.learn_one(x, i % 2)
        if i == 40:
            assert any(len(block) == 2 for block in model._first_rows.values())
    assert model._first_rows is None
    with pytest.warns(UserWarning, match="starts again"):
        model.learn_one(texts(1)[0], 2)


ENTRIES = st.lists(st.tuples(st.integers(0, 60), st.sampled_from([0.0, 1.0, -0.5, 3.0, 0.01])), max_size=30)


@pytest.mark.parametrize("method", ["adagrad", "auto", "oja-son", "ftrl", "ons"])
@settings(deadline=None, max_examples=10)
@given(st.lists(ENTRIES, min_size=30, max_size=50), st.booleans())
def test_a_learner_takes_rows_one_by_one(method, given_rows, intercept):
    """In the order in which the entries come, and with the sum of a feature that comes twice."""
    options = {"loss": "logistic", "fit_intercept": intercept}
    one, many = onsketch.learner(method, **options), onsketch.learner(method, **options)
    for i, entries in enumerate(given_rows):
        features, values = [feature for feature, _ in entries], [value for _, value in entries]
        row = csr_array((np.array(values), np.array(features, np.int64), np.array([0, len(entries)])), shape=(1, 61))
        weight = 1.0 + i % 3
        assert one.predict_one(features, values) == many.predict(row)[0]
        assert (
            one.learn_one(features, values, 1.0 - 2.0 * (i % 2), weight)
            == many.learn(row, [1.0 - 2.0 * (i % 2)], [weight])[0]
        )
    assert one.weights.tolist() == many.weights[: one.n_features].tolist()


@pytest.mark.parametrize("features", [[0, -1], [0, 0.5], [3, "a"], [1 << 70]])
def test_features_that_are_no_indices_are_refused(features):
    model = onsketch.learner("adagrad", loss="logistic", n_features=9)
    for _ in range(40):
        model.learn_one([0, 2], [1.0, 2.0], 1.0)
    for ask in (model.predict_one, lambda *row: model.learn_one(*row, 1.0)):
        with pytest.raises((InputError, TypeError)):
            ask(features, [1.0] * len(features))
        with pytest.raises(InputError):
            ask([0, 9], [1.0, 1.0])
    assert model.rounds == 40


def test_a_refused_row_leaves_no_feature_behind():
    model = onsketch.learner("ogd", loss="squared", step_size=1.0)
    for k in range(40):
        model.learn_one([0, k % 7], [1.0, 0.5], 1.0)
    before = model._map.features.tolist(), model.weights.tolist(), model.n_features
    with pytest.raises(UpdateError):
        model.learn_one([0, 9], [1e140, 1.0], 1e140)
    assert (model._map.features.tolist(), model.weights.tolist(), model.n_features) == before


@pytest.mark.parametrize("method", ["adagrad", "auto", "oja-son"])
@pytest.mark.parametrize("scaling", ["none", "magnitude"])
def test_prepared_calls_do_not_keep_a_learner_in_memory(method, scaling):
    if (method, scaling) == ("auto", "magnitude"):
        pytest.skip("auto has scales of its own")
    options = {} if method == "auto" else {"scaling": scaling, "fit_intercept": True}
    model = onsketch.learner(method, loss="squared", **options)
    for _ in range(40):
        model.learn_one([0, 2], [1.0, 2.0], 1.0)
    assert model.single._free
    gone = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("method", ["adagrad", "ftrl", "adam", "oja-son", "arow"])
def test_single_rows_of_many_classes_take_the_prepared_path(general, method):
    labels = np.random.default_rng(2).integers(4, size=120).tolist()

    def margins():
        model = OnlineClassifier(method, loss="squared_hinge" if method == "arow" else "logistic")
        found = []
        for x, label in zip(rows(), labels, strict=True):
            model.learn_one(x, f"class {label}")
            found.append(model._learner.predict(model._names.row(x, learn=False))[0])
        return model, found

    (model, fast), _ = margins(), general()
    assert all(learner.single._free for learner in model._learner.learners)
    for one, other in zip(fast, margins()[1], strict=True):
        assert (one == other).all()
