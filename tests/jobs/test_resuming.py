"""Going on from a model is one run over all files, byte for byte: any split, format, task and learner."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onsketch.cluster
from onsketch.data.writing import write
from onsketch.jobs.training import Plan, Training
from program import run

FORMS = ("libsvm", "vw", "csv", "jsonl", "parquet", "arrow")

LEARNERS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "binary": [("auto", {}), ("rfd-son", {}), ("oja-son", {}), ("adagrad", {})],
    "regression": [("auto", {}), ("adagrad", {"loss": "absolute"}), ("adagrad", {"loss": "quantile", "quantile": 0.9})],
    "counts": [("auto", {"loss": "poisson"}), ("adagrad", {"loss": "poisson"})],
    "multiclass": [("auto", {}), ("adagrad", {})],
}

CASES = [(task, *learner) for task, learners in LEARNERS.items() for learner in learners]


def part(folder: Path, name: str, form: str, task: str, X: np.ndarray, score: np.ndarray) -> str:
    """Some rows as a file of this form, with labels for this task."""
    labels = {
        "binary": np.where(score > 0.0, 1.0, -1.0),
        "regression": score + 0.125,
        "counts": np.floor(np.exp(np.minimum(score, 3.0))),
        "multiclass": np.clip(np.floor(score), -1.0, 1.0) + 1.0,
    }[task]
    path = folder / f"{name}.{'svm' if form == 'libsvm' else form}"
    if form == "jsonl":
        lines = [
            json.dumps(
                {"label": float(y), "a": float(x[0]), "who": f"w{int(abs(x[1]) * 2)}", "sub": {"b": float(x[2])}}
            )
            for x, y in zip(X, labels, strict=True)
        ]
        path.write_text("".join(f"{line}\n" for line in lines))
    else:
        columns = None if form == "libsvm" else ["a", "b", "c"]
        write(str(path), X, labels, format=form, names=columns)
    return str(path)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    form=st.sampled_from(FORMS),
    case=st.sampled_from(CASES),
    first=st.integers(30, 60),
    others=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    block=st.integers(1, 64),
    holdout=st.sampled_from([0, 3]),
)
def test_resuming_is_one_run(form, case, first, others, block, holdout):
    task, method, options = case
    rng = np.random.default_rng(first)
    sizes = [first, *others]
    X = np.round(rng.normal(size=(sum(sizes), 3)), 3) + 0.0
    score = X @ [1.0, -0.5, 0.3] + 0.3 * rng.normal(size=len(X))
    edges = np.cumsum([0, *sizes])
    kind = "regression" if task == "counts" else task
    reading = (
        {"block_rows": block, "label": "label"}
        if form in ("csv", "jsonl", "parquet", "arrow")
        else {"block_rows": block}
    )
    with TemporaryDirectory() as place:
        folder = Path(place)
        files = [
            part(folder, str(k), form, task, X[a:b], score[a:b])
            for k, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True))
        ]
        whole, parts = folder / "whole.model", folder / "parts.model"
        job = Training(Plan(files, method, options, reading, kind, holdout=holdout))
        list(job.run())
        job.save(whole)
        for k, file in enumerate(files):
            start = str(parts) if k else None
            job = Training(Plan([file], method, options, reading, kind, holdout=holdout, start=start))
            list(job.run())
            job.save(parts)
        assert parts.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(("first", "then"), [("vw", "csv"), ("vw", "jsonl"), ("svm", "csv"), ("csv", "vw")])
def test_rows_of_another_rule_are_refused(first, then, tmp_path):
    """A word of a table is the feature ``column=word``, in VW text it is hashed on from its name."""
    files = {"vw": "1 | job:x a:2\n-1 | job:y a:3\n", "csv": "job,a,y\nx,2,1\ny,3,-1\n", "svm": "1 0:1 1:2\n-1 1:3\n"}
    files["jsonl"] = '{"job": "x", "a": 2, "y": 1}\n{"job": "y", "a": 3, "y": -1}\n'
    for ending in (first, then):
        (tmp_path / f"rows.{ending}").write_text(files[ending])
    model = tmp_path / "m.model"
    assert run("train", tmp_path / f"rows.{first}", "-l", "adagrad", "--save", model).exit_code == 0
    for command in (
        ["predict", model, tmp_path / f"rows.{then}"],
        ["train", tmp_path / f"rows.{then}", "--from", model],
    ):
        refused = run(*command)
        assert refused.exit_code == 1
        assert "other columns" in refused.stderr.replace("\n", " ")
    assert run("predict", model, tmp_path / f"rows.{first}").exit_code == 0


@pytest.mark.parametrize("first", ["vw", "svm"])
def test_a_model_of_shards_refuses_rows_of_another_rule(first, tmp_path):
    rows = {"vw": "1 | job:x a:2\n-1 | job:y a:3\n", "svm": "1 0:1 1:2\n-1 1:3\n"}[first]
    for shard in range(2):
        (tmp_path / f"{shard}.{first}").write_text(rows)
    (tmp_path / "rows.csv").write_text("job,a,y\nx,2,1\ny,3,-1\n")
    onsketch.cluster.fit("adagrad", str(tmp_path / f"*.{first}"), cluster="none").save(tmp_path / "m.model")
    refused = run("predict", tmp_path / "m.model", tmp_path / "rows.csv")
    assert refused.exit_code == 1
    assert "other columns" in refused.stderr.replace("\n", " ")
    assert run("predict", tmp_path / "m.model", tmp_path / f"0.{first}").exit_code == 0
