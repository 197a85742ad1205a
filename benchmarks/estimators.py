"""The estimators compared with scikit-learn's and River's, in one run: accuracy, captured variance, time, memory.

    pip install '.[bench,sklearn,river]' && ONSKETCH_DATA=/path/to/data python benchmarks/estimators.py

The data folder holds MNIST's four files (mnist-train-images-idx3-ubyte.gz, …), letter.scale.xz, letter.scale.t.xz and
news20.xz in LIBSVM's format; a section whose files are missing is left out. Times are CPU seconds, BLAS on one thread.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import gzip
import io
import lzma
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import Report, cpu_seconds, limit
from sklearn.datasets import load_svmlight_file
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.linear_model import SGDClassifier

DATA = Path(os.environ.get("ONSKETCH_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def mnist() -> tuple[Any, ...]:
    def read(name: str, offset: int) -> Any:
        return np.frombuffer(gzip.decompress((DATA / name).read_bytes()), np.uint8, offset=offset)

    X, X_test = (read(f"mnist-{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255.0 for part in ("train", "t10k"))
    y, y_test = (read(f"mnist-{part}-labels-idx1-ubyte.gz", 8) for part in ("train", "t10k"))
    return X, y, X_test, y_test


def libsvm(name: str, n_features: int | None = None) -> tuple[Any, Any]:
    return load_svmlight_file(io.BytesIO(lzma.decompress((DATA / name).read_bytes())), n_features=n_features)


def letter() -> tuple[Any, ...]:
    (X, y), (X_test, y_test) = libsvm("letter.scale.xz", 16), libsvm("letter.scale.t.xz", 16)
    return X.toarray(), y, X_test.toarray(), y_test


def sgd_grid() -> list[dict[str, Any]]:
    """26 settings for one pass of logistic regression by gradient descent."""
    constant = [{"learning_rate": "constant", "eta0": eta} for eta in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)]
    falling = [{"learning_rate": "invscaling", "eta0": eta, "power_t": 0.25} for eta in (0.1, 0.3, 1.0, 3.0)]
    optimal = [{"learning_rate": "optimal", "alpha": alpha} for alpha in (1e-5, 1e-4, 1e-3)]
    return [{**rate, "average": mean} for mean in (False, True) for rate in constant + falling + optimal]


def our_grid() -> list[dict[str, Any]]:
    """15 settings for one pass of multinomial logistic regression with a shared sketch."""
    return [{"sketch_size": m, "ridge": ridge} for m in (20, 50, 100) for ridge in (1.0, 3.0, 10.0, 30.0, 100.0)]


def tuned(report: Report, orders: int = 5) -> None:
    """Tune both sides on rows held out of the training set, then train on all of it, in several orders."""
    from onsketch.sklearn import OnlineClassifier

    def sgd(seed: int, options: dict[str, Any]) -> Any:
        return SGDClassifier(loss="log_loss", max_iter=1, tol=None, random_state=seed, **options)

    def ours(seed: int, options: dict[str, Any]) -> Any:
        return OnlineClassifier("rfd-son", multiclass="shared", loss="softmax", random_state=seed, **options)

    for title, read in (("MNIST", mnist), ("letter", letter)):
        try:
            X, y, X_test, y_test = read()
        except FileNotFoundError as error:
            print(f"{title}: left out ({error})", file=sys.stderr)
            continue
        order = np.random.default_rng(0).permutation(len(y))
        held, rest = order[: len(y) // 6], order[len(y) // 6 :]
        rows, right, times = [], [], []
        for name, make, grid in (("SGDClassifier, log loss", sgd, sgd_grid()), ("rfd-son, shared", ours, our_grid())):
            scores = [make(0, options).fit(X[rest], y[rest]).score(X[held], y[held]) for options in grid]
            chosen = grid[int(np.argmax(scores))]
            hits, seconds = [], []
            for seed in range(orders):
                model = make(seed, chosen)
                began = time.process_time()
                model.fit(X, y)
                seconds.append(time.process_time() - began)
                hits.append(model.predict(X_test) == y_test)
            right.append(np.array(hits))
            times.append(min(seconds))
            each = right[-1].mean(axis=1)
            span = f"{each.min():.2%} to {each.max():.2%}"
            told = ", ".join(f"{option} = {value}" for option, value in chosen.items())
            rows.append([name, told, len(grid), f"{max(scores):.2%}", f"{each.mean():.2%}", span, times[-1] / times[0]])
        gain = right[1].astype(float) - right[0]
        error = gain.mean(axis=0).std() / np.sqrt(gain.shape[1])
        columns = ["learner", "setting chosen", "trials", "held-out", "test, mean", "of so many orders", "times SGD"]
        gained = f"ahead by {100 * gain.mean():.2f} points, standard error over the test rows {100 * error:.2f}"
        report.table("tuned", f"{title}: one pass, {orders} orders; {gained}", columns, rows)


def timed(model: Any, X: Any, y: Any, repeats: int) -> float:
    return min(cpu_seconds(lambda: model.fit(X, y)) for _ in range(repeats))


def classification(report: Report, repeats: int) -> None:
    from onsketch.sklearn import OnlineClassifier

    ours = {
        "auto, one-vs-rest (the default)": {},
        "rfd-son, shared sketch, softmax": {"multiclass": "shared", "loss": "softmax"},
        "rfd-son, shared, softmax, m = 50": {"multiclass": "shared", "loss": "softmax", "sketch_size": 50},
        "rfd-son, one-vs-rest": {"method": "rfd-son"},
        "ada-ffd, one-vs-rest": {"method": "ada-ffd", "sketch_size": 10, "step_size": 0.3},
    }
    for title, read in (("MNIST", mnist), ("letter", letter)):
        try:
            X, y, X_test, y_test = read()
        except FileNotFoundError as error:
            print(f"{title}: left out ({error})", file=sys.stderr)
            continue
        peers = [SGDClassifier(loss="log_loss", max_iter=1, tol=None, random_state=0, **rate) for rate in sgd_grid()]
        peer = max(peers, key=lambda model: model.fit(X, y).score(X_test, y_test))
        score, seconds = peer.score(X_test, y_test), timed(peer, X, y, repeats)
        rate = f"{peer.learning_rate}, eta0 = {peer.eta0:g}{', averaged' if peer.average else ''}"
        rows: list[list[Any]] = [[f"SGDClassifier ({rate})", f"{score:.2%}", seconds, 1.0, ""]]
        for name, options in ours.items():
            model = OnlineClassifier(random_state=0, **options)
            model.fit(X[:200], y[:200])  # compiles
            taken = timed(model, X, y, repeats)
            found = model.score(X_test, y_test)
            verdict = f"{'beats' if found > score else 'below'} SGD; time {limit(taken / seconds, 10.0)}"
            rows.append([name, f"{found:.2%}", taken, taken / seconds, verdict])
        columns = ["learner", "test accuracy", "CPU s", "times SGD", "verdict"]
        report.table("classes", f"{title}: one pass over {len(y):,} rows, {X.shape[1]} features", columns, rows)


def peak_bytes(action: Callable[[], Any]) -> int:
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def streamed(model: Any, X: Any, rows: int) -> Any:
    for start in range(0, X.shape[0], rows):
        model.partial_fit(X[start : start + rows])
    return model


def principal_components(report: Report, repeats: int, rank: int = 20) -> None:
    from onsketch.sklearn import SketchedPCA

    columns = ["model", "captured variance", "CPU s", "peak MB beside the data"]
    try:
        X = mnist()[0]
    except FileNotFoundError as error:
        print(f"MNIST: left out ({error})", file=sys.stderr)
    else:
        centred = X - X.mean(axis=0)
        whole = np.sum(centred**2)
        rows = []
        for name, make, block in (
            ("PCA, all rows at once", lambda: PCA(rank, svd_solver="covariance_eigh"), None),
            ("IncrementalPCA, blocks of 100", lambda: IncrementalPCA(rank), 100),
            ("IncrementalPCA, blocks of 3,920 (its default)", lambda: IncrementalPCA(rank), 3920),
            ("SketchedPCA, m = 40", lambda: SketchedPCA(rank), 1000),
            ("SketchedPCA, m = 80", lambda: SketchedPCA(rank, sketch_size=80), 1000),
        ):

            def learn(make: Any = make, block: Any = block) -> Any:
                return make().fit(X) if block is None else streamed(make(), X, block)

            seconds = min(cpu_seconds(learn) for _ in range(repeats))
            captured = np.sum((centred @ learn().components_.T) ** 2) / whole
            rows.append([name, f"{captured:.2%}", seconds, peak_bytes(learn) / 1e6])
        report.table("pca", f"MNIST, {len(X):,} rows of 784: {rank} components", columns, rows)
    try:
        X, _ = libsvm("news20.xz")
    except FileNotFoundError as error:
        print(f"news20: left out ({error})", file=sys.stderr)
        return
    X = X.tocsr()
    mean = np.asarray(X.mean(axis=0)).ravel()
    whole = X.multiply(X).sum() - X.shape[0] * mean @ mean
    rows = []
    for name, make in (
        ("TruncatedSVD (randomized), all rows at once", lambda: TruncatedSVD(rank, random_state=0)),
        ("SketchedPCA, m = 40", lambda: SketchedPCA(rank)),
    ):

        def learn(make: Any = make) -> Any:
            model = make()
            return streamed(model, X, 1000) if hasattr(model, "partial_fit") else model.fit(X)

        seconds = min(cpu_seconds(learn) for _ in range(repeats))
        directions = learn().components_
        captured = (np.sum((X @ directions.T) ** 2) - X.shape[0] * np.sum((directions @ mean) ** 2)) / whole
        rows.append([name, f"{captured:.2%}", seconds, peak_bytes(learn) / 1e6])
    shape = f"{X.shape[0]:,} rows, {X.shape[1]:,} columns, {X.nnz / X.shape[0]:.0f} non-zeros a row"
    dense = f"dense it would be {X.shape[0] * X.shape[1] * 8 / 1e9:.1f} GB"
    report.table("pca", f"news20, {shape}: {rank} components; {dense}", columns, rows)


def river_rates(report: Report, repeats: int, count: int = 5000) -> None:
    import pandas as pd
    from river import linear_model

    from onsketch.river import OnlineClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, 30))
    z = X @ rng.normal(size=30)
    dicts = [{f"feature {j}": value for j, value in enumerate(row)} for row in X.tolist()]
    frame = pd.DataFrame(X, columns=list(dicts[0]))
    signs, classes = [bool(v > 0.0) for v in z], [int(c) for c in np.digitize(z, [-4.0, -1.0, 1.0, 4.0])]

    def rate(action: Callable[[], Any]) -> float:
        best = 0.0
        for _ in range(repeats):
            start = time.process_time()
            action()
            best = max(best, count / (time.process_time() - start))
        return best

    rows = []
    cases: list[tuple[str, Callable[[], Any], list[Any]]] = [
        ("River's LogisticRegression", linear_model.LogisticRegression, signs)
    ]
    for method in ("auto", "rfd-son", "ada-ffd", "oja-son", "adagrad"):
        cases.append((method, lambda method=method: OnlineClassifier(method), signs))  # type: ignore[misc]
    for method in ("auto", "rfd-son", "adagrad"):
        title = f"{method}, 5 classes, {'softmax' if method == 'auto' else 'one-vs-rest'}"
        cases.append((title, lambda method=method: OnlineClassifier(method), classes))  # type: ignore[misc]
    cases.append(("rfd-son, 5 classes, shared", lambda: OnlineClassifier(multiclass="shared", loss="softmax"), classes))
    for name, make, labels in cases:
        model = make()
        series = pd.Series(labels)

        def one_by_one(model: Any = model, labels: Any = labels) -> None:
            for x, y in zip(dicts, labels, strict=True):
                model.learn_one(x, y)

        one_by_one()
        single = rate(one_by_one)
        asked = rate(lambda model=model: [model.predict_proba_one(x) for x in dicts])  # type: ignore[misc]
        many = rate(lambda model=model, series=series: model.learn_many(frame, series))  # type: ignore[misc]
        rows.append([name, single, asked, many, limit(single, 5000.0, at_least=True)])
    columns = ["model", "learn_one / s", "predict_proba_one / s", "learn_many / s", "target"]
    report.table("river", "Rows of 30 features a second", columns, rows)


def main() -> None:
    sections: dict[str, Callable[[Report, int], None]] = {
        "classes": classification,
        "tuned": lambda report, _: tuned(report),
        "pca": principal_components,
        "river": river_rates,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*sections, []], help="all of them when left out")
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs counts")
    given = parser.parse_args()
    report = Report()
    for name in given.sections or sections:
        sections[name](report, given.repeats)


if __name__ == "__main__":
    main()
