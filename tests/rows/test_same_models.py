"""A model trained on a table from any source predicts the same for the rows of every other source."""

from __future__ import annotations

import csv
import datetime as dt
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onsketch
from onsketch.jobs.prediction import predict_stream
from onsketch.jobs.training import Plan, Training

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

WORDS = st.text("abcXYZé -_/", min_size=1, max_size=6).map(str.strip).filter(lambda word: any(map(str.isalpha, word)))
TOKENS = st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "Straße", "again"])
CELLS = {
    "number": st.one_of(st.integers(-1000, 1000).map(float), st.floats(-1e6, 1e6).map(lambda x: round(x, 3))),
    "word": st.one_of(WORDS, st.sampled_from(["x=y", "a,b", 'say "so"', "NaNa"])),
    "flag": st.booleans(),
    "category": st.sampled_from(["low", "middle", "high"]),
    "inner.size": st.floats(-9, 9).map(lambda x: round(x, 2)),
    "inner.kind": st.sampled_from(["one", "two"]),
    "when": st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2040, 1, 1)).map(lambda t: t.replace(microsecond=0)),
    "text": st.lists(TOKENS, min_size=3, max_size=8).map(" ".join),
}  # fmt: skip
TYPES = {"number": pa.float64(), "inner.size": pa.float64(), "flag": pa.bool_(), "when": pa.timestamp("us")}
LABELS = (["yes", "no"], ["red", "green", "blue"], [0, 1], [1.5, -2.25, 7.75, 3.125])


@st.composite
def tables(draw: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns, and rows with gaps. All columns have values in the first rows, so that every source decides alike."""
    columns = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, unique=True))
    count = draw(st.integers(24, 40))
    full = {name: draw(st.lists(CELLS[name], min_size=count, max_size=count)) for name in columns}
    gaps = {name: draw(st.sets(st.integers(4, count - 1), max_size=5)) for name in columns}
    labels = draw(st.sampled_from(LABELS))
    rows = []
    for k in range(count):
        cells = {name: None if k in gaps[name] else full[name][k] for name in columns}
        rows.append({**cells, "y": labels[k % len(labels)]})
    return columns, rows


def nested(row: dict[str, Any]) -> dict[str, Any]:
    """The row with ``inner.size`` and ``inner.kind`` as an object."""
    flat = {name: cell for name, cell in row.items() if not name.startswith("inner.")}
    inner = {name.removeprefix("inner."): cell for name, cell in row.items() if name.startswith("inner.")}
    return {**flat, "inner": inner} if inner else flat


def table_of(rows: list[dict[str, Any]]) -> Any:
    columns = {}
    for name in rows[0]:
        cells = pa.array([row[name] for row in rows], TYPES.get(name))
        columns[name] = cells.dictionary_encode() if name == "category" else cells
    return pa.table(columns)


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_json(rows: list[dict[str, Any]], path: Path, make: Callable[[Any], Any] = nested) -> None:
    lines = [json.dumps(make(row), default=lambda when: when.isoformat()) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")


def write_arrow(rows: list[dict[str, Any]], path: Path) -> None:
    table = table_of(rows)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


FILES: dict[str, Callable[[list[dict[str, Any]], Path], None]] = {
    "csv": write_csv,
    "jsonl": write_json,
    "parquet": lambda rows, path: pq.write_table(pa.Table.from_pylist(list(map(nested, rows))), path),
    "arrow": write_arrow,
}


def in_memory(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The rows of features as tables and objects."""
    features = [{name: cell for name, cell in row.items() if name != "y"} for row in rows]
    table = table_of(features)
    yield "objects", features
    yield "objects within objects", list(map(nested, features))
    yield "gaps left out", [{name: cell for name, cell in row.items() if cell is not None} for row in features]
    yield "pandas", pd.DataFrame(features)
    yield "polars", pl.from_arrow(table)
    yield "Arrow table", table
    yield "Arrow batch", table.combine_chunks().to_batches()[0]


def margins_of_file(model: Path, path: Path) -> np.ndarray:
    found = []
    for outcome in predict_stream(model, [str(path)], "margin", {"unlabelled": True}, tabular=True):
        if outcome.table is not None:
            found.append(np.column_stack([np.asarray(c, dtype=float) for c in outcome.table.values()]))
    return np.concatenate(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X. no column", "ignore:X. the model does not know")
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_a_model_from_any_source_predicts_the_same_for_every_other(table: tuple[list[str], Any]) -> None:
    _, rows = table
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {form: folder / f"rows.{form}" for form in FILES}
        for form, write in FILES.items():
            write(rows, paths[form])
        for form, path in paths.items():
            job = Training(Plan([str(path)], "adagrad", {}, {"label": "y"}))
            for _ in job.run():
                pass
            job.save(folder / "model")
            model = onsketch.load(folder / "model")
            wanted = model.decision_function([{n: c for n, c in row.items() if n != "y"} for row in rows])
            for source, X in in_memory(rows):
                found = model.decision_function(X)
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=f"{form}, {source}")
            for other, asked in paths.items():
                found = margins_of_file(folder / "model", asked)
                found = found.reshape(np.shape(wanted))
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=f"{form}, {other}")
