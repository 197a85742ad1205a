"""Is this checkout as fast as another one, and are kernels built beforehand as fast as those of the compiler?

    git worktree add ../before 65fc152
    python benchmarks/versions.py ../before [--rounds 5] [--only softmax]
    python benchmarks/versions.py --kernels        # in an environment with a wheel that carries kernels, and Numba

CPU time per row, the two taking turns. Each turn is a process of its own with kernels of its own (compiled once, in a
folder that is thrown away); the best pass of each counts. A line of the table has both times and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Timed = Callable[[str, int, Callable[[], Any]], None]
METHODS = ("adagrad", "adam", "ftrl", "arow", "auto", "oja-son", "rp-son", "fd-son", "rfd-son", "ada-fd", "ada-ffd",
           "ada-gp", "ons")  # fmt: skip


def streams() -> dict[str, tuple[Any, Any]]:
    """Wide text of 75 values a row, short rows of 14, and 50 dense features."""
    rng = np.random.default_rng(0)

    def zipf(rows: int, width: int, length: int) -> Any:
        columns = np.minimum(rng.zipf(1.3, size=(rows, length)), width) - 1
        there = (np.ones(rows * length), (np.repeat(np.arange(rows), length), columns.ravel()))
        return sp.csr_matrix(there, shape=(rows, width))

    made = {
        "text": zipf(10_000, 40_000, 75),
        "short rows": zipf(20_000, 123, 14),
        "dense": rng.normal(size=(20_000, 50)),
    }
    return {name: (X, np.where(X @ rng.normal(size=X.shape[1]) > 0.0, 1.0, -1.0)) for name, X in made.items()}


def cases() -> Iterator[tuple[str, Callable[[], Any], Any, Any]]:
    """A name, what makes the learner, rows and labels."""
    import onsketch

    recommended = getattr(onsketch, "safe_learner", None) or partial(onsketch.learner, defaults="recommended")
    for stream, (X, y) in streams().items():
        for method in METHODS:
            if method == "ons" and stream != "dense":
                continue
            options: dict[str, Any] = {"loss": "squared_hinge" if method == "arow" else "logistic"}
            options |= {"sketch_size": 10} if "-" in method else {}
            options |= {} if method == "auto" else {"ridge": 1.0}
            yield f"{stream}, {method}", partial(onsketch.learner, method, **options), X, y
        for method in ("adagrad", "rfd-son", "auto"):
            single = partial(onsketch.learner, method, loss="logistic", dtype="float32")
            yield f"{stream}, {method}, float32", single, X, y
        for method in ("adagrad", "rfd-son", "oja-son"):
            yield f"{stream}, {method}, recommended", partial(recommended, method, loss="logistic"), X, y
    yield "dense, ada-full", partial(onsketch.learner, "ada-full", loss="logistic"), X[:2000], y[:2000]
    for method in ("kons", "pros-n-kons", "budget-kernel-ogd"):
        yield f"dense, {method}", partial(onsketch.learner, method, loss="logistic"), X[:1000], y[:1000]


def of_classes(timed: Timed) -> None:
    """The classifier of ten classes, by softmax."""
    from onsketch.sklearn import OnlineClassifier

    for stream, (X, _) in streams().items():
        labels = np.asarray((X @ np.random.default_rng(1).normal(size=(X.shape[1], 10))).argmax(1))
        for _ in range(2):
            model = OnlineClassifier()
            timed(f"{stream}, softmax", len(labels), partial(model.partial_fit, X, labels, classes=np.arange(10)))
            timed(f"{stream}, softmax predicts", len(labels), partial(model.predict_proba, X))


def of_single_rows(timed: Timed, rows: int = 1500) -> None:
    """Rows one by one: arrays by a learner, dictionaries by River's classifier."""
    import onsketch
    from onsketch.river import OnlineClassifier

    X, y = streams()["dense"]
    table, truths = [dict(enumerate(row)) for row in X[:rows].tolist()], (y[:rows] > 0.0).tolist()
    rows_of_one, labels = list(X[:rows, None]), list(y[:rows, None])
    for method in ("adagrad", "rfd-son", "auto"):
        for _ in range(4):
            learner, model = onsketch.learner(method, loss="logistic"), OnlineClassifier(method=method)
            singles = {
                f"single rows, {method}": partial(one_by_one, learner.learn, rows_of_one, labels),
                f"single rows, {method} predicts": partial(one_by_one, learner.predict, rows_of_one),
                f"River, {method}": partial(one_by_one, model.learn_one, table, truths),
                f"River, {method} predicts": partial(one_by_one, model.predict_proba_one, table),
            }
            for name, action in singles.items():
                timed(name, rows, action)


def one_by_one(action: Callable[..., Any], *columns: list[Any]) -> None:
    for row in zip(*columns, strict=True):
        action(*row)


def measure(only: str = "") -> dict[str, float]:
    """Microseconds a row, learning and predicting, the best of several new learners."""
    found: dict[str, float] = {}

    def timed(what: str, rows: int, action: Callable[[], Any]) -> None:
        if only not in what:
            return
        start = time.process_time()
        action()
        found[what] = min(1e6 * (time.process_time() - start) / rows, found.get(what, np.inf))

    for name, make, X, y in cases():
        if only in name:
            for _ in range(4):
                learner = make()
                timed(name, len(y), partial(learner.learn, X, y))
                timed(f"{name} predicts", len(y), partial(learner.predict, X))
    if only in "softmax" or "softmax" in only:
        of_classes(timed)
    if not only or "single" in only or "River" in only:
        of_single_rows(timed)
    return found


def best_of(turns: dict[str, dict[str, str]], rounds: int, only: str = "") -> dict[str, dict[str, float]]:
    """The best times of two kinds of process, each with these variables in its environment."""
    best: dict[str, dict[str, float]] = {name: {} for name in turns}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for name, variables in turns.items():
                env = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/{name}", **variables}
                env |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "MKL", "OMP")}
                child = [sys.executable, __file__, "--child", "--only", only]
                told = subprocess.run(child, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
                for key, micros in json.loads(told.splitlines()[-1]).items():
                    best[name][key] = min(micros, best[name].get(key, np.inf))
            print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?", help="another checkout")
    parser.add_argument("--kernels", action="store_true", help="the library of an installed wheel against the compiler")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name has this text, such as softmax, River or float32")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.only)))
        return
    if given.kernels:
        turns = {"compiler": {"ONSKETCH_KERNELS": "jit"}, "library": {"ONSKETCH_KERNELS": "library"}}
    elif given.before is not None:
        trees = {"before": given.before.resolve(), "now": Path(__file__).resolve().parents[1]}
        turns = {name: {"PYTHONPATH": str(tree / "src")} for name, tree in trees.items()}
    else:
        parser.error("name the checkout to compare with, or say --kernels.")
    best = best_of(turns, given.rounds, given.only)
    first, second = turns
    print(f"{'µs a row':36}{first:>10}{second:>10}{'ratio':>8}")
    ratios = []
    for key, micros in best[first].items():
        if key in best[second]:
            ratios.append(best[second][key] / micros)
            print(f"{key:36}{micros:10.2f}{best[second][key]:10.2f}{ratios[-1]:8.2f}")
    print(f"{'geometric mean':56}{np.exp(np.mean(np.log(ratios))):8.2f}")


if __name__ == "__main__":
    main()
