"""Speed of onsketch compared with its peers, as ratios within one run.

    python benchmarks/speed.py [--quick] [--only SECTION ...] [--json FILE]

Figures are CPU time (user and system, one thread), the best of several passes, with alternating engines. Peers
that are not installed and methods that do not exist are reported as missing. The sections:

    sparse    learning per example on two sparse streams, against AdaGrad and against the peers
    index     the same features scattered over a larger and larger index space
    live      more and more features with state, at the steady state
    dense     a dense round against reading the buffer twice with BLAS
    startup   importing, and the first use with an empty and a full compilation cache
    memory    bytes of state against the bytes of its packed arrays
"""

from __future__ import annotations

import os

# Before NumPy is imported, or it would not be heeded.
for _name in ("OPENBLAS", "MKL", "OMP", "NUMBA", "BLIS", "VECLIB_MAXIMUM"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import engines
import numpy as np
from measure import Engine, Report, Timing, cpu_seconds, limit, race, ratio

from onsketch.data import a9a_like, live_features, text_like

SKETCHED = ("oja-son", "rp-son", "fd-son", "rfd-son", "ada-ffd", "ada-fd", "ada-gp", "s-adagrad")
WITHIN = {"oja-son": 3.0, "rp-son": 5.0, "fd-son": 25.0, "rfd-son": 25.0}
"""Most a method may cost at m = 10, in units of our own AdaGrad."""
OVER_VW = {(10, False): 10.0, (20, False): 20.0, (10, True): 4.0, (20, True): 8.0}
"""Least factor of oja-son over VW's --OjaNewton by (m, diagonal)."""


def sparse(report: Report, quick: bool) -> None:
    """Microseconds per example of every method and peer."""
    n, repeats = (10_000, 2) if quick else (100_000, 4)
    streams = {
        f"text-like {n:,} x 100,000, 92 non-zeros a row": text_like(n),
        f"a9a-like {n:,} x 123, 14 non-zeros a row": a9a_like(n),
    }
    for title, (x, y) in streams.items():
        field = [engines.ours("adagrad", x, y, _label("adagrad", "float64"))]
        field += [
            engines.ours(method, x, y, _label(method, dtype, m, diagonal), dtype, sketch_size=m, **extra)
            for dtype in ("float64", "float32")
            for method, m, diagonal in [
                *[("oja-son", m, diagonal) for m in (5, 10, 20) for diagonal in (False, True)],
                *[(method, 10, False) for method in SKETCHED[1:]],
            ]
            for extra in [{"diagonal": True} if diagonal else {}]
        ]
        field.append(engines.ours("adagrad", x, y, _label("adagrad", "float32"), "float32"))
        peers = [engines.vowpal("VW --noop", "--noop", x, y), engines.vowpal("VW default", "", x, y)]
        peers += [engines.vowpal(f"VW OjaNewton m={m}", f"--OjaNewton --sketch_size {m}", x, y) for m in (5, 10, 20)]
        peers += [engines.sgd_classifier(x, y), engines.river(x, y)]
        times = race(field + peers, repeats)
        _methods_table(report, title, field, times)
        _peers_table(report, title, peers, times)


def _label(method: str, dtype: str, m: int | None = None, diagonal: bool = False) -> str:
    return f"{method}{'' if m is None else f' m={m}'}{' diagonal' if diagonal else ''} {dtype}"


def _methods_table(report: Report, title: str, field: list[Engine], times: dict[str, Timing]) -> None:
    rows = []
    for engine in field:
        over = ratio(times[engine.name], times[_label("adagrad", engine.dtype)])
        method = engine.name.split()[0]
        target = ""
        if " m=10 " in engine.name and "diagonal" not in engine.name:
            if method in WITHIN:
                target = limit(over, WITHIN[method]) + (" (stretch 10)" if "fd" in method else "")
            elif method == "ada-ffd":
                fd = ratio(times[engine.name], times[_label("fd-son", engine.dtype, 10)])
                target = f"over fd-son {limit(fd, 2.0)}"
        name = engine.name.removesuffix(f" {engine.dtype}")
        timing = times[engine.name]
        rows.append([name, engine.dtype, timing.micros, over, timing.why or target])
    columns = ["method", "dtype of state", "us/example", "over our adagrad", "target"]
    report.table("sparse", f"{title}: onsketch", columns, rows)


def _peers_table(report: Report, title: str, peers: list[Engine], times: dict[str, Timing]) -> None:
    """Each peer against the method of ours that does the same work, at both widths of our state."""
    rivals: list[tuple[str, str, int | None, bool, float | None]] = [
        ("VW default", "adagrad", None, False, 1.0),
        *[
            (f"VW OjaNewton m={m}", "oja-son", m, diagonal, OVER_VW.get((m, diagonal)))
            for m in (5, 10, 20)
            for diagonal in (False, True)
        ],
        ("scikit-learn SGD", "adagrad", None, False, None),
        ("River", "adagrad", None, False, 50.0),
    ]
    dtypes = {peer.name: peer.dtype for peer in peers}
    rows = []
    for peer, method, m, diagonal, bound in rivals:
        over = {
            dtype: ratio(times[peer], times[_label(method, dtype, m, diagonal)]) for dtype in ("float64", "float32")
        }
        target = "" if bound is None else limit(over["float64"], bound, at_least=True)
        counterpart = _label(method, "", m, diagonal).strip()
        figures = [times[peer].micros, over["float64"], over["float32"]]
        rows.append([peer, dtypes[peer], counterpart, *figures, times[peer].why or target])
    columns = ["peer", "its dtype", "against our", "peer us/example"]
    columns += ["over ours float64", "over ours float32", "target"]
    noop = times["VW --noop"].micros
    note = "" if noop is None else f" (VW less {noop:.2f} us a call for --noop)"
    report.table("sparse", f"{title}: peers{note}", columns, rows)


def index(report: Report, quick: bool) -> None:
    """One stream, its 100,000 features scattered over 1e5 to 1e9 columns, 64-bit indices throughout."""
    n, repeats = (5_000, 2) if quick else (50_000, 3)
    spaces = (10**5, 10**6, 10**7, 10**8, 10**9)
    streams = {space: text_like(n, index_space=space) for space in spaces}
    rows = []
    for method in ("adagrad", *SKETCHED[:5]):
        field = [engines.ours(method, *streams[space], name=f"{space}", **_size(method)) for space in spaces]
        times = race(field, repeats)
        first = times[f"{spaces[0]}"]
        over = [ratio(times[f"{space}"], first) for space in spaces[1:]]
        worst = max((value for value in over if value is not None), default=None)
        rows.append([_m10(method), "float64", first.micros, *over, first.why or limit(worst, 1.3)])
    columns = ["method", "dtype", "us/example at 1e5", *[f"over it at {s:.0e}" for s in spaces[1:]], "target"]
    report.table("index", f"Index space, text-like {n:,} rows, the same 100,000 features", columns, rows)


def live(report: Report, quick: bool) -> None:
    """Rows never seen before, after a stream that made all their features live."""
    n, repeats = (2_000, 2) if quick else (20_000, 4)
    sizes = (10**4, 10**5) if quick else (10**5, 10**6, 10**7)
    rows = []
    for method in ("adagrad", *SKETCHED[:5]):
        kept = sizes if quick or method in ("adagrad", "oja-son") else sizes[:-1]
        times = race([_steady(method, size, n, repeats) for size in kept], repeats)
        first = times[f"{sizes[0]}"]
        over = [ratio(times[f"{size}"], first) if size in kept else None for size in sizes[1:]]
        worst = max((value for value in over if value is not None), default=None)
        verdict = first.why or f"{limit(worst, 2.0)} (up to {kept[-1]:.0e})"
        rows.append([_m10(method), "float64", first.micros, *over, verdict])
    columns = ["method", "dtype", f"us/example at {sizes[0]:.0e}"]
    columns += [*[f"over it at {size:.0e}" for size in sizes[1:]], "target"]
    report.table("live", "Live features, text-like, 92 non-zeros a row, steady state", columns, rows)


def _steady(method: str, size: int, n: int, repeats: int) -> Engine:
    def prepare() -> Callable[[], float]:
        import onsketch

        learner = onsketch.learner(method, loss="squared", ridge=1.0, **_size(method))
        learner.learn(*live_features(size, n))
        x, y = text_like(n * repeats, size, seed=1)
        parts = iter([(x[i : i + n], y[i : i + n]) for i in range(0, n * repeats, n)])
        return lambda: cpu_seconds(partial(learner.learn, *next(parts)))

    return Engine(f"{size}", "float64", n, prepare)


def dense(report: Report, quick: bool) -> None:
    """A dense round at m = 20 against the two matrix-vector products that no method can do without."""
    n, d, m, repeats = (500 if quick else 6_000), 5_000, 20, 3
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d)) / np.sqrt(d)
    y = np.where(x @ rng.standard_normal(d) >= 0.0, 1.0, -1.0)
    methods = ("rfd-son", "fd-son", "ada-ffd", "ada-fd", "s-adagrad")
    field = [engines.ours(method, x, y, sketch_size=m) for method in methods]
    times = race([Engine("gemv", "float64", n, partial(_two_gemv, x, 2 * m)), *field], repeats)
    rows: list[list[Any]] = [["two gemv of 2m x d", "float64", times["gemv"].micros, 1.0, ""]]
    for method in methods:
        over = ratio(times[method], times["gemv"])
        target = limit(over, 1.5) if method in ("rfd-son", "ada-ffd") else ""
        rows.append([method, "float64", times[method].micros, over, times[method].why or target])
    columns = ["method", "dtype", "us/round", "over two gemv", "target"]
    report.table("dense", f"Dense {n:,} x {d:,}, m = {m}, one thread", columns, rows)


def _two_gemv(x: np.ndarray, rows: int) -> Callable[[], float]:
    buffer = np.random.default_rng(1).standard_normal((rows, x.shape[1]))
    small, wide = np.empty(rows), np.empty(x.shape[1])

    def one_pass() -> None:
        for row in x:
            np.dot(buffer, row, out=small)
            np.dot(small, buffer, out=wide)

    return lambda: cpu_seconds(one_pass)


_CHILD = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import onsketch
print(time.process_time() - cpu, time.perf_counter() - wall)
import numpy as np
x, y = np.random.default_rng(0).standard_normal((100, 30)), np.tile([1.0, -1.0], 50)
if {sparse}:
    from scipy.sparse import csr_array
    x = csr_array(x)
wall, cpu = time.perf_counter(), time.process_time()
onsketch.learner({method!r}).learn(x, y)
print(time.process_time() - cpu, time.perf_counter() - wall)
"""


def startup(report: Report, quick: bool) -> None:
    """Fresh processes: import, then 100 rows, with an empty and then a filled compilation cache."""
    repeats = 1 if quick else 3
    rows = []
    imports = []
    for method in ("adagrad", "oja-son", "rfd-son", "ada-ffd"):
        for layout in ("sparse", "dense"):
            with tempfile.TemporaryDirectory() as cache:
                script = _CHILD.format(method=method, sparse=layout == "sparse")
                runs = [_child(script, cache) for _ in range(1 + repeats)]
            imports += [run[0] for run in runs if run]
            cold, warm = runs[0][1:], min((run[1:] for run in runs[1:]), default=[])
            figures = [cold[0][0], *warm[0]] if cold and warm else [None, None, None]
            verdict = limit(figures[1], 1.0) if cold and warm else "missing"
            rows.append([method, layout, *figures, verdict])
    quickest = min(imports, default=(None, None))
    title = "Import in a fresh process"
    columns = ["CPU s", "wall s", "target"]
    report.table("startup", title, columns, [[*quickest, limit(quickest[0], 0.3)]])
    columns = ["method", "rows", "cold CPU s", "warm CPU s", "warm wall s", "target (warm)"]
    report.table("startup", "First use after the import, compilation cache cold and warm", columns, rows)


def _child(script: str, cache: str) -> list[tuple[float, float]]:
    """The (CPU, wall) pairs that the script prints; fewer if it fails."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(float(line[0]), float(line[1])) for line in lines if len(line) == 2]


def memory(report: Report, quick: bool) -> None:
    """State of a learner after a text-like stream, over its packed arrays for the features seen."""
    n, d = (2_000, 10**5) if quick else (20_000, 10**6)
    x, y = text_like(n, d)
    seen = len(np.unique(x.indices))
    rows = []
    for method in ("adagrad", *SKETCHED):
        for dtype in ("float64", "float32"):
            try:
                import onsketch

                learner = onsketch.learner(method, loss="squared", ridge=1.0, dtype=dtype, **_size(method))
                learner.learn(x, y)
                size = learner.state_bytes()
            except Exception as error:
                rows.append([_m10(method), dtype, None, None, f"missing ({error})"[:70]])
                continue
            over = size["total"] / size["packed"]
            rows.append([_m10(method), dtype, size["packed"] / seen, over, limit(over, 1.3)])
    columns = ["method", "dtype", "packed bytes/feature", "total over packed", "target"]
    report.table("memory", f"State after {n:,} text-like rows, {seen:,} features seen", columns, rows)


def _size(method: str) -> dict[str, Any]:
    return {} if method == "adagrad" else {"sketch_size": 10}


def _m10(method: str) -> str:
    return method if method == "adagrad" else f"{method} m=10"


SECTIONS = {run.__name__: run for run in (sparse, index, live, dense, startup, memory)}


def main() -> None:
    """Run the chosen sections and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small streams: a check, not a measurement")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--json", metavar="FILE", help="write every row of every table to this file")
    arguments = parser.parse_args()
    report = Report()
    for name in arguments.only:
        SECTIONS[name](report, arguments.quick)
    if arguments.json:
        record = {"python": platform.python_version(), "quick": arguments.quick, "rows": report.records}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
