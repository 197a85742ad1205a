"""A model that was trained anywhere predicts the same everywhere: the program, Python, the service, each format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onsketch
from models import FORMATS, frame, objects, said, trained, write_as
from onsketch.errors import OptionError
from onsketch.jobs.prediction import predict_stream
from onsketch.jobs.serve.batch import Batch
from onsketch.jobs.serve.model import load_model, new_model
from onsketch.jobs.serve.rows import RowReader
from onsketch.jobs.training import Plan, Training
from onsketch.sklearn import FrequentDirections, OnlineClassifier, OnlineRegressor
from program import run

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
river = pytest.importorskip("onsketch.river")

COLUMNS = ("age", "job", "income", "member", "zip")


def by_estimator(table: Any, path: Path, method: str, form: Callable[[Any], Any] = lambda rows: rows) -> None:
    rows = form(table.drop(columns="bought"))
    OnlineClassifier(method, random_state=0, shuffle=False).fit(rows, table.bought.to_numpy()).save(path)


def by_river(table: Any, path: Path, method: str) -> None:
    model = river.OnlineClassifier(method)
    for row, label in zip(objects(table.drop(columns="bought")), table.bought == "yes", strict=True):
        model.learn_one(row, bool(label))
    model.save(path)


def by_service(table: Any, path: Path, method: str) -> None:
    model = new_model(method, {}, "binary", {"positive": "yes"})
    rows = RowReader(model, {}, 1000).objects(objects(table.drop(columns="bought")))
    model.learn(Batch(rows, np.where(table.bought == "yes", 1.0, -1.0), None, {}))
    model.save(path)


def by_python(table: Any, path: Path, method: str) -> None:
    trained(table[:200], path, "csv", method)
    model = onsketch.load(path)
    model.learn(table[200:], table.bought[200:])
    model.save(path)


def by_the_program(form: str) -> Callable[[Any, Path, str], Any]:
    return lambda table, path, method: trained(table, path, form, method)


TRAINERS: dict[str, Callable[[Any, Path, str], Any]] = {
    **{form: by_the_program(form) for form in FORMATS},
    "Model": by_python,
    "estimator": by_estimator,
    "estimator, polars": lambda table, path, method: by_estimator(table, path, method, pl.from_pandas),
    "River": by_river,
    "service": by_service,
}


def margins_by(path: Path, rows: Any, folder: Path) -> dict[str, Any]:
    """The margins of a model for these rows by everything that reads its file."""
    found: dict[str, Any] = {}
    for form in FORMATS:
        write_as(form, rows, folder / f"asked.{form}")
        found[form] = said(path, folder / f"asked.{form}")
    model = load_model(path)[0]
    found["service"] = model.predict(RowReader(model, {}, 1000).objects(objects(rows)))
    loaded = onsketch.load(path)
    if isinstance(loaded, river.OnlineClassifier):
        p = np.clip([loaded.predict_proba_one(row)[True] for row in objects(rows)], 1e-9, 1.0 - 1e-9)
        found["River"] = np.log(p) - np.log1p(-p)
    else:
        found["frame"] = loaded.decision_function(rows)
        found["Arrow"] = loaded.decision_function(pa.Table.from_pandas(rows, preserve_index=False))
    if isinstance(loaded, onsketch.Model):
        found["dictionaries"] = loaded.decision_function(objects(rows))
    return found


@pytest.mark.slow
@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    columns=st.sets(st.sampled_from(COLUMNS), min_size=1),
    method=st.sampled_from(["adagrad", "auto", "rfd-son"]),
    seed=st.integers(0, 100),
)
def test_any_model_predicts_the_same_everywhere(tmp_path_factory: Any, columns: set[str], method: str, seed: int):
    folder = tmp_path_factory.mktemp("models")
    names = [name for name in COLUMNS if name in columns]
    table, asked = frame(seed=seed)[[*names, "bought"]], frame(40, seed=seed + 1)[names]
    for trainer, train in TRAINERS.items():
        train(table, folder / "m", method)
        found = margins_by(folder / "m", asked, folder)
        wanted = np.clip(found["service"], -15.0, 15.0)  # where probabilities still tell margins apart
        for user, margins in found.items():
            given_here = np.clip(margins, -15.0, 15.0)
            np.testing.assert_allclose(given_here, wanted, rtol=1e-6, atol=1e-6, err_msg=f"{trainer}, by {user}")


@pytest.mark.parametrize("trainer", ["csv", "estimator", "River", "service"])
def test_learning_goes_on_with_any_model_in_the_program(trainer: str, tmp_path: Path):
    table, more = frame(), frame(200, seed=2)
    TRAINERS[trainer](table, tmp_path / "m", "adagrad")
    write_as("csv", more, tmp_path / "more.csv")
    options = [] if trainer == "csv" else ["--label", "bought"]
    if trainer == "River":  # its labels are True and False
        more.assign(bought=(more.bought == "yes").astype(int)).to_csv(tmp_path / "more.csv", index=False)
    found = run("train", tmp_path / "more.csv", "--from", tmp_path / "m", "--save", tmp_path / "n", *options)
    assert found.exit_code == 0, found.output
    model = onsketch.load(tmp_path / "n")
    assert isinstance(model, onsketch.Model)
    assert model.learner.rounds == 600
    yes = model.predict(more) == model.classes_[1]
    assert np.mean(yes == (more.bought == "yes")) > 0.8
    found = run("predict", tmp_path / "n", tmp_path / "more.csv", *options)
    assert "200 rows with labels" in found.stderr
    assert run("inspect", tmp_path / "m").exit_code == 0


@pytest.mark.parametrize("labels", [["low", "mid", "high"], [0, 1, 2], [10, 20, 70]])
@pytest.mark.parametrize("words", [True, False])
def test_classes_of_estimators_have_their_names(labels: list[Any], words: bool, tmp_path: Path):
    table = frame()[["income", *(["job"] if words else [])]]
    y = np.array(labels)[np.digitize(table.income, [-0.5, 0.5])]
    model = OnlineClassifier(random_state=0).fit(table, y)
    model.save(tmp_path / "m")
    write_as("csv", table.assign(label=y), tmp_path / "a.csv")
    for outcome in predict_stream(tmp_path / "m", [str(tmp_path / "a.csv")], "label", {}):
        tally, text = outcome.tally, outcome.text or ""
        if text:
            assert [type(labels[0])(word) for word in text.split()] == model.predict(table).tolist()
    assert tally.rows == 400
    assert tally.error == pytest.approx(np.mean(model.predict(table) != y))


def test_numbers_and_arrays(tmp_path: Path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = OnlineRegressor(random_state=0).fit(X, X @ [1.0, 2.0, 3.0])
    model.save(tmp_path / "m")
    pd.DataFrame(X, columns=["x0", "x1", "x2"]).to_csv(tmp_path / "a.csv", index=False)
    onsketch.data.write(tmp_path / "a.svm", X, np.zeros(300), format="libsvm")
    service = load_model(tmp_path / "m")[0]
    wanted = model.predict(X)
    np.testing.assert_allclose(service.predict(RowReader(service, {}, 10).objects(X.tolist())), wanted, rtol=1e-6)
    for name in ("a.csv", "a.svm"):
        np.testing.assert_allclose(said(tmp_path / "m", tmp_path / name), wanted, rtol=1e-6, atol=1e-6)


def test_what_the_program_cannot_predict_is_refused_with_a_reason(tmp_path: Path):
    X = np.random.default_rng(0).normal(size=(100, 3))
    OnlineRegressor().fit(X, X[:, :2]).save(tmp_path / "several")
    OnlineClassifier().fit(X, (X > 0).astype(int)).save(tmp_path / "labels")
    OnlineClassifier("ons").fit(frame()[["job", "income"]], frame().bought).save(tmp_path / "dense")
    for name, reason in (("several", "several targets"), ("labels", "several labels"), ("dense", "by number")):
        with pytest.raises(OptionError, match=reason):
            list(predict_stream(tmp_path / name, ["a.csv"], None, {}))
        assert run("inspect", tmp_path / name).exit_code == 0
    FrequentDirections(2).fit(X).save(tmp_path / "pca")
    with pytest.raises(OptionError, match="serve takes"):
        load_model(tmp_path / "pca")


def test_going_on_in_python_and_by_plans(tmp_path: Path):
    """An estimator's model goes on as the same learner would."""
    table, more = frame(), frame(100, seed=2)
    by_estimator(table, tmp_path / "m", "adagrad")
    estimator = onsketch.load(tmp_path / "m")
    write_as("csv", more, tmp_path / "more.csv")
    job = Training(Plan([str(tmp_path / "more.csv")], "adagrad", {}, {"label": "bought"}, start=str(tmp_path / "m")))
    list(job.run())
    estimator.partial_fit(more.drop(columns="bought"), more.bought)
    job.save(tmp_path / "n")
    rows = frame(50, seed=3).drop(columns="bought")
    np.testing.assert_allclose(
        onsketch.load(tmp_path / "n").decision_function(rows), estimator.decision_function(rows), rtol=1e-6
    )
