"""Where bytes come from: compression, patterns, pipes, addresses; and messages about damage."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import zstandard

from onsketch.data import stream
from onsketch.data.sniff import by_content, by_name
from onsketch.errors import InputError, ReadError
from readers import blocks, together

LINES = b"".join(b"%d %d:%.6f 7:1\n" % (k % 2, k % 5, k / 7) for k in range(5000))

PACKERS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def same(parts, reference=LINES):
    X, y = together(parts)
    Z, labels = together(blocks(reference, format="libsvm"))
    np.testing.assert_array_equal(X, Z)
    np.testing.assert_array_equal(y, labels)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_files_of_any_name(tmp_path, kind):
    path = tmp_path / "rows"
    half = LINES.index(b"\n", 30_000) + 1
    pack = PACKERS[kind]
    path.write_bytes(pack(LINES))
    same(blocks(path))
    path.write_bytes(pack(LINES[:half]) + pack(LINES[half:]))  # two members, one after the other
    same(blocks(path))
    path.write_bytes(pack(b""))
    assert blocks(path) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", PACKERS)
def test_truncated_and_damaged_files(tmp_path, kind):
    rng = np.random.default_rng(0)
    lines = b"".join(b"1 3:%r\n" % v for v in rng.normal(size=20_000).tolist())
    packed = PACKERS[kind](lines)
    path = tmp_path / f"rows.svm.{kind}"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    reading = stream(path, block_rows=100)
    with pytest.raises(ReadError, match=f"the {kind} data ends too early: truncated") as caught:
        list(reading)
    rows = reading.position.rows
    assert caught.value.path == str(path)
    if kind != "bz2":  # which delivers nothing of a block it has not seen whole
        assert rows > 5000
    damaged = bytearray(packed)
    for k in range(len(packed) // 2, len(packed) // 2 + 40):
        damaged[k] ^= 0x5A
    path.write_bytes(damaged)
    with pytest.raises(ReadError, match=f"damaged {kind} data|:\\d+:|too early"):
        blocks(path)


@pytest.mark.slow
def test_patterns_and_lists(tmp_path):
    for k in range(3):
        (tmp_path / f"part{k}.svm").write_bytes(LINES)
    same(blocks(str(tmp_path / "part*.svm")), LINES * 3)
    same(blocks([tmp_path / "part0.svm", str(tmp_path / "part2.svm")]), LINES * 2)
    reading = stream(str(tmp_path / "part*.svm"))
    assert [os.path.basename(name) for name in reading.files] == ["part0.svm", "part1.svm", "part2.svm"]
    reading.close()
    (tmp_path / "odd[1].svm").write_bytes(LINES)
    same(blocks(tmp_path / "odd[1].svm"))
    with pytest.raises(InputError, match="no file matches"):
        stream(str(tmp_path / "nothing*.svm"))
    with pytest.raises(InputError, match="no such file"):
        stream(tmp_path / "nothing.svm")
    with pytest.raises(InputError, match="list is empty"):
        stream([])
    with pytest.raises(InputError, match=r"Is a directory|Permission denied"):
        blocks(tmp_path, format="libsvm")


@pytest.mark.slow
def test_remote_addresses():
    import fsspec

    files = fsspec.filesystem("memory")
    for k in range(2):
        files.pipe(f"/bucket/part{k}.svm.gz", gzip.compress(LINES))
    same(blocks("memory://bucket/part1.svm.gz"))
    same(blocks("memory://bucket/part*.svm.gz"), LINES * 2)
    with pytest.raises(InputError, match=r"memory://bucket/none\.svm"):
        blocks("memory://bucket/none.svm")
    with pytest.raises(InputError, match="no file matches"):
        blocks("memory://bucket/none*.svm")


PIPED = """
import sys
from onsketch.data import stream
reading = stream("-", **eval(sys.argv[1]))
print(reading.format, sum(len(block) for block in reading), reading.position.offset, reading.position.path)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", *PACKERS])
def test_standard_input(kind):
    data = PACKERS[kind](LINES) if kind else LINES
    out = subprocess.run([sys.executable, "-c", PIPED, "{}"], input=data, capture_output=True, check=True)
    assert out.stdout.decode() == f"libsvm 5000 {len(LINES)} standard input\n"


def test_a_slow_pipe_is_read_as_it_comes():
    """Blocks come while the other end is still open, and leaving early does not wait for it."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as source, os.fdopen(writer, "wb", buffering=0) as end:
        end.write(b"1 1:1\n-1 2:1\n1 3:1\n")
        reading = stream(source, block_rows=2)
        assert len(next(reading)) == 2
        start = time.monotonic()
        end.write(b"1 4:1\n")
        assert len(next(reading)) == 2
        reading.close()
        assert time.monotonic() - start < 30


def test_closing_early_ends_the_thread():
    before = threading.active_count()
    for _ in range(5):
        with stream(io.BytesIO(LINES * 20), block_rows=10) as reading:
            next(reading)
    assert threading.active_count() <= before


def test_reading_runs_ahead_of_the_reader():
    class Counting(io.BytesIO):
        taken = 0

        def read(self, size=-1):
            data = super().read(size)
            Counting.taken += len(data)
            return data

    source = Counting(LINES * 100)
    with stream(source, format="libsvm", block_rows=1000, block_bytes=1 << 30) as reading:
        next(reading)
        deadline = time.monotonic() + 20
        first = Counting.taken
        while Counting.taken <= first and time.monotonic() < deadline and first < len(LINES) * 100:
            time.sleep(0.01)
            next(reading)
        assert Counting.taken > first
        assert Counting.taken < len(LINES) * 100  # but not far ahead


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.svm", "libsvm"),
        ("a.LIBSVM.gz", "libsvm"),
        ("dir.csv/a.vw.zst", "vw"),
        ("a.tsv", "csv"),
        ("s3://bucket/a.parquet", "parquet"),
        ("a.feather", "arrow"),
        ("a9a", None),
        ("a9a.t.xz", None),
    ],
)
def test_format_by_name(name, form):
    assert by_name(name) == form


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b"1 1:2 3:4\n", "libsvm"),
        (b"# comment\n\n+1 qid:3 1:2 # x\n", "libsvm"),
        (b"-1\n", "libsvm"),
        (b"1 |a x:2\n", "vw"),
        (b"1 2 'tag|a x:2\n-1 | y\n", "vw"),
        (b"|a x\n", "vw"),
        (b"a,b\n1,2\n", "csv"),
        (b"a\tb\n1\t2\n", "csv"),
        (b"a|b|c\n1|2|3\n", "csv"),
        (b"PAR1....", "parquet"),
        (b"ARROW1..", "arrow"),
        (b"", "libsvm"),
    ],
)
def test_format_by_content(head, form):
    assert by_content("file", head) == form


def test_a_file_opened_as_text(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(LINES)
    with open(path) as file, pytest.raises(InputError, match='mode "rb"'):
        stream(file)


def test_errors_travel_between_processes():
    import pickle

    error = pickle.loads(pickle.dumps(ReadError("file", 3, 4, "why")))
    assert (str(error), error.line, error.column) == ("file:3:4: why", 3, 4)


def test_an_undetectable_format_is_refused():
    with pytest.raises(InputError, match="cannot detect the format"):
        stream(io.BytesIO(b"Dear reader\nthis is a letter\n"))
