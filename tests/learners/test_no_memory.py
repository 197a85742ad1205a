"""Where there is no memory for new features, the rows that brought them have not come."""

from __future__ import annotations

import numpy as np
import pytest

import onsketch
from onsketch.learners import features
from onsketch.learners.auto.classes import AutoClasses


def refuse(*arguments: object, **sizes: object) -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("name", "options", "owner", "attribute"),
    [
        ("auto", {}, "onsketch.core.state", "grow"),
        ("adagrad", {}, "onsketch.core.state", "grow"),
        ("adagrad", {"scaling": "magnitude"}, "onsketch.core.state", "grow"),
    ],
)
def test_rows_refused_for_lack_of_memory_are_not_counted(name, options, owner, attribute, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = np.sign(X[:, 0])
    wide = np.hstack([X[:1], np.ones((1, 4000))])
    learner = onsketch.learner(name, loss="logistic", **options)
    learner.learn(X, y)
    before = learner.predict(wide)
    with monkeypatch.context() as patch:
        patch.setattr(f"{owner}.{attribute}", refuse)
        with pytest.raises(MemoryError):
            learner.learn(wide, [1.0])
    np.testing.assert_array_equal(learner.predict(wide), before)
    twin = onsketch.learner(name, loss="logistic", **options)
    twin.learn(X, y)
    np.testing.assert_array_equal(learner.learn(wide, [1.0]), twin.learn(wide, [1.0]))
    np.testing.assert_array_equal(learner.predict(wide), twin.predict(wide))


def interrupt(monkeypatch, learner, rows, labels):
    """Learn until Ctrl-C, as soon as features have been entered, which is when compiled code comes back to Python."""
    whole = features.translate_rows

    def translate(*arguments: object) -> None:
        whole(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(features, "translate_rows", translate)
        with pytest.raises(KeyboardInterrupt):
            learner.learn(rows, labels)


def assert_alike(learner, twin, rows, labels):
    """They predict the same, before they learn these rows and after."""
    np.testing.assert_array_equal(learner.predict(rows), twin.predict(rows))
    np.testing.assert_array_equal(learner.learn(rows, labels), twin.learn(rows, labels))
    np.testing.assert_array_equal(learner.predict(rows), twin.predict(rows))


@pytest.mark.parametrize(
    ("name", "options"), [("auto", {}), ("adagrad", {}), ("adagrad", {"scaling": "magnitude"}), ("rfd-son", {})]
)
def test_features_of_an_interrupted_call_have_not_come(name, options, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = np.sign(X[:, 0])
    wide = np.hstack([X[:1], np.ones((1, 40))])
    learner, twin = (onsketch.learner(name, loss="logistic", **options) for _ in range(2))
    for one in (learner, twin):
        one.learn(X, y)
    interrupt(monkeypatch, learner, wide, [1.0])
    assert_alike(learner, twin, wide, [1.0])


def test_features_of_a_failed_call_have_not_come_with_many_classes(monkeypatch):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(20, 3)), rng.integers(0, 3, 20)
    wide = np.hstack([X[:1], np.ones((1, 4000))])
    learner, twin = AutoClasses(n_classes=3), AutoClasses(n_classes=3)
    for one in (learner, twin):
        one.learn(X, codes)
    interrupt(monkeypatch, learner, wide, [1])
    with monkeypatch.context() as patch:
        patch.setattr("onsketch.core.state.grow", refuse)
        with pytest.raises(MemoryError):
            learner.learn(wide, [1])
    assert_alike(learner, twin, wide, [1])
