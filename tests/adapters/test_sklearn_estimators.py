"""The estimators do what the learners do, on every form of input that scikit-learn users have."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_svmlight_file
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import onsketch
from checkout import DATA
from onsketch.errors import InputError, OptionError, UpdateError
from onsketch.sklearn import OnlineClassifier, OnlineRegressor
from streams import words


def test_without_shuffling_it_is_the_learner() -> None:
    X, y = words()
    plain = {"scaling": "none", "step": "explicit"}  # differs from the recommended options
    model = OnlineClassifier("ada-ffd", shuffle=False, sketch_size=3, step_size=0.5, **plain).fit(X, y)
    learner = onsketch.learner("ada-ffd", loss="logistic", sketch_size=3, step_size=0.5, fit_intercept=True)
    learner.learn(X, np.where(y == "yes", 1.0, -1.0))
    assert (model.coef_[0] == learner.weights).all()
    assert model.intercept_ == learner.intercept
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(-model.decision_function(X))))
    assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()


def test_partial_fit_in_pieces_is_fit() -> None:
    X, y = load_digits(return_X_y=True)
    whole = OnlineClassifier("oja-son", shuffle=False, random_state=3).fit(X[:500], y[:500])
    parts = OnlineClassifier("oja-son", random_state=3)
    for start in range(0, 500, 100):
        parts.partial_fit(X[start : start + 100], y[start : start + 100], classes=np.arange(10))
    assert (whole.coef_ == parts.coef_).all()


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_every_sparse_format(form: str) -> None:
    X, y = words()
    dense = OnlineClassifier(shuffle=False, sketch_size=4).fit(X, y)
    for kind in (sp.csr_array, sp.csr_matrix):
        model = OnlineClassifier(shuffle=False, sketch_size=4).fit(kind(X).asformat(form), y)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-9)
        assert (model.predict(kind(X).asformat(form)) == dense.predict(X)).all()


def test_data_frames_keep_their_names() -> None:
    X, y = words()
    names = [f"feature {j}" for j in range(X.shape[1])]
    plain = OnlineClassifier(random_state=0).fit(X, y)
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = OnlineClassifier(random_state=0).fit(frame, y)
        assert list(model.feature_names_in_) == names
        assert (model.coef_ == plain.coef_).all()
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[names[::-1]])


def test_float32_rows_and_state() -> None:
    """In most orders of the rows rounding is all that differs. In some, a row on the border of entering the sketch
    enters with one type and not with the other, which is a small difference still.
    """
    X, y = words()
    X = X.astype(np.float32)
    apart = []
    for order in range(5):
        model = OnlineClassifier(random_state=order, dtype="float32").fit(X, y)
        exact = OnlineClassifier(random_state=order).fit(X, y)
        assert model.score(X, y) > 0.9
        apart.append(np.abs(model.coef_ - exact.coef_).max() / np.abs(exact.coef_).max())
    assert np.median(apart) < 1e-4
    assert max(apart) < 0.05


def test_in_a_pipeline_and_a_grid_search() -> None:
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), OnlineClassifier("rfd-son", random_state=0, max_iter=5))
    search = GridSearchCV(pipeline, {"onlineclassifier__ridge": [0.1, 10.0], "onlineclassifier__sketch_size": [2, 5]})
    search.fit(X, y)
    assert search.best_score_ > 0.9
    assert clone(search.best_estimator_).get_params()["onlineclassifier__max_iter"] == 5


def test_sample_weights_are_those_of_the_learner_and_zero_is_absence() -> None:
    X, y = words()
    weights = np.random.default_rng(1).uniform(0.0, 3.0, len(X)) * (np.arange(len(X)) % 3 > 0)
    plain = {"scaling": "none", "step": "explicit"}
    model = OnlineClassifier("adagrad", shuffle=False, **plain).fit(X, y, sample_weight=weights)
    kept = weights > 0.0
    learner = onsketch.learner("adagrad", loss="logistic", fit_intercept=True)
    learner.learn(X[kept], np.where(y[kept] == "yes", 1.0, -1.0), weights[kept])
    assert (model.coef_[0] == learner.weights).all()


def test_class_weights_multiply_sample_weights() -> None:
    X, y = words()
    model = OnlineClassifier("adagrad", shuffle=False, class_weight={"yes": 5.0, "no": 0.5}).fit(X, y)
    same = OnlineClassifier("adagrad", shuffle=False).fit(X, y, sample_weight=np.where(y == "yes", 5.0, 0.5))
    assert (model.coef_ == same.coef_).all()
    with pytest.raises(ValueError, match=r"balanced.*is for fit"):
        OnlineClassifier(class_weight="balanced").partial_fit(X, y, classes=["no", "yes"])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_losses_without_probabilities_say_so(loss: str) -> None:
    X, y = words()
    model = OnlineClassifier(loss=loss, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        model.predict_proba(X)
    assert "gives no probabilities" in str(caught.value.__cause__)


def test_a_clipped_learner_has_an_unclipped_decision_function() -> None:
    X, y = words()
    model = OnlineClassifier(clip=0.5, random_state=0).fit(5.0 * X, y)
    assert np.abs(model.learner_.predict(5.0 * X)).max() <= 0.5
    assert np.abs(model.decision_function(5.0 * X)).max() > 0.5


def test_probabilities_sum_to_one_however_far_the_margins() -> None:
    X, y = load_iris(return_X_y=True)
    for options in ({}, {"multiclass": "shared", "loss": "softmax"}):
        model = OnlineClassifier(random_state=0, **options).fit(X, y)
        for scale in (1.0, 1e4, -1e4):
            found = model.predict_proba(scale * X)
            assert np.isfinite(found).all()
            np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_least_squares_by_ons_is_ridge_regression() -> None:
    """Recursive least squares in one pass, the intercept as good as free."""
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = OnlineRegressor("ons", ridge=1.0, scaling="none", random_state=0).fit(X, y)
    exact = Ridge(alpha=0.5).fit(X, y)  # ½ because the loss is (z − y)² and not half of it
    np.testing.assert_allclose(
        np.append(model.coef_, model.intercept_), np.append(exact.coef_, exact.intercept_), rtol=1e-6
    )


def test_regressors_score_on_targets_with_units() -> None:
    X, y = load_diabetes(return_X_y=True)
    for method in ("rfd-son", "oja-son", "ons", "fd-son"):
        pipeline = make_pipeline(StandardScaler(), OnlineRegressor(method, random_state=0))
        assert cross_val_score(pipeline, X, y).mean() > (0.3 if method == "oja-son" else 0.46)
    absolute = OnlineRegressor("ada-ffd", loss="absolute", max_iter=5, random_state=0)
    assert make_pipeline(StandardScaler(), absolute).fit(X, y).score(X, y) > 0.35


@pytest.mark.parametrize("made_by", [OnlineClassifier, OnlineRegressor])
def test_kernel_methods_have_no_coefficients(made_by: Any) -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    model = made_by("pros-n-kons", random_state=0).fit(X, y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "intercept_")
    with pytest.raises(AttributeError, match="expansion"):
        _ = model.coef_
    assert hasattr(made_by("pros-n-kons", kernel="linear", random_state=0).fit(X, y), "coef_")


def test_a_label_that_was_not_announced_is_refused_and_nothing_learned() -> None:
    X, y = words()
    model = OnlineClassifier(random_state=0).partial_fit(X, y, classes=["no", "yes"])
    before = model.coef_
    with pytest.raises(InputError, match="'maybe' at row 1 is not among the classes"):
        model.partial_fit(X[:2], ["no", "maybe"])
    assert (model.coef_ == before).all()


def test_options_that_do_not_go_together_name_both() -> None:
    X, y = words()
    for options, match in [
        ({"method": "nothing"}, "no method 'nothing'"),
        ({"loss": "softmax", "multiclass": "one-vs-rest"}, "multiclass='softmax'"),
        ({"loss": "squared"}, "classes need"),
        ({"multiclass": "pairs"}, "multiclass='pairs'"),
        ({"max_iter": 0}, "max_iter=0"),
    ]:
        with pytest.raises(ValueError, match=match):
            OnlineClassifier(**options).fit(X, y)
    with pytest.raises(OptionError, match="a regressor needs"):
        OnlineRegressor(loss="hinge").fit(X, np.arange(len(X)))
    with pytest.raises(ValueError, match="one class"):
        OnlineClassifier().fit(X, np.ones(len(X)))


def test_without_scikit_learn_the_message_names_the_extra() -> None:
    script = "import sys; sys.modules['sklearn'] = None\nimport onsketch\nimport onsketch.sklearn"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'onsketch[sklearn]'" in run.stderr


def mnist(rows: int) -> tuple[Any, Any, Any, Any]:
    if not (DATA / "mnist-train-images-idx3-ubyte.gz").exists():
        pytest.skip("the MNIST files are missing")

    def read(name: str, offset: int) -> Any:
        return np.frombuffer(gzip.decompress((DATA / name).read_bytes()), np.uint8, offset=offset)

    X, X_test = (read(f"mnist-{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255.0 for part in ("train", "t10k"))
    y, y_test = (read(f"mnist-{part}-labels-idx1-ubyte.gz", 8) for part in ("train", "t10k"))
    return X[:rows], y[:rows], X_test, y_test


def test_mnist_in_one_pass_beats_gradient_descent() -> None:
    X, y, X_test, y_test = mnist(20_000)
    ours = OnlineClassifier(multiclass="shared", loss="softmax", random_state=0).fit(X, y)
    peer = SGDClassifier(loss="log_loss", max_iter=1, tol=None, learning_rate="constant", eta0=0.1, average=True)
    peer = peer.set_params(random_state=0).fit(X, y)  # the best of the rates in benchmarks/estimators.py
    assert ours.score(X_test, y_test) > peer.score(X_test, y_test)


def test_letter_in_one_pass_beats_gradient_descent(tmp_path: Path) -> None:
    if not (DATA / "letter.scale.xz").exists():
        pytest.skip("the letter files are missing")
    for name in ("letter.scale", "letter.scale.t"):
        (tmp_path / name).write_bytes(lzma.decompress((DATA / f"{name}.xz").read_bytes()))
    X, y = load_svmlight_file(tmp_path / "letter.scale", n_features=16)
    X_test, y_test = load_svmlight_file(tmp_path / "letter.scale.t", n_features=16)
    X, X_test = X.toarray(), X_test.toarray()
    ours = OnlineClassifier(multiclass="shared", loss="softmax", random_state=0).fit(X, y)
    peer = SGDClassifier(loss="log_loss", max_iter=1, tol=None, learning_rate="constant", eta0=1.0, average=True)
    assert ours.score(X_test, y_test) > peer.set_params(random_state=0).fit(X, y).score(X_test, y_test) + 0.02


def test_kernel_methods_take_their_options() -> None:
    """A ring around a disc: no line tells them apart."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = (X**2).sum(axis=1) > 1.4
    for method, options in (
        ("pros-n-kons", {"gamma": 0.5}),
        ("budget-kernel-ogd", {"max_points": 50}),
        ("kernel-ogd", {"kernel": "polynomial", "degree": 2, "coef0": 1.0}),
    ):
        model = clone(OnlineClassifier(method, random_state=0, **options)).fit(X, y)
        assert model.score(X, y) > 0.8
        assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("method", ["kons", "sketched-kons", "pros-n-kons"])
def test_kernel_methods_need_no_scaling_and_keep_few_rows_by_default(method: str) -> None:
    X, y = load_digits(return_X_y=True)  # pixels from 0 to 16
    model = OnlineClassifier(method, random_state=0).fit(X[:900], y[:900] < 5)
    assert model.score(X[900:], y[900:] < 5) > 0.85
    assert model.learner_.diagnostics()["dictionary_size"] <= 500


def test_an_option_of_no_concern_is_left_out_with_a_warning_so_that_grids_go_over_methods() -> None:
    X, y = words()
    with pytest.warns(UserWarning, match=r"sketch_size=5: left out.*method='adagrad'"):
        OnlineClassifier("adagrad", sketch_size=5).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        grid = {"method": ["auto", "adagrad"], "ridge": [0.1, 1.0]}
        search = GridSearchCV(OnlineClassifier(random_state=0), grid, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_partial_fit_does_not_go_on_silently_with_a_learner_of_other_parameters() -> None:
    X, y = words()
    model = OnlineClassifier("adagrad").partial_fit(X, y, classes=np.unique(y))
    model.set_params(method="ogd")
    with pytest.raises(ValueError, match=r"method changed.*call fit"):
        model.partial_fit(X, y)
    assert model.fit(X, y).learner_.method.name == "ogd"
    regressor = OnlineRegressor("adagrad").partial_fit(X, X[:, 0])
    with pytest.raises(ValueError, match="step_size changed"):
        regressor.set_params(step_size=0.5).partial_fit(X, X[:, 0])


def test_after_a_fit_that_raised_nothing_counts_as_fitted() -> None:
    X, y = words()
    huge = np.where(y == "yes", 1e149, 1e-149)
    options = {"method": "adagrad", "scaling": "none", "step": "explicit", "random_state": 0}
    for teach in ("fit", "partial_fit"):
        model = OnlineRegressor(**options)
        with pytest.raises(UpdateError):
            getattr(model, teach)(X, huge)
        with pytest.raises(NotFittedError):
            model.predict(X)
    model = OnlineRegressor(**options).fit(X, X[:, 0])
    with pytest.raises(UpdateError):
        model.fit(X, huge)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_predictions_are_what_the_weights_say_unless_a_clip_is_asked_for() -> None:
    X, y = load_diabetes(return_X_y=True)
    for method in ("auto", "rfd-son", "adagrad"):
        model = OnlineRegressor(method, random_state=0).fit(X, y)
        np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert OnlineRegressor("rfd-son", clip=100.0, random_state=0).fit(X, y).predict(X).max() <= 100.0


def test_losses_by_the_names_of_scikit_learn_and_arow_as_it_comes() -> None:
    X, y = words()
    ours, theirs = (OnlineClassifier(loss=loss, random_state=0).fit(X, y) for loss in ("logistic", "log_loss"))
    assert (ours.predict_proba(X) == theirs.predict_proba(X)).all()
    for ours_name, theirs_name in (("squared", "squared_error"), ("absolute", "absolute_error")):
        one, other = (
            OnlineRegressor("adagrad", loss=n, random_state=0).fit(X, X[:, 0]) for n in (ours_name, theirs_name)
        )
        assert (one.predict(X) == other.predict(X)).all()
    model = OnlineClassifier("arow", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert not hasattr(model, "predict_proba")


def test_passes_end_when_they_no_longer_help(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = words()
    model = OnlineClassifier("adagrad", max_iter=50, early_stopping=True, n_iter_no_change=2, verbose=1, random_state=0)
    model.fit(X, y)
    assert 2 < model.n_iter_ < 50
    assert capsys.readouterr().out.count("score") == model.n_iter_
    assert OnlineRegressor("adagrad", max_iter=50, tol=1e-3, random_state=0).fit(X, X[:, 0]).n_iter_ < 50
    assert OnlineClassifier("adagrad", max_iter=3, random_state=0).fit(X, y).n_iter_ == 3
    with pytest.raises(ValueError, match="n_iter_no_change=0"):
        OnlineClassifier(n_iter_no_change=0).fit(X, y)


def test_a_warm_start_continues_from_the_previous_fit() -> None:
    X, y = words()
    warm = OnlineClassifier("adagrad", warm_start=True, shuffle=False)
    warm.fit(X, y).fit(X, y)
    twice = OnlineClassifier("adagrad", max_iter=2, shuffle=False).fit(X, y)
    assert (warm.coef_ == twice.coef_).all()
    assert warm.learner_.rounds == 2 * len(X)


def test_named_methods_are_safe_on_raw_features() -> None:
    """Units of 1e-6 to 1e6, and targets with an offset: no refusal, and better than a constant."""
    X, y = load_diabetes(return_X_y=True)
    units = 10.0 ** np.linspace(-6, 6, X.shape[1])
    for method in ("rfd-son", "oja-son", "rp-son", "adagrad", "ada-fd", "s-adagrad", "ogd"):
        score = OnlineRegressor(method, max_iter=5, random_state=0).fit(X * units, y).score(X * units, y)
        assert score > 0.25, (method, score)
        classes = y > np.median(y)
        share = OnlineClassifier(method, max_iter=5, random_state=0).fit(X * units, classes).score(X * units, classes)
        assert share > 0.65, (method, share)
