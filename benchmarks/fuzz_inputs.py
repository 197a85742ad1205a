"""Fuzz rows, labels, weights and options given from Python to learners, sketches and estimators.

Invalid input must raise an error of the library (estimators: ValueError or TypeError, as in scikit-learn and River).
The model must still predict finite numbers afterwards, and can be saved and read again. Run by
``fuzz.py``.
"""

from __future__ import annotations

import contextlib
import copy
import decimal
import fractions
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

import onsketch
from onsketch import sketch
from onsketch.errors import OnsketchError
from onsketch.files import model_file
from onsketch.learners.methods import METHODS
from onsketch.learners.options import Options

from fuzz_children import Trial  # isort: skip
from fuzz_models import CODES, DENSE, SIGNS, SPARSE, WIDTH, kinds, of_river  # isort: skip

KINDS = (
    "adagrad", "adagrad lazily", "rfd-son", "oja-son", "rp-son", "ada-ffd", "auto", "ons", "ada-gp", "kons",
    "pros-n-kons", "rfd-son scaled", "shared", "one-vs-rest", "auto classes", "sketch FrequentDirections", "sketch Oja",
    "sketch RandomProjection", "sketch RowSampling", "classifier", "regressor", "PCA", "river",
)  # fmt: skip
ODD = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-200, 1e75, 1e76, 1e77, 1e150, 1e160, 1e308, -1e308, np.nan, np.inf, -np.inf)
WHOLE = (-(2**63), -(2**31) - 1, -7, -1, 0, 1, WIDTH - 1, WIDTH, 1000, 2**31 - 1, 2**31, 2**53, 2**63 - 1)
THINGS = (
    None, "", "abc", b"abc", 7, 1.5, True, 1 + 2j, [], {}, [[]], [[[]]], [[1.0], [1.0, 2.0]], [["a", "b"]], {"a": 1.0},
    {1, 2}, object(), print, np.datetime64("2020-01-01"), [[None]], [[10**400]], [decimal.Decimal("NaN")], range(5),
    [[fractions.Fraction(1, 3)] * WIDTH], float("nan"), [[True] * WIDTH], "1:2 3:4", ..., NotImplemented, slice(3),
)  # fmt: skip


def a_dense(rng: np.random.Generator) -> Any:
    """Return rows that are valid except for their type, layout, shape or a few values."""
    X = DENSE[rng.integers(0, 80) :][: rng.integers(0, 12)].copy()
    for _ in range(rng.integers(0, 3)):
        if X.size:
            X.flat[rng.integers(X.size)] = rng.choice(ODD)
    how = rng.integers(16)
    with np.errstate(all="ignore"):
        if how == 0:
            return X.astype(rng.choice(["f2", "f4", ">f8", "i1", "u8", ">i4", "bool", "c16", "O", "U9", "S9", "M8[s]"]))
        if how == 1:
            return np.asfortranarray(X)
        if how == 2:
            return X[::-1, :: rng.choice([-1, 2])]
        if how == 3:
            return (
                X.reshape(
                    rng.choice([-1]),
                )
                if rng.random() < 0.5
                else X[None]
            )
        if how == 4:
            return X.tolist()
        if how == 5:
            return np.ma.array(X, mask=rng.random(X.shape) < rng.choice([0.0, 0.1]))
        if how == 6:
            X.flags.writeable = False
        elif how == 7:
            return X[:, : rng.integers(WIDTH)]
        elif how == 8:
            return np.hstack([X, X])
        elif how == 9:
            return np.matrix(X)
        elif how == 10:
            raw = np.zeros(X.nbytes + 1, np.uint8)[1:].view()
            return np.frombuffer(raw.tobytes()[: X.nbytes], np.float64).reshape(X.shape)
        elif how == 11:
            return X * rng.choice([1e70, 1e76, 1e150, 1e-150, 1e-300])
        elif how == 12:
            return THINGS[rng.integers(len(THINGS))]
        elif how == 13:
            return np.broadcast_to(X[:1], (5, WIDTH)) if len(X) else X
        elif how == 14:
            return X.astype(np.longdouble)
    return X


def a_sparse(rng: np.random.Generator) -> Any:
    """Return a sparse matrix that is valid except for its structure, its types or a few values."""
    first = rng.integers(0, 80)
    X = SPARSE[first : first + rng.integers(0, 12)].copy()
    if rng.random() < 0.2:
        return X.asformat(rng.choice(["csc", "coo", "lil", "dok", "bsr", "dia"]))
    for _ in range(rng.integers(1, 3)):
        what = rng.integers(12)
        part = getattr(X, ("indptr", "indices", "data")[rng.integers(3)])
        if what < 4 and part.size:
            kind = np.iinfo(part.dtype) if part.dtype.kind == "i" else None
            value = rng.choice(ODD) if kind is None else np.clip(int(rng.choice(WHOLE)), kind.min, kind.max)
            part[rng.integers(part.size)] = value
        elif what == 4:
            X.indices = X.indices.astype(rng.choice(["i8", "u8", "f8", "i2", ">i4"]))
        elif what == 5:
            X.indptr = X.indptr.astype(rng.choice(["i8", "u8", "f8", "i2"]))
        elif what == 6:
            X.indices = X.indices[: rng.integers(X.indices.size + 1)]
        elif what == 7:
            X.data = X.data[: rng.integers(X.data.size + 1)].astype(rng.choice(["f4", "i4", "bool", "c16"]))
        elif what == 8:
            X.indptr = X.indptr[: rng.integers(X.indptr.size + 1)]
        elif what == 9:
            rng.shuffle(X.indices)
        elif what == 10 and X.indices.size:
            X.indices[:] = X.indices[0]
        elif what == 11:
            X._shape = (X.shape[0] + int(rng.integers(-2, 3)), int(rng.choice([0, 3, WIDTH, 10**6, 2**31, 2**40])))
    return X if rng.random() < 0.8 else sparse.csr_matrix(X)


def _rows(rng: np.random.Generator) -> Any:
    try:
        return a_sparse(rng) if rng.random() < 0.5 else a_dense(rng)
    except (ValueError, TypeError, IndexError, OverflowError):  # what SciPy and NumPy do not make
        return THINGS[rng.integers(len(THINGS))]


def _count(X: Any) -> int:
    try:
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)
    except (TypeError, IndexError):
        return 1


def _labels(rng: np.random.Generator, count: int, codes: bool) -> Any:
    sound = np.resize(CODES if codes else SIGNS, max(count, 0))
    how = rng.integers(12)
    if how == 0 and sound.size:
        sound = sound.astype(float)
        sound[rng.integers(sound.size)] = rng.choice([*ODD, 2.0, 0.5, 1e9, -3.0])
    elif how == 1:
        return sound[:-1]
    elif how == 2:
        return sound[:, None]
    elif how == 3:
        return THINGS[rng.integers(len(THINGS))]
    elif how == 4:
        with np.errstate(all="ignore"):
            return sound.astype(rng.choice(["i1", "u1", "f4", "O", "U3", "bool", "c16", "u8"]))
    elif how == 5:
        return np.ma.array(sound, mask=rng.random(sound.shape) < 0.2)
    elif how == 6:
        return sound.tolist()
    return sound


def _weights(rng: np.random.Generator, count: int) -> Any:
    if rng.random() < 0.6:
        return None
    weights = rng.random(max(count, 0))
    if rng.random() < 0.4 and weights.size:
        weights[rng.integers(weights.size)] = rng.choice(ODD)
    return weights if rng.random() < 0.7 else THINGS[rng.integers(len(THINGS))]


def _finite(numbers: Any) -> None:
    if not np.isfinite(np.asarray(numbers, dtype=float)).all():
        raise AssertionError("not finite")


def _as_learner(thing: Any, rng: np.random.Generator) -> None:
    X, how = _rows(rng), rng.integers(7)
    if how == 6 and hasattr(thing, "learn_one"):
        chosen = rng.integers(WIDTH, size=rng.integers(6))
        features = [int(rng.choice(WHOLE)) if rng.random() < 0.1 else int(feature) for feature in chosen]
        values = [float(rng.choice(ODD)) if rng.random() < 0.1 else value for value in rng.normal(size=len(features))]
        _finite(thing.predict_one(features, values))
        _finite(thing.learn_one(features, values, float(rng.choice([1.0, -1.0, *ODD]))))
    elif how == 0:
        _finite(thing.predict(X))
    elif how == 1 and hasattr(thing, "leverage"):
        _finite(thing.leverage(X))
    else:
        count = _count(X)
        _finite(thing.learn(X, _labels(rng, count, hasattr(thing, "n_classes")), _weights(rng, count)))


def _as_sketch(thing: Any, rng: np.random.Generator) -> None:
    thing.update(_rows(rng))


def _as_estimator(thing: Any, rng: np.random.Generator) -> None:
    X = _rows(rng)
    if hasattr(thing, "transform"):
        _finite(thing.transform(X)) if rng.random() < 0.3 else thing.partial_fit(X)
    elif rng.random() < 0.3:
        thing.predict(X)
    else:
        count = _count(X)
        thing.partial_fit(X, _labels(rng, count, hasattr(thing, "classes_")))


def _as_river(thing: Any, rng: np.random.Generator) -> None:
    names = ["a", "b", "new", 7, 1.5, None, ("t",), b"x", ""]
    values = [*ODD, *THINGS]
    row = {names[rng.integers(len(names))]: values[rng.integers(len(values))] for _ in range(rng.integers(4))}
    row = row if rng.random() < 0.9 else THINGS[rng.integers(len(THINGS))]
    if rng.random() < 0.3:
        thing.predict_one(row)
    else:
        thing.learn_one(row, values[rng.integers(len(values))])


def _sound(thing: Any) -> None:
    """Check that it continues unchanged."""
    if isinstance(thing, sketch.Sketch):
        _finite(thing.matrix if not hasattr(thing, "_kernel") else thing.weights)
        return
    if of_river(thing):
        thing.predict_one({"a": 1.0})
    elif hasattr(thing, "transform"):
        _finite(thing.transform(DENSE))
    else:
        try:
            _finite(thing.predict(SPARSE if hasattr(thing, "_restore") else DENSE))
        except OnsketchError as error:  # features of 1e150 have been learned, or more of them
            if "beyond what float64" not in str(error) and "features" not in str(error):
                raise
    if hasattr(thing, "_arrays"):
        model_file.build(model_file.Content(*_kept(thing), {}))


def _kept(thing: Any) -> tuple[str, dict[str, Any], Any]:
    kind = "classes" if hasattr(thing, "n_classes") else "learner"
    return kind, thing._header(), {name: np.array(array) for name, array in thing._arrays().items()}


def _given(thing: Any) -> tuple[Callable[[Any, np.random.Generator], None], Any]:
    """How it is used, and what it may raise."""
    if isinstance(thing, sketch.Sketch):
        return _as_sketch, OnsketchError
    if of_river(thing):
        return _as_river, (ValueError, TypeError)
    if hasattr(thing, "partial_fit"):
        return _as_estimator, (ValueError, TypeError)
    return _as_learner, OnsketchError


def trial(thing: Any, case: int) -> str:
    """What came of a case: one to four odd calls of one model."""
    rng, thing = np.random.default_rng([case, 88]), copy.deepcopy(thing)
    uses, allowed = _given(thing)
    refused = 0
    calls = int(rng.integers(1, 5))
    for _ in range(calls):
        try:
            with np.errstate(all="ignore"):
                uses(thing, rng)
        except allowed:
            refused += 1
    _sound(thing)
    return "all taken" if not refused else "all refused" if refused == calls else "some refused"


def a_table(rng: np.random.Generator, count: int, sound: Any) -> Any:
    """A frame of odd columns: numbers, words, dates, categories, anything; some names twice."""
    import pandas

    columns = {}
    for _ in range(rng.integers(0, 6)):
        name = ["a", "b", "word", "when", "new", 7, None, ""][rng.integers(8)]
        values = [
            rng.normal(size=count), rng.integers(5, size=count), rng.choice(["x", "y", "ü", ""], count),
            pandas.Categorical(rng.choice(["p", "q"], count)), rng.random(count) < 0.5,
            pandas.to_datetime(rng.integers(10**9, size=count), unit="s"), [None] * count,
            [ODD[rng.integers(len(ODD))] for _ in range(count)],
            [THINGS[rng.integers(len(THINGS))] for _ in range(count)],
        ]  # fmt: skip
        columns[name] = pandas.Series(values[rng.integers(len(values))], index=range(count))
    table = pandas.DataFrame(columns, index=range(count))
    if rng.random() < 0.7:  # one odd column among sound ones
        table = sound.iloc[:count].assign(**{str(name): column for name, column in list(columns.items())[:1]})
    return pandas.concat([table, table.iloc[:, :1]], axis=1) if rng.random() < 0.1 else table


def tables() -> tuple[Trial, Callable[[int], str]]:
    """Give invalid frames to a classifier; predictions for valid ones must stay finite."""
    import pandas

    from onsketch import sklearn

    rng = np.random.default_rng(2)
    sound = pandas.DataFrame({"a": rng.normal(size=40), "b": rng.integers(3, size=40)})
    sound["word"] = rng.choice(["x", "y", "z"], 40)
    fitted = sklearn.OnlineClassifier(method="adagrad").fit(sound, CODES[:40])

    def odd(case: int) -> str:
        rng, thing, refused = np.random.default_rng([case, 66]), copy.deepcopy(fitted), 0
        for _ in range(3):
            count = int(rng.integers(0, 6))
            given = a_table(rng, count, sound)
            try:
                with np.errstate(all="ignore"):
                    thing.predict(given) if rng.random() < 0.4 else thing.partial_fit(given, CODES[:count])
            except (ValueError, TypeError):
                refused += 1
        with contextlib.suppress(OnsketchError):  # features of 1e150 have been learned
            _finite(thing.predict_proba(sound))
        return ("all taken", "some refused", "some refused", "all refused")[refused]

    odd(0)
    return odd, lambda case: f"case {case}"


def options(case: int) -> str:
    """A learner made with odd options."""
    method, given = _options(case)
    try:
        made = onsketch.learner(method, **given)
    except OnsketchError:
        return "refused"
    except MemoryError:  # requested explicitly
        return "no memory"
    repr(made.options)
    return "made"


def _options(case: int) -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng([case, 99])
    names, every = list(METHODS), list(Options.__dataclass_fields__)
    method = names[rng.integers(len(names))] if rng.random() < 0.95 else THINGS[rng.integers(len(THINGS))]
    concerned = METHODS[method].concerns if isinstance(method, str) and method in METHODS else every
    values = [
        *ODD,
        *THINGS,
        *WHOLE[:8],
        "auto",
        "logistic",
        "mirror",
        "dual",
        "float32",
        "1/t",
        (0.0, 1.0),
        (1, 0),
        0.5,
    ]
    chosen = [list(concerned)[rng.integers(len(concerned))] for _ in range(rng.integers(1, 4))]
    return method, {name: values[rng.integers(len(values))] for name in chosen}


def described(case: int) -> str:
    """The options of a case."""
    return str(_options(case))


def trials() -> Iterator[tuple[str, Callable[[], tuple[Trial, Callable[[int], str]]]]]:
    """Every kind of model by name, with what makes its trial."""
    for name in KINDS:

        def prepared(name: str = name) -> tuple[Trial, Callable[[int], str]]:
            thing = kinds()[name]()
            for case in range(60):  # compiles
                with contextlib.suppress(Exception):
                    trial(thing, case)
            return partial(trial, thing), lambda case: f"case {case}"

        yield f"rows for {name}", prepared
    yield "options", lambda: (options, described)
    yield "tables", tables
