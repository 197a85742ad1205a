"""Fuzz files of rows: every format, packed and plain, with bytes changed, read under many options.

What is read is rows: finite numbers in columns below the width, one label each; and the rest after a place is the rest.
What cannot be read is refused in the library's own words. Run by ``fuzz.py``; ``fuzz_readers.py`` compares lines with
the plain definitions of the formats.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from onsketch.data import stream
from onsketch.errors import OnsketchError
from onsketch.learners.rows import as_rows

from fuzz_children import Trial  # isort: skip

_rng = random.Random(5)
ROWS = [
    (_rng.choice((-1, 1)), [(_rng.randrange(1, 40), round(_rng.gauss(0, 1), 3)) for _ in range(_rng.randrange(5))])
    for _ in range(30)
]
LIBSVM = "".join(f"{y} " + " ".join(f"{i}:{v}" for i, v in row) + "\n" for y, row in ROWS).encode()
VW = "".join(f"{y} {1 + k % 3} 'tag{k}|a " + " ".join(f"f{i}:{v}" for i, v in row) + " |b:2 x y=3\n"
             for k, (y, row) in enumerate(ROWS)).encode()  # fmt: skip
TABLE = [
    {
        "label": y,
        "colour": _rng.choice(["red", "blue", "sea, green", None]),
        "size": v[0][1] if v else None,
        "n": len(v),
    }
    for y, v in ROWS
]
CSV = ("label,colour,size,n\n" + "".join(
    ",".join("" if v is None else f'"{v}"' if isinstance(v, str) else str(v) for v in row.values()) + "\n"
    for row in TABLE
)).encode()  # fmt: skip
JSON = "".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in TABLE).encode()

READING: dict[str, dict[str, list[Any]]] = {
    "libsvm": {"zero_based": [True, False, "auto"], "n_features": [None, None, 40], "bits": [None, None, 5, 62]},
    "vw": {"bits": [None, 1, 18, 62], "quadratic": [(), "ab", "::"], "cubic": [(), "aab"], "ignore": [(), "a"],
           "names": [False, True]},
    "table": {"label": ["label", "auto", None], "categorical": ["auto", (), ("colour",)], "interact": [(), "colour,n"],
              "missing": [None, "zero", "indicate", "error"], "everyday": [True, False], "bits": [None, 3],
              "unlabelled": [False, True], "weight": [None, None, "n"], "tag": [None, "colour"],
              "positive": [None, "1"]},
    "csv": {"delimiter": ["auto", ",", ";"], "header": ["auto", True, False], "decimal": ["auto", "."]},
    "json": {"label": ["label", "auto"], "everyday": [True, False], "tag": [None, "colour"]},
}  # fmt: skip
OPTIONS = {
    "libsvm": READING["libsvm"], "vw": READING["vw"], "csv": READING["table"] | READING["csv"], "json": READING["json"],
    "parquet": READING["table"], "arrow": READING["table"],
}  # fmt: skip
TOKENS = [
    b"", b"\0", b"\n", b"\r\n", b" ", b":", b"|", b",", b'"', b"{", b"}", b"[", b"null", b"nan", b"inf", b"1e999", b"-",
    b"18446744073709551616", b"9223372036854775807", b"-9223372036854775808", b"4294967296", b"1e-400", b"\xff\xfe",
    b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"#", b"'", b"\\u0000", b"\x1f\x8b", b"\x28\xb5\x2f\xfd",
]  # fmt: skip


def _arrow() -> dict[str, tuple[str, bytes]]:
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError:
        return {}
    table = pyarrow.Table.from_pylist(TABLE)
    worded = table.set_column(1, "colour", table["colour"].dictionary_encode())
    found = {}
    for name, packing in (("snappy", "snappy"), ("zstd", "zstd"), ("plain", "none")):
        file = io.BytesIO()
        parquet.write_table(worded if name == "zstd" else table, file, row_group_size=12, compression=packing)
        found[f"parquet {name}"] = "parquet", file.getvalue()
    for name, opened, packing in (
        ("file", ipc.new_file, None), ("packed", ipc.new_file, "zstd"), ("stream", ipc.new_stream, None)
    ):  # fmt: skip
        file = io.BytesIO()
        with opened(file, worded.schema, options=ipc.IpcWriteOptions(compression=packing)) as writer:
            writer.write_table(worded, max_chunksize=12)
        found[f"arrow {name}"] = "arrow", file.getvalue()
    return found


def _packed() -> dict[str, tuple[str, bytes]]:
    whole = LIBSVM * 40
    found = {"gzip": gzip.compress(whole), "xz": lzma.compress(whole), "bzip2": bz2.compress(whole)}
    with contextlib.suppress(ImportError):
        import zstandard

        found["zstd"] = zstandard.compress(whole)
    return {name: ("libsvm", data) for name, data in found.items()}


def files() -> dict[str, tuple[str, bytes]]:
    """A sound file of every kind, with its format."""
    plain = {"libsvm": ("libsvm", LIBSVM), "vw": ("vw", VW), "csv": ("csv", CSV), "json": ("json", JSON)}
    return plain | _packed() | _arrow()


def changed(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to eight changes."""
    text = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at, kind = rng.randrange(len(text) + 1), rng.randrange(9)
        upto = min(len(text), at + rng.choice((1, 2, 4, 8, 40)))
        if kind == 0 and at < len(text):
            text[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            text[at:upto] = rng.randbytes(upto - at)
        elif kind == 2:
            text[at:at] = rng.choice(TOKENS)
        elif kind == 3:
            text[at:upto] = rng.choice(TOKENS)
        elif kind == 4:
            del text[at:upto]
        elif kind == 5:
            text[at:at] = text[rng.randrange(len(text) + 1) :][: rng.choice((1, 8, 60, 400))]
        elif kind == 6:
            del text[rng.choice((at, max(at, len(text) - 9))) :]
        elif kind == 7:
            text[at:upto] = (
                rng.choice((0, 1, 127, 255, 2**15, 2**31 - 1, 2**63 - 1)) % 2 ** (8 * (upto - at))
            ).to_bytes(upto - at, rng.choice(("little", "big")))
        else:
            text[at:at] = rng.choice(TOKENS) * rng.choice((2, 50, 3000))
    return bytes(text)


def _case(form: str, data: bytes, case: int) -> tuple[bytes, dict[str, Any]]:
    rng = random.Random(case)
    options = {name: rng.choice(values) for name, values in OPTIONS[form].items() if rng.random() < 0.4}
    options |= {"block_rows": rng.choice((1, 7, 1000)), "on_error": rng.choice(("stop", "skip")), "prefetch": 0}
    if rng.random() < 0.9:
        options["format"] = form
    return changed(data, rng), options


def trial(form: str, data: bytes, case: int) -> str:
    """What came of a case."""
    new, options = _case(form, data, case)
    blocks = []
    try:
        with stream(io.BytesIO(new), **options) as reading:
            for block in reading:
                _check(block, options, reading.format == "vw")
                blocks.append(block)
    except OnsketchError as error:
        outcome = f"refused, {type(error).__name__}"
    else:
        outcome = "read"
    if blocks and outcome == "read":
        at = case % len(blocks)
        with stream(io.BytesIO(new), **options, resume=blocks[at].position) as reading:
            rest = sum(len(block) for block in reading)
        assert rest == sum(len(block) for block in blocks[at + 1 :]), "resumed, the rest differs"
    return outcome


def _check(block: Any, options: dict[str, Any], unlabelled: bool) -> None:
    rows = as_rows(block.X, None)
    assert rows.count == len(block) == len(block.y), "as many labels as rows"
    unlabelled = unlabelled or options.get("unlabelled") or options.get("label", 0) is None
    assert (np.isfinite(block.y) | (np.isnan(block.y) & unlabelled)).all(), "labels are finite"
    for more in (block.sample_weight, block.initial):
        assert more is None or np.isfinite(more).all()


def described(form: str, data: bytes, case: int) -> str:
    """What is read in a case."""
    new, options = _case(form, data, case)
    return f"{options} {new[:2000]!r}"


def trials() -> Iterator[tuple[str, Callable[[], tuple[Trial, Callable[[int], str]]]]]:
    """Return every kind of file by name, with functions that make its trial and describe a case."""
    for name, (form, data) in files().items():

        def prepared(form: str = form, data: bytes = data) -> tuple[Trial, Callable[[int], str]]:
            for case in range(40):  # compiles
                with contextlib.suppress(OnsketchError), stream(io.BytesIO(data), **_case(form, data, case)[1]) as rows:
                    list(rows)
            return partial(trial, form, data), partial(described, form, data)

        yield f"file {name}", prepared
