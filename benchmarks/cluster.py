"""Sharded training against one stream: what it costs in accuracy, in time and in bytes.

    python benchmarks/cluster.py accuracy --data FOLDER [--picture FILE.svg]
    python benchmarks/cluster.py speed --rows 10000000
    python benchmarks/cluster.py merging

``accuracy`` runs the cluster's own tasks in this process (the engine decides no bit of the outcome) and compares the
model with one stream over the same rows, with the plain mean of the shards' weights, and with the mean of Vowpal
Wabbit's allreduce (each weight by its sum of squared gradients). ``speed`` compares Ray with one and two workers with
one plain process, one thread each, reading included. ``merging`` gives the CPU time of a merge (best
of 3) and weighs what it sends.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

import onsketch
from onsketch.cluster import LocalEngine, fit
from onsketch.core.losses import loss_values
from onsketch.data import stream
from onsketch.files.model_file import build
from onsketch.jobs.cluster.tasks import snapshot
from onsketch.jobs.training import Plan, Training

SHARDS = (1, 4, 16, 64)
BLOCK = 256
SCHEDULES: dict[str, dict[str, int]] = {
    "once": {},
    f"each {BLOCK} rows": {"sync": 1},
    "waves of 4": {"together": 4},
    "both": {"together": 4, "sync": 1},
}
LEARNERS: dict[str, dict[str, Any]] = {
    "rfd-son": {"method": "rfd-son", "sketch_size": 10, "clip": 10.0, "curvature": 0.1},
    "rfd-son, curvature rows": {"method": "rfd-son", "sketch_size": 10, "clip": None, "summary": "curvature"},
    "oja-son": {"method": "oja-son", "sketch_size": 10, "clip": 10.0, "curvature": 0.1},
    "adagrad": {"method": "adagrad"},
    "ogd": {"method": "ogd"},
}
REAL = {"a9a": ("a9a.xz", "a9a.t.xz"), "ijcnn1": ("ijcnn1.xz", "ijcnn1.t.xz"),
        "rcv1": ("rcv1_small.xz", "rcv1_small_test.xz")}  # fmt: skip


def read(path: Path) -> tuple[csr_array, Any]:
    with stream(str(path)) as blocks:
        parts = [(block.X, block.y) for block in blocks]
    width = max(X.shape[1] for X, _ in parts)
    wide = [csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X, _ in parts]
    return csr_array(vstack(wide)), np.where(np.concatenate([y for _, y in parts]) > 0.0, 1.0, -1.0)


def synthetic(rows: int = 30_000, d: int = 60, condition: float = 30.0) -> tuple[csr_array, Any]:
    """Correlated features: a random rotation of scales between 1 and 1/condition, labels of a noisy half-space."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X = (rng.normal(size=(rows, d)) * np.geomspace(1.0, 1.0 / condition, d)) @ turn
    best = turn.T @ (rng.normal(size=d) * np.geomspace(1.0, condition, d))
    return csr_array(X), np.where(X @ best + rng.logistic(size=rows) > 0.0, 1.0, -1.0)


def write_shards(folder: Path, X: csr_array, y: Any, count: int) -> list[str]:
    edges = np.linspace(0, len(y), count + 1).astype(int)
    files = []
    for k, (start, stop) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        path = folder / f"{count}-{k:04d}.svm"
        with path.open("w") as file:
            for i in range(start, stop):
                part = slice(X.indptr[i], X.indptr[i + 1])
                cells = zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)
                file.write(f"{y[i]:g} " + " ".join(f"{j}:{v!r}" for j, v in cells) + "\n")
        files.append(str(path))
    return files


def test_loss(weights: Any, clip: float | None, X: csr_array, y: Any) -> float:
    width = min(weights.size, X.shape[1])
    margins = X[:, :width] @ weights[:width]
    return float(loss_values("logistic", np.clip(margins, -(clip or np.inf), clip or np.inf), y).mean())


def averages(options: dict[str, Any], files: list[str], X: csr_array, y: Any) -> tuple[float, float | None]:
    """Test losses of the plain mean, and of the mean by sums of squared gradients where the learner keeps them."""
    from onsketch.learners.first_order.steps import CELL

    weights, energies = [], []
    for path in files:
        learner = onsketch.learner(**options, loss="logistic")
        with stream(path, prefetch=0) as blocks:
            for block in blocks:
                learner.learn(block.X, block.y)
        weights.append(np.pad(learner.weights, (0, X.shape[1]))[: X.shape[1]])
        if options["method"] == "adagrad":
            energy = np.zeros(X.shape[1])
            seen = learner._map.features
            energy[seen[seen < X.shape[1]]] = learner._up_to_date()[seen < X.shape[1], CELL.energy]
            energies.append(energy)
    clip = options.get("clip")
    plain = test_loss(np.mean(weights, axis=0), clip, X, y)
    if not energies:
        return plain, None
    total = np.sum(energies, axis=0)
    mixed = np.sum(np.multiply(energies, weights), axis=0) / np.where(total > 0.0, total, 1.0)
    return plain, test_loss(mixed, clip, X, y)


def accuracy(data: Path | None, picture: Path | None) -> None:
    sets: dict[str, tuple[Any, Any, Any, Any]] = {}
    X, y = synthetic()
    sets["synthetic"] = X[:20_000], y[:20_000], X[20_000:], y[20_000:]
    for name, files in REAL.items() if data is not None else ():
        assert data is not None
        (X, y), (X2, y2) = (read(data / file) for file in files)
        order = np.random.default_rng(0).permutation(len(y))[:20_000]
        sets[name] = X[order], y[order], X2, y2
    curves: dict[str, dict[str, list[float]]] = {}
    for name, (X, y, X2, y2) in sets.items():
        print(f"\n{name}: {X.shape[0]:,} rows, {X.shape[1]:,} features; logistic loss on {len(y2):,} other rows")
        heads = [*SCHEDULES, "plain mean", "VW's mean"]
        print(f"  {'learner':<24} shards " + " ".join(f"{head:>12}" for head in heads))
        with tempfile.TemporaryDirectory() as folder:
            shards = {count: write_shards(Path(folder), X, y, count) for count in SHARDS}
            for title, options in LEARNERS.items():
                for count, files in shards.items():
                    found: list[float | None] = []
                    for schedule in SCHEDULES.values():
                        run = fit(options, files, reading={"block_rows": BLOCK}, cluster=LocalEngine(), **schedule)
                        found.append(test_loss(run.learner.weights, options.get("clip"), X2, y2))
                    found += averages(options, files, X2, y2)
                    cells = " ".join("           -" if value is None else f"{value:12.4f}" for value in found)
                    print(f"  {title:<24} {count:>6} {cells}", flush=True)
                    for head, value in zip(heads, found, strict=True):
                        if value is not None:
                            curves.setdefault(f"{name}/{title}", {}).setdefault(head, []).append(value)
    if picture is not None:
        from onsketch.report.plots import Curve, standalone
        from onsketch.report.plots import curves as drawn

        shown = curves["synthetic/rfd-son, curvature rows"]
        lines = [Curve(head, SHARDS, values) for head, values in shown.items()]
        chart = drawn(lines, "shards", "test loss", log_x=True)
        picture.write_text(standalone(chart), encoding="utf-8")


def speed(rows: int, method: str, sketch_size: int, shards: int, repeats: int) -> None:
    from onsketch.jobs.cluster.ray_engine import RayEngine

    options: dict[str, Any] = {"sketch_size": sketch_size} if sketch_size else {}
    seconds: dict[str, list[float]] = {}
    busiest: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TMP")) as folder:
        files = _repeated(Path(folder), rows, shards)
        size = sum(os.path.getsize(path) for path in files)
        print(
            f"{method}, {rows:,} rows in {shards} LIBSVM shards, {size / 1e6:,.0f} MB; wall seconds, best of {repeats}"
        )
        for turn in range(repeats + 1):  # the first is to compile and to fill the disk's cache
            few = files if turn else files[:2]
            began, cpu = time.perf_counter(), time.process_time()
            job = Training(Plan(few, method, options, {"prefetch": 0}))
            for _ in job.run():
                pass
            _note(seconds, "one plain process", began, turn)
            if turn:
                busiest.setdefault(0, []).append(time.process_time() - cpu)
            for workers in (1, 2):
                started = time.perf_counter()
                with RayEngine("local", workers) as engine:
                    before = _used(engine, workers)
                    began = time.perf_counter()
                    run = fit({"method": method, **options}, few, cluster=engine)
                    _note(seconds, f"Ray, {workers} worker{'s' * (workers > 1)}", began, turn)
                    _note(seconds, f"Ray, {workers} worker{'s' * (workers > 1)}, with its start", started, turn)
                    after = _used(engine, workers)
                    peaks = [peak for _, peak in after.values()]
                    spent = [cpu - before.get(pid, (0.0, 0))[0] for pid, (cpu, _) in after.items()]
                    if turn:
                        busiest.setdefault(workers, []).append(max(spent))
                assert run.rows == job.rows
        for name, values in seconds.items():
            best, plain = min(values), min(seconds["one plain process"])
            print(f"  {name:<32} {best:8.2f} s  {rows / best:12,.0f} rows/s  {best / plain:6.2f}× the plain time")
        print(f"  two workers against one: {min(seconds['Ray, 1 worker']) / min(seconds['Ray, 2 workers']):.2f}×")
        least = {workers: min(values) for workers, values in busiest.items()}
        print(f"  CPU seconds: plain {least[0]:.2f}, one worker {least[1]:.2f}, each of two at most {least[2]:.2f}")
        print(f"  by CPU time: overhead {least[1] / least[0]:.2f}×, two workers against one {least[1] / least[2]:.2f}×")
        print(f"  peak memory of a worker: {max(peaks) / 1024:,.0f} MB; load {os.getloadavg()[0]:.1f}")


def _note(seconds: dict[str, list[float]], name: str, began: float, turn: int) -> None:
    if turn:
        seconds.setdefault(name, []).append(time.perf_counter() - began)


def _used(engine: Any, workers: int) -> dict[int, tuple[float, int]]:
    """CPU seconds and peak memory so far, by worker process."""
    tasks = [engine.submit(_usage) for _ in range(4 * workers)]
    return {pid: (cpu, peak) for pid, cpu, peak in map(engine.report, tasks)}


def _usage() -> tuple[tuple[int, float, int], None]:
    time.sleep(0.2)  # so that every worker gets some of these
    return (os.getpid(), time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss), None


def _repeated(folder: Path, rows: int, shards: int) -> list[str]:
    """Yield 100,000 different rows of 12 values repeatedly; this does not affect times."""
    rng = np.random.default_rng(0)
    n = min(100_000, rows // shards)
    columns = np.sort(rng.integers(0, 20_000, size=(n, 12)) + np.arange(12) * 20_000, axis=1)
    values = np.round(rng.normal(size=(n, 12)), 4)
    labels = rng.choice(["1", "-1"], n)
    text = "".join(
        f"{label} " + " ".join(f"{j}:{v}" for j, v in zip(js, vs, strict=True)) + "\n"
        for label, js, vs in zip(labels, columns.tolist(), values.tolist(), strict=True)
    ).encode()
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    files = []
    for k in range(shards):
        path = folder / f"{k:03d}.svm"
        left = rows // shards + (k < rows % shards)
        with path.open("wb") as file:
            while left:
                take = min(left, n)
                file.write(text[: ends[take - 1]])
                left -= take
        files.append(str(path))
    return files


def merging() -> None:
    print(f"{'learner':<10} {'m':>3} {'features':>9} {'MB sent':>8} {'merge s':>8}  {'ns per m·d':>10}")
    rng = np.random.default_rng(0)
    for method, m in (("adagrad", 0), ("rfd-son", 10), ("rfd-son", 20), ("oja-son", 10), ("rp-son", 10)):
        for d in (10_000, 100_000, 1_000_000):
            options: dict[str, Any] = {"sketch_size": m} if m else {}
            learners = []
            for seed in range(2):
                rows, per_row = 200, d // 200
                X = csr_array((rng.normal(size=d), rng.permutation(d), np.arange(0, d + 1, per_row)), shape=(rows, d))
                learners.append(onsketch.learner(method, **options, seed=seed, loss="logistic"))
                learners[-1].learn(X * (3.0 / np.sqrt(per_row)), rng.choice([-1.0, 1.0], rows))
            sent = [snapshot(learner) for learner in learners]
            size = sum(array.nbytes for array in sent[0].arrays.values())
            took = float("inf")
            for _ in range(3):
                began = time.process_time()
                build(sent[0]).merge(build(sent[1]))
                took = min(took, time.process_time() - began)
            print(
                f"{method:<10} {m:>3} {d:>9,} {size / 1e6:8.1f} {took:8.3f}  {1e9 * took / (max(m, 1) * d):10.1f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["accuracy", "speed", "merging"])
    parser.add_argument("--data", type=Path, help="folder with the real data sets")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--method", default="adagrad")
    parser.add_argument("--sketch-size", type=int, default=0)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    if given.what == "accuracy":
        accuracy(given.data, given.picture)
    elif given.what == "speed":
        speed(given.rows, given.method, given.sketch_size, given.shards, given.repeats)
    else:
        merging()


if __name__ == "__main__":
    main()
