"""A short run of the fuzzer: what is changed or odd is refused, or can be used."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from checkout import ROOT

if not hasattr(os, "fork"):
    pytest.skip("cases run in children made by fork", allow_module_level=True)

sys.path.insert(0, str(ROOT / "benchmarks"))

import fuzz_files
import fuzz_inputs
import fuzz_jobs
import fuzz_models
from fuzz_children import run

KINDS = {
    "adagrad": 60, "rfd-son": 60, "ada-ffd": 60, "oja-son": 60, "kons": 60, "shared": 60, "auto classes": 60,
    "auto sketched": 60, "auto classes sketched": 60, "named model": 60, "estimator of frames taken over": 60,
    "estimator of objects taken over": 60,
    "sketch FrequentDirections": 60, "sketch Oja": 60, "checkpoint of two classes": 30, "ledger of a cluster": 20,
    "file libsvm": 100, "file vw": 100, "file csv": 100, "file json": 100, "file gzip": 100, "file arrow file": 100,
    "file parquet snappy": 100, "rows for adagrad": 100, "rows for rfd-son": 100, "rows for sketch Oja": 100,
    "options": 300,
}  # fmt: skip
"""How many cases of which kinds; ``benchmarks/fuzz.py`` runs as many as one likes, of all kinds."""
TRIALS = {
    name: prepared for module in (fuzz_models, fuzz_jobs, fuzz_files, fuzz_inputs) for name, prepared in module.trials()
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_changed_is_refused_or_can_be_used(kind: str) -> None:
    if kind not in TRIALS:
        pytest.skip("its library is not installed")
    trial, _ = TRIALS[kind]()
    found, faults = run(kind, trial, range(KINDS[kind]))
    assert not faults
    assert found.total() == KINDS[kind]


def test_a_crash_and_a_foreign_exception_are_findings_and_the_run_continues() -> None:
    def trial(case: int) -> str:
        if case == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return "fine" if case != 2 else str(1 / 0)

    found, faults = run("example", trial, range(5))
    assert found == {"fine": 3, "FAULT SIGKILL": 1, "FAULT ZeroDivisionError": 1}
    assert ["case 1" in faults[0], "case 2" in faults[1]] == [True, True]
