"""Predictions as tables, figures on the standard output, and progress in the words of the file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from program import run

ROWS = 120


def table(path: Path, labels: list, words: bool = False) -> Path:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2)).round(3)
    with path.open("w") as file:
        file.write("a,b,job,y\n")
        for k, (a, b) in enumerate(X):
            code = int(np.clip(a + b + 1.0, 0, len(labels) - 1))
            file.write(f"{a},{b},{'xyz'[k % 3]},{labels[code]}\n")
    return path


def read(path: Path) -> list[dict]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".parquet":
        return pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], ["red", "green", "blue"]])
def test_every_format_holds_the_same_predictions(labels: list, tmp_path: Path) -> None:
    rows, model = table(tmp_path / "t.csv", labels), tmp_path / "m.model"
    assert run("train", rows, "--label", "y", "--save", model).exit_code == 0
    found = {}
    for ending in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"p.{ending}"
        assert run("predict", model, rows, "-o", path).exit_code == 0
        found[ending] = read(path)
        assert len(found[ending]) == ROWS
    assert found["jsonl"] == found["parquet"]
    assert [{name: str(cell) for name, cell in row.items()} for row in found["jsonl"]] == found["csv"]
    text = run("predict", model, rows, "--kind", "label").stdout.split()
    assert [str(row["prediction"]) for row in found["jsonl"]] == text
    names = ["_" + str(label) for label in labels] if len(labels) > 2 else [""]
    sums = np.array([[row[f"probability{name}"] for name in names] for row in found["jsonl"]]).sum(axis=1)
    assert np.all((sums > 0.0) & (sums < 1.0)) if len(labels) == 2 else np.allclose(sums, 1.0)
    said = run("predict", model, rows, "--kind", "margin", "-o", tmp_path / "p.csv")
    assert said.exit_code == 0
    assert all(name.startswith("margin") for name in read(tmp_path / "p.csv")[0])


def test_explanations_are_columns(tmp_path: Path) -> None:
    rows, model, path = table(tmp_path / "t.csv", ["no", "yes"]), tmp_path / "m.model", tmp_path / "p.jsonl"
    assert run("train", rows, "--label", "y", "-l", "adagrad", "--save", model).exit_code == 0
    assert run("predict", model, rows, "--explain", 9, "-o", path).exit_code == 0
    for row in read(path):
        parts = [row[f"part_{k}"] or 0.0 for k in range(1, 10)]
        assert sum(parts) + row["intercept"] == pytest.approx(row["margin"])
        assert {row[f"reason_{k}"] for k in range(1, 4)} <= {"a", "b", "job=x", "job=y", "job=z"}


def test_rows_keep_their_names(tmp_path: Path) -> None:
    rows, model, path = table(tmp_path / "t.csv", [1.5, 2.5, 7.0]), tmp_path / "m.model", tmp_path / "p.csv"
    assert run("train", rows, "--label", "y", "--task", "regression", "--tag", "job", "--save", model).exit_code == 0
    assert run("predict", model, rows, "-o", path).exit_code == 0
    assert [list(row) for row in read(path)] == [["tag", "prediction"]] * ROWS
    assert [row["tag"] for row in read(path)[:3]] == ["x", "y", "z"]


def test_figures_go_to_the_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = table(tmp_path / "t.csv", ["no", "yes"])
    assert json.loads(run("train", rows, "--label", "y", "--json", "-").stdout)["rows"] == ROWS
    assert not (tmp_path / "-").exists()


def test_progress_shows_labels_and_rates_as_the_file_has_them(tmp_path: Path) -> None:
    rows = table(tmp_path / "t.csv", [0, 1])
    lines = [line.split() for line in run("train", rows, "--label", "y").stdout.splitlines()]
    shown = {line[-3] for line in lines if len(line) == 7 and line[0][0].isdigit()}
    assert shown == {"0", "1"}
    counts = table(tmp_path / "c.csv", [20, 30, 40])
    lines = [line.split() for line in run("train", counts, "--label", "y", "--loss", "poisson").stdout.splitlines()]
    said = [float(line[-2]) for line in lines if len(line) == 6 and line[2].isdigit()]
    assert said[0] == 1.0
    assert all(value > 5.0 for value in said[2:])


def test_many_collisions_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "ids.vw"
    path.write_text("".join(f"{k % 2 * 2 - 1} | id_{k} id_{k + 5000}\n" for k in range(3000)))
    said = run("train", path, "-l", "adagrad", "--bits", 14).stdout
    assert "about 16% of the features share a column with another one; try --bits 18" in said.replace("\n", " ")
    assert "share a column" not in run("train", path, "-l", "adagrad", "--bits", 20).stdout


def test_columns_that_give_the_label_away_or_count_the_rows_are_reported(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kinds, sizes, path = rng.integers(0, 2, 300), rng.normal(size=300), tmp_path / "t.csv"
    lines = [
        f"{'paid' if k else 'late'},{x:.6f},{n + 1000},{'yes' if k else 'no'}"
        for n, (k, x) in enumerate(zip(kinds, sizes, strict=True))
    ]
    path.write_text("\n".join(["state,size,number,label", *lines]))
    said = run("train", path, "-l", "adagrad").stdout.replace("\n", " ")
    assert all(f"'state={word}' alone gives the label" in said for word in ("paid", "late"))
    assert "'number' counts the rows" in said
    assert "'size" not in said
    said = run("train", path, "-l", "adagrad", "--ignore", "state", "--ignore", "number").stdout
    assert "alone gives" not in said
    assert "counts the rows" not in said


def test_many_learners_for_many_classes_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "classes.csv"
    path.write_text("x,label\n" + "".join(f"{k % 7},c{k % 101}\n" for k in range(404)))
    said = run("train", path, "-l", "adagrad").stdout
    assert "101 classes are 101 learners" in said
    assert "learners with this method" not in run("train", path).stdout


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_columns_are_passed_through(form: str, ending: str, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rows, model, path = table(tmp_path / "t.csv", ["no", "yes"]), tmp_path / "m.model", tmp_path / f"p.{ending}"
    assert run("train", rows, "--label", "y", "-l", "adagrad", "--save", model).exit_code == 0
    words = [None if k % 7 == 0 else f'"{k}", é\nz' for k in range(ROWS)]
    frame = pd.read_csv(rows).assign(who=words)
    source = tmp_path / f"new.{form}"
    if form == "csv":
        frame.to_csv(source, index=False)
    elif form == "jsonl":
        frame.to_json(source, orient="records", lines=True)
    else:
        frame.to_parquet(source)
    options = ["--columns", "who", "--columns", "a", "--block-rows", "50", "-o", path]
    said = run("predict", model, source, *options)
    assert said.exit_code == 0, said.output
    found = read(path)
    assert list(found[0]) == ["who", "a", "prediction", "probability", "margin"]
    assert [float(row["a"]) for row in found] == frame.a.tolist()
    assert [row["who"] or None for row in found] == words
    alone = run("predict", model, source, "--kind", "label").stdout.split()
    assert [row["prediction"] for row in found] == alone


def test_rows_that_are_skipped_have_no_columns(tmp_path: Path) -> None:
    rows, model, path = table(tmp_path / "t.csv", ["no", "yes"]), tmp_path / "m.model", tmp_path / "p.csv"
    assert run("train", rows, "--label", "y", "-l", "adagrad", "--save", model).exit_code == 0
    lines = rows.read_text().splitlines()
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join([*lines[:5], "soon,1,x,no", "1e300,1,y,no", *lines[5:9]]) + "\n")
    assert run("predict", model, bad, "--on-error", "skip", "--columns", "a", "-o", path).exit_code == 0
    assert [row["a"] for row in read(path)] == [line.split(",")[0] for line in lines[1:9]]


def test_columns_need_a_table_and_names_of_their_own(tmp_path: Path) -> None:
    rows, model = table(tmp_path / "t.csv", ["no", "yes"]), tmp_path / "m.model"
    assert run("train", rows, "--label", "y", "-l", "adagrad", "--save", model).exit_code == 0
    for options, reason in (
        (["--columns", "a"], "it needs a table"),
        (["--columns", "aa", "-o", tmp_path / "p.csv"], "there is no such column"),
    ):
        said = run("predict", model, rows, *options)
        assert said.exit_code != 0
        assert reason in said.output
    other = tmp_path / "o.csv"
    other.write_text("a,b,job,margin\n1,2,x,3\n")
    said = run("predict", model, other, "--columns", "margin", "-o", tmp_path / "p.csv")
    assert "the predictions have a column of this name" in said.output


def test_json_on_the_standard_output_is_all_there_is(tmp_path: Path) -> None:
    rows, model = table(tmp_path / "t.csv", ["no", "yes"]), tmp_path / "m.model"
    assert run("train", rows, "--label", "y", "-l", "adagrad", "--save", model).exit_code == 0
    assert json.loads(run("inspect", model, "--json", "-").stdout)["kind"] == "learner"
    said = run("compare", rows, "--label", "y", "-l", "adagrad", "-l", "ogd", "--json", "-")
    assert json.loads(said.stdout)["rows"] == ROWS
    assert json.loads(run("predict", model, rows, "-o", tmp_path / "p.csv", "--json", "-").stdout)["rows"] == ROWS
