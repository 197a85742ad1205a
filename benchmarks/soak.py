"""Long streams: memory stays constant, numbers stay finite, deferred updates equal immediate ones.

    python benchmarks/soak.py                          # 10^8 rows for adagrad, 10^7 for each sketch
    python benchmarks/soak.py --rows 1000000 --sketched 100000

Rows are short, with two to four of 2,000 features that appear and disappear, so that most features are absent most of
the time. On the first rows each sketched learner is compared with a twin whose features are all brought up to date
after every block. Both agree up to rounding. Some, such as fd-son, magnify rounding errors; a third learner, whose
values differ in the last digit, measures this effect.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import onsketch
from onsketch.jit.decorators import kernel
from onsketch.learners.sketched.epochs import bring_up_to_date
from onsketch.learners.sketched.packed import CLOCK, COLUMN

WIDTH, BLOCK = 2000, 20_000
SKETCHED = ("rfd-son", "fd-son", "pfd-son", "cfd-son", "oja-son", "rp-son", "ada-fd", "ada-ffd", "s-adagrad", "ada-gp")
TWIN_ROWS = 4_000


def block(number: int) -> tuple[Any, Any]:
    """Rows of the stream: the features in use drift through the width, and come back."""
    rng = np.random.default_rng(number)
    count = 3 * BLOCK
    indices = (rng.zipf(1.5, count) + 37 * number) % WIDTH
    X = csr_array((rng.normal(size=count), indices, np.arange(0, count + 1, 3)), shape=(BLOCK, WIDTH))
    truth = np.sin(np.arange(WIDTH))
    return X, np.sign(X @ truth + 0.1 * rng.normal(size=BLOCK))


def resident() -> float:
    """Megabytes of memory in use."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def soak(method: str, rows: int) -> None:
    """Learn this many rows, from repeated blocks, and print the results."""
    options: dict[str, Any] = {"loss": "logistic"} | ({} if method == "adagrad" else {"sketch_size": 5, "ridge": 1.0})
    learner, blocks = onsketch.learner(method, **options), [block(k) for k in range(50)]
    early, began = 0.0, time.monotonic()
    for k in range(max(1, rows // BLOCK)):
        said = learner.learn(*blocks[k % len(blocks)])
        assert np.isfinite(said).all(), f"{method}: a prediction after {learner.rounds:,} rows is not finite"
        if k == min(60, max(1, rows // BLOCK) // 2):
            early = resident()
    spent, late = time.monotonic() - began, resident()
    assert np.isfinite(learner.weights).all()
    assert learner.rounds == max(1, rows // BLOCK) * BLOCK
    growth = late - early if early else 0.0
    print(f"{method:10s} {learner.rounds:12,d} rows {spent:7.0f} s, memory {late:6.0f} MB, {growth:+.1f} MB", end="")
    assert growth < 20.0, f"{method}: memory grew by {growth:.0f} MB"
    if method != "adagrad":
        asleep, rounded = twins(method, options, *blocks[0])
        print(f", asleep or not: {asleep:.1e} apart (by the last digit: {rounded:.1e})", end="")
        assert asleep <= max(1e-9, 100.0 * rounded), f"{method}: sleeping features are others"
    print(flush=True)


@kernel
def _wake(table):  # type: ignore[no-untyped-def]
    """Bring every feature up to date."""
    scratch = np.empty(table.running.shape[2])
    epoch = table.clock[CLOCK.epoch]
    for slot in range(table.clock[CLOCK.seen]):
        if table.rows[slot, COLUMN.epoch] < epoch:
            bring_up_to_date(table.rows, slot, epoch, table.running, table.past, table.places, scratch)


def twins(method: str, options: dict[str, Any], X: Any, y: Any) -> tuple[float, float]:
    """Return the distance of predictions to those without deferred updates, and with rounded rows."""
    sleepy, awake, rounded = (onsketch.learner(method, **options) for _ in range(3))
    apart = np.zeros(2)
    for start in range(0, TWIN_ROWS, 100):
        part = slice(start, start + 100)
        said = sleepy.learn(X[part], y[part])
        others = awake.learn(X[part], y[part]), rounded.learn(X[part] * (1.0 + 2e-16), y[part])
        _wake(awake._table)  # type: ignore[attr-defined]
        apart = np.maximum(apart, [np.abs(said - other).max() for other in others])
    return float(apart[0]), float(apart[1])


def main() -> None:
    """Run every chosen learner."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e8, help="for adagrad, the fastest")
    parser.add_argument("--sketched", type=float, default=1e7, help="for each sketch")
    parser.add_argument("--only", default=None, help="one method")
    given = parser.parse_args()
    for method in ("adagrad", *SKETCHED):
        if given.only in (None, method):
            soak(method, int(given.rows if method == "adagrad" else given.sketched))


if __name__ == "__main__":
    main()
