"""Where there is no memory for new features, the rows that brought them have not come."""

from __future__ import annotations

import numpy as np
import pytest

import onsketch
from onsketch.learners.first_order.learner import FirstOrderLearner
from onsketch.learners.scaled.rows import RowScales


def refuse(*arguments: object) -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("name", "options", "owner", "attribute"),
    [
        ("auto", {}, "onsketch.learners.auto.learner", "with_room"),
        ("adagrad", {}, FirstOrderLearner, "_grow"),
        ("adagrad", {"scaling": "magnitude"}, RowScales, "_grow"),
    ],
)
def test_rows_without_room_have_not_come(name, options, owner, attribute, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = np.sign(X[:, 0])
    wide = np.hstack([X[:1], np.ones((1, 4000))])
    learner = onsketch.learner(name, loss="logistic", **options)
    learner.learn(X, y)
    before = learner.predict(wide)
    with monkeypatch.context() as patch:
        if isinstance(owner, str):
            patch.setattr(f"{owner}.{attribute}", refuse)
        else:
            patch.setattr(owner, attribute, refuse)
        with pytest.raises(MemoryError):
            learner.learn(wide, [1.0])
    np.testing.assert_array_equal(learner.predict(wide), before)
    twin = onsketch.learner(name, loss="logistic", **options)
    twin.learn(X, y)
    np.testing.assert_array_equal(learner.learn(wide, [1.0]), twin.learn(wide, [1.0]))
    np.testing.assert_array_equal(learner.predict(wide), twin.predict(wide))
