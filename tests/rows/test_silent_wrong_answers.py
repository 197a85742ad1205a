"""The same model means the same whatever its rows come from: each line was once a wrong answer without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onsketch
from onsketch.jobs.prediction import predict_stream
from onsketch.jobs.training import Plan, Training
from onsketch.sklearn import OnlineClassifier

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")


def people(rows: int = 600, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"job": rng.choice(["cook", "clerk", "smith"], rows), "age": rng.integers(18, 80, rows)})
    table["bought"] = np.where((table.job == "cook") | (table.age > 70), "yes", "no")
    return table


def save(table: Any, path: Path) -> str:
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_dict("records")))
    else:
        pl.from_pandas(table).write_parquet(path)
    return str(path)


def train(source: str, model: Path, start: str | None = None) -> Any:
    job = Training(Plan([source], "adagrad", {}, {"label": "bought"}, start=start))
    for _ in job.run():
        pass
    job.save(model)
    return job


def errors(model: Path, source: str) -> float:
    for outcome in predict_stream(model, [source], None, {}):
        tally = outcome.tally
    return tally.error


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_model_has_the_same_error_on_every_format(tmp_path: Path, form: str) -> None:
    table = people()
    train(save(table, tmp_path / f"a.{form}"), tmp_path / "m")
    others = ("csv", "jsonl", "parquet")
    found = {other: errors(tmp_path / "m", save(people(seed=1), tmp_path / f"b.{other}")) for other in others}
    assert len(set(found.values())) == 1
    assert found["csv"] < 0.15


@pytest.mark.parametrize("first", ["csv", "jsonl", "parquet"])
def test_resuming_with_another_format_keeps_the_categories(tmp_path: Path, first: str) -> None:
    train(save(people(), tmp_path / f"a.{first}"), tmp_path / "m")
    for other in ("csv", "jsonl", "parquet"):
        job = train(save(people(seed=1), tmp_path / f"b.{other}"), tmp_path / "n", start=str(tmp_path / "m"))
        names = {name for name in job.names.values() if not name.endswith("is missing")}
        assert names == {"age", "job=cook", "job=clerk", "job=smith"}


def test_a_model_born_in_the_service_knows_the_categories_of_a_file(tmp_path: Path) -> None:
    pytest.importorskip("msgspec")
    from onsketch.jobs.serve.batch import Batch
    from onsketch.jobs.serve.model import new_model
    from onsketch.jobs.serve.rows import RowReader

    table = people()
    model = new_model("adagrad", {}, "binary", {"positive": "yes"})
    rows = RowReader(model, {}, 1000).objects(table.drop(columns="bought").to_dict("records"))
    model.learn(Batch(rows, np.where(table.bought == "yes", 1.0, -1.0), None, {}))
    model.save(tmp_path / "m")
    asked = people(seed=1).rename(columns={"bought": "label"})
    for form in ("csv", "jsonl", "parquet"):
        assert errors(tmp_path / "m", save(asked, tmp_path / f"b.{form}")) < 0.15


def test_what_the_program_trained_can_be_used_in_a_notebook(tmp_path: Path) -> None:
    table = people()
    train(save(table, tmp_path / "a.csv"), tmp_path / "m")
    assert (onsketch.load(tmp_path / "m").predict(table.drop(columns="bought")) == table.bought).mean() > 0.85


def test_gaps_and_words_are_taken_by_the_estimators() -> None:
    table = people()
    gaps = table[["age", "job"]].assign(age=table.age.where(np.arange(600) % 5 > 0))
    assert OnlineClassifier("adagrad").fit(gaps, table.bought).score(gaps, table.bought) > 0.8
    river = pytest.importorskip("onsketch.river").OnlineClassifier("adagrad")
    for row, label in zip(gaps.to_dict("records"), table.bought == "yes", strict=True):
        river.learn_one({name: None if cell != cell else cell for name, cell in row.items()}, bool(label))
    assert river.predict_one({"job": "cook", "age": 40}) is True


def test_a_batch_of_arrow_keeps_its_names() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2)) * [1.0, 100.0]
    (batch,) = pa.table({"a": X[:, 0], "b": X[:, 1]}).to_batches()
    model = OnlineClassifier("adagrad").fit(batch, X[:, 0] > 0)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(batch.select(["b", "a"]))


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["clerk", "cook", "smith"])])
def test_categories_of_polars_are_words(kind: Any, tmp_path: Path) -> None:
    frame = pl.from_pandas(people()).with_columns(pl.col("job").cast(kind))
    plain = OnlineClassifier("adagrad", random_state=0).fit(people()[["job", "age"]], people().bought)
    coded = OnlineClassifier("adagrad", random_state=0).fit(frame[["job", "age"]], people().bought.to_numpy())
    assert plain.coef_.tolist() == coded.coef_.tolist()
    frame.write_parquet(tmp_path / "a.parquet")
    train(str(tmp_path / "a.parquet"), tmp_path / "m")
    assert errors(tmp_path / "m", save(people(), tmp_path / "b.csv")) < 0.15


def test_many_ids_do_not_collide_in_estimators() -> None:
    rows = 60_000
    words = pd.DataFrame({"id": [f"user {k // 2}" for k in range(rows)], "age": np.arange(rows) % 7})
    model = OnlineClassifier("adagrad").partial_fit(words, np.arange(rows) % 2, classes=[0, 1])
    assert len(model.encoded_names_) == rows // 2 + 1
