"""Cost of `auto`: CPU time relative to adagrad, and bytes of state per feature.

    python benchmarks/auto_cost.py [--rows 20000] [--repeats 5] [--only time|memory] [--loss logistic]

Times are CPU time of one thread, with learners alternating, as ratios within one run. The heavy-tailed
stream has two million values; about two thirds of its features occur once, 86 % fewer than five times.
"""

from __future__ import annotations

import argparse
import os

for _name in ("OPENBLAS", "MKL", "OMP", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import numpy as np
from measure import cpu_seconds
from scipy.sparse import csr_array

import onsketch
from onsketch.data import a9a_like, text_like

CANDIDATES = {
    "adagrad": ("adagrad", {"fit_intercept": True}),
    "auto": ("auto", {"sketch_size": 20}),
    "auto without a sketch": ("auto", {"sketch_size": 0}),
}


def dense(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """50 features, a tenth of the labels wrong."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 50))
    y = np.sign(X @ rng.standard_normal(50))
    return X, np.where(rng.random(rows) < 0.1, -y, y)


def heavy_tailed(values: int = 2_250_000, length: int = 112) -> tuple[csr_array, np.ndarray]:
    """Rows of words whose frequencies follow a power law."""
    rng = np.random.default_rng(0)
    words = np.floor(rng.pareto(0.5, values) * 50.0).clip(max=1e15).astype(np.int64)
    indices = np.unique(words, return_inverse=True)[1].astype(np.int64)
    x = csr_array((np.ones(values), indices, np.append(np.arange(0, values, length), values)))
    x.sum_duplicates()
    signs = rng.standard_normal(int(indices.max()) + 1)
    return x, np.where(x @ signs > 0.0, 1.0, -1.0)


def time(rows: int, repeats: int, loss: str) -> None:
    """Print microseconds a row, and their ratio to adagrad's."""
    for name, (X, y) in {"text": text_like(rows), "short": a9a_like(rows), "dense": dense(rows)}.items():
        best = dict.fromkeys(CANDIDATES, np.inf)
        for _ in range(repeats):
            for candidate, (method, options) in CANDIDATES.items():
                learner = onsketch.learner(method, loss=loss, **options)
                learner.learn(X[: rows // 2], y[: rows // 2])
                taken = cpu_seconds(lambda: learner.learn(X[rows // 2 :], y[rows // 2 :]))  # noqa: B023
                best[candidate] = min(best[candidate], taken / (rows - rows // 2))
        for candidate, seconds in best.items():
            print(f"{name:6} {candidate:22} {1e6 * seconds:8.2f} us a row {seconds / best['adagrad']:6.1f} adagrads")


def memory(loss: str) -> None:
    """Print bytes of state per feature on the heavy-tailed stream."""
    X, y = heavy_tailed()
    met = np.bincount(X.indices)
    print(f"{X.nnz:,} values, {met.size:,} features: {np.mean(met == 1):.0%} met once, {np.mean(met < 5):.0%} below 5")
    for dtype in ("float64", "float32"):
        learner = onsketch.learner("auto", loss=loss, sketch_size=20, dtype=dtype)
        errors = np.mean(learner.learn(X, y) * y <= 0)
        held = learner.state_bytes()
        print(f"{dtype}: {held['total'] / met.size:.0f} bytes a feature ({held['packed'] / met.size:.0f} packed), "
              f"errors {errors:.4f}")  # fmt: skip


def main() -> None:
    """Run the chosen sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--loss", default="logistic")
    parser.add_argument("--only", choices=["time", "memory"])
    options = parser.parse_args()
    if options.only != "memory":
        time(options.rows, options.repeats, options.loss)
    if options.only != "time":
        memory(options.loss)


if __name__ == "__main__":
    main()
