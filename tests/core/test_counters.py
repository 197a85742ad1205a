"""Counters far beyond what a test can count to: learners that start at 2^31 and at 2^53 rows go on as they should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onsketch
from onsketch import sketch
from onsketch.errors import InputError
from onsketch.files import model_file
from onsketch.learners.auto.classes import AutoClasses
from onsketch.learners.multiclass import SharedSketch
from streams import sparse_stream

METHODS: dict[str, dict[str, Any]] = {
    "adagrad": {}, "lazy-adam": {}, "ftrl": {}, "ogd": {}, "rfd-son": {"sketch_size": 3},
    "oja-son": {"sketch_size": 3}, "rp-son": {"sketch_size": 3}, "ada-ffd": {"sketch_size": 3}, "auto": {}, "ons": {},
    "ada-full": {}, "radagrad": {"sketch_size": 3}, "kons": {}, "pros-n-kons": {}, "kernel-ogd": {},
}  # fmt: skip
"""One of each family."""
CLOCKS = (
    "state.running", "clock", "state.clock", "table.clock", "iterate.clock", "engine.summary.count", "n_rows", "rounds",
)  # fmt: skip
"""Arrays whose first number counts rows."""
TIMELESS = ("adagrad", "ftrl", "rfd-son", "ada-ffd", "ada-full")
"""Methods in which no step depends on how many rows there were."""

X, Y = sparse_stream("logistic", n=120, seed=4)


def later(thing: Any, path: Path, rows: int) -> Any:
    """The same thing, as if it had seen so many rows more."""
    thing.save(path)
    content = model_file.read(path)
    found = [name for name in CLOCKS if name in content.arrays] or ["counts"]
    arrays = {**content.arrays}
    for name in found:
        arrays[name] = arrays[name].copy()
        arrays[name].reshape(-1)[0] += rows
    if "history" in arrays:  # of kernel learners, as it was after 1, 2, 4, ... rows
        moments = 2.0 ** np.arange(int(arrays["rounds"]).bit_length())
        history = arrays["history"][np.minimum(np.arange(len(moments)), len(arrays["history"]) - 1)]
        arrays["history"] = np.column_stack([moments, history[:, 1:]])
    return model_file.build(content._replace(arrays=arrays))


@pytest.mark.parametrize("start", [(1 << 31) - 80, (1 << 53) - 100], ids=["2^31", "2^53"])
@pytest.mark.parametrize("method", METHODS)
def test_a_learner_counts_on(method: str, start: int, tmp_path: Path) -> None:
    loss = "squared" if method in ("oja-son", "rp-son", "ada-full", "radagrad") else "logistic"
    learner = onsketch.learner(method, loss=loss, **METHODS[method])
    learner.learn(X[:60], Y[:60])
    late = later(learner, tmp_path / "model", start)
    assert late.rounds == start + 60
    said = late.learn(X[60:90], Y[60:90])
    assert np.isfinite(said).all()
    assert late.rounds == start + 90
    if method in TIMELESS:
        np.testing.assert_array_equal(said, learner.learn(X[60:90], Y[60:90]))
    late.save(tmp_path / "model")
    again = onsketch.load(tmp_path / "model")
    assert again.rounds == start + 90
    np.testing.assert_array_equal(again.learn(X[90:100], Y[90:100]), late.learn(X[90:100], Y[90:100]))
    if start > 1 << 52:
        with pytest.raises(InputError, match="2\\^53"):
            late.learn(X, Y)
        assert late.rounds == start + 100 == 1 << 53


@pytest.mark.parametrize("made", [lambda: SharedSketch("rfd-son", 3, sketch_size=4), lambda: AutoClasses("auto", 3)])
def test_a_learner_of_classes_counts_on(made: Any, tmp_path: Path) -> None:
    learner, codes = made(), np.arange(120) % 3
    learner.learn(X[:60], codes[:60])
    for start in ((1 << 31) - 80, (1 << 53) - 100):
        late = later(learner, tmp_path / "model", start)
        assert late.rounds == start + 60
        assert np.isfinite(late.learn(X[60:90], codes[60:90])).all()
        late.save(tmp_path / "model")
        assert onsketch.load(tmp_path / "model").rounds == start + 90


@pytest.mark.parametrize("name", [name for name in sketch.__all__ if name not in ("CUTOFF", "Sketch")])
def test_a_sketch_counts_on(name: str, tmp_path: Path) -> None:
    made_by, width = getattr(sketch, name), X.shape[1]
    made = made_by(width) if name in ("Exact", "Diagonal", "RowSampling") else made_by(width, 4)
    made.update(X[:60])
    for start in ((1 << 31) - 80, (1 << 53) - 100):
        late = later(made, tmp_path / "sketch", start)
        late.update(X[60:90])
        assert late.n_rows == start + 90
        assert np.isfinite(late.matrix if name != "RowSampling" else late.weights).all()
        late.save(tmp_path / "sketch")
        assert onsketch.load(tmp_path / "sketch").n_rows == start + 90
        if start > 1 << 52:
            with pytest.raises(InputError, match="2\\^53"):
                late.update(X)
