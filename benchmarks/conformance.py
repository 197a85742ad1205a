"""Readers on public conformance suites: how many files are equal, refused, differ, or end the process.

    python benchmarks/conformance.py FOLDER

The suites are looked for below FOLDER, each in a checkout of its own name:

- ``vowpal_wabbit``: the lines of ``test/train-sets``, compared with the definition in ``tests/support``;
- ``csv-spectrum`` and ``Rdatasets``: CSV files, compared with Python's ``csv`` cell by cell;
- ``parquet-testing`` and ``arrow-testing``: Parquet and Arrow files, whose number of rows is that of pyarrow's reader;
- ``JSONTestSuite``: documents; invalid ones must be refused.

Every file is read in a child process. "equal": as the oracle. "refused": one sentence, as the oracle refuses it or the
library does not support it. "accepted": read though the oracle refuses it. "DIFFERS" and "FAULT" name the file.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import fuzz_children
import numpy as np

import reference_readers as reference
from onsketch.data import stream
from onsketch.errors import OnsketchError

Oracle = Callable[[Path], Any]
"""What a file holds; an exception if it cannot be read."""


def _plain(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def vw_lines(path: Path) -> Any:
    """Label, weight and features of each line, by the definition."""
    rows = [row for line in _plain(path).splitlines() if (row := reference.vw(line)) is not None]
    if reference.BAD in rows:
        raise ValueError("a bad line")
    return [(str(row[0]), row[1], sorted(row[4])) for row in rows]


def our_vw_lines(path: Path) -> Any:
    """The same by the reader."""
    found = []
    with stream(path, "vw") as blocks:
        for block in blocks:
            weights = np.ones(len(block)) if block.sample_weight is None else block.sample_weight
            parts = [zip(*entries, strict=True) for entries in _rows(block.X)]
            found += [(str(y), w, sorted(p)) for y, w, p in zip(block.y.tolist(), weights.tolist(), parts, strict=True)]
    return found


def _rows(X: Any) -> Iterator[tuple[list[int], list[float]]]:
    for first, last in zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True):
        yield X.indices[first:last].tolist(), X.data[first:last].tolist()


def csv_cells(path: Path) -> Any:
    """Names and cells, by Python's ``csv``; empty lines are no rows."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        names, *rows = (row for row in csv.reader(file) if row)
    if any(len(row) != len(names) for row in rows):
        raise ValueError("rows of several lengths")
    return [list(map(str.strip, column)) for column in zip(*rows, strict=True)] or [[] for _ in names]


def our_csv_cells(path: Path) -> Any:
    """The same by the reader."""
    found: list[list[str]] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        count = max((len(row) for row in csv.reader(file)), default=0)
    places, reading = tuple(range(count)), {"label": None, "everyday": True, "header": True, "delimiter": ","}
    with stream(path, "csv", columns=places, **reading) as blocks:
        for block in blocks:
            found = found or [[] for _ in places]
            for column, cells in zip(found, block.columns.values(), strict=True):
                column += map(str.strip, cells)
    return found or [[] for _ in places]


def rows_of_parquet(path: Path) -> int:
    """Rows, by pyarrow."""
    from pyarrow.parquet import read_table

    return int(read_table(path).num_rows)


def rows_of_arrow(path: Path) -> int:
    """Rows, by pyarrow."""
    from pyarrow import ipc

    source = path.open("rb")
    reader = ipc.open_stream(source) if path.suffix == ".stream" else ipc.open_file(source)
    return int(reader.read_all().num_rows)


def our_rows(path: Path) -> int:
    """The same by the reader."""
    form = "parquet" if path.suffix == ".parquet" else "arrow"
    with stream(path, form, label=None, everyday=True) as blocks:
        return sum(map(len, blocks))


def invalid_json(path: Path) -> Any:
    """Refuse what the suite says is invalid (n_), and what is no object."""
    if path.name.startswith("n_") or not isinstance(json.loads(path.read_bytes()), dict):
        raise ValueError("no object")


def our_json(path: Path) -> Any:
    """Read a document as one row."""
    import io

    with stream(io.BytesIO(path.read_bytes().replace(b"\n", b" ") + b"\n"), "json", label=None) as blocks:
        if not sum(map(len, blocks)):
            raise ValueError("no row")


SUITES: dict[str, tuple[str, Oracle, Oracle]] = {
    "vowpal_wabbit": ("test/train-sets/*.dat*", vw_lines, our_vw_lines),
    "csv-spectrum": ("csvs/*.csv", csv_cells, our_csv_cells),
    "Rdatasets": ("csv/**/*.csv", csv_cells, our_csv_cells),
    "parquet-testing": ("**/*.parquet", rows_of_parquet, our_rows),
    "arrow-testing": ("data/**/*.parquet", rows_of_parquet, our_rows),
    "arrow-testing (Arrow)": ("data/arrow-ipc-stream/**/*.[as][rt][re]*", rows_of_arrow, our_rows),
    "JSONTestSuite": ("test_parsing/*.json", invalid_json, our_json),
}
"""Files of each suite, what they hold, and the reader."""


def compare(path: Path, oracle: Oracle, reader: Oracle) -> str:
    """Return the outcome of one file; raise where the reader differs."""
    try:
        wanted, refused = oracle(path), False
    except Exception:
        wanted, refused = None, True
    try:
        found = reader(path)
    except (OnsketchError, ValueError):
        return "refused by both" if refused else "refused by the reader"
    if refused:
        return "accepted"
    if found != wanted:
        raise AssertionError(f"differs: {path}")
    return "equal"


def main() -> None:
    """Compare all suites that are there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, (pattern, oracle, reader) in SUITES.items():
        roots = [
            path for path in (folder, *folder.rglob(name.partition(" ")[0])) if path.name == name.partition(" ")[0]
        ]
        files = sorted(path for path in (roots[0].glob(pattern) if roots else ()) if path.is_file())
        if not files:
            print(f"{name}: not there")
            continue
        counts, faults = fuzz_children.run(name, lambda k: compare(files[k], oracle, reader), range(len(files)))  # noqa: B023
        print(f"{name}, {len(files):,} files: " + ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items())))
        for fault in faults:
            case = int(fault.partition(", case ")[2].partition(":")[0])
            print(f"  {files[case]}: {fault.partition(': ')[2]}")


if __name__ == "__main__":
    main()
