"""Compare the results of this checkout with those of another one.

    git worktree add ../before f2b7c4f
    python benchmarks/records.py ../before             # runs both, one process each, and compares
    python benchmarks/records.py ../before --only rfd-son --only softmax
    python benchmarks/records.py --write now.npz       # only this checkout; two such files can be compared, too
    python benchmarks/records.py before.npz now.npz

Every method × loss × dense or sparse rows × dtype, from ``onsketch.learner`` and with the recommended defaults;
options that select other code; the estimators of scikit-learn and River; the sketches. Each configuration learns a few
hundred rows in calls of different lengths and records its predictions, weights, leverages, certificate and mean loss.
A configuration that refuses its options or rows records the error instead.

The result of each configuration is one of

    equal       all numbers have the same bits
    rounding    all numbers agree to --tolerance (1e-9 of the largest in their array; 1e-4 for float32)
    loss        the mean losses agree to four digits, and some number does not agree to the tolerance
    DIFFERENT   the mean losses differ in four digits
    REFUSED     one of the two was refused, or lacks a record that the other has

A table counts the results by kind of configuration, and a line for each shows what is not equal, the worst first. The
exit status is 1 if a result is in capitals, with --exact if any is not ``equal``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Record = dict[str, np.ndarray]
LOSSES = ("squared", "absolute", "logistic", "hinge", "squared_hinge", "quantile", "poisson")
NUMBERS = ("squared", "absolute", "quantile")
RANKS = ("equal", "rounding", "loss", "DIFFERENT", "REFUSED")
CALLS = (1, 60, 61, 62, 200)
"""Rows after which a call of ``learn`` ends, so that single rows and blocks of several lengths are learned."""

HELD_OUT = 100
CLASSES = np.array(["low", "middle", "high"])
KERNELS = ("kons", "sketched-kons", "pros-n-kons", "kernel-ogd", "budget-kernel-ogd")
UNSIZED = ("auto", "ogd", "adagrad", "adam", "lazy-adam", "ftrl", "arow", "ada-full", "ons", *KERNELS)
"""Methods without a sketch_size."""

SKETCHES = ("FrequentDirections", "FastFrequentDirections", "RobustFrequentDirections", "FastRobustFrequentDirections",
            "ParameterizedFrequentDirections", "CompensativeFrequentDirections", "RandomProjection", "Oja", "Exact",
            "Diagonal")  # fmt: skip
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dual": ("ada-fd", {"update": "dual"}),
    "dual, Newton": ("rfd-son", {"update": "dual"}),
    "average": ("fd-son", {"average": True}),
    "average, first order": ("adagrad", {"average": True}),
    "intercept": ("rfd-son", {"fit_intercept": True}),
    "projection after": ("rfd-son", {"projection": "after"}),
    "ridge 0": ("rfd-son", {"ridge": 0.0}),
    "ons, ridge 0": ("ons", {"ridge": 0.0}),
    "no doubling": ("rfd-son", {"doubling": False}),
    "no sketch": ("fd-son", {"sketch_size": 0}),
    "own size": ("rfd-son", {"sketch_size": "auto"}),
    "diagonal": ("oja-son", {"diagonal": True}),
    "schedule": ("fd-son", {"curvature_schedule": "1/sqrt(t)"}),
    "curvature rows": ("fd-son", {"summary": "curvature"}),
    "data rows": ("ada-fd", {"summary": "data"}),
    "no clip": ("oja-son", {"clip": None}),
    "Oja, blocks": ("oja-son", {"oja_block": 4, "ridge": 1.0}),
    "l1": ("ftrl", {"l1": 0.01}),
    "l1, l2, box": ("adagrad", {"l1": 0.001, "l2": 0.01, "box": (-0.5, 0.5)}),
    "composite": ("ada-fd", {"l1": 0.001, "l2": 0.01}),
    "implicit": ("adagrad", {"step": "implicit"}),
    "implicit, sketch": ("rp-son", {"step": "implicit"}),
    "scaling": ("adam", {"scaling": "magnitude"}),
    "forget": ("auto", {"forget": 0.99}),
    "forget, sketch": ("fd-son", {"forget": 0.99}),
    "forget auto": ("auto", {"forget": "auto"}),
    "polynomial kernel": ("pros-n-kons", {"kernel": "polynomial"}),
    "seed": ("rp-son", {"seed": 7}),
}
"""Options that choose other code, each with a method."""


def stream(rows: int, width: int, length: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of about ``length`` non-zeros with a falling spectrum, and a noisy linear function of them."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((rng.pareto(0.8, size=(rows, length)) * 4).astype(np.int64), width - 1)
    X = np.zeros((rows, width))
    np.put_along_axis(X, columns, rng.normal(size=(rows, length)), axis=1)
    X[rows // 3] = 0.0
    X[rows // 4 : rows // 4 + 3] = X[rows // 4]
    X /= np.maximum(np.sqrt((X**2).sum(1, keepdims=True)), 1e-9)
    return X, X @ rng.normal(size=width) + 0.2 * rng.normal(size=rows)


def labels_for(loss: str, y: np.ndarray) -> np.ndarray:
    """Labels that the loss takes."""
    if loss == "poisson":
        return np.floor(np.exp(np.clip(y, -2.0, 1.0)))
    return y if loss in NUMBERS else np.where(y > 0.0, 1.0, -1.0)


def mean_loss(loss: str, margins: np.ndarray, y: np.ndarray) -> float:
    """The mean loss by its definition, so that nothing of the checkout's own takes part."""
    with np.errstate(over="ignore"):
        values = {
            "squared": lambda: (margins - y) ** 2,
            "absolute": lambda: abs(margins - y),
            "quantile": lambda: np.maximum(0.5 * (y - margins), 0.5 * (margins - y)),
            "poisson": lambda: np.exp(margins) - y * margins,
            "logistic": lambda: np.logaddexp(0.0, -y * margins),
            "hinge": lambda: np.maximum(1.0 - y * margins, 0.0),
            "squared_hinge": lambda: np.maximum(1.0 - y * margins, 0.0) ** 2,
        }[loss]()
    return float(np.mean(values))


def in_calls(learn: Callable[..., Any], X: Any, *columns: np.ndarray) -> list[Any]:
    """What ``learn`` returns, called with stretches of the rows."""
    rows = X.shape[0]
    return [
        learn(X[a:b], *(column[a:b] for column in columns)) for a, b in zip((0, *CALLS), (*CALLS, rows), strict=True)
    ]


def certificate_of(learner: Any) -> Record:
    """The numbers of a certificate, for learners that have one."""
    try:
        found = learner.certificate()
    except Exception:  # not every method has one
        return {}
    numbers = {field.name: getattr(found, field.name) for field in fields(found)}
    numbers |= {f"terms {name}": value for name, value in dict(numbers.pop("terms", {})).items()}
    return {
        f"certificate {name}": np.array(value, dtype=float)
        for name, value in numbers.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def of_learner(make: Callable[..., Any], method: str, loss: str, X: Any, y: np.ndarray, **options: Any) -> Record:
    """Learn all rows but the last hundred, predict those, and record what the learner shows of itself."""
    learner, known = make(method, loss=loss, **options), len(y) - HELD_OUT
    weights = np.random.default_rng(5).choice([0.5, 1.0, 1.0, 2.0], size=known)
    margins = np.concatenate(in_calls(learner.learn, X[:known], y[:known], weights))
    found: Record = {
        "margins": margins,
        "mean loss": np.array(mean_loss(loss, margins, y[:known])),
        "predictions": learner.predict(X[known:]),
    }
    for name in ("weights", "intercept"):
        with suppress(Exception):  # kernel methods have no weights
            found[name] = np.array(getattr(learner, name), dtype=float)
    with suppress(Exception):  # only Newton methods have leverages
        found["leverage"] = learner.leverage(X[known:])
    return found | certificate_of(learner)


def of_classifier(X: Any, y: np.ndarray, **options: Any) -> Record:
    """scikit-learn's classifier, by ``partial_fit``; the mean loss is that of the last hundred rows."""
    from onsketch.sklearn import OnlineClassifier

    model, known, classes = OnlineClassifier(n_jobs=1, random_state=0, **options), len(y) - HELD_OUT, np.unique(y)
    in_calls(lambda rows, labels: model.partial_fit(rows, labels, classes=classes), X[:known], y[:known])
    found = {"margins": model.decision_function(X[known:])}
    if options.get("loss", "logistic") in ("logistic", "softmax"):
        shares = model.predict_proba(X[known:])
        found |= {"predictions": shares}
        found["mean loss"] = np.array(
            -np.mean(np.log(shares[np.arange(HELD_OUT), np.searchsorted(classes, y[known:])]))
        )
    else:
        found["mean loss"] = np.mean(model.predict(X[known:]) != y[known:])
    with suppress(Exception):
        found |= {"weights": np.array(model.coef_), "intercept": np.array(model.intercept_)}
    return found


def of_regressor(X: Any, y: np.ndarray, **options: Any) -> Record:
    """scikit-learn's regressor, by ``partial_fit``; the mean loss is that of the last hundred rows."""
    from onsketch.sklearn import OnlineRegressor

    model, known = OnlineRegressor(random_state=0, **options), len(y) - HELD_OUT
    in_calls(model.partial_fit, X[:known], y[:known])
    found = {"predictions": model.predict(X[known:])}
    found["mean loss"] = np.mean((found["predictions"] - y[known:]) ** 2)
    with suppress(Exception):
        found |= {"weights": np.array(model.coef_), "intercept": np.array(model.intercept_)}
    return found


def of_river(kind: str, X: np.ndarray, y: np.ndarray, **options: Any) -> Record:
    """River's estimators, row by row; the features come by name, and the first row by ``learn_many``."""
    import pandas as pd

    from onsketch import river

    model, answers, losses = getattr(river, kind)(**options), [], []
    frame = pd.DataFrame(X[:40], columns=[f"f{j}" for j in range(X.shape[1])])
    model.learn_many(frame, pd.Series(y[:40]))
    for values, label in zip(X[40:200], y[40:200].tolist(), strict=True):
        row = {f"f{j}": value for j, value in enumerate(values.tolist()) if value}
        if kind == "OnlineRegressor":
            answers.append(model.predict_one(row))
            losses.append((answers[-1] - label) ** 2)
        else:
            shares = model.predict_proba_one(row)
            answers.append([shares.get(name, 0.0) for name in CLASSES])
            losses.append(-np.log(max(shares.get(label, 0.0), 1e-12)))
        model.learn_one(row, label)
    return {"predictions": np.array(answers, dtype=float), "mean loss": np.mean(losses)}


def of_sketch(name: str, X: np.ndarray) -> Record:
    """A sketch alone, and two of them merged."""
    from onsketch import sketch

    made = getattr(sketch, name)
    size = () if name in ("Exact", "Diagonal") else (5,)
    parts = [made(X.shape[1], *size, **({"seed": k} if name in ("RandomProjection", "Oja") else {})) for k in range(2)]
    parts[0].update(X[:150])
    parts[1].update(X[150:])
    found = {"matrix": parts[0].matrix, "ridge": np.array(parts[0].ridge)}
    parts[0].merge(parts[1])
    return found | {"merged": parts[0].matrix, "merged ridge": np.array(parts[0].ridge)}


def makers() -> dict[str, Callable[..., Any]]:
    """Return functions for the published learner and for that with recommended defaults, by this checkout's names."""
    import onsketch

    recommended = getattr(onsketch, "safe_learner", None) or partial(onsketch.learner, defaults="recommended")
    return {"learner": onsketch.learner, "recommended": recommended}


def sized(method: str) -> dict[str, Any]:
    """A small sketch, for the methods that have one."""
    return {} if method in UNSIZED else {"sketch_size": 5}


def flat(method: str, loss: str) -> bool:
    """True for a Newton method that needs a schedule, because the loss has no curvature."""
    return method.endswith(("ons", "-son")) and loss in ("absolute", "hinge", "quantile")


def configurations() -> Iterator[tuple[str, Callable[[], Record]]]:
    """A name and what computes the record, for every configuration."""
    import onsketch

    X, y = stream(400, 40, 8)
    forms = {"dense": X, "sparse": sp.csr_matrix(X)}
    scales = 10.0 ** np.random.default_rng(3).uniform(-3, 3, X.shape[1])
    raw = {"dense": X * scales, "sparse": sp.csr_matrix(X * scales)}
    three = np.digitize(y, np.quantile(y, [0.4, 0.7]))
    for interface, make in makers().items():
        rows = forms if interface == "learner" else raw
        for method in onsketch.methods():
            for loss in LOSSES:
                labels = labels_for(loss, y)
                given = {"curvature_schedule": "1/sqrt(t)"} if interface == "learner" and flat(method, loss) else {}
                for form, dtype in product(forms, ("float64",) if method in KERNELS else ("float64", "float32")):
                    options = sized(method) | given | ({} if dtype == "float64" else {"dtype": dtype})
                    name = f"{interface}: {method}, {loss}, {form}, {dtype}"
                    yield name, partial(of_learner, make, method, loss, rows[form], labels, **options)
    for variant, (method, options) in VARIANTS.items():
        for loss, form in product(("squared", "logistic"), forms):
            both = sized(method) | options
            made = partial(of_learner, onsketch.learner, method, loss, forms[form], labels_for(loss, y), **both)
            yield f"option: {variant} ({method}), {loss}, {form}", made
    wide, _ = stream(400, 30_000, 20, seed=1)
    many = np.arange(400) % 30
    for form, dtype in product(("dense", "sparse"), ("float64", "float32")):
        for kind, method in (("softmax", "auto"), ("one-vs-rest", "rfd-son"), ("shared", "rfd-son")):
            if (kind, dtype) == ("shared", "float32"):
                continue
            options = {"multiclass": kind, "method": method, "dtype": dtype}
            yield f"classes: {kind}, 3, {form}, {dtype}", partial(of_classifier, raw[form], three, **options)
    for kind in ("softmax", "one-vs-rest", "shared"):
        options = {"multiclass": kind, "method": "auto" if kind == "softmax" else "rfd-son"}
        made = partial(of_classifier, sp.csr_matrix(wide), many, **options)
        yield f"classes: {kind}, 30, sparse and wide", made
        yield f"classes: River, {kind}", partial(of_river, "OnlineClassifier", X, CLASSES[three], **options)
    shared = {"multiclass": "shared", "method": "rfd-son", "loss": "softmax"}
    yield "classes: shared, softmax", partial(of_classifier, X, three, **shared)
    for method, form in product(onsketch.methods(), forms):
        loss = {"loss": "squared_hinge"} if method == "arow" else {}
        options = {"method": method, **sized(method)}
        signs = (y > 0.0).astype(int)
        yield f"scikit-learn: classifier, {method}, {form}", partial(of_classifier, raw[form], signs, **options, **loss)
        yield f"scikit-learn: regressor, {method}, {form}", partial(of_regressor, raw[form], 50.0 + 7.0 * y, **options)
    for targets in ("auto", "rfd-son", "ada-fd"):
        both = np.column_stack([y, 3.0 - 100.0 * y])
        yield f"scikit-learn: two targets, {targets}", partial(of_regressor, raw["sparse"], both, method=targets)
    for method in ("auto", "adagrad", "ftrl", "rfd-son", "oja-son", "ada-fd", "ons"):
        options = {"method": method, **sized(method)}
        yield f"River: classifier, {method}", partial(of_river, "OnlineClassifier", X, y > 0.0, **options)
        yield f"River: regressor, {method}", partial(of_river, "OnlineRegressor", X, 50.0 + 7.0 * y, **options)
    for name in SKETCHES:
        yield f"sketch: {name}", partial(of_sketch, name, X)


def record(only: list[str]) -> Record:
    """All configurations' records in one flat dictionary; a refusal is kept as its message."""
    warnings.simplefilter("ignore")
    found: Record = {}
    for name, made in configurations():
        if only and not any(word in name for word in only):
            continue
        try:
            numbers = made()
        except Exception as error:
            numbers = {"refused": np.array(f"{type(error).__name__}: {error}")}
        found |= {f"{name}|{part}": np.asarray(value) for part, value in numbers.items()}
    return found


def difference(before: np.ndarray, now: np.ndarray) -> float:
    """The largest difference, in units of the largest number of either."""
    if before.shape != now.shape:
        return np.inf
    if before.size == 0 or np.array_equal(before, now, equal_nan=True):
        return 0.0
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(abs(before - now).max() / max(abs(before).max(), abs(now).max()), nan=np.inf))


def judged(before: Record, now: Record, tolerance: float) -> tuple[str, float, str]:
    """Return the result of a configuration, its largest difference, and its description."""
    if "refused" in before and "refused" in now:
        return "equal", 0.0, ""
    for one, other in ((before, "now"), (now, "before")):
        if "refused" in one:
            return "REFUSED", np.inf, f"only {other} learns; {one['refused']}"
    if missing := before.keys() ^ now.keys():
        return "REFUSED", np.inf, f"only one of the two has: {', '.join(sorted(missing))}"
    differences = {part: difference(before[part], now[part]) for part in before}
    part = max(differences, key=lambda part: differences[part])
    worst = differences[part]
    losses = [float(side.get("mean loss", np.array(0.0))) for side in (before, now)]
    said = f"{part} by {worst:.1e}; mean loss {losses[0]:.6g}, {losses[1]:.6g}"
    if worst == 0.0 and all(before[part].tobytes() == now[part].tobytes() for part in before):
        return "equal", 0.0, said
    if worst <= tolerance:
        return "rounding", worst, said
    return ("loss" if f"{losses[0]:.4g}" == f"{losses[1]:.4g}" else "DIFFERENT"), worst, said


def compare(before: Record, now: Record, tolerance: float, exact: bool, shown: int) -> int:
    """Print the table and the differences; the exit status."""
    sides: dict[str, tuple[Record, Record]] = defaultdict(lambda: ({}, {}))
    for k, side in enumerate((before, now)):
        for key, value in side.items():
            name, _, part = key.partition("|")
            sides[name][k][part] = value
    absent = np.array("this checkout does not have it")
    results = {}
    for name, (one, other) in sides.items():
        loose = max(tolerance, 1e-4) if "float32" in name else tolerance
        results[name] = judged(one or {"refused": absent}, other or {"refused": absent}, loose)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, (rank, _, _) in results.items():
        counts[name.partition(":")[0]][rank] += 1
    print(f"{'configurations':20}" + "".join(f"{rank:>11}" for rank in RANKS))
    for kind, found in counts.items():
        print(f"{kind:20}" + "".join(f"{found[rank]:11}" for rank in RANKS))
    unequal = [
        (RANKS.index(rank), worst, name, said) for name, (rank, worst, said) in results.items() if rank != "equal"
    ]
    unequal.sort(key=lambda line: line[:2], reverse=True)
    for rank, _, name, said in unequal[:shown]:
        print(f"{RANKS[rank]:10} {name}: {said}")
    if len(unequal) > shown:
        print(f"… and {len(unequal) - shown} more (--shown)")
    return int(any(exact or RANKS[rank].isupper() for rank, *_ in unequal))


def read(path: Path) -> Record:
    """A file of records."""
    with np.load(path) as file:
        return dict(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "sides", type=Path, nargs="*", help="another checkout or file of records; two compare with each other"
    )
    parser.add_argument("--write", type=Path, help="record this checkout into a file")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="configurations whose name has this"
    )
    parser.add_argument("--tolerance", type=float, default=1e-9)
    parser.add_argument("--exact", action="store_true", help="fail if any bit differs")
    parser.add_argument("--shown", type=int, default=40, help="lines of differences")
    given = parser.parse_args()
    if given.write is not None:
        np.savez(given.write, **record(given.only))
        return
    if not 1 <= len(given.sides) <= 2:
        parser.error("name the checkout to compare with, two files of records, or --write FILE.")
    sides = [*given.sides, Path(__file__).resolve().parents[1]][:2]
    with tempfile.TemporaryDirectory() as folder:
        files, running = [], []
        for k, side in enumerate(sides):
            files.append(side if side.is_file() else Path(folder, f"{k}.npz"))
            if side.is_dir():
                env = {**os.environ, "PYTHONPATH": str(side.resolve() / "src")}
                env |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "MKL", "OMP")}
                child = [sys.executable, __file__, "--write", str(files[-1])]
                child += [word for text in given.only for word in ("--only", text)]
                running.append(subprocess.Popen(child, env=env))
        if sum(process.wait() != 0 for process in running):
            sys.exit(2)
        before, now = map(read, files)
    sys.exit(compare(before, now, given.tolerance, given.exact, given.shown))


if __name__ == "__main__":
    main()
