"""A table of people, files of it in every format of named values, and models trained on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onsketch.jobs.prediction import predict_stream
from onsketch.jobs.training import Plan, Training

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FORMATS = ("csv", "json", "arrow", "parquet")


def frame(rows: int = 400, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(18, 80, rows)),
            "job": np.where(rng.random(rows) < 0.1, None, rng.choice(["cook", "clerk", "a, b"], rows)),
            "income": rng.normal(size=rows).round(3),
            "member": rng.random(rows) < 0.5,
            "zip": rng.choice(["01234", "99999", "00501"], rows),
        }
    )
    table["bought"] = np.where(table.income + (table.job == "cook") > 0.4, "yes", "no")
    return table


def objects(table: Any) -> list[dict[str, Any]]:
    return [{name: None if cell != cell else cell for name, cell in row.items()} for row in table.to_dict("records")]


def write_as(form: str, table: Any, path: Path) -> None:
    if form == "csv":
        table.to_csv(path, index=False)
    elif form == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in objects(table)))
    elif form == "arrow":
        whole = pa.Table.from_pandas(table, preserve_index=False)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, whole.schema) as writer:
            writer.write_table(whole)
    else:
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path)


def trained(table: Any, path: Path, form: str = "csv", method: str = "adagrad", **reading: Any) -> Path:
    write_as(form, table, path.with_suffix(f".{form}"))
    job = Training(Plan([str(path.with_suffix(f".{form}"))], method, {}, {"label": "bought", **reading}))
    for _ in job.run():
        pass
    job.save(path)
    return path


def said(model: Path, path: Path) -> list[float]:
    return [
        float(x) for outcome in predict_stream(model, [str(path)], "margin", {}) for x in (outcome.text or "").split()
    ]
