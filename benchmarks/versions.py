"""Is this checkout as fast as another one? CPU time per row of each method, the two taking turns.

    git worktree add ../before 65fc152
    python benchmarks/versions.py ../before [--rounds 5]

Each turn is a process of its own with the kernels of its own checkout (compiled once, in a folder that is thrown away);
the best pass of each counts. A row of the table is the time before, now, and the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

METHODS = ("adagrad", "oja-son", "rp-son", "fd-son", "rfd-son", "ada-fd", "ada-ffd", "ada-gp", "ons")


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


def measure() -> dict[str, float]:
    """Microseconds a row of each method on each stream, the best of four new learners."""
    import onsketch

    found = {}
    for stream, (X, y) in streams().items():
        for method in METHODS:
            if method == "ons" and stream != "dense":
                continue
            size = {} if method in ("adagrad", "ons") else {"sketch_size": 10}
            best = np.inf
            for _ in range(4):
                learner = onsketch.learner(method, loss="logistic", ridge=1.0, **size)
                start = time.process_time()
                learner.learn(X, y)
                best = min(best, time.process_time() - start)
            found[f"{stream}, {method}"] = 1e6 * best / len(y)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?", help="another checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure()))
        return
    if given.before is None:
        parser.error("name the checkout to compare with.")
    trees = {"before": given.before.resolve(), "now": Path(__file__).resolve().parents[1]}
    best: dict[str, dict[str, float]] = {name: {} for name in trees}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(given.rounds):
            for name, tree in trees.items():
                env = {**os.environ, "PYTHONPATH": str(tree / "src"), "NUMBA_CACHE_DIR": f"{folder}/{name}"}
                env |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "MKL", "OMP")}
                child = [sys.executable, __file__, "--child"]
                told = subprocess.run(child, env=env, check=True, capture_output=True, text=True).stdout
                for key, micros in json.loads(told.splitlines()[-1]).items():
                    best[name][key] = min(micros, best[name].get(key, np.inf))
            print(f"round {turn + 1} of {given.rounds}", file=sys.stderr)
    print(f"{'µs a row':24}{'before':>8}{'now':>8}{'ratio':>8}")
    for key, before in best["before"].items():
        print(f"{key:24}{before:8.2f}{best['now'][key]:8.2f}{best['now'][key] / before:8.2f}")


if __name__ == "__main__":
    main()
