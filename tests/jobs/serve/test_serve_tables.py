"""A model of a table with words and gaps answers objects as the program answers a file with the same cells."""

from __future__ import annotations

import numpy as np
import pytest

for needed in ("starlette", "uvicorn", "msgspec", "prometheus_client", "httpx", "httptools"):
    pytest.importorskip(needed, reason="the service needs the extra 'serve'")

from onsketch.core.errors import InputError, OptionError
from onsketch.data.json_rows import rows_of
from onsketch.jobs.prediction import predict_stream
from onsketch.jobs.serve.batch import Batch
from onsketch.jobs.serve.engine import Settings
from onsketch.jobs.serve.model import load_model, new_model
from onsketch.jobs.serve.rows import RowReader
from onsketch.jobs.training import Plan, Training
from serving import served

ROWS = [
    {"age": 31, "city": "Oslo", "income": 2.5},
    {"age": None, "city": "Rome", "income": -1.0},
    {"age": 60, "city": "a new one, quoted", "income": 0.0},
    {"age": 45, "city": None, "income": 1e3},
]


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["age;city;income;bought"]
    for _ in range(200):
        age, city = int(rng.integers(18, 80)), rng.choice(["Oslo", "Rome", "Kyiv"])
        bought = "yes" if (city == "Rome") != (age > 50) else "no"
        lines.append(f"{age if rng.random() > 0.1 else ''};{city};{rng.normal():.2f};{bought}".replace(".", ","))
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines) + "\n")
    job = Training(Plan([str(table)], "adagrad", {}, {"label": "bought"}))
    for _ in job.run():
        pass
    job.save(tmp_path / "table.model")
    return tmp_path / "table.model"


def test_objects_are_rows_of_the_table(model, tmp_path):
    file = tmp_path / "asked.csv"
    cells = [";".join("" if v is None else str(v).replace(".", ",") for v in row.values()) for row in ROWS]
    file.write_text("age;city;income\n" + "\n".join(cells) + "\n")
    said = [
        line for outcome in predict_stream(model, [str(file)], "margin", {}) for line in (outcome.text or "").split()
    ]
    loaded = load_model(model)[0]
    reader = RowReader(loaded, dict(loaded.names), 1000)
    margins = loaded.learner.predict(reader.objects(ROWS))
    np.testing.assert_allclose([float(line) for line in said], margins, rtol=1e-8)


@pytest.mark.parametrize(
    ("row", "what"),
    [({"age": "old"}, "age"), ({"height": 1.0}, "height"), ([1.0, 2.0], "object"), ({"city": ["Oslo"]}, "city")],
)
def test_what_is_no_row_of_the_table_is_named(model, row, what):
    loaded = load_model(model)[0]
    with pytest.raises(InputError, match=what):
        RowReader(loaded, dict(loaded.names), 1000).objects([ROWS[0], row])


def test_lines_are_refused(model):
    loaded = load_model(model)[0]
    with pytest.raises(InputError, match="table"):
        RowReader(loaded, dict(loaded.names), 1000).lines(b"| age:3", "vw")


def _trained(tmp_path, ending, text):
    (tmp_path / f"rows.{ending}").write_text(text)
    job = Training(Plan([str(tmp_path / f"rows.{ending}")], "adagrad", {}, {}))
    for _ in job.run():
        pass
    job.save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("word", [{"job": "x"}, {"a": 1, "site": {"job": "x"}}, {"job": ["x", "y"]}])
def test_a_model_of_vw_text_refuses_words_in_objects(tmp_path, word):
    """A word of an object is the feature ``job=x``; VW text hashes ``job:x`` on from its name. Numbers are alike."""
    model = _trained(tmp_path, "vw", "1 | job:x a:2\n-1 | job:y a:3\n" * 10)
    with served(model=model) as (client, _):
        for path in ("/predict", "/learn"):
            refused = client.post(path, json=[{"features": {"a": 2}, "label": 1}, {"features": word, "label": 1}])
            assert refused.status_code in (400, 422)
            assert "row 1" in refused.json()["error"]
            assert "trained on vw rows" in refused.json()["error"]
        assert client.get("/status").json()["rows"] == 20
        number = client.post("/predict", json={"features": {"a": 2}}).json()
        assert client.post("/predict?format=vw", content="| a:2").json() == [number]
        assert number["margin"] != 0.0


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_model_of_named_values_refuses_lines(tmp_path, ending):
    rows = {"jsonl": '{"job": "x", "label": 1}\n{"job": "y", "label": 0}\n', "csv": "job,label\n" + "x,1\ny,0\n" * 9}
    with served(model=_trained(tmp_path, ending, rows[ending])) as (client, _):
        for row in ({"content": "1 | job:x"}, {"json": {"features": "| job:x", "label": 1}}):
            path = "/learn?format=vw" if "content" in row else "/learn"
            refused = client.post(path, **row)
            assert refused.status_code in (400, 422)
            assert "objects, not lines" in refused.json()["error"]
        assert client.post("/predict", json={"features": {"job": "x"}}).json()["margin"] > 0.0
    with (
        pytest.raises(OptionError, match=r"--vw-port: .*objects, not lines"),
        served(model=_trained(tmp_path, ending, rows[ending]), vw_port=0),
    ):
        pass


@pytest.mark.parametrize(
    "other",
    [{"quadratic": ["xz"]}, {"bits": 20}, {"cubic": ["xyz"]}, {"interact": ["a,b"]}, {"missing": "zero"}],
)
def test_a_second_model_with_other_columns_is_refused(tmp_path, other):
    for name, reading in (("first", {}), ("second", other)):
        made = new_model("adagrad", {}, "binary", reading)
        made.learn(Batch(rows_of([{"a": 1.0}], reading.get("bits", 18)), np.ones(1)))
        made.save(tmp_path / name)
    with (
        pytest.raises(OptionError, match="other columns than the first"),
        served(model=tmp_path / "first", shadow=tmp_path / "second"),
    ):
        pass


@pytest.mark.parametrize("reading", [{}, {"zero_based": False}, {"zero_based": False, "quadratic": ["::"], "bits": 12}])
def test_objects_and_lists_of_a_libsvm_model_are_the_rows_of_its_lines(tmp_path, reading):
    """Names count from the same number as the indices of the file, and products are made."""
    (tmp_path / "rows.svm").write_text("1 1:1 3:2\n-1 2:1\n" * 20)
    job = Training(Plan([str(tmp_path / "rows.svm")], "adagrad", {}, reading))
    list(job.run())
    job.save(tmp_path / "m")
    with served(model=tmp_path / "m") as (client, _):
        line = client.post("/predict?format=libsvm", content="0 1:0.5 3:2\n").json()
        assert client.post("/predict", json=[{"features": {"1": 0.5, "3": 2}}]).json() == line
        listed = [0, 0.5, 0, 2] if reading.get("zero_based", True) else [0.5, 0, 2]
        assert client.post("/predict", json=[{"features": listed}]).json() == line
        assert line[0]["margin"] != 0.0
        refused = client.post("/predict", json={"features": {"0": 1}})
        assert (refused.status_code == 422) == (reading != {})


def test_a_second_learner_takes_over_with_words_as_labels_and_snapshots_go_on(model, tmp_path):
    row = {"features": {"age": 31, "city": "Rome", "income": 2.5}, "label": "yes"}
    wishes = {"model": model, "log": tmp_path / "log", "settings": Settings(snapshot_rows=20)}
    with served(shadow_method="oja-son", **wishes) as (client, running):
        client.post("/learn", json=[row] * 5)
        assert client.post("/promote").status_code == 200
        answer = client.post("/predict", json={"features": row["features"]}).json()
        assert answer["prediction"] == "yes"
        status = client.get("/status").json()
        assert (status["learner"], status["rows"], status["unsaved_rows"]) == ("oja-son", 5, 5)
        client.post("/learn", json=[row] * 20)
        assert running.service.engine.unsaved_rows == 0
        margin = client.post("/predict", json={"features": row["features"]}).json()["margin"]
    with served(log=tmp_path / "log") as (client, _):
        again = client.post("/predict", json={"features": row["features"]}).json()
        assert (again["prediction"], again["margin"]) == ("yes", margin)
