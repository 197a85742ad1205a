"""Interrupt calls that learn by a signal at random moments: the state afterwards is that before or after the call.

    python benchmarks/fuzz_interrupts.py --interrupts 2000              # of every kind; one line for each
    python benchmarks/fuzz_interrupts.py --interrupts 200 --only "scaled rfd-son"

The signal's handler raises, as Ctrl-C does. After each interrupt the arrays of the state are compared, bit for bit,
with those before and after the call, and the object learns again in another thread. A kind is a learner, a learner of
many classes, a sketch, an estimator of scikit-learn or River, or a merge.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import onsketch
from onsketch import river, sketch, sklearn
from onsketch.core import state
from onsketch.errors import OnsketchError
from onsketch.jobs.training import Plan, Training
from onsketch.learners.auto.classes import AutoClasses
from onsketch.learners.multiclass import OneVersusRest, SharedSketch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 8))
SIGNS, CODES, TARGETS = np.sign(X[:, 0] + 0.1), RNG.integers(3, size=200), X[:, :2] @ [[1.0, -2.0], [0.5, 3.0]] + 7.0
ROWS = [dict(zip("abcdefgh", row, strict=True)) for row in X.tolist()]
FIRST, NEXT = slice(0, 60), slice(60, 120)


class Stop(KeyboardInterrupt):
    """What the signal's handler raises."""


class Kind(NamedTuple):
    """Something that learns."""

    name: str
    make: Callable[[], Any]
    """Returns it after the first rows."""
    learn: Callable[[Any], Any]
    """The call that is interrupted."""


def digest(thing: Any) -> str:
    """A hash of the state of a learner, sketch or estimator."""
    learner = getattr(thing, "learner_", getattr(thing, "_learner", getattr(thing, "learner", thing)))
    arrays = learner._arrays() if hasattr(learner, "_arrays") else state.pack(learner)
    named = getattr(thing, "_names", None), getattr(thing, "classes_", None), getattr(thing, "_codes", None)
    plain = [None if one is None else getattr(one, "of", one) for one in named]
    found = hashlib.sha256(repr(plain).encode())
    for name in sorted(arrays):
        found.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


def _taught(make: Callable[[], Any], learn: Callable[[Any, slice], Any]) -> Callable[[], Any]:
    def made() -> Any:
        thing = make()
        learn(thing, FIRST)
        return thing

    return made


def _learner(create: Any, method: str, loss: str, y: Any) -> Callable[[], Any]:
    return _taught(lambda: create(method, loss=loss), lambda learner, rows: learner.learn(X[rows], y[rows]))


def kinds() -> Iterator[Kind]:
    """Every kind."""
    for method in sorted(onsketch.methods()):
        for title, create in (("plain", onsketch.learner), ("scaled", onsketch.safe_learner)):
            for loss, y in (("logistic", SIGNS), ("squared", TARGETS[:, 0])):
                make = _learner(create, method, loss, y)
                try:
                    made = make()
                except OnsketchError:
                    continue
                yield Kind(f"{title} {method} {loss}", make, lambda m, y=y: m.learn(X[NEXT], y[NEXT]))
                if loss == "logistic" and _merges(made):
                    yield Kind(f"merge {title} {method}", make, lambda m: m.merge(_other(m)))
    many: dict[str, tuple[Callable[[], Any], Any]] = {
        "one-vs-rest adagrad": (lambda: OneVersusRest("adagrad", 3), CODES),
        "shared rfd-son": (lambda: SharedSketch("rfd-son", 3, sketch_size=4), CODES),
        "shared targets": (lambda: SharedSketch("rfd-son", 2, loss="squared", sketch_size=4, scaling="magnitude"),
                           TARGETS),
        "auto classes": (lambda: AutoClasses("auto", 3), CODES),
    }  # fmt: skip
    for name, (make, y) in many.items():
        learn = lambda m, rows, y=y: m.learn(X[rows], y[rows])  # noqa: E731
        yield Kind(name, _taught(make, learn), lambda m, learn=learn: learn(m, NEXT))
    for name in ("FrequentDirections", "RobustFrequentDirections", "RandomProjection", "Oja"):
        make = _taught(lambda name=name: getattr(sketch, name)(8, 4), lambda s, rows: s.update(X[rows]))
        yield Kind(f"sketch {name}", make, lambda s: s.update(X[NEXT]))
        yield Kind(f"merge {name}", make, lambda s: s.merge(_sketched(s)))
    estimators: dict[str, tuple[Callable[[], Any], Any]] = {
        "scikit-learn auto": (sklearn.OnlineClassifier, SIGNS),
        "scikit-learn classes": (lambda: sklearn.OnlineClassifier(method="adagrad"), CODES),
        "scikit-learn softmax": (sklearn.OnlineClassifier, CODES),
        "scikit-learn regressor": (lambda: sklearn.OnlineRegressor(method="rfd-son"), TARGETS[:, 0]),
        "scikit-learn targets": (sklearn.OnlineRegressor, TARGETS),
    }
    for name, (make, y) in estimators.items():
        given = {"classes": np.unique(y)} if "regressor" not in name and "targets" not in name else {}
        learn = lambda m, rows, y=y, given=given: m.partial_fit(X[rows], y[rows], **given)  # noqa: E731
        yield Kind(name, _taught(make, learn), lambda m, learn=learn: learn(m, NEXT))
    single: dict[str, tuple[Callable[[], Any], Any]] = {
        "River adagrad": (lambda: river.OnlineClassifier("adagrad"), SIGNS > 0),
        "River auto": (river.OnlineClassifier, SIGNS > 0),
        "River 0 and 1": (lambda: river.OnlineClassifier("adagrad"), (SIGNS > 0).astype(int)),
        "River classes": (lambda: river.OnlineClassifier("adagrad"), CODES + 2),
        "River softmax": (river.OnlineClassifier, CODES + 2),
        "River regressor": (lambda: river.OnlineRegressor("rfd-son"), TARGETS[:, 0]),
    }
    for name, (make, y) in single.items():
        learn = lambda m, rows, y=y: _one_by_one(m, rows, y)  # noqa: E731
        yield Kind(name, _taught(make, learn), lambda m, y=y: m.learn_one({**ROWS[60], "new": 1.0}, y[60].item()))
    short = _taught(lambda: river.OnlineClassifier("adagrad"), lambda m, rows: _one_by_one(m, rows, SIGNS > 0))
    yield Kind("River row far longer than others", short, lambda m: m.learn_one({**ROWS[60], "a": 1e9}, True))
    third = _taught(lambda: river.OnlineClassifier("adagrad"), lambda m, rows: _one_by_one(m, rows, CODES % 2))
    yield Kind("River third label", third, lambda m: m.learn_one(ROWS[60], 7))
    early = _taught(river.OnlineClassifier, lambda m, _: _one_by_one(m, slice(0, 8), SIGNS > 0))
    yield Kind("River auto new ridges", early, lambda m: m.learn_one(ROWS[8], bool(SIGNS[8] > 0)))
    for method in ("auto", "adagrad"):
        yield Kind(f"named model {method}", lambda method=method: _named(method), _learn_named)


def _one_by_one(model: Any, rows: slice, y: Any) -> None:
    for k in range(rows.start, rows.stop):
        model.learn_one(ROWS[k], y[k].item())


def _named(method: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        lines = [
            f"{row['a']},{'cook' if row['b'] > 0 else 'clerk'},{'xyz'[code]}"
            for row, code in zip(ROWS, CODES, strict=True)
        ]
        path.write_text("\n".join(["age,job,kind", *lines[:60]]) + "\n")
        job = Training(Plan([str(path)], method, {}, {"label": "kind"}))
        for _ in job.run():
            pass
        job.save(path.with_suffix(".model"))
        return onsketch.load(path.with_suffix(".model"))


def _learn_named(model: Any) -> None:
    """Learn two rows of old and two of new classes."""
    model.learn([{"age": row["a"], "job": "smith"} for row in ROWS[:4]], ["x", "new", "y", "other"])


def _other(learner: Any) -> Any:
    other = type(learner)(learner.method, learner.options)
    other.learn(X[NEXT], SIGNS[NEXT])
    return other


def _sketched(one: Any) -> Any:
    seeds = {"seed": one.seed + 1} if one.independent else {}
    return type(one)(8, 4, **seeds).update(X[NEXT])


def _merges(learner: Any) -> bool:
    try:
        copy.deepcopy(learner).merge(_other(learner))
    except OnsketchError:
        return False
    return True


def _stop(number: int, frame: Any) -> None:
    raise Stop


def _interrupted(call: Callable[[], Any], after: float) -> bool:
    """Make a call and send a signal after this many seconds; return True if it arrived during the call."""
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except Stop:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return False


def sweep(kind: Kind, interrupts: int, seed: int = 0) -> list[str]:
    """Interrupt a kind this many times; return the faults."""
    draw, base, faults, met, tries = random.Random(seed), kind.make(), [], 0, 0
    before, spans = digest(base), []
    for _ in range(5):
        twin = copy.deepcopy(base)
        began = time.perf_counter()
        kind.learn(twin)
        spans.append(time.perf_counter() - began)
    after, span = digest(twin), statistics.median(spans)
    handler = signal.signal(signal.SIGALRM, _stop)
    try:
        while met < interrupts and tries < 20 * interrupts:
            tries += 1
            thing = copy.deepcopy(base)
            if not _interrupted(lambda thing=thing: kind.learn(thing), max(1e-6, draw.random() * span)):
                continue
            met += 1
            fault = _fault(kind, thing, (before, after))
            if fault:
                faults.append(f"{kind.name}, interrupt {met}: {fault}")
    finally:
        signal.signal(signal.SIGALRM, handler)
    print(f"{kind.name}: {met:,} interrupts in {tries:,} calls, {len(faults)} faults", flush=True)
    return faults


def _fault(kind: Kind, thing: Any, allowed: tuple[str, str]) -> str:
    """Return the faults of an object after an interrupt."""
    try:
        if digest(thing) not in allowed:
            return "its state is neither that before the call nor that after it"
        done: list[bool] = []

        def use() -> None:
            with contextlib.suppress(OnsketchError):  # a merge of sketches that drew the same numbers
                kind.learn(thing)
            done.append(True)

        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        thread.join(20.0)
        return "" if done else "another thread cannot use it"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Interrupt the chosen kinds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interrupts", type=int, default=200, help="of each kind")
    parser.add_argument("--only", default=None, help="names of kinds, with commas")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [kind for kind in kinds() if given.only is None or kind.name in given.only.split(",")]
    faults = [fault for kind in chosen for fault in sweep(kind, given.interrupts)]
    print(f"{len(chosen)} kinds, {len(faults)} faults")
    for fault in faults[:50]:
        print(fault)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
