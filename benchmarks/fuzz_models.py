"""Fuzz model files: every kind of model, its arrays and its header changed, with a valid checksum.

A changed file must be refused with a ModelFileError or be a model: it predicts finite numbers, learns, and what it then
saves can be read. No crash, no hang, no other exception. Run by ``fuzz.py``.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import onsketch
from onsketch import sketch
from onsketch.errors import InputError, ModelFileError, OnsketchError
from onsketch.files import model_file
from onsketch.files.model_file import Content
from onsketch.learners.auto.classes import AutoClasses
from onsketch.learners.methods import METHODS
from onsketch.learners.multiclass import OneVersusRest, SharedSketch

from fuzz_children import Trial  # isort: skip

MEMORY_DISK = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where files of a case go: they need not survive anything."""

WIDTH, ROWS = 12, 90
_rng = np.random.default_rng(1)
DENSE = _rng.normal(size=(ROWS, WIDTH)) * (_rng.random((ROWS, WIDTH)) < 0.6)
SPARSE = csr_array(DENSE)
WIDE = csr_array(_rng.normal(size=(ROWS, 500)))
"""Rows of so many features that ``auto`` keeps a sketch of its metrics."""
SIGNS = np.sign(DENSE @ _rng.normal(size=WIDTH) + 0.05)
CODES = _rng.integers(3, size=ROWS)

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "adagrad lazily": ("adagrad", {"l1": 0.01, "average": True}),
    "ogd with l1 and l2": ("ogd", {"l1": 0.01, "l2": 0.01}),
    "rfd-son float32": ("rfd-son", {"dtype": "float32", "fit_intercept": True, "average": True}),
    "ada-ffd dual": ("ada-ffd", {"update": "dual"}),
    "rfd-son plain": ("rfd-son", {"doubling": False, "sketch_size": 3}),
    "s-adagrad composite": ("s-adagrad", {"l1": 0.01}),
    "rfd-son scaled": ("rfd-son", {"scaling": "magnitude", "fit_intercept": True, "sketch_size": 4}),
    "rfd-son self-sizing": ("rfd-son", {"sketch_size": "auto"}),
    "auto drifting": ("auto", {"forget": "auto"}),
    "kons linear": ("kons", {"kernel": "linear"}),
}
SKETCHES = [name for name in sketch.__all__ if name not in ("CUTOFF", "Sketch")]


def _learner(method: str, options: dict[str, Any]) -> Any:
    for loss in ("logistic", "squared_hinge", "squared"):
        try:
            made = onsketch.learner(method, **{"loss": loss, **options})
        except OnsketchError:
            continue
        made.learn(SPARSE[:60], SIGNS[:60])
        return made
    raise AssertionError(method)


def _estimators() -> dict[str, Callable[[], Any]]:
    try:
        from onsketch import river, sklearn
    except ImportError:
        return {}
    rows = [dict(zip("abcdefghijkl", row, strict=True)) for row in DENSE[:40].tolist()]

    def streaming(made: Any, labels: Any) -> Any:
        for row, label in zip(rows, labels.tolist(), strict=False):
            made.learn_one(row, label)
        return made

    return {
        "classifier": lambda: sklearn.OnlineClassifier(method="rfd-son").fit(DENSE, CODES),
        "classifier auto": lambda: sklearn.OnlineClassifier().fit(DENSE, CODES),
        "regressor": lambda: sklearn.OnlineRegressor(method="adagrad").fit(DENSE, DENSE[:, 0]),
        "PCA": lambda: sklearn.SketchedPCA(n_components=3).partial_fit(DENSE),
        "directions": lambda: sklearn.FrequentDirections(3).partial_fit(DENSE),
        "river": lambda: streaming(river.OnlineClassifier("rfd-son"), SIGNS.astype(int)),
        "river classes": lambda: streaming(river.OnlineClassifier("auto"), CODES),
        "river regressor": lambda: streaming(river.OnlineRegressor("adagrad"), DENSE[:, 0]),
    }


def kinds() -> dict[str, Callable[[], Any]]:
    """Everything that can be saved, by name."""

    def classes(made: Any, rows: Any = SPARSE) -> Any:
        made.learn(rows[:60], CODES[:60])
        return made

    def sketched(**options: Any) -> Any:
        made = onsketch.learner("auto", loss="logistic", sketch_size=4, **options)
        made.learn(WIDE[:60], SIGNS[:60])
        return made

    def summary(name: str) -> Any:
        made_by = getattr(sketch, name)
        made = made_by(WIDTH) if name in ("Exact", "Diagonal", "RowSampling") else made_by(WIDTH, 4)
        return made.update(DENSE[:37])

    return (
        {name: lambda name=name: _learner(name, _small(name)) for name in METHODS}
        | {name: lambda given=given: _learner(*given) for name, given in VARIANTS.items()}
        | {
            "one-vs-rest": lambda: classes(OneVersusRest("rfd-son", 3, sketch_size=4)),
            "shared": lambda: classes(SharedSketch("rfd-son", 3, sketch_size=4)),
            "auto classes": lambda: classes(AutoClasses("auto", 3)),
            "auto classes sketched": lambda: classes(AutoClasses("auto", 3, sketch_size=4), WIDE),
            "auto classes drifting": lambda: classes(AutoClasses("auto", 3, forget="auto")),
            "auto sketched": sketched,
            "auto sketched float32": lambda: sketched(dtype="float32"),
        }
        | {f"sketch {name}": lambda name=name: summary(name) for name in SKETCHES}
        | _estimators()
    )  # fmt: skip


def _small(method: str) -> dict[str, Any]:
    return {"sketch_size": 4} if "sketch_size" in METHODS[method].concerns else {}


# Changes --------------------------------------------------------------------------------------------------

WHOLE = (-(2**63), -(2**31), -7, -2, -1, 0, 1, 2, 3, 7, 8, 9, 19, 1000, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1)
REAL = (
    -1e308, -1e150, -1.0, -0.5, -0.0, 0.0, 5e-324, 1e-300, 0.5, 1.0, 1.5, 1e6, 1e15, 1e150, 1e200, 1e308,
    np.nan, np.inf,
)  # fmt: skip


def changed(content: Content, rng: np.random.Generator) -> tuple[Content, str]:
    """The content with one to three changes, and what they were."""
    header, notes = copy.deepcopy(content.header), copy.deepcopy(content.notes)
    arrays = {name: array.copy() for name, array in content.arrays.items()}
    said = []
    for _ in range(1 + int(rng.integers(3) == 0) + int(rng.integers(6) == 0)):
        if notes and rng.random() < 0.6:
            said.append(_change_header(notes, rng))
        elif rng.random() < 0.25 or not arrays:
            said.append(_change_header(header, rng))
        else:
            said.append(_change_array(arrays, rng))
    return Content(content.kind, header, arrays, notes), "; ".join(said)


def _change_header(header: dict[str, Any], rng: np.random.Generator) -> str:
    places = list(_leaves(header))
    if not places:
        return "nothing"
    holder, key = places[rng.integers(len(places))]
    old = holder[key]
    choices = [
        None,
        True,
        "",
        "rfd-son",
        [],
        {},
        [1, 2],
        *map(int, rng.choice(WHOLE, 3)),
        *map(float, rng.choice(REAL, 3)),
    ]
    if isinstance(old, (int, float)) and not isinstance(old, bool):
        choices += [old + 1, old - 1, 2 * old, -old] * 3
    if rng.random() < 0.1:
        del holder[key]
        return f"without {key}"
    holder[key] = choices[rng.integers(len(choices))]
    return f"{key} = {holder[key]!r}"


_MANY = 40
"""Entries of a list that may be changed: lists of thousands would leave nothing for the rest."""


def _leaves(thing: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in thing.items() if isinstance(thing, dict) else enumerate(thing[:_MANY]):
        yield thing, key
        if isinstance(value, (dict, list)):
            yield from _leaves(value)


def _change_array(arrays: dict[str, Any], rng: np.random.Generator) -> str:
    name = sorted(arrays)[rng.integers(len(arrays))]
    array, what = arrays[name], rng.integers(10)
    flat = array.reshape(-1)
    if what == 0:
        del arrays[name]
        return f"without {name}"
    if what == 1:
        arrays[name] = array.astype(rng.choice(["f4", "f8", "i4", "i8", "u1", "bool"]))
        return f"{name} as {arrays[name].dtype}"
    if what == 2:
        arrays[name] = array[:-1].copy() if array.ndim and len(array) else np.zeros((2, 2))
        return f"{name} cut"
    if what == 3 and array.ndim:
        arrays[name] = np.concatenate([array, array[:1]])
        return f"{name} longer"
    if what == 4:
        other = sorted(arrays)[rng.integers(len(arrays))]
        arrays[name], arrays[other] = arrays[other], arrays[name]
        return f"{name} and {other} exchanged"
    if what == 5 and flat.size > 1:
        i, j = rng.integers(flat.size, size=2)
        flat[i] = flat[j]
        return f"{name}[{i}] = {name}[{j}]"
    if not flat.size:
        arrays[name] = np.ones(3, array.dtype)
        return f"{name} filled"
    count = 1 if rng.random() < 0.7 else flat.size
    places = rng.integers(flat.size, size=count)
    if array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        if rng.random() < 0.5:
            flat[places] += np.array(rng.integers(-3, 4), array.dtype)
        else:
            flat[places] = np.clip(int(rng.choice(WHOLE)), info.min, info.max)
    elif array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            flat[places] = flat[places] * -2.0 if rng.random() < 0.2 else float(rng.choice(REAL))
    else:
        flat[places] = ~flat[places] if array.dtype.kind == "b" else flat[places]
    return f"{name}[{places[:3].tolist()}] = {flat[places][:3].tolist()}"


# Trials ---------------------------------------------------------------------------------------------------


def of_river(thing: Any) -> bool:
    """Return True for an estimator of River, whose rows are dictionaries; those of a learner are indices and values."""
    return hasattr(thing, "learn_many")


def used(thing: Any) -> None:
    """Use it like a model; raise faults."""
    if isinstance(thing, sketch.Sketch):
        _finite(thing.matrix if not hasattr(thing, "_kernel") else thing.weights)
        thing.update(DENSE[40:])
        _finite(thing.matrix if not hasattr(thing, "_kernel") else thing.weights)
    elif of_river(thing):
        for row in DENSE[40:44].tolist():
            named = dict(zip("abcdefghijkl", row, strict=True))
            thing.predict_one(named)
            thing.learn_one(named, 1)
    elif hasattr(thing, "partial_fit"):
        if hasattr(thing, "transform"):
            _finite(thing.transform(DENSE))
            thing.partial_fit(DENSE)
        else:
            labels = DENSE[:, 0] if not hasattr(thing, "classes_") else CODES
            thing.predict(DENSE)
            thing.partial_fit(DENSE, labels)
            thing.predict(DENSE)
    else:
        many = hasattr(thing, "n_classes")
        if hasattr(thing, "learn_one"):
            features = list(range(WIDTH))
            _finite(thing.predict_one(features, DENSE[40].tolist()))
            _finite(thing.learn_one(features, DENSE[40].tolist(), 1.0))
        for _ in range(2):
            _finite(thing.predict(SPARSE))
            try:
                _finite(thing.learn(SPARSE[20:], (CODES if many else SIGNS)[20:]))
            except InputError:
                _finite(thing.learn(SPARSE[20:], np.ones(ROWS - 20)))
    if (
        hasattr(thing, "coefficients") and not thing.method.kernel
    ):  # the header determines the number of weights: terabytes
        _finite(thing.coefficients()[1])


def _finite(numbers: Any) -> None:
    if not np.isfinite(np.asarray(numbers)).all():
        raise AssertionError("not finite")


def described(content: Content, case: int) -> str:
    """What is changed in a case."""
    return changed(content, np.random.default_rng([case, 77]))[1]


_ON_DISK = 5
"""One case in this many uses files."""


def trial(content: Content, case: int) -> str:
    """Return the result of a case; some use a file that is written, read, used, saved and read again."""
    new, _ = changed(content, np.random.default_rng([case, 77]))
    allowed = OnsketchError if content.kind in ("learner", "classes", "sketch") else (ValueError, TypeError)
    if case % _ON_DISK:
        try:
            thing = model_file.build(new)
        except ModelFileError:
            return "refused"
        try:
            used(thing)
        except allowed as error:
            return f"loaded, {type(error).__name__}"
        return "loaded and used"
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as folder:
        path = f"{folder}/changed"
        rest = {name: value for name, value in new.header.items() if name not in ("format", "version")}
        try:
            model_file.write(path, new.kind, rest, new.arrays, new.notes)
        except (ValueError, TypeError):  # what no file can hold
            return "not written"
        try:
            thing = onsketch.load(path)
        except ModelFileError:
            return "refused"
        try:
            used(thing)
        except allowed as error:
            outcome = f"loaded, {type(error).__name__}"
        else:
            outcome = "loaded and used"
        try:
            thing.save(path)
            onsketch.load(path)
        except ModelFileError:  # numbers that no rows lead to have led to others that no file may hold
            outcome += ", lost"
        return outcome


def trials() -> Iterator[tuple[str, Callable[[], tuple[Trial, Callable[[int], str]]]]]:
    """Return every kind of saved object by name, with functions that make its trial and describe a case."""
    for name, made in kinds().items():

        def prepared(made: Callable[[], Any] = made) -> tuple[Trial, Callable[[int], str]]:
            with tempfile.TemporaryDirectory() as folder:
                made().save(f"{folder}/sound")
                used(onsketch.load(f"{folder}/sound"))  # compiles what the children will need
                content = model_file.read(f"{folder}/sound")
            return partial(trial, content), partial(described, content)

        yield name, prepared
