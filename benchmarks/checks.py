"""Cost of checking rows, as a share of a round, and of the lock, per call.

python benchmarks/checks.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import onsketch
from onsketch.core.rwlock import RWLock
from onsketch.learners.rows import Rows, _plainly_sound, as_labels, as_rows, as_weights

ROWS, WIDTH = 5000, 5000


def least(work: Callable[[], Any], times: int = 60) -> float:
    """Seconds that it takes when nothing else gets in between."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def share(method: str, nonzeros: int) -> tuple[float, float]:
    """Seconds of all checks, and of those of the matrix's structure, over those of a whole call of ``learn``."""
    rng = np.random.default_rng(0)
    indices = np.sort(np.array([rng.choice(WIDTH, nonzeros, replace=False) for _ in range(ROWS)]), axis=1).reshape(-1)
    ends = np.arange(0, ROWS * nonzeros + 1, nonzeros, dtype=np.int32)
    X = csr_array((rng.normal(size=indices.size), indices.astype(np.int32), ends), shape=(ROWS, WIDTH))
    y = np.sign(rng.normal(size=ROWS))
    learner = onsketch.learner(
        method, loss="logistic", **({} if method in ("adagrad", "auto") else {"sketch_size": 10})
    )
    learner.learn(X, y)
    bare = Rows(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, WIDTH, dense=False)
    labels, weights = as_labels(y, ROWS, learner._loss), as_weights(None, ROWS)

    def checked() -> None:
        as_rows(X, None)
        as_labels(y, ROWS, learner._loss)
        as_weights(None, ROWS)

    round_alone = least(lambda: learner.learn_checked(bare, labels, weights))
    checks = least(checked)
    structure = least(lambda: _plainly_sound(bare.indptr, bare.indices, indices.size, WIDTH))
    return checks / (checks + round_alone), structure / (checks + round_alone)


def main() -> None:
    """Measure and print."""
    for nonzeros in (10, 100):
        for method in ("adagrad", "rfd-son", "ada-ffd", "auto"):
            all_of_them, structure = (100.0 * part for part in share(method, nonzeros))
            told = f"{all_of_them:.1f} % of learning, {structure:.1f} % for the structure"
            print(f"{method:8s} {nonzeros:4d} non-zeros a row: checks are {told}")
    lock = RWLock()

    def a_thousand(turn: Any) -> None:
        for _ in range(1000):
            with turn:
                pass

    for name in ("reading", "writing"):
        turn = getattr(lock, name)
        with lock.writer:
            took = least(lambda turn=turn: a_thousand(turn)) if name == "writing" else 0.0
        took = took or least(lambda turn=turn: a_thousand(turn))
        print(f"a turn of {name}: {1e9 * took / 1000:.0f} ns a call")


if __name__ == "__main__":
    main()
