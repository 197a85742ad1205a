"""Kill runs by SIGKILL at random moments, resume them, and compare the bytes with those of uninterrupted runs.

    python benchmarks/kills.py --kills 200

It alternates all kinds of runs: ``onsketch train`` with a checkpoint, predictions and a model; the driver of a
cluster; estimators that save themselves regularly. A run is a separate process, forked from one that has imported
and compiled everything, so that a kill arrives during the work and not at the start.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROWS = 4000
EVERY = 200
"""Rows between two checkpoints."""


def _write_rows() -> None:
    rng = random.Random(7)
    with Path("two.svm").open("w") as two, Path("many.svm").open("w") as many:
        for _ in range(ROWS):
            row = f"{rng.randrange(40)}:1 {rng.randrange(40, 90)}:{rng.random():.3f}\n"
            two.write(f"{rng.choice((-1, 1))} {row}")
            many.write(f"{rng.randrange(4)} {row}")
    lines = Path("two.svm").read_text().splitlines(keepends=True)
    for k in range(4):
        Path(f"shard{k}.svm").write_text("".join(lines[k::4]))


def _program(*arguments: str) -> Callable[[], None]:
    def run() -> None:
        from onsketch.cli import main

        sys.argv = ["onsketch", *arguments]
        main()

    return run


def _train(*options: str, rows: str = "two.svm") -> Callable[[], None]:
    keeping = ("--checkpoint", "checkpoint", "--every", str(EVERY), "--resume")
    writing = ("--save", "model", "--predictions", "predictions")
    return _program("train", rows, "--block-rows", str(EVERY), *keeping, *writing, *options)


def _estimator(made: Callable[[], object], learn: Callable[[object, int], None]) -> Callable[[], None]:
    """Train an estimator that is saved regularly, with the number of its last row in the file's name."""

    def run() -> None:
        import onsketch

        there = sorted(Path().glob("saved.*"), key=lambda path: int(path.suffix[1:]))
        start = int(there[-1].suffix[1:]) if there else 0
        thing = onsketch.load(there[-1]) if there else made()
        for row in range(start, ROWS // 4):
            learn(thing, row)
            if (row + 1) % 50 == 0:
                thing.save(f"saved.{row + 1}")  # type: ignore[attr-defined]
        thing.save("model")  # type: ignore[attr-defined]

    return run


def _row(k: int) -> dict[str, float]:
    rng = np.random.default_rng(k)
    return {f"f{i}": float(v) for i, v in zip(rng.integers(30, size=4), rng.normal(size=4), strict=True)}


def _river() -> Callable[[], None]:
    from onsketch.river import OnlineClassifier

    return _estimator(OnlineClassifier, lambda thing, k: thing.learn_one(_row(k), bool(k % 3)))  # type: ignore[attr-defined]


def _pca() -> Callable[[], None]:
    from onsketch.sklearn import SketchedPCA

    rows = np.random.default_rng(0).normal(size=(ROWS, 12))
    return _estimator(lambda: SketchedPCA(n_components=3), lambda thing, k: thing.partial_fit(rows[k : k + 1]))  # type: ignore[attr-defined]


KINDS: dict[str, Callable[[], Callable[[], None]]] = {
    "adagrad": lambda: _train("-l", "adagrad"),
    "ftrl, two passes, held out": lambda: _train("-l", "ftrl", "--passes", "2", "--holdout", "5"),
    "auto": lambda: _train("-l", "auto"),
    "rfd-son": lambda: _train("-l", "rfd-son"),
    "oja-son": lambda: _train("-l", "oja-son"),
    "rp-son": lambda: _train("-l", "rp-son"),
    "ada-fd": lambda: _train("-l", "ada-fd"),
    "ada-ffd": lambda: _train("-l", "ada-ffd"),
    "s-adagrad": lambda: _train("-l", "s-adagrad"),
    "ons": lambda: _train("-l", "ons"),
    "ada-full": lambda: _train("-l", "ada-full"),
    "kernel (pros-n-kons)": lambda: _train("-l", "pros-n-kons"),
    "many classes": lambda: _train("-l", "auto", rows="many.svm"),
    "many classes one by one": lambda: _train("-l", "rfd-son", rows="many.svm"),
    "driver of a cluster": lambda: _program(
        "train", "--cluster", "none", "shard*.svm", "-l", "rfd-son", "--block-rows", "100", "--sync", "2",
        "--checkpoint", "checkpoint", "--resume", "--every", "0", "--save", "model",
    ),
    "River": _river,
    "PCA": _pca,
}  # fmt: skip


def _start(run: Callable[[], None], folder: Path) -> int:
    """A process that does the run in a folder."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.chdir(folder)
        with Path("told").open("w") as told:
            os.dup2(told.fileno(), 1)
            os.dup2(told.fileno(), 2)
            try:
                run()
                status = 0
            except SystemExit as left:
                status = int(left.code or 0)
    finally:
        os._exit(status)


def _wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _ended(folder: Path) -> dict[str, bytes]:
    """The bytes of what a run leaves."""
    return {name: (folder / name).read_bytes() for name in ("model", "predictions") if (folder / name).exists()}


def kill_often(kind: str, kills: int, seed: int = 0) -> int:
    """Kill runs of this kind this many times; raise if one ends with other bytes. Return the number of runs killed."""
    rng, met = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        rows = Path("rows")
        rows.mkdir()
        with contextlib.chdir(rows):
            _write_rows()
        run = KINDS[kind]()
        for name in ("warm", "whole"):
            shutil.copytree(rows, name)
        with contextlib.ExitStack() as quiet:
            quiet.enter_context(contextlib.chdir("warm"))
            quiet.enter_context(contextlib.suppress(SystemExit))
            told = quiet.enter_context(Path("told").open("w"))
            quiet.enter_context(contextlib.redirect_stdout(told))
            quiet.enter_context(contextlib.redirect_stderr(told))
            run()  # compiles, in this process
        began = time.monotonic()
        child = _start(run, Path("whole"))
        assert _wait(child) == 0, Path("whole/told").read_text()
        lasts, whole = time.monotonic() - began, _ended(Path("whole"))
        assert "model" in whole
        for trial in itertools.count():
            if met == kills:
                break
            folder = Path(f"killed{trial}")
            shutil.copytree(rows, folder)
            status = -signal.SIGKILL
            while status == -signal.SIGKILL:
                child = _start(run, folder)
                if met < kills:
                    time.sleep(lasts * rng.random() * 0.9)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                status = _wait(child)
                met += status == -signal.SIGKILL
            assert status == 0, (folder / "told").read_text()
            assert _ended(folder) == whole, f"{kind}: other bytes after {met} kills"
            left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
            assert not left, f"{kind}: {left} are left"
    return met


def main() -> None:
    """Kill runs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=None, help="one kind")
    given = parser.parse_args()
    kinds = [given.only] if given.only else list(KINDS)
    done = 0
    for k, kind in enumerate(kinds):
        share = (given.kills - done + len(kinds) - k - 1) // (len(kinds) - k)
        met = kill_often(kind, share, given.seed)
        done += met
        print(f"{kind:28s} {met:4d} kills, the same bytes", flush=True)
    print(f"{done} kills, all resumed to the same bytes")


if __name__ == "__main__":
    main()
