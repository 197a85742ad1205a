"""Compare every named method with recommended defaults to the majority class and to Vowpal Wabbit's default.

    python benchmarks/recommended_defaults.py FOLDER OUT.json [--rows 3000] [--seeds 2] [--only METHOD …] [--sets SET …]

It reads the raw sets of ``study_sets.py``, shuffles and cuts them, and runs one pass of each learner. The errors are
those of predictions made before a row was learned. OUT.json stores results as they come, so that a run can be stopped
and continued; the table is printed at the end. Methods with a d×d matrix run on sets of at most 300 features. A third
of the sets is reserved for judging (``JUDGED``).

"Majority" is the share of the rarer class, known in hindsight. "Majority so far" is the error of always predicting the
class that was more frequent before a row, as a learner with only an intercept would. On balanced sets of few rows it is
several points larger.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import study_peers
import study_sets

import onsketch
from onsketch.errors import UpdateError
from onsketch.learners.methods import METHODS
from onsketch.learners.recommended import fitting_loss

JUDGED = ("a9a", "heart", "ijcnn1", "splice", "farm-ads", "fashion", "Ionosphere", "svmguide1", "letter.scale", "hiva",
          "luo2016 κ=100")  # fmt: skip
TWINS = ("german.numer_scale", "PimaIndiansDiabetes", "LetterRecognition", "cifar10", "luo2016 κ=1")
"""Sets that duplicate another set, or are as large as all others together."""

WIDE, VALUES = 300, 400_000
PAIRWISE = ("ons", "ada-full", "ada-gp", "ada-dp", "ada-lr")
"""Methods whose state has a number for each pair of features."""


def margins(method: str, X: Any, y: Any) -> tuple[Any, bool]:
    """Return the prediction before each row, and True if the learner refused a row."""
    try:
        loss = fitting_loss(method, "logistic")
        return onsketch.safe_learner(method, loss=loss).learn(X, y), False
    except UpdateError as error:
        found = np.full(len(y), np.nan)
        found[: len(error.predictions)] = error.predictions
        return found, True


def majority_so_far(y: Any) -> float:
    """Return the error of predicting the class that was more frequent before each row; a tie counts as half."""
    lead = np.cumsum(y) - y
    return float(np.mean(np.where(lead == 0.0, 0.5, lead * y < 0.0)))


def run(folder: Path, out: Path, rows: int, seeds: int, methods: list[str], wanted: list[str]) -> dict[str, Any]:
    """All errors, by set and seed."""
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    names = [*study_sets.readers(folder), *(f"luo2016 κ={k}" for k in study_sets.SYNTHETIC)]
    for seed in range(seeds):
        for name, X, y in study_sets.sets(folder, seed, rows, VALUES, wanted or [n for n in names if n not in TWINS]):
            X, y = X[:rows], y[:rows]
            entry = found.setdefault(f"{name}|{seed}", {"majority": float(min(np.mean(y > 0), np.mean(y < 0)))})
            entry["so far"] = majority_so_far(y)
            if "VW" not in entry:
                entry["VW"] = float(np.mean(~(study_peers.vowpal("", X, y) * y > 0)))
            for method in methods:
                if method not in entry and not (method in PAIRWISE and X.shape[1] > WIDE):
                    z, refused = margins(method, X, y)
                    entry[method] = float(np.mean(~(z * y > 0)))
                    entry.setdefault("refused", []).extend([method] if refused else [])
            out.write_text(json.dumps(found, indent=1))
            print(f"{name} {seed}", flush=True)
    return found


def table(found: dict[str, Any], methods: list[str]) -> None:
    """One line for each method; differences are means over the shuffles of a set."""
    print("| method | refused | above the majority by at most | sets above it by 1 point | of which above the majority "
          "so far by 1 point | of VW | judged sets |\n|---|--:|--:|--:|--:|--:|--:|")  # fmt: skip
    for method in methods:
        runs = {key: entry for key, entry in found.items() if method in entry}
        if not runs:
            continue
        above, beyond = (_above(runs, method, bound) for bound in ("majority", "so far"))
        refused = sum(method in entry.get("refused", ()) for entry in runs.values())
        worst = max(above, key=lambda name: above[name])
        many = [name for name, value in above.items() if value > 1.0]
        judged = {key: entry for key, entry in runs.items() if key.split("|")[0] in JUDGED}
        ratios = [_ratio(part, method) for part in (runs, judged)]
        print(f"| `{method}` | {refused} | {above[worst]:.1f} ({worst}) | {len(many)} of {len(above)} "
              f"| {sum(beyond[name] > 1.0 for name in many)} | {ratios[0]:.3f} | {ratios[1]:.3f} |")  # fmt: skip


def _above(runs: dict[str, Any], method: str, bound: str) -> dict[str, float]:
    """By how many points the method errs above a bound, by set."""
    by_set: dict[str, list[float]] = {}
    for key, entry in runs.items():
        by_set.setdefault(key.split("|")[0], []).append(100.0 * (entry[method] - entry[bound]))
    return {name: float(np.mean(values)) for name, values in by_set.items()}


def _ratio(runs: dict[str, Any], method: str) -> float:
    """Geometric mean of the errors over VW's, each at least half a row in 3,000."""
    pairs = [(max(entry[method], 1 / 6000), max(entry["VW"], 1 / 6000)) for entry in runs.values()]
    return float(np.exp(np.mean([np.log(ours / theirs) for ours, theirs in pairs])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--sets", nargs="*", default=[])
    given = parser.parse_args()
    chosen = given.only or [name for name, method in METHODS.items() if not method.kernel]
    table(run(given.folder, given.out, given.rows, given.seeds, chosen, given.sets), chosen)
