"""Estimators kept as pickles and as model files go on as if nothing had been between."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris

import onsketch
from onsketch.errors import ModelFileError, OptionError
from onsketch.sklearn import OnlineClassifier, OnlineRegressor
from streams import words


@pytest.mark.parametrize("options", [{}, {"multiclass": "shared", "loss": "softmax"}, {"method": "oja-son"}])
def test_pickles_and_model_files_go_on_bit_for_bit(options: dict[str, Any], tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    y = np.array([f"digit {label}" for label in y])
    model = OnlineClassifier(random_state=0, class_weight={"digit 3": 2.0}, **options)
    model.partial_fit(pd.DataFrame(X[:300]).rename(columns=str), y[:300], classes=np.unique(y))
    model.save(tmp_path / "model")
    rest = pd.DataFrame(X[300:600]).rename(columns=str)
    for again in (pickle.loads(pickle.dumps(model)), onsketch.load(tmp_path / "model")):
        assert again.get_params() == model.get_params()
        assert (again.predict(rest) == model.predict(rest)).all()
        assert (again.feature_names_in_ == model.feature_names_in_).all()
        again.partial_fit(rest, y[300:600])
        later = clone(model).partial_fit(pd.DataFrame(X[:300]).rename(columns=str), y[:300], classes=np.unique(y))
        assert (again.decision_function(rest) == later.partial_fit(rest, y[300:600]).decision_function(rest)).all()


def test_words_of_a_column_of_objects_go_to_a_model_file(tmp_path: Path) -> None:
    X, y = words()
    model = OnlineClassifier("adagrad", random_state=0).fit(X, np.where(y == y[0], "yes", "no").astype(object))
    assert model.classes_.dtype == object
    model.save(tmp_path / "model")
    assert (onsketch.load(tmp_path / "model").predict(X) == model.predict(X)).all()


def test_a_regressor_goes_to_a_model_file(tmp_path: Path) -> None:
    X, y = load_diabetes(return_X_y=True)
    model = OnlineRegressor(box=(-1e4, 1e4), method="ada-fd", random_state=1).fit(X, y)
    model.save(tmp_path / "model")
    again = onsketch.load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    assert (again.predict(X) == model.predict(X)).all()


def test_an_altered_header_is_refused(tmp_path: Path) -> None:
    X, y = words()
    model = OnlineClassifier(random_state=0).fit(X, y)
    onsketch.files.model_file.write(tmp_path / "model", "scikit-learn", {"class": "SVC"}, {})
    with pytest.raises(ModelFileError, match="does not describe an estimator"):
        onsketch.load(tmp_path / "model")
    model.set_params(random_state=np.random.RandomState(0))
    with pytest.raises(OptionError, match="random_state"):
        model.save(tmp_path / "model")


def test_a_random_state_of_numpy_goes_to_a_model_file(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    model = OnlineClassifier("adagrad", random_state=np.int64(3)).fit(X, y)
    model.save(tmp_path / "model")
    assert onsketch.load(tmp_path / "model").random_state == 3
