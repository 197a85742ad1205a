"""Everything that calls compiled code, once with each type of argument: a walk through the package.

A library of kernels holds what this walk has met (``build.py``); a kernel that it does not meet is an error there. What
counts are types of arguments, not numbers: losses and geometries are numbers to compiled code.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import onsketch
from onsketch.core.tolerances import LARGEST
from onsketch.learners.methods import METHODS
from onsketch.learners.multiclass.coupled import COUPLED
from onsketch.learners.options import Options
from onsketch.learners.rows import as_rows

DTYPES = ("float64", "float32")
COUNT, WIDTH, BROAD = 40, 9, 4000
KNOWN = {field.name for field in fields(Options)}

Step = Callable[[], list[Any]]
"""Goes a part of the walk and returns the numbers that came out."""


def _rows() -> Iterator[Any]:
    """The kinds of rows: dense, sparse with either type of indices, one at a time, with features twice."""
    X = np.random.default_rng(0).normal(size=(COUNT, WIDTH))
    yield X
    for kind in (np.int32, np.int64):
        once = csr_array(np.where(np.abs(X) < 1.0, X, 0.0))
        twice = csr_array((np.ones(4), np.array([1, 1, 2, 0]), np.array([0, 3, 4])), shape=(2, WIDTH))
        for sparse in (once, twice):  # SciPy chooses a type of its own
            sparse.indices, sparse.indptr = sparse.indices.astype(kind), sparse.indptr.astype(kind)
            yield sparse


def _signs(X: Any) -> Any:
    return np.where(np.arange(X.shape[0]) % 3 == 0, -1.0, 1.0)


def _use(make: Callable[[], Any]) -> list[Any]:
    """All that a learner offers: from dense rows to sparse ones, and the other way.

    Kernel learners keep wide rows otherwise; they are too wide for learners with a matrix of all features.
    """
    rows = list(_rows())
    found = [*_use_in_order(make, rows), *_use_in_order(make, rows[::-1])]
    return [*found, *(_use_in_order(make, [_wide()[:COUNT]]) if make().method.kernel else [])]


def _use_in_order(make: Callable[[], Any], rows: list[Any]) -> list[Any]:
    learner, other, found = make(), make(), []
    for X in rows:
        found += [learner.learn(X, _signs(X)), learner.predict(X), learner.predict(X[:1])]
        found.append(learner.predict(csr_array((1, X.shape[1]))))
        for asked in (learner.leverage, learner.certificate):
            with suppress(onsketch.errors.OptionError, NotImplementedError, AttributeError):
                asked(X) if asked == learner.leverage else asked()
        with suppress(onsketch.errors.OptionError):
            found.append(learner.weights)
    X = rows[0]
    if not hasattr(X, "indptr"):
        found.append(learner.predict(np.tile(X, (7, 1))))  # many dense rows are predicted by weights written out
    if hasattr(learner, "learn_one"):
        features, values = range(X.shape[1]), np.linspace(0.5, 1.5, X.shape[1]).tolist()
        for _ in range(10):  # the first rows take the general path
            found += [learner.learn_one(features, values, 1.0), learner.predict_one(features, values)]
    other.learn(X, _signs(X))
    with suppress(onsketch.errors.OptionError):
        learner.merge(other)
    return [*found, learner.predict(X)]


def _variants(name: str) -> Iterator[dict[str, Any]]:
    """Options that bring other kernels or other types."""
    method = METHODS[name]
    yield {}
    yield {"fit_intercept": True}
    yield from ({"scaling": "magnitude"}, {"step": "implicit"})
    if name in ("adagrad", "arow", "ogd"):
        yield from ({"l1": 0.01}, {"average": True}, {"l1": 0.01, "update": "dual"}, {"forget": 0.99})
    if name in ("rfd-son", "ada-fd", "oja-son", "rp-son", "ada-ffd"):
        yield from ({"sketch_size": 0}, {"average": True})
        yield {"update": "dual"}
    if name == "rfd-son":
        yield from ({"sketch_size": "auto"}, {"diagonal": True}, {"forget": 0.99}, {"doubling": False})
    if name in ("ons", "ada-full"):
        yield from ({"l1": 0.01}, {"average": True}, {"diagonal": True})
    if method.mixture:
        yield {"forget": "auto"}
    if method.kernel:
        yield from ({"kernel": form} for form in ("linear", "polynomial", "laplacian"))


def _linear(name: str, dtype: str) -> Step:
    def step() -> list[Any]:
        found = []
        for options in _variants(name):
            assert options.keys() <= KNOWN, f"no such option: {options}"
            try:
                onsketch.learner(name, **options)
            except onsketch.errors.OptionError:
                continue  # does not concern this method
            loss = "squared_hinge" if name == "arow" else "logistic"
            width = {} if METHODS[name].kernel else {"dtype": dtype}
            small = {} if "sketch_size" in options or not _sketched(name) else {"sketch_size": 4}
            given = {**small, **options, **width, "loss": loss}
            found += _use(lambda given=given: onsketch.learner(name, **given))
        return found

    return step


def _sketched(name: str) -> bool:
    try:
        onsketch.learner(name, sketch_size=4)
    except onsketch.errors.OptionError:
        return False
    return True


def _classes(way: str, dtype: str) -> Step:
    def step() -> list[Any]:
        from onsketch.adapters.options import class_model

        options = {"loss": "logistic", "fit_intercept": True, "dtype": dtype}
        rows, found = list(_rows()), []
        for classes, method in product((3, 40), COUPLED if way == "softmax" else ("rfd-son",)):
            model = class_model(method, way, classes, options, open_ended=True)
            for X in (*rows, _wide()) if way == "softmax" else rows:
                if hasattr(X, "indptr"):
                    X = csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], BROAD))
                found.append(model.learn(X, np.arange(X.shape[0]) % classes))
                found += [model.predict(X), model.predict(X[:1])]
                with suppress(onsketch.errors.OptionError):
                    found.append(model.weights)
        if way == "softmax":
            drifting = class_model("auto", way, 3, {**options, "forget": "auto"}, open_ended=True)
            found.append(drifting.learn(rows[0], np.arange(COUNT) % 3))
        return found

    return step


def _wide() -> Any:
    """Rows that bring the learner of classes from exact metrics to a sketch."""
    rng, count = np.random.default_rng(1), 500
    indices = np.sort(rng.integers(0, BROAD, size=(count, 12)), axis=1).astype(np.int32).ravel()
    return csr_array((np.ones(12 * count), indices, np.arange(0, 12 * count + 1, 12)), shape=(count, BROAD))


def _text() -> list[Any]:
    """Readers of every format, with products of features."""
    from onsketch.data import stream
    from onsketch.rows.encoder import Encoder
    from onsketch.rows.schema import Field, Schema
    from onsketch.rows.words import bags_of_words

    found = []
    texts = {
        "libsvm": b"1 1:0.5 3:1e-3\n-1 2:2\n",
        "vw": b"1 |a x:2 u:7 |bee y:3 |c z:5\n-1 2.5 tag|a x w\n",
        "csv": b"a,b,label,c,d\n1,red,1,$5,2026-01-05\n2.5,blue,-1,57%,2026-02-01 13:00\n",
        "json": b'{"label": 1, "features": {"a": 1.0, "b": "red"}}\n',
    }
    for form, text in texts.items():
        for options in ({}, {"quadratic": "::"}, {"cubic": ":::"}, {"names": True}):
            try:
                with stream(io.BytesIO(text), form, **options) as reading:
                    found += [block.X.data for block in reading]
            except onsketch.errors.OptionError:
                continue
    with stream(io.BytesIO(b"a,label\n1,1\n,-1\n"), "csv", missing="indicate") as reading:
        found += [block.X.data for block in reading]
    encoder = Encoder(Schema((Field("a", "category"), Field("b", "text"), Field("c", "date"), Field("d", "number"))))
    found.append(encoder.columns({"a": ["x"], "b": ["one two"], "c": ["2026-01-05"], "d": ["$5"]}, 1).data)
    # Columns of text reach this kernel through pyarrow, which an installation need not have.
    text, prefix, key = (np.frombuffer(part, dtype=np.uint8).copy() for part in (b"one two", b"b=", bytes(40)))
    bags = np.zeros(1, np.int64), np.zeros(4, np.int64), np.zeros(4)
    for pairs in (False, True):
        bags_of_words(text, np.array([0]), np.array([7]), prefix, pairs, np.uint64(255), key, *bags)
    found += bags
    with stream(io.BytesIO(texts["csv"]), "csv", interact=["a,b"]) as reading:
        found += [block.X.data for block in reading]
    return found


def _program() -> list[Any]:
    """A job from a file to predictions."""
    from onsketch.cli import app

    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        data, model = Path(folder, "rows.svm"), Path(folder, "rows.model")
        data.write_text("1 1:0.5 3:1\n-1 2:2\n" * 10)
        for words in (["train", str(data), "--save", str(model)], ["predict", str(model), str(data)]):
            app(words, standalone_mode=False)
    return []


def _summaries() -> list[Any]:
    """Sketches by themselves, draws and losses."""
    from onsketch import sketch
    from onsketch.core import draws
    from onsketch.core.losses import LOSSES, loss_values
    from onsketch.core.softmax import solve
    from onsketch.data import hash_name

    X, found = np.random.default_rng(0).normal(size=(COUNT, WIDTH)), []
    for name in sketch.__all__:
        kind = getattr(sketch, name)
        for given in ((WIDTH, 4), (WIDTH,)):
            try:
                summary = kind(*given)
            except TypeError:
                continue
            summary.update(X)
            found.append(summary.matrix)
    for seed in (0, 2**63):
        draws.uniform(seed, draws.COIN, 0, 0)
    for loss in LOSSES:
        found.append(loss_values(loss, [1.0, -1.0], [1.0, 1.0]))
    as_rows(np.array([[0.9 * LARGEST, 0.0]]), None)  # so large that its length is looked at
    solve(np.array([0.5, -0.5, 0.1]), 0, np.ones(3), 0.7, np.zeros(3))
    return [*found, hash_name("x", "a")]


def steps() -> dict[str, Step]:
    """The walk in steps that can be gone in any order."""
    found: dict[str, Step] = {"text": _text, "summaries": _summaries, "program": _program}
    for name, method in METHODS.items():
        for dtype in DTYPES[: 1 if method.kernel else 2]:
            found[f"{name} {dtype}"] = _linear(name, dtype)
    for way in ("softmax", "shared", "one-vs-rest"):
        for dtype in DTYPES[: 1 if way == "shared" else 2]:
            found[f"{way} {dtype}"] = _classes(way, dtype)
    return found
