"""Columns are matched by name: a missing one is missing in every row, others are left out, changed ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import FORMATS, frame, trained, write_as
from onsketch.errors import InputError
from onsketch.jobs.prediction import predict_stream
from onsketch.jobs.training import Plan, Training
from program import run

pd = pytest.importorskip("pandas")


def predicted(model: Path, path: Path, **reading: Any) -> tuple[list[float], tuple[str, ...]]:
    """Margins of a file, and the remarks on its columns."""
    margins: list[float] = []
    for outcome in predict_stream(model, [str(path)], "margin", reading):
        margins += [float(word) for word in (outcome.text or "").split()]
    return margins, outcome.notes


def numbers(table: Any) -> Any:
    """The columns of numbers, without gaps."""
    return table[["income", "bought"]].assign(age=table.age.fillna(40.0), pay=table.income * 2.0 + 1.0)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("part", [lambda table: table, numbers])
@pytest.mark.parametrize("products", [{}, {"interact": ["income,age"]}])
def test_a_column_that_is_not_there_is_one_of_missing_values(form: str, part: Any, products: Any, tmp_path: Path):
    table, asked = part(frame()), part(frame(50, seed=1)).drop(columns="bought")
    model = trained(table, tmp_path / "m", "csv", **products)
    write_as(form, asked.assign(age=np.nan), tmp_path / f"empty.{form}")
    write_as(form, asked.drop(columns="age"), tmp_path / f"gone.{form}")
    wanted, nothing = predicted(model, tmp_path / f"empty.{form}")
    found, notes = predicted(model, tmp_path / f"gone.{form}")
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7)
    assert not nothing
    assert [note.split(": ", 1)[1] for note in notes] == ["no column 'age': it counts as missing in every row."]


@pytest.mark.parametrize("form", FORMATS)
def test_learning_goes_on_without_a_column_and_with_another(form: str, tmp_path: Path):
    table, more = frame(), frame(50, seed=1)
    start = trained(table, tmp_path / "m", "csv")
    write_as(form, more.assign(age=np.nan), tmp_path / f"empty.{form}")
    write_as(form, more.drop(columns="age").assign(height=1.5), tmp_path / f"other.{form}")
    learned = []
    for name in ("empty", "other"):
        plan = Plan([str(tmp_path / f"{name}.{form}")], "adagrad", {}, {"label": "bought"}, start=str(start))
        job = Training(plan)
        list(job.run())
        features, weights = job.learner.coefficients()
        learned.append(dict(zip(features.tolist(), weights.tolist(), strict=True)))
    assert learned[0] == pytest.approx(learned[1], rel=1e-9)
    expected = [note.split(": ", 1)[1] for note in job.notes]
    assert expected == [
        "no column 'age': it counts as missing in every row.",
        "the model does not know the column 'height', which is left out.",
    ]


def test_the_second_of_two_files_may_lack_a_column(tmp_path: Path):
    table = frame()
    write_as("csv", table, tmp_path / "1.csv")
    for name, part in (("2", table.drop(columns="age")), ("3", table.assign(age=None))):
        write_as("csv", part, tmp_path / f"{name}.csv")
    weights = []
    for second in ("2", "3"):
        job = Training(Plan([str(tmp_path / f"{k}.csv") for k in ("1", second)], "adagrad", {}, {"label": "bought"}))
        list(job.run())
        weights.append(job.learner.coefficients()[1])
    np.testing.assert_allclose(*weights, rtol=1e-9)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("column", "cells", "expected"),
    [("job", 1.5, "numbers, and held words"), ("income", "low", "words, and held numbers")],
)
def test_a_column_whose_type_changed_is_refused_by_name(
    form: str, column: str, cells: Any, expected: str, tmp_path: Path
):
    model = trained(frame(), tmp_path / "m", "csv")
    write_as(form, frame(50, seed=1).assign(**{column: cells}), tmp_path / f"a.{form}")
    with pytest.raises(InputError, match=f"the column '{column}' holds {expected}"):
        predicted(model, tmp_path / f"a.{form}")


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_of_other_columns_is_refused(form: str, tmp_path: Path):
    model = trained(frame(), tmp_path / "m", "csv")
    write_as(form, pd.DataFrame({"height": np.arange(50.0)}), tmp_path / f"a.{form}")
    with pytest.raises(InputError, match="are not there, but were"):
        predicted(model, tmp_path / f"a.{form}")


def test_where_missing_values_are_errors_a_missing_column_is_one(tmp_path: Path):
    model = trained(numbers(frame()), tmp_path / "m", "csv", missing="error")
    write_as("csv", numbers(frame(50, seed=1)).drop(columns="age"), tmp_path / "a.csv")
    with pytest.raises(InputError, match="the column 'age' is not there"):
        predicted(model, tmp_path / "a.csv")
    assert len(predicted(model, tmp_path / "a.csv", missing="zero")[0]) == 50


def test_the_program_says_which_columns_are_missing_or_left_out(tmp_path: Path):
    model = trained(frame(), tmp_path / "m", "csv")
    write_as("csv", frame(50, seed=1).drop(columns="age").assign(height=1.5), tmp_path / "a.csv")
    found = run("predict", model, tmp_path / "a.csv")
    assert found.exit_code == 0
    assert "Warning: " in found.stderr
    assert "no column 'age': it counts as missing in every row." in found.stderr
    assert "the model does not know the column 'height', which is left out." in found.stderr
    found = run("train", tmp_path / "a.csv", "--from", model, "--save", tmp_path / "n")
    assert found.exit_code == 0
    assert "no column 'age': it counts as missing in every row." in found.output
