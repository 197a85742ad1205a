"""Changed model files, with a valid checksum, are refused or are models: no crash, no hang, no other exception."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.learners,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in children made by fork"),
]

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "fuzz_models.py"
KINDS = ["adagrad", "rfd-son", "ada-ffd", "oja-son", "kons rbf", "shared", "sketch FrequentDirections", "sketch Oja"]
CASES = 60
"""Of each kind; ``benchmarks/fuzz_models.py`` runs as many as one likes, over all kinds."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_refused_or_is_a_model(kind: str) -> None:
    spec = importlib.util.spec_from_file_location("fuzz_models", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    fuzz = sys.modules["fuzz_models"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    ((name, content),) = fuzz.contents(kind)
    found, faults = fuzz.run(name, content, range(CASES), files=False)
    assert not faults
    assert sum(found.values()) == CASES
    assert found["refused"] > CASES // 2
