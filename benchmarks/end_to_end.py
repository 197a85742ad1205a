"""CPU seconds from a text file to a saved model, compared with Vowpal Wabbit, for whole processes in one run.

    python benchmarks/end_to_end.py [--rows 1000000] [--repeats 3] [--memory]

Both programs read the same VW file of short rows (the a9a-like stream, about 14 features a row), learn in one pass and
save a model; the cost of an empty file (starting Python, loading libraries and cached kernels) is shown next to it
and not subtracted. ``--memory`` instead sends a stream of 2 GB through a pipe and watches the peak memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has been compiled to bytecode

import numpy as np
from engines import _vw_lines

from onsketch.data import a9a_like

OURS = [sys.executable, "-c", "from onsketch.cli import main; main()", "train"]
VW = [sys.executable, "-m", "vowpalwabbit", "--quiet", "--loss_function", "logistic", "-b", "18", "--noconstant"]

RACES = (
    ("adagrad", ["-l", "adagrad"], "default", []),
    (
        "oja-son, m = 10",
        ["-l", "oja-son", "--sketch-size", "10"],
        "--OjaNewton",
        ["--OjaNewton", "--sketch_size", "10"],
    ),
)


def cpu(command: list[str]) -> float:
    """User and system seconds of a process and its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def speed(rows: int, repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, empty = Path(folder) / "rows.vw", Path(folder) / "empty.vw"
        X, y = a9a_like(100_000, seed=1)
        text = "\n".join(_vw_lines(X, y)) + "\n"
        with path.open("w") as file:
            for _ in range(max(rows // 100_000, 1)):
                file.write(text)
        empty.write_text(text.split("\n", 1)[0] + "\n")
        print(f"{rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        model = str(Path(folder) / "model")
        for ours, our_options, theirs, their_options in RACES:
            left = [*OURS, "--quiet", "--bits", "18", "--save", model, *our_options]
            right = [*VW, "-f", model, *their_options]
            cpu([*left, str(empty)])  # compiles
            times = {"ours": [], "VW": []}
            for _ in range(repeats):
                times["ours"].append(cpu([*left, str(path)]))
                times["VW"].append(cpu([*right, "-d", str(path)]))
            start = [
                min(cpu(command) for _ in range(3)) for command in ([*left, str(empty)], [*right, "-d", str(empty)])
            ]
            best, peer = min(times["ours"]), min(times["VW"])
            print(f"{ours:16s} {best:7.2f} s (an empty file: {start[0]:.2f})")
            print(f"VW {theirs:13s} {peer:7.2f} s (an empty file: {start[1]:.2f})")
            net = (peer - start[1]) / (best - start[0])
            print(f"{'':16s} VW takes {peer / best:.2f} times as long in all, {net:.2f} times without the start")


def memory(gigabytes: float) -> None:
    X, y = a9a_like(100_000, seed=1)
    text = ("\n".join(_vw_lines(X, y)) + "\n").encode()
    process = subprocess.Popen(
        [*OURS, "-", "--format", "vw", "-l", "oja-son", "--sketch-size", "10", "--quiet"], stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    sent, marks = 0, iter(np.linspace(0.1, 1.0, 10) * gigabytes * 1e9)
    mark = next(marks)
    while sent < gigabytes * 1e9:
        process.stdin.write(text)
        sent += len(text)
        if sent >= mark:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
            print(f"{sent / 1e9:6.2f} GB sent, peak memory {int(peak) / 1e3:7.1f} MB", flush=True)
            mark = next(marks, np.inf)
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    given = parser.parse_args()
    memory(given.gigabytes) if given.memory else speed(given.rows, given.repeats)
