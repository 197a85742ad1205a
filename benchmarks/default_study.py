"""The default learner next to the one before it, in one pass over many sets, shuffled and in file order.

    python benchmarks/default_study.py --data FOLDER [--tasks signs numbers many] [--sides choose judge]
                                       [--orders file 0 1] [--only SET ...] [--as NAME] [--again] [--page]

Sets are raw. Words of tables become indicators, gaps become 0 and an indicator. Two classes of a set of many are the
most frequent one and the rest. A third of the sets, chosen by a checksum of their names, is kept for judging.

The figures of the earlier default are kept as they were measured, in one process with those of ``auto``. Every run of
``auto`` is a line of --results and is not repeated unless --again is given; its time is then of another process. --as
names a variant under trial, whose figures do not replace those of ``auto``. --page writes the tables into
docs/studies/default.md and runs nothing.
"""

from __future__ import annotations

import os

# Before NumPy is imported, or it would not be heeded.
for _name in ("OPENBLAS", "MKL", "OMP", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import argparse
import csv
import json
import lzma
import pickle
import tempfile
import zlib
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import study_sets
from scipy import sparse

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "studies" / "default.md"
BEFORE = "earlier"
MARKS = "<!-- tables: begin -->", "<!-- tables: end -->"

LABELS = {"ames": "Sale_Price", "hotel_rates": "avg_price_per_room", "cps1988": "wage", "storms": "wind",
          "vic_elec": "Demand", "loans": "interest_rate", "budget_food": "totexp", "chicago": "ridership",
          "inst_eval": "y"}  # fmt: skip
"""Label columns of the tables of numbers."""
SETS = {
    "signs": [*study_sets.LIBSVM, *study_sets.CSV, "covtype", "usps", "mnist", "fashion"],
    "numbers": [*LABELS, "made-20", "made-100", "made-200", "stream"],
    "many": ["letter", "usps", "covtype", "mnist", "news20", "DNA", "isolet", "fashion", "trec", "atis", "ohsumed"],
}  # fmt: skip
SKIPPED = {"epsilon100", "letter.scale", "PimaIndiansDiabetes"}
"""Sets of two classes that are too small, or the same as another."""
LIMITS = {"signs": 8000, "numbers": 20_000, "many": 6000}
"""Rows of a set at most."""
MOST_VALUES = 3_000_000
LONG = 2000
"""Sets with so many rows count for the worst ratio."""
TASKS = {"signs": "two classes", "numbers": "numbers", "many": "many classes"}


def judged(name: str) -> bool:
    """Return True for a set that is kept for judging."""
    return zlib.crc32(name.encode()) % 3 == 0


def _numbers(folder: Path, name: str) -> tuple[Any, np.ndarray]:
    if name.startswith("made-"):
        rng, d = np.random.default_rng(5), int(name.removeprefix("made-"))
        X = rng.normal(size=(4000, d))
        return X, X @ rng.normal(size=d) / np.sqrt(d) + rng.normal(size=4000)
    if name == "stream":
        from onsketch.data.synthetic import ill_conditioned

        return ill_conditioned(4000, 20, condition=200, seed=0)
    import pandas as pd

    table = pd.read_csv(folder / f"{name}.reg.csv.xz", nrows=LIMITS["numbers"])
    table = table.drop(columns="rownames", errors="ignore")
    table = table[table[LABELS[name]].notna()]
    y = table.pop(LABELS[name]).to_numpy(float)
    words = table.select_dtypes(exclude="number").astype(str)
    for column in words:
        if words[column].nunique() > 2000:
            words[column] = words[column].str[:7]
    values = table.select_dtypes("number")
    gaps = values.isna().loc[:, values.isna().any()].astype(float)
    parts = [values.fillna(0.0).to_numpy(float), gaps.to_numpy()]
    if words.shape[1]:
        parts.append(pd.get_dummies(words, dtype=float).to_numpy())
    return sparse.csr_array(np.hstack(parts)), y


def _classes(folder: Path, name: str) -> tuple[Any, np.ndarray]:
    if name in ("trec", "atis", "ohsumed"):
        from sklearn.feature_extraction.text import CountVectorizer

        with lzma.open(folder / f"{name}.csv.xz", "rt") as file:
            rows = list(csv.reader(file))[1:]
        X = CountVectorizer().fit_transform([row[1] for row in rows])
        return sparse.csr_array(X.astype(float)), np.array([row[0] for row in rows])
    return study_sets.readers(folder)["letter.scale" if name == "letter" else name]()


def load(folder: Path, cache: Path, task: str, name: str) -> tuple[Any, np.ndarray]:
    """Return rows and labels in file order; at most 60,000 rows, taken evenly."""
    path = cache / f"{task}-{name}.pickle"
    if path.exists():
        made: tuple[Any, np.ndarray] = pickle.loads(path.read_bytes())
        return made
    X, y = (_numbers if task == "numbers" else _classes)(folder, name)
    if X.shape[0] > 60_000:
        kept = np.sort(np.random.default_rng(99).permutation(X.shape[0])[:60_000])
        X, y = X[kept], y[kept]
    if task == "signs":
        names, counts = np.unique(y, return_counts=True)
        y = np.where(y == names[counts.argmax() if len(names) > 2 else -1], 1.0, -1.0)
    elif task == "many":
        y = np.unique(y, return_inverse=True)[1]
    path.write_bytes(pickle.dumps((X, y)))
    return X, y


def ordered(X: Any, y: np.ndarray, task: str, order: str) -> tuple[Any, np.ndarray]:
    """Return the rows in this order, cut to the task's rows and to ``MOST_VALUES``."""
    n = len(y)
    rows = np.arange(n) if order == "file" else np.random.default_rng(int(order)).permutation(n)
    per_row = (X.nnz if sparse.issparse(X) else X.size) / n
    rows = rows[: min(LIMITS[task], max(int(MOST_VALUES / per_row), 500))]
    return X[rows], y[rows]


def score(out: np.ndarray, y: np.ndarray, task: str) -> tuple[float, float]:
    """Return errors (RMSE of numbers) and loss."""
    if task == "numbers":
        return float(np.sqrt(np.mean((out - y) ** 2))), float(np.mean((out - y) ** 2))
    if task == "signs":
        signed = np.clip(out * y, -700.0, 700.0)
        return float(np.mean(~(signed > 0))), float(np.mean(np.logaddexp(0.0, -signed)))
    return float(np.mean(out.argmax(axis=1) != y)), float(-np.maximum(out[np.arange(len(y)), y], -35.0).mean())


def _learner(task: str, classes: int) -> Any:
    import onsketch
    from onsketch.learners.auto.classes import AutoClasses

    if task == "many":
        return AutoClasses("auto", classes)
    return onsketch.learner("auto", loss="logistic" if task == "signs" else "squared")


def run(task: str, X: Any, y: np.ndarray) -> list[float]:
    """Return errors, loss and seconds of one pass."""
    classes = int(y.max()) + 1 if task == "many" else 1
    _learner(task, classes).learn(X[:2], y[:2])  # compiled code is loaded, or compiled
    model = _learner(task, classes)
    began = process_time()
    out = model.learn(X, y)
    return [*score(out, y, task), process_time() - began]


def summary(results: dict[str, list[float]], task: str, side: str, orders: list[str], name: str) -> tuple[str, ...]:
    """Return the number of runs; means of the ratios of errors, loss and time; the worst ratios of errors."""
    found = []
    for key, (rows, *figures) in results.items():
        of, given, order, contender = key.split("|")
        base = results.get(f"{of}|{given}|{order}|{BEFORE}")
        if of == task and order in orders and contender == name and base and judged(given) == (side == "judge"):
            ratios = [max(a, 1e-4) / max(b, 1e-4) for a, b in zip(figures, base[1:], strict=True)]
            found.append((ratios, rows, given))
    if not found:
        return ("0",)
    means = np.exp(np.mean(np.log([ratios for ratios, _, _ in found]), axis=0))
    long = sorted(((ratios[0], given) for ratios, rows, given in found if rows >= LONG), reverse=True)
    worst = ", ".join(f"{ratio:.2f} ({given})" for ratio, given in long[:2])
    return (str(len(found)), *(f"{mean:.3f}" for mean in means), worst)


def tables(results: dict[str, list[float]], name: str = "auto") -> str:
    """Return the tables of the page."""
    lines = [
        "| over the earlier default | order | runs | errors or RMSE | loss "
        "| worst errors of sets of 2,000 rows or more |",
        "|---|---|--:|--:|--:|---|",
    ]
    shuffles = sorted({key.split("|")[2] for key in results} - {"file"})
    for task, title in TASKS.items():
        for side, words in (("choose", "for choosing"), ("judge", "judged")):
            for orders, order in ((shuffles, "shuffled"), (["file"], "file")):
                found = summary(results, task, side, orders, name)
                cells = f"{title}, {words}", order, *found[:3], *found[4:]
                lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| set | order | rows | earlier | `auto` | ratio |", "|---|---|--:|--:|--:|--:|"]
    for key, (rows, error, *_) in sorted(results.items()):
        task, given, order, contender = key.split("|")
        other = results.get(f"{task}|{given}|{order}|{name}")
        if contender == BEFORE and other and order in ("file", "0"):
            form = "{:.4g}" if task == "numbers" else "{:.2%}"
            ratio = max(other[1], 1e-4) / max(error, 1e-4)
            mark = " (judged)" if judged(given) else ""
            lines.append(f"| {given}, {TASKS[task]}{mark} | {'file' if order == 'file' else 'shuffled'} | {rows:,} "
                         f"| {form.format(error)} | {form.format(other[1])} | {ratio:.2f} |")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, keep it, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("ONSKETCH_DATA", "../shared/data"), metavar="FOLDER")
    parser.add_argument("--tasks", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--sides", nargs="+", choices=["choose", "judge"], default=["choose"])
    parser.add_argument("--orders", nargs="+", default=["file", "0"], help="file, or seeds of shuffles")
    parser.add_argument("--only", nargs="+", metavar="SET")
    parser.add_argument("--as", dest="name", default="auto", metavar="NAME")
    parser.add_argument("--again", action="store_true", help="run the variant anew")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "onsketch-study", metavar="FOLDER")
    parser.add_argument("--results", type=Path, default=DOCS / "results" / "default" / "study.json", metavar="FILE")
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    if arguments.page:
        before, after = PAGE.read_text().split(MARKS[0])[0], PAGE.read_text().split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{tables(results)}\n\n{MARKS[1]}{after}")
        return
    for task in arguments.tasks:
        for given in SETS[task]:
            if (arguments.only and given not in arguments.only) or (task == "signs" and given in SKIPPED):
                continue
            if not arguments.only and ("judge" if judged(given) else "choose") not in arguments.sides:
                continue
            for order in arguments.orders:
                key, before = (f"{task}|{given}|{order}|{name}" for name in (arguments.name, BEFORE))
                if key not in results or arguments.again:
                    X, y = ordered(*load(Path(arguments.data), arguments.cache, task, given), task, order)
                    figures = run(task, X, y)
                    results[key] = [len(y), *(float(f"{figure:.5g}") for figure in figures)]
                    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(results.items()))
                    arguments.results.write_text("{\n" + lines + "\n}\n")
                mine, base = results[key], results.get(before, results[key])
                print(f"{task:8s}{given:20s}{order:5s}{base[0]:6d} rows, errors {base[1]:.4g} {mine[1]:.4g}"
                      f" {max(mine[1], 1e-4) / max(base[1], 1e-4):.3f}  loss {mine[2] / max(base[2], 1e-9):.3f}"
                      f"  time {mine[3] / max(base[3], 1e-3):.1f}", flush=True)  # fmt: skip
        for side in arguments.sides:
            for orders in (["file"], [order for order in arguments.orders if order != "file"]):
                print(task, side, orders, *summary(results, task, side, orders, arguments.name), flush=True)


if __name__ == "__main__":
    main()
