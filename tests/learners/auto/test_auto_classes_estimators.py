"""The multinomial auto through the estimators of scikit-learn and River."""

from __future__ import annotations

import numpy as np
import pytest

import onsketch
from onsketch.learners.auto.classes import AutoClasses
from streams import blobs


def test_the_estimators_use_it_for_many_classes_and_not_for_two() -> None:
    sklearn = pytest.importorskip("onsketch.sklearn")
    X, codes = blobs(n=300)
    model = sklearn.OnlineClassifier(random_state=0).fit(X, codes)
    assert isinstance(model.learner_, AutoClasses)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p, np.exp(model.decision_function(X)), atol=1e-12)
    assert isinstance(sklearn.OnlineClassifier().fit(X, codes > 1).learner_, onsketch.Learner)
    for multiclass in ("ovr", "one-vs-rest"):
        each = sklearn.OnlineClassifier(multiclass=multiclass).fit(X, codes)
        assert type(each.learner_).__name__ == "OneVersusRest"
    named = sklearn.OnlineClassifier("adagrad").fit(X, codes)
    assert type(named.learner_).__name__ == "OneVersusRest"
    declared = sklearn.OnlineClassifier().partial_fit(X[codes < 2], codes[codes < 2], classes=[0, 1, 2, 3])
    declared.partial_fit(X, codes)
    assert np.mean(declared.predict(X) == codes) > 0.7


def test_river_accepts_new_labels_at_any_time() -> None:
    river = pytest.importorskip("onsketch.river")
    X, codes = blobs(n=300)
    labels = np.array(["a", "b", "c", "d"])[np.where(np.arange(300) < 100, codes % 2, codes)]
    model = river.OnlineClassifier()
    for row, label in zip(X, labels, strict=True):
        model.learn_one({f"x{j}": v for j, v in enumerate(row)}, label)
    assert isinstance(model._learner, AutoClasses)
    p = model.predict_proba_one({f"x{j}": v for j, v in enumerate(X[0])})
    assert set(p) == set(labels)
    assert sum(p.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("classes", [3, 26, 100])
def test_words_a_class_of_one_row_and_rows_of_no_weight_are_fine(classes: int) -> None:
    sklearn = pytest.importorskip("onsketch.sklearn")
    X, codes = blobs(n=600, classes=classes)
    words = np.array([f"class {k}" for k in range(classes + 1)])
    names = words[codes]
    names[300] = words[-1]
    weights = np.where(np.arange(600) % 50 == 0, 0.0, 1.0)
    model = sklearn.OnlineClassifier(class_weight={words[0]: 2.0})
    model.partial_fit(X[:5], names[:5], classes=words)  # most classes come later
    model.partial_fit(X[5:], names[5:], sample_weight=weights[5:])
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (model.predict(X) == model.classes_[p.argmax(axis=1)]).all()
    assert p.min() > 0.0
    assert model.score(X, names) > 2.0 / classes
