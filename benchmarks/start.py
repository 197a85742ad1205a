"""Time until the first rows are learned, from a wheel with kernels and with the compiler.

    python benchmarks/start.py onsketch-…-py3-none-<platform>.whl

makes two environments, one with the wheel and no compiler, one with Numba and the checkout. It prints CPU seconds next
to those of Vowpal Wabbit, the best of several processes: "cold" is the first process in a fresh environment, which may
compile, "warm" a later one. From the wheel every method learns; with the compiler, which takes up to half a minute
each, some of them. Then it prints the disk space of both environments, by package if large, and the size of machine
code. Measurements never run in parallel.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
METHODS = ("adagrad", "rfd-son", "auto", "ons", "pros-n-kons")
LEARN = """
import numpy as np, onsketch
X = np.random.default_rng(0).normal(size=(50, 30))
loss = "squared_hinge" if {name!r} == "arow" else "logistic"
onsketch.learner({name!r}, loss=loss).learn(X, np.sign(X[:, 0]))
"""
SPEED = """
import time, numpy as np, onsketch
X = np.random.default_rng(0).normal(size=(500, 30))
y = np.sign(X[:, 0])
for name in {names!r}:
    learner = onsketch.learner(name, loss="logistic")
    learner.learn(X[:100], y[:100])
    best = float("inf")
    for _ in range(9):
        start = time.process_time()
        learner.fork().learn(X, y)
        best = min(best, time.process_time() - start)
    print(name, best)
"""


def seconds(command, repeat=1, **environment):
    """CPU seconds of the quickest of some runs of a command."""
    best = float("inf")
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=ENVIRONMENT | environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NUMBA", "ONSKETCH"))}
ENVIRONMENT |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def megabytes(folder):
    """What a folder takes on the disk, without Python's bytecode."""
    du = ["du", "-sk", "--exclude=__pycache__", folder]
    told = subprocess.run(du, capture_output=True, text=True, check=True).stdout.split()
    return int(told[0]) / 1e3 if told else 0.0


def main(wheel):
    """Make the environments, and measure."""
    with tempfile.TemporaryDirectory() as scratch:
        ways = {"wheel": wheel, "compiler": str(CHECKOUT)}
        for way, what in ways.items():
            subprocess.run([sys.executable, "-m", "venv", f"{scratch}/{way}"], check=True)
            pip = [f"{scratch}/{way}/bin/python", "-m", "pip", "install", "-q", what]
            subprocess.run(pip, check=True, env=ENVIRONMENT)
        sizes = {way: megabytes(f"{scratch}/{way}/lib") for way in ways}
        Path(scratch, "row.svm").write_text("1 1:0.5 3:1\n")
        print(f"{'seconds of CPU':28} {'cold':>8} {'warm':>8}")
        listing = [f"{scratch}/wheel/bin/python", "-c", "import onsketch; print(*onsketch.methods())"]
        every = subprocess.run(listing, capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout.split()
        for name in every:
            for way in ways if name in METHODS else ("wheel",):
                learn = [f"{scratch}/{way}/bin/python", "-c", LEARN.format(name=name)]
                print(
                    f"{'first learn of ' + name:28} {seconds(learn):8.2f} {seconds(learn, 7):8.2f}  {way}", flush=True
                )
        for way in ways:
            train = [f"{scratch}/{way}/bin/onsketch", "train", f"{scratch}/row.svm"]
            print(f"{'onsketch train, one row':28} {seconds(train):8.2f} {seconds(train, 7):8.2f}  {way}", flush=True)
        Path(scratch, "row.vw").write_text("1 | a:0.5 b:1\n")
        peer = [
            sys.executable,
            "-m",
            "vowpalwabbit",
            "--quiet",
            "--loss_function",
            "logistic",
            "-d",
            f"{scratch}/row.vw",
        ]
        for what, command in {
            "VW, one row": peer,
            "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
        }.items():
            print(f"{what:28} {'':8} {seconds(command, 7):8.2f}", flush=True)
        for way, size in sizes.items():
            parts = {path.name: megabytes(path) for path in Path(scratch, way, "lib").glob("python*/site-packages/*")}
            large = ", ".join(f"{name} {part:.0f}" for name, part in parts.items() if part > 4)
            print(f"installed, without bytecode: {size:.0f} MB  {way} ({large})")
        told = {}
        for way in ways:
            speed = [f"{scratch}/{way}/bin/python", "-c", SPEED.format(names=METHODS)]
            lines = subprocess.run(
                speed, capture_output=True, text=True, check=True, env=ENVIRONMENT
            ).stdout.splitlines()
            told[way] = {name: float(taken) for name, taken in map(str.split, lines)}
        for name, taken in told["compiler"].items():
            print(f"learning by {name}: the library has {taken / told['wheel'][name]:.2f} of the compiler's speed")


if __name__ == "__main__":
    main(sys.argv[1])
