"""Any bytes at all: rows and bad lines are those of the plain definitions; also unchecked reads and without the JIT."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkout import ROOT

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from fuzz_readers import OPTIONS, PIECES, fuzz, try_file  # noqa: E402


@pytest.mark.parametrize("form", OPTIONS)
@given(data=st.data())
def test_any_bytes(form, data):
    piece = st.sampled_from(PIECES[form]) | st.binary(max_size=3)
    lines = data.draw(st.lists(st.lists(piece, max_size=12).map(b"".join), min_size=1, max_size=4))
    try_file(form, [line.replace(b"\n", b"") for line in lines], random.Random(data.draw(st.integers(0, 99))))


def test_many_lines():
    assert fuzz(30_000, seed=7_000_000, report=lambda _: None) == 30_000


def run(lines: int, per_file: int, **environment: str) -> str:
    command = [sys.executable, str(BENCHMARKS / "fuzz_readers.py"), f"--lines={lines}", f"--per-file={per_file}"]
    path = os.pathsep.join([str(BENCHMARKS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    out = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path, **environment}, capture_output=True, text=True, check=False
    )
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.mark.slow
def test_without_the_jit():
    assert "2,000 lines: all rows" in run(2_000, 100, NUMBA_DISABLE_JIT="1")


@pytest.mark.slow
def test_with_bounds_checked(tmp_path):
    assert "10,000 lines: all rows" in run(10_000, 1000, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))


@pytest.mark.slow
def test_bounds_are_indeed_checked(tmp_path):
    """The check itself: one of the package's kernels that is given row ends beyond the values must be caught by it."""
    program = (
        "import numpy as np\nfrom onsketch.learners.rows import too_long\n"
        "assert too_long(np.array([0, 3]), np.zeros(3), 1.0) == -1\n"
        "try:\n    too_long(np.array([0, 4]), np.zeros(3), 1.0)\nexcept IndexError:\n    print('caught')\n"
    )
    script = tmp_path / "past.py"
    script.write_text(program)
    path = os.pathsep.join([str(BENCHMARKS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    out = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout == "caught\n"


def test_the_definitions_hash_as_published():
    """MurmurHash3's own test vectors."""
    from reference_readers import murmur

    assert murmur(b"", 0) == 0
    assert murmur(b"", 1) == 0x514E28B7
    assert murmur(b"test", 0) == 0xBA6BD213
    assert murmur(b"The quick brown fox jumps over the lazy dog", 0) == 0x2E4FF723
    assert np.uint32(murmur(b"\xff\xff\xff\xff", 0)) == 0x76293B50
