"""The public interface, name by name and keyword by keyword. A change of this file is a change of what users call."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
import scipy.sparse as sp

import onsketch
from onsketch import errors
from program import run

METHODS = [
    "ogd",
    "adagrad",
    "adam",
    "ftrl",
    "arow",
    "ada-full",
    "ons",
    "rp-son",
    "fd-son",
    "rfd-son",
    "pfd-son",
    "cfd-son",
    "oja-son",
    "ada-lr",
    "radagrad",
    "ada-gp",
    "ada-dp",
    "ada-fd",
    "ada-ffd",
    "s-adagrad",
    "kons",
    "sketched-kons",
    "pros-n-kons",
    "auto",
]

KEYWORDS = {
    "n_features": ("rfd-son", 4),
    "loss": ("rfd-son", "logistic"),
    "sketch_size": ("rfd-son", 3),
    "ridge": ("rfd-son", 0.5),
    "step_size": ("rfd-son", 0.5),
    "clip": ("rfd-son", 2.0),
    "curvature": ("rfd-son", 0.1),
    "curvature_schedule": ("rfd-son", "1/sqrt(t)"),
    "summary": ("rfd-son", "curvature"),
    "update": ("rfd-son", "dual"),
    "doubling": ("rfd-son", False),
    "diagonal": ("rfd-son", True),
    "shrink_fraction": ("pfd-son", 0.4),
    "l1": ("adagrad", 0.01),
    "l2": ("adagrad", 0.01),
    "box": ("adagrad", (-0.5, 0.5)),
    "fit_intercept": ("rfd-son", True),
    "average": ("rfd-son", True),
    "forget": ("rfd-son", 0.99),
    "betas": ("adam", (0.8, 0.99)),
    "kernel": ("kons", "rbf"),
    "gamma": ("kons", 0.5),
    "accuracy": ("sketched-kons", 0.3),
    "budget": ("sketched-kons", 30.0),
    "floor": ("sketched-kons", 0.01),
    "seed": ("rp-son", 3),
    "dtype": ("rfd-son", "float32"),
    "projection": ("rfd-son", "after"),
}
"""Every option of ``learner``, a method that it concerns, and a value that is not the default."""

SKETCHES = [
    "FrequentDirections",
    "FastFrequentDirections",
    "RobustFrequentDirections",
    "FastRobustFrequentDirections",
    "ParameterizedFrequentDirections",
    "CompensativeFrequentDirections",
    "RandomProjection",
    "Oja",
    "Exact",
    "Diagonal",
]

OPTIMIZERS = ["AdaFD", "AdaFFD", "AdaGP", "RadaGrad", "FDSON", "RFDSON", "SAdaGrad", "AdaFull", "Sketchy"]

ROUTES = {
    ("POST", "/predict"), ("POST", "/learn"), ("POST", "/label"), ("GET", "/status"), ("GET", "/healthz"),
    ("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/model"), ("GET", "/"),
}  # fmt: skip


def rows(n: int = 60, seed: int = 0):
    """Rows of four features and labels −1 and 1."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, np.where(X @ [1.0, -2.0, 0.5, 0.0] > 0.0, 1.0, -1.0)


def names_of(function):
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_listed_with_a_line_and_learns(method):
    assert onsketch.methods()[method]
    X, y = rows()
    learner = onsketch.learner(method)
    predictions = learner.learn(X, y, sample_weight=np.ones(len(y)))
    assert predictions.shape == learner.predict(sp.csr_matrix(X)).shape == (len(y),)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_every_keyword_is_taken_by_learners(keyword):
    method, value = KEYWORDS[keyword]
    X, y = rows()
    learner = onsketch.learner(method, **{keyword: value})
    assert getattr(learner.options, keyword) == value
    assert np.isfinite(learner.learn(X, y)).all()


@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic", "hinge", "squared_hinge"])
def test_every_loss_is_taken(loss):
    X, y = rows()
    assert np.isfinite(onsketch.learner("adagrad", loss=loss).learn(X, y)).all()


@pytest.mark.parametrize(
    ("method", "options"),
    [("rfd-son", {"sketch_size": "auto"}), ("rfd-son", {"sketch_size": 0}), ("rfd-son", {"ridge": 0.0}),
     ("ons", {"ridge": 0.0}), ("auto", {"forget": "auto"})],
)  # fmt: skip
def test_values_with_a_meaning_of_their_own_are_taken(method, options):
    X, y = rows()
    assert np.isfinite(onsketch.learner(method, **options).learn(X, y)).all()


def test_the_signatures_of_a_learner():
    learner = onsketch.learner("rfd-son")
    assert isinstance(learner, onsketch.Learner)
    assert names_of(learner.learn)[:3] == ["X", "y", "sample_weight"]
    assert names_of(learner.predict)[0] == names_of(learner.leverage)[0] == "X"
    assert names_of(learner.merge) == ["other", "base"]
    assert names_of(learner.save)[0] == names_of(onsketch.load)[0] == "path"


def test_a_learner_shows_weights_leverages_and_a_certificate():
    X, y = rows()
    learner = onsketch.learner("rfd-son", sketch_size=3, clip=1.0)
    learner.learn(X, y)
    assert learner.weights.shape == (4,)
    assert (learner.leverage(X) > 0.0).all()
    assert np.isfinite(learner.certificate().regret_bound)


def test_learners_are_saved_loaded_and_merged_in_place(tmp_path):
    one, other = (onsketch.learner("rfd-son", sketch_size=3) for _ in range(2))
    one.learn(*rows(seed=1))
    other.learn(*rows(seed=2))
    other.save(tmp_path / "model")
    weights = other.weights.copy()
    assert (onsketch.load(tmp_path / "model").weights == weights).all()
    assert one.merge(other, base=None) is one
    assert one.rounds == 120
    assert (other.weights == weights).all()


def test_learners_are_composed_of_parts():
    X, y = rows()
    learner = onsketch.compose(sketch="rfd", geometry="adagrad", update="dual", summary="curvature", loss="logistic")
    assert np.isfinite(learner.learn(X, y)).all()


def test_the_recommended_defaults_have_a_learner():
    X, y = rows()
    assert np.isfinite(onsketch.safe_learner("rfd-son", loss="logistic").learn(1e6 * X, y)).all()


def test_what_is_wrong_is_refused_by_the_packages_own_errors():
    with pytest.raises(errors.OptionError, match=r"(?s)adagrad.*sketch_size"):
        onsketch.learner("adagrad", sketch_size=3)
    with pytest.raises(errors.OnsketchError, match="-1"):
        onsketch.learner("adagrad", loss="logistic").learn(np.ones((1, 2)), [3.0])
    with pytest.raises(errors.OnsketchError):
        onsketch.learner("adagrad", n_features=3).learn(np.ones((1, 4)), [1.0])


@pytest.mark.parametrize("name", SKETCHES)
def test_every_sketch_is_updated_read_and_merged(name):
    made = getattr(onsketch.sketch, name)
    size = () if name in ("Exact", "Diagonal") else (3,)
    seeds = [{"seed": k} if name in ("RandomProjection", "Oja") else {} for k in range(2)]
    one, other = (made(4, *size, **seed) for seed in seeds)
    for k, summary in enumerate((one, other)):
        summary.update(rows(seed=k)[0])
    before = one.matrix
    assert before.shape[1] == 4
    assert (one.matrix == before).all()
    assert np.isfinite(one.ridge)
    kept = other.matrix
    assert one.merge(other) is one
    assert (other.matrix == kept).all()


def test_the_estimators_of_scikit_learn():
    sklearn = pytest.importorskip("onsketch.sklearn")
    X, y = rows()
    for method in ("auto", "rfd-son"):
        model = sklearn.OnlineClassifier(method=method).partial_fit(X, y, classes=[-1.0, 1.0])
        assert model.coef_.shape == (1, 4)
        assert model.predict_proba(X).shape == (60, 2)
        assert sklearn.OnlineRegressor(method=method).fit(X, y, sample_weight=np.ones(60)).predict(X).shape == (60,)
    many = sklearn.OnlineClassifier().fit(X, np.arange(60) % 3)
    assert many.predict_proba(X).shape == (60, 3)
    assert set(many.predict(X)) <= {0, 1, 2}


def test_the_estimators_of_river():
    pytest.importorskip("river")
    import pandas as pd

    from onsketch import river

    X, y = rows()
    for method in ("auto", "rfd-son"):
        classifier, regressor = river.OnlineClassifier(method=method), river.OnlineRegressor(method=method)
        for values, label in zip(X.tolist(), y.tolist(), strict=True):
            row = dict(zip("abcd", values, strict=True))
            classifier.learn_one(row, label > 0.0)
            regressor.learn_one(row, label)
        frame = pd.DataFrame(X, columns=list("abcd"))
        classifier.learn_many(frame, pd.Series(y > 0.0))
        assert set(classifier.predict_proba_one(row)) == {False, True}
        assert classifier.predict_one(row) in (False, True)
        assert np.isfinite(regressor.predict_one(row))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_of_torch_steps(name):
    torch = pytest.importorskip("torch")
    from onsketch import torch as sketched

    weights = torch.nn.Parameter(torch.ones(3, 2))
    optimizer = getattr(sketched, name)([weights])
    weights.square().sum().backward()
    optimizer.step()
    assert torch.isfinite(weights).all()
    assert not torch.equal(weights, torch.ones(3, 2))


@pytest.mark.parametrize("module", ["sketch", "sklearn", "river", "torch", "kernel", "cluster", "data", "errors"])
def test_every_public_module_can_be_imported(module):
    pytest.importorskip({"sklearn": "sklearn", "river": "river", "torch": "torch"}.get(module, "onsketch"))
    __import__(f"onsketch.{module}")


@pytest.mark.parametrize("command", ["train", "predict", "compare", "sketch", "reproduce", "data", "serve"])
def test_every_command_explains_itself(command):
    shown = run(command, "--help")
    assert shown.exit_code == 0
    assert command in shown.output


def test_the_program_trains_resumes_and_predicts(ten, tmp_path):
    model, answers = tmp_path / "model", tmp_path / "p.txt"
    assert run("train", ten, "--save", model).exit_code == 0
    assert run("train", ten, "--from", model, "--save", model).exit_code == 0
    assert onsketch.load(model).rounds == 20
    assert run("predict", model, ten, "-o", answers).exit_code == 0
    assert len(answers.read_text().split()) >= 10
    assert run("compare", "--rows", 50, "--dimension", 5).exit_code == 0


def test_the_service_answers_on_every_route(tmp_path):
    for needed in ("starlette", "uvicorn", "msgspec", "prometheus_client", "httpx", "httptools"):
        pytest.importorskip(needed, reason="the service needs the extra 'serve'")
    from serving import served

    body = {"features": {"a": 1.0, "b": 2.0}}
    with served(method="auto", task="binary", log=tmp_path / "log") as (client, _):
        ticket = client.post("/predict", json=body).json()
        assert "prediction" in ticket
        assert client.post("/learn", json={**body, "label": 1}).status_code == 200
        for method, path in sorted(ROUTES):
            given = {"content": json.dumps({**body, "label": 1})} if method == "POST" else {}
            assert client.request(method, path, **given).status_code not in (404, 405), path
        assert client.get("/status").json()["rows"] >= 1
