"""Blocks: their boundaries depend on the text alone, their positions resume exactly, and memory stays flat."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onsketch.data import Position, stream
from onsketch.errors import InputError, ReadError
from readers import blocks, together

LINES = b"".join(
    b"# note\n" if k % 11 == 5 else b"%d %s\n" % (k % 2, b" ".join(b"%d:%d" % (j, j + k) for j in range(k % 7)))
    for k in range(400)
)


class Dripping(io.RawIOBase):
    """A file that gives its bytes in pieces of random sizes, as a pipe would."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes, self._at, self._turn = data, sizes, 0, 0

    def read(self, size: int = -1) -> bytes:
        self._turn += 1
        size = min(size, self._sizes[self._turn % len(self._sizes)])
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=5), st.integers(1, 60), st.integers(1, 900))
def test_boundaries_do_not_depend_on_how_bytes_arrive(sizes, block_rows, block_bytes):
    options = {"format": "libsvm", "block_rows": block_rows, "block_bytes": block_bytes, "prefetch": 0}
    calm = blocks(LINES, **options)
    hasty = blocks(Dripping(LINES, sizes), **options)
    assert [(len(part), part.position.offset, part.position.checksum) for part in calm] == [
        (len(part), part.position.offset, part.position.checksum) for part in hasty
    ]
    np.testing.assert_array_equal(together(calm)[0], together(hasty)[0])


def test_a_block_ends_with_its_rows_or_its_bytes():
    parts = blocks(LINES, format="libsvm", block_rows=50, block_bytes=300)
    starts = [0] + [part.position.offset for part in parts]
    for part, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        lines = LINES[start:stop].splitlines(keepends=True)
        assert len(part) == sum(not line.startswith(b"#") for line in lines) <= 50
        assert len(b"".join(lines[:-1])) < 300


@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_resuming_continues_with_the_next_row(tmp_path, packed):
    import gzip
    import lzma

    path = tmp_path / f"rows.svm{packed}"
    data = LINES.replace(b"1 0:0\n", b"1 0:oops\n", 1).removesuffix(b"\n")
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[packed](data))
    options = {"block_rows": 30, "on_error": "skip"}
    reading = stream([path, path], **options)
    parts = list(reading)
    X, y = together(parts)
    done = 0
    for part in parts:
        done += len(part)
        assert part.position.rows == done
        position = Position.from_json(part.position.to_json())
        again = stream([path, path], **options, resume=position)
        rest = list(again)
        assert again.position == reading.position
        assert again.skipped == reading.skipped
        if rest:
            np.testing.assert_array_equal(together(rest)[0], X[done:])
            np.testing.assert_array_equal(together(rest)[1], y[done:])
        else:
            assert done == len(y)


def test_resuming_a_stream_with_words_knows_its_columns(tmp_path):
    (tmp_path / "1.csv").write_text("y,word,x\n1,a,2\n0,b,3\n")
    (tmp_path / "2.csv").write_text("y,word,x\n1,7,5\n0,b,6\n")  # here the first row's word looks like a number
    parts = blocks(str(tmp_path / "*.csv"), block_rows=1)
    for k, part in enumerate(parts):
        rest = blocks(str(tmp_path / "*.csv"), block_rows=1, resume=part.position)
        assert [r.X.indices.tolist() for r in rest] == [r.X.indices.tolist() for r in parts[k + 1 :]]


RESUMED = """
import sys
from onsketch.data import Position, stream
rest = stream("-", format="libsvm", resume=Position.from_json(sys.argv[1]))
print(sum(len(block) for block in rest), rest.position.rows)
"""


@pytest.mark.slow
def test_resuming_standard_input_takes_the_same_bytes_again():
    position = blocks(LINES, format="libsvm", block_rows=100)[1].position.to_json()
    command = [sys.executable, "-c", RESUMED, position]
    out = subprocess.run(command, input=LINES, capture_output=True, check=True)
    rows = sum(len(part) for part in blocks(LINES, format="libsvm"))
    assert out.stdout.decode() == f"{rows - 200} {rows}\n"
    other = subprocess.run(command, input=LINES[::-1], capture_output=True, check=False)
    assert b"cannot resume: the text up to this line is not the one read before" in other.stderr
    short = subprocess.run(command, input=LINES[:100], capture_output=True, check=False)
    assert b"cannot resume: it has 100 bytes" in short.stderr


def test_a_changed_file_is_not_resumed(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(LINES)
    position = blocks(path, block_rows=100)[0].position
    path.write_bytes(b"1 1:1\n" + LINES)
    with pytest.raises(ReadError, match="cannot resume"):
        blocks(path, resume=position)
    path.write_bytes(LINES[:200])
    with pytest.raises(ReadError, match="cannot resume"):
        blocks(path, resume=position)
    with pytest.raises(InputError, match="files are missing"):
        blocks(path, resume=Position(file=3))


@pytest.mark.parametrize("text", ["", "{}x", '{"offset": -1}', '{"offset": "a"}', '{"strange": 1}', "[]", "null", "3"])
def test_what_is_no_position(text):
    with pytest.raises(InputError, match="not a position"):
        Position.from_json(text)


def test_line_ends():
    for data in (b"1 1:1\r\n-1 2:1\r\n", b"1 1:1\n-1 2:1", b"\n\n1 1:1\n \n-1 2:1\n\n", b"\xef\xbb\xbf1 1:1\n-1 2:1\n"):
        (block,) = blocks(data, format="libsvm")
        assert block.y.tolist() == [1, -1]
        assert block.X.indices.tolist() == [1, 2]
    assert blocks(b"", format="libsvm") == []
    assert blocks(b"\n# nothing\n", format="libsvm") == []


def test_a_line_longer_than_many_chunks():
    words = b" ".join(b"%d:1" % k for k in range(200_000))
    (block,) = blocks(b"1 " + words + b"\n-1 3:1\n", format="libsvm", block_bytes=1 << 30)
    assert block.X.indptr.tolist() == [0, 200_000, 200_001]
    np.testing.assert_array_equal(block.X.indices[:-1], np.arange(200_000))


MEMORY = """
import resource, sys
from onsketch.data import stream
class Endless:
    def __init__(self, line, size): self.line, self.left = line * 4000, size
    def read(self, size=-1):
        data = self.line[: min(size, self.left)]
        self.left -= len(data)
        return data
def peak(size):
    source = Endless(b"1 3:0.25 17:1 99:-1.5e-3\\n", size)
    rows = sum(len(block) for block in stream(source, format="libsvm"))
    return rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small = peak(20_000_000)
large = peak(int(sys.argv[1]))
print(large[0], large[1] - small[1])
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream():
    pytest.importorskip("resource")
    size = int(os.environ.get("ONSKETCH_STREAM_BYTES", "300_000_000"))
    out = subprocess.run([sys.executable, "-c", MEMORY, str(size)], capture_output=True, check=True, text=True)
    rows, growth = map(int, out.stdout.split())
    assert rows >= size // 26
    assert growth < 20_000  # kilobytes
