"""A model that the program trained takes the data it was trained on, whatever form that comes in."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onsketch
from models import FORMATS, frame, objects, said, trained, write_as
from onsketch.errors import InputError, ModelFileError
from onsketch.jobs.training import Plan, Training

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def forms(table: Any) -> dict[str, Any]:
    """The same rows in every form that a model takes."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    return {
        "pandas": table,
        "pandas categories": table.astype({"job": "category"}),
        "columns in another order": table[list(table.columns[::-1])],
        "polars": pl.from_pandas(table),
        "polars categories": pl.from_pandas(table).with_columns(pl.col("job").cast(pl.Categorical)),
        "Arrow table": arrow,
        "Arrow batch": arrow.combine_chunks().to_batches()[0],
        "dictionaries": objects(table),
        "objects through JSON": json.loads(json.dumps(objects(table))),
        "matrix": table.to_numpy(dtype=object),
    }


@pytest.mark.parametrize("method", ["adagrad", "auto"])
def test_a_model_trained_by_any_format_predicts_the_same_by_every_other(tmp_path: Path, method: str) -> None:
    table, asked = frame(), frame(100, seed=1)
    rows = asked.drop(columns="bought")
    wanted = None
    for form in FORMATS:
        path = trained(table, tmp_path / form, form, method)
        model = onsketch.load(path)
        assert isinstance(model, onsketch.Model)
        for name, X in forms(rows).items():
            if form == "json" and name == "matrix":
                continue  # the columns are the same; the schema of JSON has no order to speak of
            margins = model.decision_function(X)
            wanted = margins if wanted is None else wanted
            np.testing.assert_allclose(margins, wanted, rtol=1e-9, atol=1e-12, err_msg=f"{form}: {name}")
        for other in FORMATS:
            write_as(other, rows, tmp_path / f"asked.{other}")
            np.testing.assert_allclose(said(path, tmp_path / f"asked.{other}"), wanted, rtol=1e-7, atol=1e-7)
    assert set(model.predict(rows)) == {"yes", "no"}


def test_predictions_are_labels_probabilities_and_margins(tmp_path: Path) -> None:
    table = frame()
    model = onsketch.load(trained(table, tmp_path / "m", method="auto"))
    assert model.classes_.tolist() == ["no", "yes"]
    p = model.predict_proba(table)
    assert np.allclose(p.sum(axis=1), 1.0)
    assert ((p[:, 1] > 0.5) == (model.decision_function(table) > 0.0)).all()
    assert (model.predict(table) == np.where(p[:, 1] > 0.5, "yes", "no")).all()
    assert (model.predict(table) == table.bought).mean() > 0.9
    numbers = table.assign(bought=(table.bought == "yes").astype(int))
    model = onsketch.load(trained(numbers, tmp_path / "n"))
    assert model.classes_.tolist() == [0, 1]
    assert model.predict(numbers).dtype == np.int64


def test_learning_continues_as_in_the_program(tmp_path: Path) -> None:
    table, more = frame(), frame(200, seed=2)
    write_as("csv", more, tmp_path / "more.csv")
    start = trained(table, tmp_path / "m", method="auto")
    job = Training(Plan([str(tmp_path / "more.csv")], "auto", {}, {"label": "bought"}, start=str(start)))
    for _ in job.run():
        pass
    job.save(tmp_path / "theirs")
    model = onsketch.load(start)
    model.learn(more[:50].drop(columns="bought"), more.bought[:50])
    model.learn(objects(more[50:].drop(columns="bought")), list(more.bought[50:]))
    model.save(tmp_path / "ours")
    ours, theirs = (onsketch.load(tmp_path / name) for name in ("ours", "theirs"))
    assert ours.decision_function(more).tolist() == theirs.decision_function(more).tolist()
    assert ours.learner.rounds == theirs.learner.rounds == 600


def test_many_classes_and_new_ones(tmp_path: Path) -> None:
    table = frame()
    table["bought"] = np.where(table.job == "cook", "red", np.where(table.age > 50, "green", "blue"))
    model = onsketch.load(trained(table, tmp_path / "m", method="auto"))
    assert sorted(model.classes_.tolist()) == ["blue", "green", "red"]
    assert model.predict_proba(table).shape == (400, 3)
    assert (model.predict(table) == table.bought).mean() > 0.9
    model.learn(table[:3], ["mauve"] * 3)
    assert model.classes_.tolist()[-1] == "mauve"
    with pytest.raises(InputError, match=r"y: row 1: the label is missing"):
        model.learn(table[:2], ["red", None])


def test_a_class_of_a_refused_row_is_not_learned(tmp_path: Path) -> None:
    table = frame()
    table["bought"] = np.where(table.job == "cook", "red", np.where(table.age > 50, "green", "blue"))
    model = onsketch.load(trained(table, tmp_path / "m", method="auto"))
    bad = table[:2].assign(income=[1.0, 1e200])
    with pytest.raises(InputError):
        model.learn(bad[1:], ["mauve"])
    assert sorted(model.classes_.tolist()) == ["blue", "green", "red"]
    with pytest.raises(InputError):
        model.learn(bad, ["mauve", "pink"])
    assert len(model.classes_) == model.learner.n_classes
    model.save(tmp_path / "again")
    again = onsketch.load(tmp_path / "again")
    assert again.predict_proba(table).shape == (400, len(again.classes_))


@pytest.mark.parametrize("method", ["auto", "adagrad"])
def test_threads_may_share_a_model_while_classes_are_added(tmp_path: Path, method: str) -> None:
    table = frame().assign(bought=lambda t: np.where(t.job == "cook", "red", np.where(t.age > 50, "green", "blue")))
    model = onsketch.load(trained(table, tmp_path / "m", method=method))
    rows = objects(table.drop(columns="bought")[:3])
    failures: list[BaseException] = []
    learning = threading.Event()

    def learn() -> None:
        for k in range(40):
            model.learn(rows, ["red", f"class {k}", "blue"])
        learning.set()

    def read(copied: Callable[[], Any]) -> None:
        while not (learning.is_set() or failures):
            twin = copied()
            assert twin.predict_proba(rows).shape == (3, len(twin.classes_)) == (3, twin.learner.n_classes)

    def saved() -> Any:
        model.save(tmp_path / "saved")
        return onsketch.load(tmp_path / "saved")

    def noted(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)
            learning.set()

    ways = saved, lambda: copy.deepcopy(model), lambda: pickle.loads(pickle.dumps(model))
    calls = [learn, *(partial(read, way) for way in ways)]
    threads = [threading.Thread(target=noted, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(model.classes_) == 43


def test_numbers_are_predicted(tmp_path: Path) -> None:
    table = frame().assign(bought=lambda t: 3.5 * t.income + 100.0)
    model = onsketch.load(trained(table, tmp_path / "m", method="auto"))
    assert np.corrcoef(model.predict(table), table.bought)[0, 1] > 0.9
    with pytest.raises(ValueError, match="probabilities need a model of classes"):
        model.predict_proba(table)


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    table = frame()
    path = trained(table, tmp_path / "m")
    model, rows = onsketch.load(path), table.drop(columns="bought")
    wanted = model.decision_function(rows)
    with pytest.warns(UserWarning, match="does not know the column 'height', which is left out"):
        assert model.decision_function(rows.assign(height=1.0)).tolist() == wanted.tolist()
    with pytest.warns(UserWarning, match="no column 'age': it counts as missing"):
        gone = model.decision_function(rows.drop(columns="age"))
    assert gone.tolist() == model.decision_function(rows.assign(age=np.nan)).tolist()
    with pytest.raises(InputError, match="the column 'job' holds numbers, and held words"):
        model.decision_function(rows.assign(job=1.5))
    with pytest.raises(InputError, match=r"row 0: age: expected a finite number, found 'old'"):
        model.decision_function(rows.assign(age="old"))
    with pytest.raises(InputError, match="3 columns; the model was trained on 5"):
        model.decision_function(np.zeros((2, 3)))
    with pytest.raises(InputError, match="two columns have the name 'age'"):
        model.decision_function(pd.concat([rows, rows[["age"]]], axis=1))
    with pytest.raises(InputError, match="collect"):
        model.predict(pl.from_pandas(rows).lazy())


def test_a_matrix_of_numbers_and_a_bare_learner(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(bought=(X[:, 0] > 0).astype(int))
    model = onsketch.load(trained(table, tmp_path / "m", method="auto"))
    assert model.decision_function(X).tolist() == model.decision_function(table).tolist()
    assert (model.predict(X) == table.bought).mean() > 0.95
    learner = onsketch.learner("adagrad", loss="logistic")
    learner.learn(X, np.where(X[:, 0] > 0, 1.0, -1.0))
    learner.save(tmp_path / "bare")
    bare = onsketch.load(tmp_path / "bare")
    assert isinstance(bare, onsketch.Learner)
    assert bare.predict(X).tolist() == learner.predict(X).tolist()


def test_a_word_column_that_is_empty_at_first_works_later(tmp_path: Path) -> None:
    table = frame()
    table["late"] = None
    model = onsketch.load(trained(table, tmp_path / "m", label="bought"))
    late = table.assign(late="now")
    before = model.decision_function(late)
    model.learn(late, np.where(table.bought == "yes", "no", "yes"))
    assert (model.decision_function(late) != before).any()


def test_a_file_with_a_schema_that_is_none_is_refused(tmp_path: Path) -> None:
    from onsketch.files import model_file

    content = model_file.read(trained(frame(), tmp_path / "m"))
    content.notes["training"]["schema"] = {"fields": 3}
    model_file.write(tmp_path / "bad", *content)
    with pytest.raises(ModelFileError, match="schema"):
        onsketch.load(tmp_path / "bad")
