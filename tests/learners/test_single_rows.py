"""Single rows with the same features take a fast path with unchanged results."""

import pickle
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from onsketch.adapters.river import fast_path
from onsketch.core.errors import InputError
from onsketch.river import OnlineClassifier, OnlineRegressor

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


@pytest.mark.parametrize("method", ["adagrad", "rfd-son", "auto"])
@pytest.mark.parametrize("kind", [OnlineClassifier, OnlineRegressor])
def test_the_fast_path_gives_the_same_bits(monkeypatch, method, kind):
    values = [x[NAMES[0]] - x[NAMES[1]] for x in rows()]
    labels = [value > 0.0 for value in values] if kind is OnlineClassifier else values
    short, long = kind(method), kind(method)
    monkeypatch.setattr(fast_path, "_MOST", fast_path._REPEATED)  # make ready again and again
    first = played(short, labels, spoiled=(40, 41, 100))
    assert short._fast._free  # rows were going it
    monkeypatch.setattr(fast_path, "_REPEATED", 10**9)
    assert played(long, labels, spoiled=(40, 41, 100)) == first
    assert not long._fast._free
    assert short.weights == long.weights


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


def test_features_that_change_every_few_rows_are_given_up(monkeypatch):
    made, of = [], fast_path.SingleRows.of
    monkeypatch.setattr(fast_path.SingleRows, "of", lambda *given: made.append(1) or of(*given))
    model = OnlineClassifier("adagrad")
    for i in range(600):
        model.learn_one({f"{i // 10 % 5} {j}": 1.0 + (i + j) % 3 for j in range(4)}, i % 2 == 0)
    assert 1 <= len(made) <= 3
    for i in range(400):
        model.learn_one({f"0 {j}": 1.0 + (i + j) % 3 for j in range(4)}, i % 2 == 0)
    assert model._fast._free  # and taken up again


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
