"""The cache of compiled kernels cannot lie: whatever a kernel is made of is part of its stamp."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from onsketch.jit.cache import cached
from onsketch.jit.decorators import inner
from onsketch.jit.stamp import stamp_of
from onsketch.learners.sketched import driver, parts
from onsketch.learners.sketched.frequent_directions import Directions
from onsketch.learners.sketched.oja import Subspace

SOURCES = Path(__file__).resolve().parents[1] / "src" / "onsketch"
ASK = "from onsketch.core.losses import loss_values; print(loss_values('squared', [3.0], [1.0])[0])"


def answer(tree: Path, cache: Path) -> float:
    environment = os.environ | {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)


def test_a_changed_callee_is_seen_through_a_warm_cache(tmp_path):
    """The kernel's own function stays as it was; what it calls changes."""
    tree, cache = tmp_path / "tree", tmp_path / "cache"
    shutil.copytree(SOURCES, tree / "onsketch", ignore=shutil.ignore_patterns("__pycache__"))
    assert answer(tree, cache) == 4.0
    kept = {path.name for path in cache.rglob("*.nbc")}
    assert kept
    assert answer(tree, cache) == 4.0
    assert {path.name for path in cache.rglob("*.nbc")} == kept  # nothing was compiled the second time
    losses = tree / "onsketch" / "core" / "losses.py"
    losses.write_text(losses.read_text().replace("return (z - y) * (z - y)", "return 1000.0 * (z - y)"))
    assert answer(tree, cache) == 2000.0


FACTOR = 2.0
TABLE = np.array([1.0, 2.0])


@inner
def _middle(x):
    return FACTOR * x + TABLE[1]


@inner
def _callee(x):
    return _middle(x)


@cached()
def _outer(x):
    return _callee(x) + len("message")


@pytest.mark.parametrize(("name", "value"), [("FACTOR", 3.0), ("TABLE", np.array([1.0, 5.0]))])
def test_constants_of_callees_count(monkeypatch, name, value):
    before = stamp_of(_outer.py_func)
    assert stamp_of(_outer.py_func) == before
    monkeypatch.setitem(globals(), name, value)
    assert stamp_of(_outer.py_func) != before


def test_options_of_compilation_count():
    plain, fast = numba.njit(lambda x: x), numba.njit(fastmath=True)(lambda x: x)
    assert stamp_of(plain) != stamp_of(fast)


def test_only_the_parts_of_the_sketch_in_use_count(monkeypatch):
    """A change of Oja's algorithm leaves the compiled kernels of frequent directions as they are."""

    def stamp(state):
        kind = numba.types.NamedTuple([numba.float64[::1]] * len(state._fields), state)
        return stamp_of(driver.learn_rows.py_func, (kind,))

    before = stamp(Directions), stamp(Subspace)
    monkeypatch.setitem(parts._parts["absorb"], Subspace, _callee)
    assert stamp(Directions) == before[0]
    assert stamp(Subspace) != before[1]


def test_without_a_folder_to_write_to_kernels_run_uncached(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(blocked))
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])

    @cached()
    def plus(x):
        return x + 1.0

    assert plus(1.0) == 2.0
    assert plus._cache.cache_path == ""
