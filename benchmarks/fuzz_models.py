"""Fuzz model files: every kind of model, its arrays and its header changed, with a valid checksum.

A changed file must be refused with a ModelFileError or be a model: it predicts finite numbers, learns, and what it then
saves can be read. No crash, no hang, no other exception. Cases run in a child process that is replaced when it dies.

    python benchmarks/fuzz_models.py --cases 100000
    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=/tmp/checked python benchmarks/fuzz_models.py --cases 20000
    python benchmarks/fuzz_models.py --kind rfd-son --case 4711      # one case again, in this process
"""

from __future__ import annotations

import argparse
import copy
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import onsketch
from onsketch import sketch
from onsketch.errors import InputError, ModelFileError, OnsketchError
from onsketch.files import model_file
from onsketch.files.model_file import Content
from onsketch.learners.multiclass import OneVersusRest, SharedSketch

SECONDS = 20
"""Allowed for one case."""
MEMORY = 4 << 30
"""Bytes of address space allowed to a child beyond what it has at its start."""

WIDTH, ROWS = 12, 90
_rng = np.random.default_rng(1)
DENSE = _rng.normal(size=(ROWS, WIDTH)) * (_rng.random((ROWS, WIDTH)) < 0.6)
SPARSE = csr_array(DENSE)
SIGNS = np.sign(DENSE @ _rng.normal(size=WIDTH) + 0.05)
CODES = _rng.integers(3, size=ROWS)

LINEAR = (
    "adagrad", "ogd", "adam", "lazy-adam", "ftrl", "arow", "rfd-son", "fd-son", "pfd-son", "cfd-son", "oja-son",
    "rp-son", "ada-fd", "ada-ffd", "s-adagrad", "ada-gp", "auto", "ons", "ada-full", "ada-lr", "radagrad",
)  # fmt: skip
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "adagrad lazily": ("adagrad", {"l1": 0.01, "average": True}),
    "ogd in windows": ("ogd", {"l1": 0.01, "l2": 0.01}),
    "rfd-son float32": ("rfd-son", {"dtype": "float32", "fit_intercept": True, "average": True}),
    "ada-ffd dual": ("ada-ffd", {"update": "dual"}),
    "rfd-son plain": ("rfd-son", {"doubling": False, "sketch_size": 3}),
    "s-adagrad composite": ("s-adagrad", {"l1": 0.01}),
    "kons rbf": ("kons", {}),
    "kons linear": ("kons", {"kernel": "linear"}),
    "sketched-kons": ("sketched-kons", {}),
    "pros-n-kons": ("pros-n-kons", {}),
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

    def streaming() -> Any:
        made = river.OnlineClassifier("rfd-son")
        for row, sign in zip(rows, SIGNS, strict=False):
            made.learn_one(row, int(sign))
        return made

    return {
        "classifier": lambda: sklearn.OnlineClassifier(method="rfd-son").fit(DENSE, CODES),
        "regressor": lambda: sklearn.OnlineRegressor(method="adagrad").fit(DENSE, DENSE[:, 0]),
        "PCA": lambda: sklearn.SketchedPCA(n_components=3).partial_fit(DENSE),
        "river": streaming,
    }


def kinds() -> dict[str, Callable[[], Any]]:
    """Everything that can be saved, by name."""

    def classes(made: Any) -> Any:
        made.learn(SPARSE[:60], CODES[:60])
        return made

    def summary(name: str) -> Any:
        made_by = getattr(sketch, name)
        made = made_by(WIDTH) if name in ("Exact", "Diagonal", "RowSampling") else made_by(WIDTH, 4)
        return made.update(DENSE[:37])

    return (
        {name: lambda name=name: _learner(name, _small(name)) for name in LINEAR}
        | {name: lambda given=given: _learner(*given) for name, given in VARIANTS.items()}
        | {
            "one-vs-rest": lambda: classes(OneVersusRest("rfd-son", 3, sketch_size=4)),
            "shared": lambda: classes(SharedSketch("rfd-son", 3, sketch_size=4)),
        }
        | {f"sketch {name}": lambda name=name: summary(name) for name in SKETCHES}
        | _estimators()
    )  # fmt: skip


def _small(method: str) -> dict[str, Any]:
    from onsketch.learners.methods import METHODS

    return {"sketch_size": 4} if "sketch_size" in METHODS[method].concerns else {}


# Changes --------------------------------------------------------------------------------------------------

WHOLE = (-(2**63), -(2**31), -7, -2, -1, 0, 1, 2, 3, 7, 8, 9, 19, 1000, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1)
REAL = (
    -1e308,
    -1e150,
    -1.0,
    -0.5,
    -0.0,
    0.0,
    5e-324,
    1e-300,
    0.5,
    1.0,
    1.5,
    1e6,
    1e15,
    1e150,
    1e200,
    1e308,
    np.nan,
    np.inf,
)


def changed(content: Content, rng: np.random.Generator) -> tuple[Content, str]:
    """The content with one to three changes, and what they were."""
    header, arrays = copy.deepcopy(content.header), {name: array.copy() for name, array in content.arrays.items()}
    said = []
    for _ in range(1 + int(rng.integers(3) == 0) + int(rng.integers(6) == 0)):
        if rng.random() < 0.25 or not arrays:
            said.append(_change_header(header, rng))
        else:
            said.append(_change_array(arrays, rng))
    return Content(content.kind, header, arrays, content.notes), "; ".join(said)


def _change_header(header: dict[str, Any], rng: np.random.Generator) -> str:
    places = list(_leaves(header))
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


def _leaves(thing: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in thing.items() if isinstance(thing, dict) else enumerate(thing):
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


def used(thing: Any) -> None:
    """Do with it what one does with a model; raises what is wrong."""
    if isinstance(thing, sketch.Sketch):
        _finite(thing.matrix if not hasattr(thing, "_kernel") else thing.weights)
        thing.update(DENSE[40:])
        _finite(thing.matrix if not hasattr(thing, "_kernel") else thing.weights)
    elif hasattr(thing, "learn_one"):
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
        for _ in range(2):
            _finite(thing.predict(SPARSE))
            try:
                _finite(thing.learn(SPARSE[20:], (CODES if many else SIGNS)[20:]))
            except InputError:
                _finite(thing.learn(SPARSE[20:], np.ones(ROWS - 20)))
    if hasattr(thing, "coefficients") and not thing.method.kernel:  # weights are as many as the header says: terabytes
        _finite(thing.coefficients()[1])


def _finite(numbers: Any) -> None:
    if not np.isfinite(np.asarray(numbers)).all():
        raise AssertionError("not finite")


def trial(content: Content, seed: int, folder: str | None = None) -> tuple[str, str]:
    """What came of a case, and what the case was."""
    new, said = changed(content, np.random.default_rng([seed, 77]))
    try:
        if folder is None:
            thing = model_file.build(new)
        else:
            path = os.path.join(folder, "changed")
            rest = {name: value for name, value in new.header.items() if name not in ("format", "version")}
            try:
                model_file.write(path, new.kind, rest, new.arrays, new.notes)
            except (ValueError, TypeError):  # what no file can hold
                return "not written", said
            thing = onsketch.load(path)
    except ModelFileError:
        return "refused", said
    try:
        used(thing)
        if folder is not None:
            thing.save(path)
            onsketch.load(path)
    except OnsketchError as error:
        return f"loaded, {type(error).__name__}", said
    return "loaded and used", said


def run(name: str, content: Content, cases: range, files: bool) -> tuple[Counter[str], list[str]]:
    """All cases of a kind, in child processes."""
    found: Counter[str] = Counter()
    faults: list[str] = []
    start = cases.start
    while start < cases.stop:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _child(content, range(start, cases.stop), writer, files)
        os.close(writer)
        done, last = _collect(reader, found, faults, name)
        os.close(reader)
        _, status = os.waitpid(child, 0)
        start = cases.stop if done else last + 1
        if not done:
            death = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status}"
            faults.append(f"{name}, case {last}: {death}")
            found[f"FAULT {death}"] += 1
    return found, faults


def _child(content: Content, cases: range, writer: int, files: bool) -> None:
    """Try the cases, telling before and after each; never returns."""
    status = 1
    try:
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        statm = Path("/proc/self/statm")
        if statm.exists():
            held = int(statm.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with tempfile.TemporaryDirectory() as folder:
            for case in cases:
                os.write(writer, struct.pack("<qi", case, -1))
                signal.alarm(SECONDS)
                try:
                    outcome = trial(content, case, folder if files else None)[0]
                except BaseException as error:
                    outcome = f"FAULT {type(error).__name__}: {str(error)[:120]}"
                signal.alarm(0)
                text = outcome.encode()[:400]
                os.write(writer, struct.pack("<qi", case, len(text)) + text)
            os.write(writer, struct.pack("<qi", -1, -2))
        status = 0
    finally:
        os._exit(status)


def _collect(reader: int, found: Counter[str], faults: list[str], name: str) -> tuple[bool, int]:
    """Read what a child tells; whether it went to the end, and the case it was at."""
    last = -1
    with os.fdopen(os.dup(reader), "rb") as told:
        while True:
            head = told.read(12)
            if len(head) < 12:
                return False, last
            case, length = struct.unpack("<qi", head)
            if length == -2:
                return True, last
            last = case
            if length >= 0:
                outcome = told.read(length).decode(errors="replace")
                found[outcome if not outcome.startswith("FAULT") else outcome.split(":")[0]] += 1
                if outcome.startswith("FAULT"):
                    faults.append(f"{name}, case {case}: {outcome}")


def contents(chosen: str | None = None) -> Iterator[tuple[str, Content]]:
    """A sound file of every kind."""
    with tempfile.TemporaryDirectory() as folder:
        for name, made in kinds().items():
            if chosen is None or chosen == name:
                thing = made()
                thing.save(f"{folder}/sound")
                again = onsketch.load(f"{folder}/sound")
                used(again)  # compiles what the children will need
                content = model_file.read(f"{folder}/sound")
                yield name, content


def main() -> None:
    """Run the cases asked for, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", default=None)
    parser.add_argument("--case", type=int, default=None, help="this one alone, in this process")
    parser.add_argument("--files", action="store_true", help="through a file on disk, saved and loaded again")
    parser.add_argument("--show", type=int, default=5, help="faults shown of each kind")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    began = time.perf_counter()
    for name, content in contents(given.kind):
        if given.case is not None:
            print(name, changed(content, np.random.default_rng([given.case, 77]))[1])
            print(trial(content, given.case)[0])
            continue
        found, faults = run(name, content, range(given.first, given.first + given.cases), given.files)
        total += found
        print(f"{name:28s}", ", ".join(f"{what} {count}" for what, count in sorted(found.items())), flush=True)
        for fault in faults[: given.show]:
            print("   ", fault, flush=True)
    if given.case is None:
        spent = time.perf_counter() - began
        print(f"{sum(total.values()):,} cases in {spent:.0f} s: {dict(sorted(total.items()))}")
        sys.exit(any(what.startswith("FAULT") for what in total))


if __name__ == "__main__":
    main()
