"""Compare ``auto`` with its peers in one pass over raw features; a run can be stopped and resumed.

    python benchmarks/auto_study.py --data FOLDER [--seeds N] [--only SECTION ...] [--again NAME ...]

Sections (explained in docs/studies/auto.md):

    errors      every set, shuffled: errors, log loss and calibration of ``auto``, VW's variants, and AdaGrad and
                gradient descent tuned in hindsight
    weights     positives weighted 20 times, ``auto`` and VW
    held-out    rows never learned: ``auto`` after one pass, and scikit-learn's logistic regression offline
    drift       streams whose distribution changes: ``forget="auto"`` and seven fixed rates
    regression  R² on held-out rows, ``auto``, ``ons`` and offline ridge regression, for any offset of y

Every finished run is a line of --results (default: docs/results/auto/study.json), and is repeated only if its
contender is named by --again. The page docs/studies/auto.md is written from that file; --page-only does only this.
"""

from __future__ import annotations

import os

# Before NumPy is imported, or it would not be heeded.
for _name in ("OPENBLAS", "MKL", "OMP", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from study_page import page
from study_peers import CONTENDERS, offline_logistic, offline_ridge, ours
from study_sets import sets
from study_streams import DRIFTS, FIXED, NUMBERS, OFFSETS, drifting, numbers

DOCS = Path(__file__).parent.parent / "docs"
WEIGHTED = ("a9a", "ijcnn1", "covtype", "phishing.8404", "reuters.trn", "cod-rna.30k", "german.numer", "hiva")
Run = tuple[tuple[str, str, int, str], Callable[[], dict[str, float]]]
"""Section, set, seed and contender; and what makes its figures."""


def score(margins: np.ndarray, y: np.ndarray, weights: Any = None) -> dict[str, float]:
    """Error, log loss and calibration error; a margin that is 0 or missing is an error.

    The calibration error is the mean over ten bins of equal numbers of rows of |mean probability − share of positives|.
    """
    signed = np.clip(np.nan_to_num(margins * y, nan=0.0), -700.0, 700.0)
    chance = 1.0 / (1.0 + np.exp(-signed * y))
    bins = np.array_split(np.argsort(chance), 10)
    off = sum(abs(np.sum(chance[part] - (y[part] > 0))) for part in bins) / len(y)
    figures = {"error": np.average(~(signed > 0), weights=weights), "calibration": off}
    figures["log_loss"] = np.average(np.logaddexp(0.0, -signed), weights=weights)
    return {name: float(f"{value:.5g}") for name, value in figures.items()}


def errors(arguments: argparse.Namespace, seed: int) -> Iterator[Run]:
    for chosen in sets(Path(arguments.data), seed, arguments.rows, arguments.values):
        size = {"rows": len(chosen.y)}
        for name, contender in CONTENDERS.items():
            run = partial(lambda made, c, size: score(made(c.X, c.y), c.y) | size, contender, chosen, size)
            yield ("errors", chosen.name, seed, name), run


def weights(arguments: argparse.Namespace, seed: int) -> Iterator[Run]:
    for chosen in sets(Path(arguments.data), seed, arguments.rows, arguments.values, list(WEIGHTED)):
        rare = 1.0 if np.mean(chosen.y > 0) < 0.5 else -1.0
        heavy = np.where(chosen.y == rare, 20.0, 1.0)
        for name in ("auto", "VW", "VW logistic"):
            run = partial(lambda made, c, h: score(made(c.X, c.y, h), c.y, h), CONTENDERS[name], chosen, heavy)
            yield ("weights", chosen.name, seed, name), run


def _held_out(chosen: Any, offline: bool) -> dict[str, float]:
    import onsketch

    cut = len(chosen.y) * 3 // 4
    X, y, new, labels = chosen.X[:cut], chosen.y[:cut], chosen.X[cut:], chosen.y[cut:]
    if offline:
        return score(offline_logistic(X, y, new), labels)
    learner = onsketch.learner("auto", loss="logistic")
    learner.learn(X, y)
    return score(learner.predict(new), labels)


def held_out(arguments: argparse.Namespace, seed: int) -> Iterator[Run]:
    for chosen in sets(Path(arguments.data), seed, arguments.rows, arguments.values):
        if len(chosen.y) >= 1000:
            for name, offline in (("auto", False), ("offline logistic", True)):
                yield ("held-out", chosen.name, seed, name), partial(_held_out, chosen, offline)


def drift(arguments: argparse.Namespace, seed: int) -> Iterator[Run]:
    for name in DRIFTS:
        for rate in ("auto", *FIXED):
            run = partial(lambda name, rate: _drift(name, seed, rate), name, rate)
            yield ("drift", name, seed, "auto" if rate == "auto" else f"forget={rate:g}"), run


def _drift(name: str, seed: int, rate: Any) -> dict[str, float]:
    X, y = drifting(name, seed)
    return score(ours("auto", X, y, forget=rate), y)


def regression(arguments: argparse.Namespace, seed: int) -> Iterator[Run]:
    for name in NUMBERS:
        for offset in OFFSETS:
            for contender in ("auto", "ons", "offline ridge"):
                yield (
                    ("regression", f"{name}, {offset:g}", seed, contender),
                    partial(_regression, name, seed, offset, contender),
                )


def _regression(name: str, seed: int, offset: float, contender: str) -> dict[str, float]:
    import onsketch

    X, y = numbers(name, seed)
    y = y + offset * y.std()
    rows, new = slice(0, 5000), slice(5000, None)
    if contender == "offline ridge":
        z = offline_ridge(X[rows], y[rows], X[new])
    else:
        options: dict[str, Any] = {"summary": "curvature", "clip": None, "fit_intercept": True}
        learner = onsketch.learner(contender, **(options if contender == "ons" else {}))
        learner.learn(X[rows], y[rows])
        z = learner.predict(X[new])
    return {"r2": float(f"{1.0 - np.mean((z - y[new]) ** 2) / np.var(y[new]):.5g}")}


SECTIONS = {"errors": errors, "weights": weights, "held-out": held_out, "drift": drift, "regression": regression}


def main() -> None:
    """Run the missing cases, store them, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("ONSKETCH_DATA", "../shared/data"), metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=2, help="shuffles of each set")
    parser.add_argument("--rows", type=int, default=8000, help="sets are cut to so many rows (0: all)")
    parser.add_argument("--values", type=int, default=700_000, help="and to so many non-zeros (0: all)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="run these only")
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME", help="run these anew, in the sections chosen")
    parser.add_argument("--results", type=Path, default=DOCS / "results" / "auto" / "study.json", metavar="FILE")
    parser.add_argument("--page", type=Path, default=DOCS / "studies" / "auto.md", metavar="FILE")
    parser.add_argument("--page-only", action="store_true")
    arguments = parser.parse_args()
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    again = {(section, name) for section in arguments.only for name in arguments.again}
    kept = {key: figures for key, figures in results.items() if (key.split("|")[0], key.rsplit("|", 1)[1]) not in again}
    for section in [] if arguments.page_only else arguments.only:
        for seed in range(arguments.seeds):
            for parts, run in SECTIONS[section](arguments, seed):
                key = "|".join(map(str, parts))
                if key in kept or (arguments.contenders and parts[-1] not in arguments.contenders):
                    continue
                kept[key] = run()
                print(key, kept[key], flush=True)
                lines = ",\n".join(f"{json.dumps(k, ensure_ascii=False)}: {json.dumps(v)}" for k, v in kept.items())
                arguments.results.write_text("{\n" + lines + "\n}\n")
    arguments.page.write_text(page(kept))


if __name__ == "__main__":
    main()
