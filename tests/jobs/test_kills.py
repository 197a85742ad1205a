"""Runs that are killed by SIGKILL at random moments and resumed end with the bytes of a whole run."""

from __future__ import annotations

import os
import sys

import pytest

from checkout import ROOT

if not hasattr(os, "fork"):
    pytest.skip("runs are forked from a process that has compiled everything", allow_module_level=True)

sys.path.insert(0, str(ROOT / "benchmarks"))

from kills import kill_often


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adagrad", "auto", "ada-ffd", "many classes", "driver of a cluster"])
def test_killed_and_resumed_is_as_never_killed(kind: str) -> None:
    """``python benchmarks/kills.py --kills 200`` does it for every kind of learner."""
    assert kill_often(kind, 3) == 3
