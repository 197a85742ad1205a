"""Small files that would become large in memory are refused, by the name of the option that says so."""

from __future__ import annotations

import gzip
import io
import lzma
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onsketch.data import stream
from onsketch.errors import InputError, OnsketchError, OptionError, ReadError
from program import run

zstandard = pytest.importorskip("zstandard")

LEAST = 1 << 18


def rows_of(data: bytes, **options: Any) -> int:
    """How many rows there are."""
    with stream(io.BytesIO(data), options.pop("format", "libsvm"), prefetch=0, **options) as blocks:
        return sum(len(block) for block in blocks)


def zeros(packing: str, mebibytes: int) -> bytes:
    """So many MiB without an end of line, packed."""
    if packing == "gz":
        return gzip.compress(bytes(mebibytes << 20), 1)
    if packing == "xz":
        return lzma.compress(bytes(mebibytes << 20), preset=0)
    packed = zstandard.ZstdCompressor(level=1).compressobj()
    piece = bytes(1 << 20)
    return b"".join([packed.compress(piece) for _ in range(mebibytes)]) + packed.flush()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize(("packing", "size"), [("gz", 192), ("xz", 192), ("zst", 512)])
def test_a_bomb_is_refused_within_bounded_memory(packing: str, size: int, tmp_path: Path) -> None:
    path = tmp_path / f"bomb.svm.{packing}"
    path.write_bytes(zeros(packing, size))
    assert path.stat().st_size < 3 << 20
    code = f"""
        import resource
        from onsketch.data import stream
        from onsketch.errors import ReadError
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            for block in stream({str(path)!r}, prefetch=0, max_line_bytes={8 << 20}):
                pass
        except ReadError as error:
            print("refused" if "max_line_bytes" in str(error) else error)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300, check=True
    )
    said, grown = done.stdout.split()
    assert said == "refused"
    assert int(grown) < 120  # MiB


def test_the_memory_to_unpack_is_limited() -> None:
    window = zstandard.ZstdCompressionParameters.from_level(1, window_log=28)
    packed = zstandard.ZstdCompressor(compression_params=window).compressobj()
    data = packed.compress(b"1 1:1\n" * 10) + packed.flush()
    with pytest.raises(ReadError, match="max_unpack_bytes=134217728"):
        rows_of(data)
    assert rows_of(data, max_unpack_bytes=1 << 28) == 10
    data = lzma.compress(b"1 1:1\n" * 10, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}])
    with pytest.raises(ReadError, match="max_unpack_bytes"):
        rows_of(data)
    assert rows_of(data, max_unpack_bytes=1 << 30) == 10


@pytest.mark.slow
def test_frames_and_streams_follow_each_other() -> None:
    one = b"".join(b"%d 1:%d\n" % (k, k) for k in range(1, 3000))
    for pack in (zstandard.ZstdCompressor().compress, lzma.compress, gzip.compress):
        assert rows_of(pack(one) + pack(one)) == 2 * 2999
        assert rows_of(pack(one) + pack(b"") + pack(one)) == 2 * 2999
        with pytest.raises(ReadError, match="too early"):
            rows_of(pack(one)[:-40])


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 1, 200_000])
def test_a_line_may_be_as_long_as_said_and_no_longer(before: int) -> None:
    opening = b"1 1:1\n" * before
    assert rows_of(opening + b"1 1:1 #" + b"x" * (LEAST - 7) + b"\n", max_line_bytes=LEAST) == before + 1
    for ending in (b"\n", b"", b"\n1 2:1\n"):
        with pytest.raises(ReadError, match=f"max_line_bytes={LEAST}") as refused:
            rows_of(opening + b"1 1:1 #" + b"x" * (LEAST - 6) + ending, max_line_bytes=LEAST)
        assert refused.value.line == before + 1


def vw_line(letters: str, each: int) -> bytes:
    return b"1 " + b" ".join(b"|%c " % ord(a) + b" ".join(b"%d" % k for k in range(each)) for a in letters) + b"\n"


@pytest.mark.parametrize("options", [{"quadratic": "aa"}, {"cubic": "aaa"}, {"quadratic": "::"}])
def test_a_row_may_make_so_many_products(options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="max_products=1048576"):
        rows_of(vw_line("a", 10_000), format="vw", **options)
    assert rows_of(vw_line("a", 20), format="vw", max_products=1540, **options) == 1
    with pytest.raises(InputError, match="max_products=200"):
        rows_of(vw_line("a", 20), format="vw", max_products=200, **options)


@pytest.mark.slow
def test_looking_for_products_that_are_not_there_ends() -> None:
    with pytest.raises(InputError, match="max_products"):
        rows_of(vw_line("ac", 200_000), format="vw", quadratic="ab")


def test_a_block_may_make_64_times_the_products_of_a_row() -> None:
    data = vw_line("a", 4) * 65  # ten products a row
    assert rows_of(vw_line("a", 4) * 64, format="vw", quadratic="aa", max_products=10) == 64
    with pytest.raises(InputError, match="block_rows"):
        rows_of(data, format="vw", quadratic="aa", max_products=10)
    assert rows_of(data, format="vw", quadratic="aa", max_products=10, block_rows=40) == 65


@pytest.mark.parametrize("name", ["max_line_bytes", "max_unpack_bytes", "max_products"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True, None])
def test_limits_are_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=name):
        rows_of(b"1 1:1\n", **{name: value})


def test_the_program_takes_limits_and_models_do_not_keep_them(tmp_path: Path) -> None:
    data, model = tmp_path / "rows.vw", tmp_path / "m.model"
    data.write_bytes(b"1 |a x y\n-1 |a y z\n" * 20)
    tight, wide = ["-q", "aa", "--max-products", "2"], ["-q", "aa", "--max-products", "2000000"]
    refused = run("train", data, *tight)
    assert refused.exit_code != 0
    assert "--max-products 2" in refused.output + refused.stderr
    assert run("train", data, *wide, "--save", model).exit_code == 0
    data.write_bytes(b"1 |a " + b" ".join(b"%d" % k for k in range(1600)) + b"\n")
    assert run("predict", model, data).exit_code != 0
    assert run("predict", model, data, "--max-products", 2000000).exit_code == 0


def test_limits_change_nothing_else() -> None:
    rng = np.random.default_rng(1)
    data = b"".join(b"1 " + b" ".join(b"%d:%d" % (k, k) for k in sorted(rng.choice(9, 3))) + b"\n" for _ in range(500))
    packed = zstandard.ZstdCompressor().compress(data)
    with stream(io.BytesIO(data), "libsvm") as plain, stream(io.BytesIO(packed), "libsvm") as unpacked:
        for one, other in zip(plain, unpacked, strict=True):
            assert (one.X != other.X).nnz == 0
    assert issubclass(ReadError, OnsketchError)
