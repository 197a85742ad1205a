"""Throw random lines at the readers and compare with the plain definitions: rows bit for bit, and every bad line.

    python benchmarks/fuzz_readers.py --lines 2000000
    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(mktemp -d) python benchmarks/fuzz_readers.py --lines 1000000
    NUMBA_DISABLE_JIT=1 python benchmarks/fuzz_readers.py --lines 2000

Lines are drawn from the alphabet of each format, from valid lines damaged here and there, and from plain noise. A
thousand of them make a file, which is read in blocks, stretches and positions of random sizes.
"""

from __future__ import annotations

import argparse
import io
import random
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import numpy as np

import reference_readers as reference
from onsketch.data import stream
from onsketch.data.sources import _MAGIC, Bytes

COMPRESSED = tuple(_MAGIC)
PIECES = {
    "libsvm": [b" ", b" ", b":", b"1", b"7", b"12:", b"3:1", b"#", b"qid:", b"qid:4", b"\t", b"\r", b",", b"0:", b"-1"],
    "vw": [b" ", b" ", b"|", b"|a", b"|b:2", b":", b"x", b"y:1", b"42", b"'t", b"1", b"-1", b"\t", b"\r", b"|:"],
    "csv": [b",", b",", b",", b'"', b'""', b" ", b"1", b"2.5", b"NA", b"?", b"word", b"\t", b"\r", b"null", b"-3e2"],
}
PIECES["mixed"] = PIECES["csv"]


def a_number(rng: random.Random) -> bytes:
    """Return a number in a random notation; sometimes an invalid one."""
    kind = rng.randrange(10)
    if kind < 3:
        return b"%d" % rng.randrange(-20, 20)
    if kind == 3:
        return repr(struct.unpack("d", rng.randbytes(8))[0]).encode()
    if kind == 4:
        return repr(rng.gauss(0, 1)).encode()
    if kind == 5:
        return b"%.*e" % (rng.randrange(30), rng.gauss(0, 1) * 10.0 ** rng.randrange(-300, 300))
    if kind == 6:
        digits = bytes(rng.choices(b"0123456789", k=rng.randrange(40)))
        return digits + b"." * rng.randrange(2) + bytes(rng.choices(b"0123456789", k=rng.randrange(40)))
    if kind == 7:
        return b"%de%d" % (rng.randrange(2**64), rng.randrange(-345, 310))
    if kind == 8:
        return rng.choice([b"nan", b"inf", b"-Infinity", b"+", b".", b"1e", b"1e+", b"-.5", b"5.", b"0x1", b"1e999"])
    return bytes(rng.choices(b"0123456789+-.eE", k=rng.randrange(8)))


def a_valid_line(form: str, rng: random.Random) -> bytes:
    """A line that is mostly valid."""
    count = rng.randrange(6)
    if form == "libsvm":
        indices = [rng.randrange(10 ** rng.randrange(1, 20)) for _ in range(count)]
        return b" ".join([a_number(rng), *(b"%d:%s" % (index, a_number(rng)) for index in indices)])
    if form == "vw":
        head = rng.choice([b"", b"1 ", b"-1 2 ", b"1 0.5 0.25 ", b"1 'tag", b"1 'tag ", b"1 t", b"1 2 3 'u "])
        line = head
        for _ in range(rng.randrange(1, 4)):
            line += rng.choice([b"| ", b"|a ", b"|bc:2 ", b"|7 ", b"|a:%s " % a_number(rng)])
            for _ in range(count):
                name = rng.choice([b"x", b"feature", b"17", b"007", b"", b"\xc3\xa9t\xc3\xa9", b"a_long_name"])
                value = rng.choice([b"", b":1", b":" + a_number(rng), b":red", b":india", b":"])
                line += name + value + b" "
        return line
    words = [a_number(rng) for _ in range(4)]
    if form == "mixed":
        words[1] = rng.choice([b"red", b'"a,b"', b'"say ""x"""', b"", b"NA", b"12", b"x y"])
    return b",".join(words)


def a_line(form: str, rng: random.Random) -> bytes:
    """A line to try, without its newline."""
    kind = rng.randrange(6)
    if kind == 0:
        line = b"".join(rng.choices(PIECES[form], k=rng.randrange(12)))
    elif kind == 1:
        line = rng.randbytes(rng.randrange(12))
    else:
        line = a_valid_line(form, rng)
        for _ in range(rng.randrange(3) if kind == 2 else 0):
            at = rng.randrange(len(line) + 1)
            damage = rng.choice([b"", rng.choice(PIECES[form]), rng.randbytes(1)])
            line = line[:at] + damage + line[at + rng.randrange(2) :]
    return line.replace(b"\n", b"")


def rows_of(block: Any) -> list[list[tuple[int, float]]]:
    """The entries of each row, in order."""
    X = block.X
    if isinstance(X, np.ndarray):
        return [list(enumerate(row)) for row in X.tolist()]
    cut = X.indptr.tolist()
    entries = list(zip(X.indices.tolist(), X.data.tolist(), strict=True))
    return [entries[a:b] for a, b in zip(cut[:-1], cut[1:], strict=True)]


def expected(form: str, line: bytes) -> Any:
    """What a line holds by definition, in the shape of ``found``."""
    if form == "libsvm":
        row = reference.libsvm(line)
        return row if row in (None, reference.BAD) else (row[0], row[1], row[2])
    if form == "vw":
        row = reference.vw(line)
        return row if row in (None, reference.BAD) else (*row[:3], row[3].decode("utf-8", "replace"), row[4])
    if form == "csv":
        row = reference.dense_csv(line, 4, zero=True)
        return row if row in (None, reference.BAD) else (row[0], list(enumerate(row[1])))
    return reference.mixed_csv(line, [b"label", b"w", b"u", b"v"])


def found(form: str, block: Any) -> list[Any]:
    """What a block holds, one entry per row."""
    n, rows, y = len(block), rows_of(block), block.y.tolist()
    if form == "libsvm":
        groups = [-1] * n if block.groups is None else block.groups.tolist()
        return list(zip(y, groups, rows, strict=True))
    if form == "vw":
        weights = [1.0] * n if block.sample_weight is None else block.sample_weight.tolist()
        initial = [0.0] * n if block.initial is None else block.initial.tolist()
        return list(zip(y, weights, initial, block.tags or [""] * n, rows, strict=True))
    return list(zip(y, rows, strict=True))


OPTIONS: dict[str, dict[str, Any]] = {
    "libsvm": {},
    "vw": {},
    "csv": {"label": 0, "missing": "zero", "header": True, "categorical": (), "delimiter": ","},
    "mixed": {"label": 0, "missing": "zero", "header": True, "categorical": ("w",), "delimiter": ","},
}


def try_file(form: str, lines: list[bytes], rng: random.Random) -> None:
    """Read these lines as one file in blocks of random sizes; raise AssertionError where it differs."""
    header = {"csv": b"label,a,b,c\n", "mixed": b"label,w,u,v\n"}.get(form, b"")
    ends = [rng.choice([b"\n", b"\n", b"\r\n"]) for _ in lines]
    data = header + b"".join(line + end for line, end in zip(lines, ends, strict=True))
    if rng.random() < 0.5:
        data = data[:-1]
    if data.startswith(COMPRESSED):  # and is read as what it begins like: no text
        return
    if form in ("csv", "mixed"):
        lines = reference.records(data[len(header) :])
    wanted = [row for row in (expected(form, line) for line in lines) if row is not None]
    good = [row for row in wanted if row != reference.BAD]
    options = {**OPTIONS[form], "format": "csv" if form == "mixed" else form, "on_error": "skip", "prefetch": 0}
    sizes = {"block_rows": rng.choice([1, 7, 100, 5000]), "block_bytes": rng.choice([1, 50, 1000, 1 << 20])}
    Bytes.chunk = rng.choice([1, 3, 17, 1000] if len(data) < 3000 else [999, 1 << 18])
    blocks = []
    reading = stream(io.BytesIO(data), **options, **sizes)
    for block in reading:
        blocks.append(block)
    rows = [row for block in blocks for row in found(form, block)]
    for k, (row, want) in enumerate(zip(rows, good, strict=False)):
        assert repr(row) == repr(want), f"{form}: row {k} is {row!r}, by definition {want!r}"
    assert len(rows) == len(good), f"{form}: {len(rows)} rows, by definition {len(good)}"
    bad = len(wanted) - len(good)
    assert reading.skipped == bad, f"{form}: {reading.skipped} bad lines, by definition {bad}"
    if blocks:  # the rest after a random block is the rest
        stop = rng.randrange(len(blocks))
        rest = stream(io.BytesIO(data), **options, resume=blocks[stop].position)
        again = [row for block in rest for row in found(form, block)]
        start = sum(len(block) for block in blocks[: stop + 1])
        assert repr(again) == repr(rows[start:]), f"{form}: resumed after block {stop}, the rest differs"
        assert rest.skipped == reading.skipped, f"{form}: resumed after block {stop}, skipped lines differ"


def fuzz(lines: int, seed: int, per_file: int = 1000, report: Callable[[str], None] = print) -> int:
    """Try this many lines, split among the formats; return the number tried."""
    default = Bytes.chunk
    done, start, told = 0, time.monotonic(), 0.0
    try:
        while done < lines:
            rng = random.Random(seed)
            form = list(OPTIONS)[seed % len(OPTIONS)]
            size = rng.choice([1, 3, 10, per_file, per_file])
            batch = [a_line(form, rng) for _ in range(min(size, lines - done))]
            try:
                try_file(form, batch, rng)
            except Exception as error:
                raise AssertionError(f"seed {seed}, {form}: {error}") from error
            done += len(batch)
            seed += 1
            if time.monotonic() - start > told + 10:
                told = time.monotonic() - start
                report(f"{done:,} lines, {told:.0f} s, next seed {seed}")
    finally:
        Bytes.chunk = default
    return done


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-file", type=int, default=1000)
    given = parser.parse_args()
    np.seterr(over="ignore")  # without the JIT, NumPy's own scalars warn where machine words wrap around
    print(f"{fuzz(given.lines, given.seed, given.per_file):,} lines: all rows and all bad lines as defined")
