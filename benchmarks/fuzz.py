"""Fuzz all inputs: saved states, jobs' checkpoints, files of rows, rows from Python.

    python benchmarks/fuzz.py --minutes 10                    # or --cases 1000 of each kind
    python benchmarks/fuzz.py --only models --cases 5000      # models, jobs, files, inputs, names of kinds: with commas
    python benchmarks/fuzz.py --only "rfd-son" --case 4711    # one case again, in this process
    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(mktemp -d) python benchmarks/fuzz.py --minutes 10

A case must raise an error of the library, or its result must be usable: finite numbers, a model that can be saved and
read again. A crash, a hang (20 s), a non-finite number or any other exception is a fault. Faults are listed with the
number of their case, and the exit status is then 1. A number always gives the same case.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import Any

import fuzz_files
import fuzz_inputs
import fuzz_jobs
import fuzz_models
from fuzz_children import run

GROUPS = {"models": fuzz_models, "jobs": fuzz_jobs, "files": fuzz_files, "inputs": fuzz_inputs}
BATCH = 500
"""Cases of a kind before the next kind follows."""


def chosen(only: str | None) -> Iterator[tuple[str, str, Any]]:
    """Return group, name and maker of the chosen kinds."""
    for group, module in GROUPS.items():
        for name, prepared in module.trials():
            if only is None or {group, name} & set(only.split(",")):
                yield group, name, prepared


def main() -> None:
    """Run the chosen cases and print the faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=None, help="of each kind (1,000 where no time is given)")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", default=None, help="groups and kinds, with commas between")
    parser.add_argument("--case", type=int, default=None, help="this one alone, in this process")
    given = parser.parse_args()
    logging.disable()
    if given.case is not None:
        for _, name, prepared in chosen(given.only):
            trial, described = prepared()
            print(name, described(given.case), sep=": ")
            print(trial(given.case))
        return
    sys.exit(bool(sweep(given.only, given.seed, given.cases, given.minutes)))


def sweep(only: str | None, seed: int, cases: int | None, minutes: float | None) -> list[str]:
    """Try this many cases of each kind, or for this long, alternating kinds; return the faults."""
    cases = cases if cases is not None else (1000 if minutes is None else 1 << 60)
    began, totals, faults = time.monotonic(), {}, []
    ready: list[tuple[str, str, Any]] = []
    for start in itertools.count(0, BATCH):
        for group, name, prepared in chosen(only) if start == 0 else ready:
            spent = time.monotonic() - began
            if minutes is not None and spent > 60.0 * minutes:
                return told(totals, faults, spent)
            trial = prepared
            if start == 0:
                try:
                    trial, _ = prepared()
                except Exception:
                    faults.append(f"{name}: {traceback.format_exc()}")
                    print(f"\r{faults[-1]}", flush=True)
                    continue
                ready.append((group, name, trial))
            found, new = run(name, trial, range(seed + start, seed + min(start + BATCH, cases)))
            totals[group] = totals.get(group, Counter()) + found
            faults += new
            for fault in new:
                print(f"\r{fault:79s}", flush=True)
            done = sum(sum(counts.values()) for counts in totals.values())
            print(f"\r{done:,} cases, {len(faults)} faults, {spent:.0f} s, next: case {seed + start:,} of kinds after "
                  f"{name:28.28s}", end="", flush=True, file=sys.stderr)  # fmt: skip
        if start + BATCH >= cases:
            return told(totals, faults, time.monotonic() - began)
    raise AssertionError


def told(totals: dict[str, Counter[str]], faults: list[str], spent: float) -> list[str]:
    """Print what came of each group of kinds."""
    print()
    for group, counts in totals.items():
        outcomes = ", ".join(f"{what} {count:,}" for what, count in sorted(counts.items()))
        print(f"{group}: {sum(counts.values()):,} cases: {outcomes}")
    print(f"{sum(map(Counter.total, totals.values())):,} cases in {spent:.0f} s, {len(faults)} faults", flush=True)
    return faults


if __name__ == "__main__":
    main()
