"""Speed of reading, in megabytes per CPU second: onsketch, ``vw --noop``, scikit-learn and pandas on the same rows.

    python benchmarks/reading.py [--rows 300000] [--repeats 3] [--json FILE]

Engines alternate in one run and the best pass of each counts. CPU time is user and system time of all threads, for
Vowpal Wabbit that of the child process less that of reading an empty file (starting Python and loading the library).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from measure import Engine, Report, Timing, cpu_seconds, limit, race

from onsketch.data import a9a_like, stream, text_like, write

TARGET = 2.0
"""How many times faster than ``vw --noop`` parsing is to be."""


def ours(path: Path, **options) -> Callable[[], float]:
    """All blocks of a file; a first pass over a few rows compiles."""
    with stream(path, block_rows=10, **options) as blocks:
        next(blocks)

    def read() -> None:
        for _ in stream(path, **options):
            pass

    return lambda: cpu_seconds(read)


def vw(path: Path, empty: Path) -> Callable[[], float]:
    """``vw --noop``: parsing and nothing else."""

    def child(file: Path) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "vowpalwabbit", "--noop", "--quiet", "-d", str(file)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    start = min(child(empty) for _ in range(3))
    return lambda: child(path) - start


def scikit_learn(path: Path) -> Callable[[], float]:
    """scikit-learn's loader of LIBSVM files."""
    from sklearn.datasets import load_svmlight_file

    return lambda: cpu_seconds(partial(load_svmlight_file, str(path), zero_based=True))


def pandas(path: Path) -> Callable[[], float]:
    """pandas with its C parser, in pieces, each made an array as ours are."""
    import pandas as module

    def read() -> None:
        for part in module.read_csv(path, chunksize=16_384, dtype=np.float64):
            part.to_numpy()

    return lambda: cpu_seconds(read)


def make_files(folder: Path, rows: int) -> dict[str, dict[str, Path]]:
    """The same rows in several formats: short rows of indicators, long ones of decimals, and a dense table."""
    short, labels = a9a_like(n=rows)
    long, long_labels = text_like(n=max(1, rows // 12))
    long.sort_indices()  # scikit-learn reads no others
    rng = np.random.default_rng(0)
    table = rng.normal(size=(max(1, rows // 6), 30)).round(4)
    files: dict[str, dict[str, Path]] = {}
    for name, X, y, suffixes in (
        ("short rows, indicators", short, labels, ("svm", "vw")),
        ("long rows, decimals", long, long_labels, ("svm", "vw")),
        ("a table of 30 columns", table, np.sign(table[:, 0]), ("csv", "parquet")),
    ):
        files[name] = {}
        for suffix in suffixes:
            files[name][suffix] = folder / f"{name.split()[0]}.{suffix}"
            write(files[name][suffix], X, y)
    words = folder / "words.vw"
    text = files["short rows, indicators"]["vw"].read_text()
    words.write_text(
        "".join(line.replace("| ", "|a ").replace(" ", " word") for line in text.splitlines(keepends=True))
    )
    words.write_text(words.read_text().replace(" word|a", " |a"))
    files["short rows, words"] = {"vw": words}
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = folder / "empty.vw"
        empty.write_text("")
        for kind, paths in make_files(folder, given.rows).items():
            size = {suffix: path.stat().st_size for suffix, path in paths.items()}
            engines = []
            for suffix, path in paths.items():
                # The figures are per byte: an engine's "rows" are the bytes of its file.
                engines.append(Engine(f"onsketch, {suffix}", "", size[suffix], partial(ours, path)))
                if suffix == "vw":
                    engines.append(Engine("vw --noop, vw", "", size[suffix], partial(vw, path, empty)))
                elif suffix == "svm":
                    engines.append(Engine("scikit-learn, svm", "", size[suffix], partial(scikit_learn, path)))
                elif suffix == "csv":
                    engines.append(Engine("pandas, csv", "", size[suffix], partial(pandas, path)))
            times = race(engines, given.repeats)
            rival = times.get("vw --noop, vw")
            rows = [_line(engine, times[engine.name], rival) for engine in engines]
            title = f"{kind}: " + ", ".join(f"{suffix} {bytes_ / 1e6:.0f} MB" for suffix, bytes_ in size.items())
            report.table("reading", title, ("reader", "MB/s", "times vw --noop", "target"), rows)
    if given.json:
        given.json.write_text(json.dumps(report.records, indent=1))


def _line(engine: Engine, time: Timing, rival: Timing | None) -> tuple[str, float | str | None, float | None, str]:
    if not time.micros:
        return engine.name, time.why, None, ""
    times = rival.micros / time.micros if rival is not None and rival.micros else None
    wanted = engine.name.startswith("onsketch") and times is not None
    return engine.name, 1.0 / time.micros, times, limit(times, TARGET, at_least=True) if wanted else ""


if __name__ == "__main__":
    main()
