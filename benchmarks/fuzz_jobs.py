"""Fuzz the files of jobs: checkpoints, models with their metadata, ledgers and parts of a cluster's run.

A changed file must raise an error of the library, or the job must continue and finish. Run by ``fuzz.py``.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas

import onsketch
from onsketch import river, sklearn
from onsketch.cluster import fit
from onsketch.errors import InputError, OnsketchError
from onsketch.files import model_file
from onsketch.files.model_file import Content
from onsketch.jobs.prediction import predict_stream
from onsketch.jobs.training import Plan, Training

from fuzz_children import Trial  # isort: skip
from fuzz_models import MEMORY_DISK, changed, described  # isort: skip

_rng = np.random.default_rng(3)
SVM = "".join(f"{y} {a}:1 {b}:{v:.3f}\n" for y, a, b, v in zip(
    _rng.choice((-1, 1), 60), _rng.integers(1, 5, 60), _rng.integers(5, 9, 60), _rng.normal(size=60), strict=True
))  # fmt: skip
TABLE = "colour,size,label\n" + "".join(
    f"{c},{s:.2f},{y}\n" for c, s, y in zip(
        _rng.choice(["red", "blue", ""], 60), _rng.normal(size=60), _rng.choice(["a", "b", "c"], 60), strict=True
    )
)  # fmt: skip

JOBS: dict[str, dict[str, Any]] = {
    "two classes": {"sources": ["rows.svm"], "method": "adagrad", "passes": 2, "holdout": 3},
    "a table": {"sources": ["rows.csv"], "method": "auto", "reading": {"label": "label"}},
}


def _plan(job: str) -> Plan:
    given = JOBS[job]
    return Plan(**{**given, "reading": {"block_rows": 10, "prefetch": 0, **given.get("reading", {})}})


def _begun(job: str) -> None:
    """A job left half done in this folder: its checkpoint, its model, its predictions."""
    Path("rows.svm").write_text(SVM)
    Path("rows.csv").write_text(TABLE)
    training = Training(_plan(job), predictions="p.txt")
    for k, _ in enumerate(training.run()):
        if k == 2:
            training.checkpoint("file")
            shutil.copy("p.txt", "p.before")
    training.save("model")


def _resumed(job: str) -> None:
    shutil.copy("p.before", "p.txt")
    training = Training(_plan(job), predictions="p.txt")
    training.resume("file")
    for _ in training.run():
        pass
    training.checkpoint("again")
    Training(_plan(job), predictions="p.txt").resume("again")


def _followed(job: str) -> None:
    """Go on from a model, and predict with it."""
    for outcome in predict_stream("file", _plan(job).sources, None, {"block_rows": 20, "prefetch": 0}):
        assert outcome.text is None or "nan" not in outcome.text
    given = _plan(job)
    training = Training(Plan(given.sources, given.method, reading=given.reading, start="file"))
    for _ in training.run():
        pass
    training.save("again")


def _named() -> None:
    """Use the model of a table from Python."""
    model, rows = onsketch.load("file"), [{"colour": "red", "size": 0.5}, {"colour": "green", "size": None}]
    assert len(model.predict(rows)) == 2
    if model.task.kind != "regression":
        assert np.isfinite(model.predict_proba(rows)).all()
    with contextlib.suppress(InputError):  # another task knows other labels
        model.learn(rows, ["a", "new"])
    model.save("again")
    onsketch.load("again").predict(rows)


def _estimated(make: Callable[[], Any]) -> None:
    """An estimator trained on a table."""
    Path("rows.csv").write_text(TABLE)
    make().save("model")


def _of_frames() -> Any:
    rows = [line.split(",") for line in TABLE.splitlines()[1:]]
    table = pandas.DataFrame({"colour": [row[0] or None for row in rows], "size": [float(row[1]) for row in rows]})
    return sklearn.OnlineClassifier(method="adagrad").fit(table, [row[2] for row in rows])


def _of_objects() -> Any:
    model = river.OnlineClassifier("adagrad")
    for line in TABLE.splitlines()[1:]:
        colour, size, label = line.split(",")
        model.learn_one({"size": float(size), colour or "none": 1.0}, label)
    return model


def _taken_over() -> None:
    """Predict with the file of an estimator, and go on from it."""
    for outcome in predict_stream("file", ["rows.csv"], None, {"block_rows": 20, "prefetch": 0}):
        assert outcome.text is None or "nan" not in outcome.text
    reading = {"block_rows": 10, "prefetch": 0, "label": "label"}
    training = Training(Plan(["rows.csv"], "adagrad", reading=reading, start="file"))
    for _ in training.run():
        pass
    training.save("again")


class _Stopped(Exception):
    pass


def _shared_out(stop: int | None) -> None:
    left = stop

    def watch(_: Any) -> None:
        nonlocal left
        if left is not None:
            left -= 1
            if left < 0:
                raise _Stopped

    files = [f"{k}.svm" for k in range(4)]
    fit({"method": "rfd-son", "sketch_size": 3}, files, reading={"block_rows": 5, "prefetch": 0}, sync=2, every=0.0,
        cluster="none", checkpoint="run", resume=stop is None, watch=watch)  # fmt: skip


def _run_begun(stop: int) -> None:
    lines = SVM.splitlines(keepends=True)
    for k in range(4):
        Path(f"{k}.svm").write_text("".join(lines[15 * k : 15 * k + 15]))
    with contextlib.suppress(_Stopped):
        _shared_out(stop)
    if stop < 4:
        Path("target").write_text(str(max(Path("run.parts").iterdir())))
    else:
        Path("target").write_text("run")


def _try(folder: str, content: Content, target: str, goes_on: Callable[[], None], case: int) -> str:
    new, _ = changed(content, np.random.default_rng([case, 77]))
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as place:
        shutil.copytree(folder, place, dirs_exist_ok=True)
        os.chdir(place)
        rest = {name: value for name, value in new.header.items() if name not in ("format", "version")}
        try:
            model_file.write(target, new.kind, rest, new.arrays, new.notes)
        except (ValueError, TypeError):  # what no file can hold
            return "not written"
        try:
            goes_on()
        except OnsketchError as error:
            return f"refused, {type(error).__name__}"
        finally:
            os.chdir("/")
        return "gone on"


def trials() -> Iterator[tuple[str, Callable[[], tuple[Trial, Callable[[int], str]]]]]:
    """Return every file of a job by name, with functions that make its trial and describe a case."""

    def prepared(begins: Callable[[], None], goes_on: Callable[[], None], which: str) -> Any:
        folder, here = tempfile.mkdtemp(dir=MEMORY_DISK), os.getcwd()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.chdir(folder)
        begins()
        target = Path("target").read_text() if which == "target" else "file"
        if which == "model":
            shutil.copy("model", "file")
        content = model_file.read(target)
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(folder, place, dirs_exist_ok=True)
            os.chdir(place)
            goes_on()  # compiles
            os.chdir(here)
        return partial(_try, folder, content, target, goes_on), partial(described, content)

    for job in JOBS:
        yield f"checkpoint of {job}", partial(prepared, partial(_begun, job), partial(_resumed, job), "file")
        yield f"model of {job}", partial(prepared, partial(_begun, job), partial(_followed, job), "model")
    begun = partial(_begun, "a table")
    yield "named model", partial(prepared, begun, _named, "model")
    for name, make in (("of frames", _of_frames), ("of objects", _of_objects)):
        yield f"estimator {name} taken over", partial(prepared, partial(_estimated, make), _taken_over, "model")
    yield "ledger of a cluster", partial(prepared, partial(_run_begun, 5), partial(_shared_out, None), "target")
    yield "part of a cluster", partial(prepared, partial(_run_begun, 3), partial(_shared_out, None), "target")
