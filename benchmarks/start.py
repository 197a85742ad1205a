"""How long it takes until something has been learned: cold and warm, beside Vowpal Wabbit, in one run.

    python benchmarks/start.py [LIBRARY]

LIBRARY is a folder made by kernels/build.py; with it the same is measured without any compiler. Seconds of CPU, the
best of a few processes; "cold" has an empty cache and one process.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
METHODS = ("adagrad", "rfd-son", "auto")
LEARN = """
import numpy as np, onsketch
X = np.random.default_rng(0).normal(size=(50, 30))
onsketch.learner({name!r}, loss="logistic").learn(X, np.sign(X[:, 0]))
"""


def seconds(command, environment, repeat):
    """CPU seconds of the quickest of some runs of a command."""
    best = float("inf")
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=os.environ | environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def main():
    library = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "row.svm")
        rows.write_text("1 1:0.5 3:1\n")
        program = [sys.executable, "-c", "from onsketch.cli import main; main()", "train", str(rows)]
        ways = {"compiler": {"ONSKETCH_KERNELS": "jit", "NUMBA_CACHE_DIR": str(Path(folder, "cache"))}}
        if library:
            ways["library"] = {"ONSKETCH_KERNELS": "library", "ONSKETCH_KERNEL_FOLDER": str(library)}
        commands = {f"first learn of {name}": [sys.executable, "-c", LEARN.format(name=name)] for name in METHODS}
        commands["onsketch train, one row"] = program
        print(f"{'':28} {'cold':>8} {'warm':>8}")
        for what, command in commands.items():
            for way, environment in ways.items():
                environment = {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"} | environment
                cold, warm = seconds(command, environment, 1), seconds(command, environment, 5)
                print(f"{what:28} {cold:8.2f} {warm:8.2f}  {way}", flush=True)
        lines = Path(folder, "row.vw")
        lines.write_text("1 | a:0.5 b:1\n")
        peer = [sys.executable, "-m", "vowpalwabbit", "--quiet", "--loss_function", "logistic", "-d", str(lines)]
        print(f"{'VW, one row':28} {'':8} {seconds(peer, {}, 5):8.2f}")


if __name__ == "__main__":
    main()
