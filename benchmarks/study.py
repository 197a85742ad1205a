"""Does the default need tuning? Progressive error of ``auto`` and its peers on every set, one pass, raw features.

    python benchmarks/study.py --data FOLDER [--seeds N] [--rows N] [--only SET ...] [--cache FILE] [--plot FILE]
    [--table FILE]

Every contender sees the same rows in the same shuffled order and predicts each before learning it; nobody is tuned, but
for "adagrad tuned", which is given the best of 15 step sizes in hindsight, set by set. All of ours
minimise the logistic loss with an intercept; "VW" is Vowpal Wabbit as it ships, with the squared loss (its log loss
means little), its variants have the logistic one; scikit-learn's SGDClassifier is as it comes (hinge loss: no log
loss is shown). Sets are cut to --rows rows and --values non-zeros so that the whole takes minutes; sets of fewer than
2,000 rows are shuffled --small-seeds times. A contender's figure on a set is its mean over the shuffles.

Finished runs are kept in --cache, a JSON file; delete it (or an entry) to run anew. ``--again auto`` runs these
contenders anew.
"""

from __future__ import annotations

import os

# Before NumPy is imported, or it would not be heeded.
for _name in ("OPENBLAS", "MKL", "OMP", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from study_peers import CONTENDERS
from study_plot import plot
from study_sets import sets

SMALL = 2000
VW = ("VW", "VW logistic", "VW --coin", "VW --OjaNewton")

Results = dict[str, dict[str, Any]]


def score(margins: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Progressive error and log loss; a margin that is 0 or missing is an error."""
    signed = np.clip(np.nan_to_num(margins * y, nan=0.0), -700.0, 700.0)
    return {"error": float(np.mean(~(signed > 0))), "log_loss": float(np.mean(np.logaddexp(0.0, -signed)))}


def run(arguments: argparse.Namespace) -> Results:
    """Every contender on every set and shuffle; what the cache has is not run again."""
    cache = Path(arguments.cache) if arguments.cache else None
    results: Results = json.loads(cache.read_text()) if cache and cache.exists() else {}
    names = arguments.contenders or list(CONTENDERS)
    again = set(arguments.again)
    for seed in range(max(arguments.seeds, arguments.small_seeds)):
        for chosen in sets(Path(arguments.data), seed, arguments.rows, arguments.values, arguments.only):
            if seed >= (arguments.small_seeds if len(chosen.y) < SMALL else arguments.seeds):
                continue
            for name in names:
                key = f"{chosen.name}|{seed}|{name}|{len(chosen.y)}"
                if key in results and name not in again:
                    continue
                try:
                    figures = score(CONTENDERS[name](chosen.X, chosen.y), chosen.y)
                except ImportError as error:
                    figures = {"missing": str(error)}
                results[key] = {"set": chosen.name, "seed": seed, "contender": name, "rows": len(chosen.y), **figures}
                print(f"  {seed} {chosen.name:22s} {name:16s} {figures}", flush=True)
            if cache:
                cache.write_text(json.dumps(results, indent=0))
    return results


class Table:
    """Errors by set, contender and shuffle. Contenders are compared on the shuffles that both have run."""

    def __init__(self, results: Results) -> None:
        self._runs: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
        self.rows: dict[str, int] = {}
        for entry in results.values():
            if "error" in entry:
                self._runs.setdefault((entry["set"], entry["contender"]), {})[entry["seed"]] = entry
                self.rows[entry["set"]] = entry["rows"]
        self.contenders = [name for name in CONTENDERS if any(contender == name for _, contender in self._runs)]
        self.sets = [name for name in self.rows if {"auto", *VW} <= {c for s, c in self._runs if s == name}]

    def figures(self, name: str, contenders: tuple[str, ...], what: str = "error") -> np.ndarray:
        """(contenders, shuffles): their figures on a set, over the shuffles that all of them have run."""
        runs = [self._runs.get((name, contender), {}) for contender in contenders]
        shared = sorted(set.intersection(*map(set, runs)))
        return np.array([[run[seed][what] for seed in shared] for run in runs])

    def mean(self, name: str, contender: str, what: str = "error") -> float:
        """The mean over the shuffles; NaN where there are none."""
        figures = self.figures(name, (contender,), what)
        return float(figures.mean()) if figures.size else float("nan")

    def ratio(self, name: str, contender: str, to: tuple[str, ...]) -> float:
        """Error over that of the best of ``to`` on a set (the best by its mean over the shuffles)."""
        figures = self.figures(name, (contender, *to))
        if not figures.size:
            return float("nan")
        own, *others = figures.mean(axis=1)
        return float(own / max(min(others), 1e-12))

    def ratios(self, contender: str, to: tuple[str, ...]) -> np.ndarray:
        """The ratio on every set; NaN where there is none."""
        return np.array([self.ratio(name, contender, to) for name in self.sets])


def text(table: Table) -> str:
    """The study as a page of Markdown tables."""
    names = table.contenders
    lines = [
        "| set | rows | " + " | ".join(names) + " | auto / VW | auto / best VW |",
        "|---|---:|" + "---:|" * (len(names) + 2),
    ]
    to_vw, to_best = table.ratios("auto", ("VW",)), table.ratios("auto", VW)
    for i, name in enumerate(table.sets):
        errors = [_cell(100 * table.mean(name, contender), 2) for contender in names]
        lines.append(
            f"| {name} | {table.rows[name]:,} | " + " | ".join(errors) + f" | {to_vw[i]:.2f} | {to_best[i]:.2f} |"
        )
    lines += [
        "",
        "Errors in per cent. Ratios of errors over all sets, as geometric mean and worst case, and mean log loss:",
        "",
    ]
    lines += ["| contender | / VW | worst | / best of VW's four | worst | / adagrad tuned | worst | log loss |"]
    lines += ["|---|" + "---:|" * 7]
    for contender in names:
        cells = []
        for to in (("VW",), VW, ("adagrad tuned",)):
            ratio = table.ratios(contender, to)
            cells += [_cell(_geometric_mean(ratio), 3), _cell(np.nanmax(ratio, initial=-np.inf), 2)]
        logs = np.nanmean([table.mean(name, contender, "log_loss") for name in table.sets])
        cells.append("" if contender == "SGDClassifier" else _cell(logs, 3))
        lines.append(f"| {contender} | " + " | ".join(cells) + " |")
    lines += ["", *_verdicts(table, to_vw)]
    return "\n".join(lines) + "\n"


def _cell(number: float, digits: int) -> str:
    return f"{number:.{digits}f}" if np.isfinite(number) else "–"


def _geometric_mean(ratios: np.ndarray) -> float:
    return float(np.exp(np.nanmean(np.log(np.maximum(ratios, 1e-3)))))


def _verdicts(table: Table, to_vw: np.ndarray) -> list[str]:
    """The goals, each beside what was measured."""
    large = np.array([table.rows[name] >= SMALL for name in table.sets])
    behind = []
    for name in np.array(table.sets)[~large]:
        own, other = table.figures(name, ("auto", "VW"))
        gaps = own - other
        spread = gaps.std(ddof=1) / np.sqrt(gaps.size) if gaps.size > 1 else np.inf
        if gaps.mean() > 2.0 * spread:
            behind.append(name)
    tuned = table.ratios("auto", ("adagrad tuned",))
    worst = max(to_vw[large], default=np.nan)
    return [
        f"- auto / VW, geometric mean: {_geometric_mean(to_vw):.3f} (goal 0.72)",
        f"- auto / VW, worst set of {SMALL:,} rows or more: {worst:.3f} (goal 1.02)",
        f"- smaller sets on which auto is behind VW by more than two standard errors: {', '.join(behind) or 'none'}",
        f"- auto / adagrad tuned, geometric mean: {_geometric_mean(tuned):.3f} (goal 0.95)",
    ]


def main() -> None:
    """Run what is missing, print the tables, draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("ONSKETCH_DATA", "../shared/data"), metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--small-seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000, help="0: all")
    parser.add_argument("--values", type=int, default=3_000_000, help="0: all")
    parser.add_argument("--only", nargs="+", metavar="SET")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, metavar="NAME")
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME", help="run these anew, cached or not")
    parser.add_argument("--cache", metavar="FILE")
    parser.add_argument("--table", metavar="FILE", help="write the tables to this file, too")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios to VW as an SVG")
    arguments = parser.parse_args()
    table = Table(run(arguments))
    page = text(table)
    print(page)
    if arguments.table:
        Path(arguments.table).write_text(page)
    if arguments.plot:
        Path(arguments.plot).write_text(plot(table))


if __name__ == "__main__":
    main()
