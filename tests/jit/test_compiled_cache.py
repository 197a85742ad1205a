"""The cache of compiled kernels cannot lie: whatever a kernel is made of is part of its stamp."""

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

from checkout import SOURCES
from onsketch.jit.calling import Bound, form_of
from onsketch.jit.decorators import allocating_kernel, exact_kernel, inner, inner_function, kernel
from onsketch.jit.machine_code import object_file
from onsketch.jit.stamp import stamp_of
from onsketch.learners.sketched import driver, parts
from onsketch.learners.sketched.frequent_directions import Directions
from onsketch.learners.sketched.oja import Subspace

PACKAGE = SOURCES / "onsketch"
ASK = "from onsketch.core.losses import loss_values; print(loss_values('squared', [3.0], [1.0])[0])"


def answer(tree: Path, cache: Path) -> float:
    # Lines of a tree that is gone when the tests have ended are not to be counted.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    own = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(cache), "ONSKETCH_KERNELS": "jit"}
    command = [sys.executable, "-B", "-c", ASK]
    return float(subprocess.run(command, env=inherited | own, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_a_changed_callee_invalidates_the_cache(tmp_path):
    """The kernel's own function stays as it was; what it calls changes."""
    tree, cache = tmp_path / "tree", tmp_path / "cache"
    shutil.copytree(PACKAGE, tree / "onsketch", ignore=shutil.ignore_patterns("__pycache__"))
    assert answer(tree, cache) == 4.0
    kept = {path.name for path in cache.rglob("*.o")}
    assert kept
    assert answer(tree, cache) == 4.0
    assert {path.name for path in cache.rglob("*.o")} == kept  # nothing was compiled the second time
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


@kernel
def _outer(x):
    return _callee(x) + len("message")


@pytest.mark.parametrize(("name", "value"), [("FACTOR", 3.0), ("TABLE", np.array([1.0, 5.0]))])
def test_constants_of_callees_count(monkeypatch, name, value):
    before = stamp_of(_outer.py_func)
    assert stamp_of(_outer.py_func) == before
    monkeypatch.setitem(globals(), name, value)
    assert stamp_of(_outer.py_func) != before


def test_options_of_compilation_count():
    plain, fast = inner_function()(lambda x: x), inner_function(fastmath=True)(lambda x: x)
    assert stamp_of(plain) != stamp_of(fast)


def test_only_the_parts_of_the_sketch_in_use_count(monkeypatch):
    """A change of Oja's algorithm leaves the compiled kernels of frequent directions as they are."""

    def stamp(state):
        return stamp_of(driver.learn_rows, (form_of(state(*[np.zeros(1)] * len(state._fields))),))

    before = stamp(Directions), stamp(Subspace)
    monkeypatch.setitem(parts._parts["absorb"], Subspace, _callee)
    assert stamp(Directions) == before[0]
    assert stamp(Subspace) != before[1]


def test_without_a_folder_to_write_to_kernels_run_uncached(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(blocked))

    @kernel
    def plus(x):
        return x + 1.0

    assert plus(1.0) == 2.0
    assert blocked.read_text() == "not a folder"


def test_a_truncated_cache_file_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    _, _, whole = object_file(_outer, ("f8",))
    (file,) = tmp_path.rglob("*.o")
    file.write_bytes(file.read_bytes()[:-10])
    assert object_file(_outer, ("f8",))[2] == whole


@allocating_kernel
def _sums(pair, wanted, table, flag):
    first, second = pair
    total = np.zeros(3)
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            total[j % 3] += table[i, j] * first[j]
    return total[0] + total[1] + total[2], wanted + second, not flag


def test_arguments_arrive_and_results_come_back_as_python_has_them():
    first, table = np.arange(4.0), np.arange(8.0).reshape(2, 4)
    assert _sums((first, 3), 2**40, table, True) == (_sums.py_func((first, 3), 2**40, table, True))
    found = _sums((first, 3), 2**40, table, np.True_)
    assert [type(part) for part in found] == [float, int, bool]
    assert _sums((first, 3), 5, table[:, ::2][:, [0, 1, 0, 1]], False)[1:] == (8, True)
    apart = np.arange(16.0).reshape(4, 4)[::2]  # not contiguous
    assert _sums((first, 3), 5, apart, False) == _sums.py_func((first, 3), 5, apart, False)
    single = table.astype(np.float32)
    assert _sums((first, 3), 5, single, False) == _sums.py_func((first, 3), 5, single, False)


def test_a_bound_kernel_sees_what_state_and_arguments_are_now():
    """Other states, and arrays of another type, shape or order, are noticed; numbers in place are read anew."""
    bound, rng = Bound(_sums), np.random.default_rng(0)
    first, table = rng.normal(size=4), rng.normal(size=(2, 4))
    pair = first, 3
    for one, other in ((pair, table), (pair, table.astype(np.float32)), (pair, np.asfortranarray(table)),
                       ((first + 1.0, 4), table), (pair, rng.normal(size=(5, 4)))):  # fmt: skip
        assert bound((one,), 1, other, True) == _sums(one, 1, other, True)
    first *= 2.0
    assert bound((pair,), 1, table, True) == _sums(pair, 1, table, True)
    again = pickle.loads(pickle.dumps(bound))
    assert again((pair,), 1, table, True) == bound((pair,), 1, table, True)


class _Table(NamedTuple):
    rows: np.ndarray
    step: np.float32


@exact_kernel  # without fused multiply-adds, so that the bits are the same on every processor
def _descend(table, places, values, scale):
    moved = np.float32(0.0)
    for i in range(places.size):
        row = places[i]
        for j in range(table.rows.shape[1]):
            before = table.rows[row, j]
            table.rows[row, j] -= table.step * values[i] / (np.float32(1.0) + before * before) * scale
            moved += abs(table.rows[row, j] - before)
    return moved, table.rows[0, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_of_both_widths_come_to_the_same_bits_as_by_numba_itself(dtype):
    """Arrays and numbers of float32, alone and in a named tuple, are neither widened nor rounded on their way."""
    itself = numba.njit(**_descend.targetoptions)(_descend.py_func)
    rng = np.random.default_rng(0)
    rows, values = rng.normal(size=(5, 7)).astype(dtype), rng.normal(size=20).astype(dtype)
    places = rng.integers(0, 5, size=20).astype(np.int32)
    one, other = _Table(rows.copy(), dtype(0.1)), _Table(rows.copy(), dtype(0.1))
    for scale in (0.3, np.float32(0.3)):
        assert _descend(one, places, values, scale) == itself(other, places, values, scale)
        assert (one.rows == other.rows).all()


def test_an_argument_of_another_class_is_compiled_for_not_misread():
    table = np.arange(8.0).reshape(2, 4)
    for pair in ((np.arange(4.0), 3), (np.arange(4.0), 3.5), (np.arange(4.0), np.float32(0.5)), (np.arange(4), True)):
        for wanted in (1, 1.5, np.int8(1), 2):
            for flag in (True, False, np.True_):
                assert _sums(pair, wanted, table, flag) == _sums.py_func(pair, wanted, table, flag)


def test_what_compiled_code_cannot_take_is_refused():
    for wrong in ("word", None, np.zeros(3, dtype=">f8"), np.zeros(2, dtype=complex)):
        with pytest.raises(TypeError, match="compiled code takes no"):
            _outer(wrong)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
@pytest.mark.parametrize("shared", ["folder", "file"])
def test_what_other_users_can_change_is_not_loaded(tmp_path, monkeypatch, shared):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new" / "cache"))
    before = os.umask(0)
    try:
        kept = object_file(_outer, (form_of(1.0),))
    finally:
        os.umask(before)
    (file,) = tmp_path.rglob("*.o")
    assert not any(
        path.stat().st_mode & 0o022 for path in (file, *file.parents) if path != tmp_path and tmp_path in path.parents
    )
    poisoned = b"poison"
    file.write_bytes(f"{hashlib.sha256(poisoned).hexdigest()} {kept[1]}\n".encode() + poisoned)
    assert object_file(_outer, (form_of(1.0),))[2] == poisoned  # with the right checksum its owner is believed
    monkeypatch.setattr("onsketch.jit.machine_code._warned", False)
    (file if shared == "file" else file.parent).chmod(0o777)
    with pytest.warns(RuntimeWarning, match="other users can change it"):
        assert object_file(_outer, (form_of(1.0),)) == kept
