"""Kernel online Newton: savings by sampling, cost under an adversary, and real data compared with scikit-learn.

    python benchmarks/kernel.py --data FOLDER [--only SECTION ...] [--sets SET ...] [--learners NAME ...]
                                [--rows N] [--json FILE] [--plot FILE.svg]

The sections:

    scaling    seconds of a round of Sketched-KONS at floor γ, against γ² of exact KONS
    adversary  the paper's last scenario: one point, losses alternating in sign
    real       one pass over ijcnn1, letter (26 classes, one against the rest), cod-rna and svmguide1, which are read
               from LIBSVM files (.xz) in the folder: every linear method, the kernel methods, scikit-learn's Nystroem
               and RBFSampler followed by its SGDClassifier, and River's RBFSampler followed by its LogisticRegression

Figures are CPU time of one thread. In ``real`` all learners see the same rows in the same order, errors are progressive
(each row is predicted before it is learned), and every learner's settings, among them whether rows are standardised or
whitened, are chosen on the first rows only.
"""

from __future__ import annotations

import os

# Before NumPy is imported, or it would not be heeded.
for _name in ("OPENBLAS", "MKL", "OMP", "NUMBA", "BLIS", "VECLIB_MAXIMUM"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import argparse
import json
import lzma
import math
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from measure import Report

import onsketch
from onsketch.learners.methods import METHODS

SETS = {
    "svmguide1": "svmguide1.xz",
    "cod-rna (30k)": "cod-rna.30k.xz",
    "letter": "letter.scale.xz",
    "ijcnn1": "ijcnn1.xz",
}
POINTS = 400
"""Rows of a dictionary, components of Nystroem and of RBFSampler."""
TUNED_ON = 1500
"""First rows, on which settings are chosen; a third of them where there are many classes."""
BATCH = 10
"""Rows given to scikit-learn at a time: its partial_fit takes a millisecond to begin."""
MANY_CLASSES = ("ons", "rfd-son", "adagrad", "ftrl", "arow", "ada-full")
"""The linear methods entered where there is a learner for each of many classes."""
WIDTHS = (0.25, 1.0, 4.0)
"""γ times the number of features."""


def scaling(report: Report, T: int) -> list[tuple[float, list[int], list[float], list[float]]]:
    """CPU time of rounds in four windows of the stream, for a few floors."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(T, 3))
    y = np.sign(np.sin(3 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=T))
    edges = [0, T // 4, T // 2, 3 * T // 4, T]
    curves = []
    for floor in (1.0, 0.5, 0.25, 0.125, 0.0625):
        learner = onsketch.learner("sketched-kons", kernel="rbf", gamma=0.5, floor=floor, budget=0.2, loss="logistic")
        times = []
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            began = time.process_time()
            learner.learn(X[start:stop], y[start:stop])
            times.append((time.process_time() - began) / (stop - start))
        expansion = onsketch.learner("kernel-ogd", kernel="rbf", gamma=0.5, loss="logistic")
        expansion.learn(X[:start], y[:start])
        began = time.process_time()
        expansion.learn(X[start:], y[start:])
        floor_time = (time.process_time() - began) / (T - start)
        curves.append((floor, edges[1:], times, [floor_time, learner.diagnostics()["rows_in_matrix"]]))
    exact = curves[0][2][-1]
    report.table(
        "scaling",
        f"Sketched-KONS, rbf, d = 3, logistic: microseconds of a round for t in {edges[3]:,} to {T:,}",
        ["floor γ", "rows in A", "µs a round", "of exact", "γ²", "less the kernel values", "of exact", "p̃²"],
        [
            [floor, int(last[1]), times[-1] * 1e6, times[-1] / exact, floor**2, (times[-1] - last[0]) * 1e6,
             (times[-1] - last[0]) / (exact - last[0]), (last[1] / T) ** 2]
            for floor, _, times, last in curves
        ],
    )  # fmt: skip
    return curves


def adversary(report: Report, T: int) -> None:
    """One point; alternating losses +w·x and −w·x. The best fixed w is 0, and a Newton step of 1/t has regret log T."""
    field: list[tuple[str, str, dict[str, Any]]] = [
        ("exact: kons", "kons", {}),
        ("sampled: sketched-kons", "sketched-kons", {}),
        ("sampled: sketched-kons, floor 0.1", "sketched-kons", {"floor": 0.1}),
        ("sampled: sketched-kons, floor 0.5", "sketched-kons", {"floor": 0.5}),
        ("projected: pros-n-kons", "pros-n-kons", {}),
        ("projected: pros-n-kons, restart", "pros-n-kons", {"restart": True}),
        ("new atoms: fd-son, m = 2", "fd-son", {"sketch_size": 2}),
        ("new atoms: rfd-son, m = 2", "rfd-son", {"sketch_size": 2}),
    ]
    rows = []
    checkpoints = [T // 20, T // 4, T]
    for label, method, options in field:
        if method not in ("fd-son", "rfd-son"):
            options = {"kernel": "rbf", "gamma": 1.0, **options}
        learner = onsketch.learner(method, loss="hinge", curvature=1.0, ridge=1.0, **options)
        y = np.where(np.arange(T) % 2 == 0, 1.0, -1.0)
        losses = np.cumsum(-y * learner.learn(np.ones((T, 1)), y))
        found: dict[str, Any] = getattr(learner, "diagnostics", dict)()
        atoms = found.get("rows_in_matrix", found.get("subspace_dimension", 1))
        dictionary = found.get("dictionary_size")
        rows.append([label, *(float(losses[t - 1]) for t in checkpoints), atoms, dictionary])
    columns = ["", *(f"regret at {t:,}" for t in checkpoints), "rows in A", "dictionary"]
    report.table("adversary", "One point, losses alternating in sign (σ = 1, α = 1, C = 1)", columns, rows)


def read_libsvm(path: Path) -> tuple[Any, Any]:
    """Dense rows and labels of a LIBSVM file (.xz)."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    labels = np.array([float(line.split(None, 1)[0]) for line in lines])
    pairs = [[pair.split(":") for pair in line.split()[1:]] for line in lines]
    X = np.zeros((len(lines), max(int(index) for row in pairs for index, _ in row)))
    for i, row in enumerate(pairs):
        for index, value in row:
            X[i, int(index) - 1] = float(value)
    return X, labels


def prepared(X: Any, labels: Any, rows: int | None) -> tuple[dict[str, Any], Any]:
    """Shuffled, standardised and whitened; one column of −1 and +1 for two classes, one for each class otherwise."""
    order = np.random.default_rng(0).permutation(len(labels))[:rows]
    X, labels = X[order] - X[order].mean(axis=0), labels[order]
    U, spectrum, _ = np.linalg.svd(X, full_matrices=False)
    spread = X.std(axis=0)
    ready = {
        "standardised": X[:, spread > 1e-8] / spread[spread > 1e-8],
        "whitened": U[:, spectrum > 1e-8 * spectrum[0]] * np.sqrt(len(X)),
    }
    classes = np.unique(labels)
    chosen = classes[-1:] if len(classes) == 2 else classes
    return ready, np.where(labels[:, np.newaxis] == chosen, 1.0, -1.0)


def mistakes(margins: Any, Y: Any) -> Any:
    """Which rows were predicted wrongly, by sign or by the largest margin."""
    if Y.shape[1] == 1:
        return np.sign(margins[:, 0]) != Y[:, 0]
    return margins.argmax(axis=1) != Y.argmax(axis=1)


class Ours:
    """One learner for each column of labels."""

    def __init__(self, method: str, **options: Any) -> None:
        self.method, self.options, self.learners = method, options, []

    def margins(self, X: Any, Y: Any) -> Any:
        """Progressive margins of one pass."""
        self.learners = [onsketch.learner(self.method, **self.options) for _ in range(Y.shape[1])]
        return np.column_stack([learner.learn(X, y) for learner, y in zip(self.learners, Y.T, strict=True)])

    def memory(self) -> float:
        """Megabytes held."""
        return sum(learner.state_bytes()["total"] for learner in self.learners) / 1e6


class Sklearn:
    """A feature map fitted on the first rows, then SGDClassifier on one small batch after the other."""

    def __init__(self, kind: str, gamma: float, **options: Any) -> None:
        self.kind, self.gamma, self.options, self.size = kind, gamma, options, 0.0

    def margins(self, X: Any, Y: Any) -> Any:
        """Progressive margins of one pass; Nystroem's dictionary is drawn from the first rows, before the pass."""
        from sklearn.kernel_approximation import Nystroem, RBFSampler
        from sklearn.linear_model import SGDClassifier

        kinds = {"Nystroem": Nystroem, "RBFSampler": RBFSampler}
        Z = kinds[self.kind](gamma=self.gamma, n_components=POINTS, random_state=0).fit(X[:TUNED_ON]).transform(X)
        one_of = np.column_stack([-np.ones(len(Y)), Y]) if Y.shape[1] > 1 else Y
        labels = np.where((Y > 0).any(axis=1), one_of.argmax(axis=1), 0) if Y.shape[1] > 1 else Y[:, 0]
        classes = np.arange(Y.shape[1] + 1) if Y.shape[1] > 1 else np.array([-1.0, 1.0])
        model = SGDClassifier(random_state=0, **self.options)
        out = np.zeros((len(X), Y.shape[1]))
        for i in range(0, len(X), BATCH):
            part = slice(i, i + BATCH)
            if i:
                out[part] = (Z[part] @ model.coef_.T + model.intercept_)[:, -Y.shape[1] :]
            model.partial_fit(Z[part], labels[part], classes=classes)
        self.size = (POINTS * (X.shape[1] + POINTS * (self.kind == "Nystroem") + Y.shape[1])) * 8e-6
        return out

    def memory(self) -> float:
        """Megabytes of the map and the weights."""
        return self.size


class River:
    """River's random features, and its logistic regression for each column of labels, row by row as River does it."""

    def __init__(self, gamma: float, **options: Any) -> None:
        self.gamma, self.options, self.columns = gamma, options, 1

    def margins(self, X: Any, Y: Any) -> Any:
        """Progressive margins of one pass."""
        from river import feature_extraction, linear_model, optim

        features = feature_extraction.RBFSampler(gamma=self.gamma, n_components=POINTS, seed=0)
        rate = optim.SGD(self.options["rate"])
        models = [linear_model.LogisticRegression(rate.clone()) for _ in Y.T]
        self.columns = len(models)
        out = np.zeros(Y.shape)
        for i, (x, labels) in enumerate(zip(X.tolist(), Y > 0.0, strict=True)):
            z = features.transform_one(dict(enumerate(x)))
            for k, (model, label) in enumerate(zip(models, labels.tolist(), strict=True)):
                p = min(max(model.predict_proba_one(z)[True], 1e-12), 1.0 - 1e-12)
                out[i, k] = math.log(p / (1.0 - p))
                model.learn_one(z, label)
        return out

    def memory(self) -> float:
        """Megabytes of weights, if they were arrays."""
        return POINTS * self.columns * 8e-6


def linear_field(classes: int) -> dict[str, list[Any]]:
    """Every linear method with a few settings; fewer of them where there are many classes."""
    field: dict[str, list[Any]] = {}
    for name, method in METHODS.items():
        if method.kernel or (classes > 2 and name not in MANY_CLASSES):
            continue
        newton = method.geometry == "newton"
        option = "ridge" if newton else "step_size"
        ladder = (0.1, 3.0, 100.0) if newton else (0.01, 0.1, 1.0)
        clips: tuple[dict[str, Any], ...] = ({},)
        if newton and method.rule == "step":
            clips = ({"clip": 1.0}, {"clip": 4.0}, {"clip": 4.0, "summary": "curvature"})
        losses = ("squared_hinge",) if method.rule == "arow" else ("logistic", "squared_hinge")
        settings: list[dict[str, Any]] = [{option: value} for value in ladder] if option in method.concerns else [{}]
        field[name] = [
            Ours(name, loss=loss, fit_intercept=True, **setting, **extra)
            for loss, setting, extra in product(losses, settings, clips)
        ]
    return field


def kernel_field(d: int) -> dict[str, list[Any]]:
    """The kernel methods and their peers, with a few settings each."""
    pros = [{"loss": "squared_hinge"}, {"loss": "logistic", "clip": 6.0, "summary": "curvature"}]
    gradient = list(product(("logistic", "squared_hinge"), WIDTHS, (0.3, 1.0, 3.0)))
    sgd = [{"loss": "log_loss", "alpha": alpha} for alpha in (1e-3, 1e-4, 1e-5)]
    return {
        "pros-n-kons": [
            Ours("pros-n-kons", gamma=width / d, ridge=ridge, max_points=POINTS, **extra)
            for extra, width, ridge in product(pros, WIDTHS, (1.0, 0.1, 0.01))
        ],
        "budget-kernel-ogd": [
            Ours("budget-kernel-ogd", loss=loss, gamma=width / d, step_size=step, max_points=POINTS)
            for loss, width, step in gradient
        ],
        **{
            f"scikit-learn {kind} + SGDClassifier": [
                Sklearn(kind, width / d, **options) for width, options in product(WIDTHS, sgd)
            ]
            for kind in ("Nystroem", "RBFSampler")
        },
        "River RBFSampler + LogisticRegression": [
            River(width / d, rate=rate) for width, rate in product(WIDTHS, (0.03, 0.3, 3.0))
        ],
    }


def one_pass(entries: list[Any], ready: dict[str, Any], Y: Any) -> tuple[Any, str, Any, float]:
    """The entry and the preparation that err least on the first rows; its mistakes on all, and CPU seconds of that."""
    first = TUNED_ON if Y.shape[1] == 1 else TUNED_ON // 3
    best, least = (entries[0], next(iter(ready))), np.inf
    for entry, form in product(entries, ready):
        try:
            error = mistakes(entry.margins(ready[form][:first], Y[:first]), Y[:first]).mean()
        except onsketch.core.errors.UpdateError:
            continue
        if error < least:
            best, least = (entry, form), error
    entry, form = best
    began = time.process_time()
    wrong = mistakes(entry.margins(ready[form], Y), Y)
    return entry, form, wrong, time.process_time() - began


def real(report: Report, folder: Path, rows: int | None, sets: list[str], learners: list[str] | None) -> None:
    """Progressive errors of one pass over real sets."""
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn")
    for title, file in [(title, SETS[title]) for title in sets]:
        if not (folder / file).exists():
            print(f"\n{title}: {folder / file} is not there")
            continue
        ready, Y = prepared(*read_libsvm(folder / file), rows)
        X, found = ready["standardised"], []
        for name, entries in [*linear_field(max(2, Y.shape[1])).items(), *kernel_field(X.shape[1]).items()]:
            if learners and not any(part in name for part in learners):
                continue
            best, form, wrong, seconds = one_pass(entries, ready, Y)
            half = wrong[len(wrong) // 2 :].mean()
            told = ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in best.options.items())
            if isinstance(best, (Sklearn, River)):
                told = f"gamma={best.gamma:.3g}, {told}"
            told = f"{form}, {told}"
            linear = name in METHODS and not METHODS[name].kernel
            found.append([name, linear, 100 * wrong.mean(), 100 * half, seconds, best.memory(), told])
        linears = sorted((row for row in found if row[1]), key=lambda row: row[2])
        shown = [*linears[:3], *linears[3:][-1:], *(row for row in found if not row[1])]
        report.table(
            "real",
            f"{title}: {len(X):,} rows, {X.shape[1]} features, {max(2, Y.shape[1])} classes; the best three of "
            f"{len(linears)} linear methods, the last of them, and the kernel methods",
            ["learner", "error %", "second half %", "CPU s", "MB", "settings"],
            [[row[0], *row[2:]] for row in shown],
        )


def plot(curves: list[tuple[float, list[int], list[float], list[float]]], path: Path) -> None:
    """Time of a round against t, one line for each floor, and γ² of the exact one dashed."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "onsketch"
    figure, axes = pyplot.subplots(figsize=(6, 4))
    exact = np.array(curves[0][2])
    for floor, ends, times, _ in curves:
        (line,) = axes.loglog(ends, np.array(times) * 1e6, marker="o", label=f"γ = {floor:g}")
        axes.loglog(ends, exact * floor**2 * 1e6, linestyle="--", linewidth=0.8, color=line.get_color())
    axes.set_xlabel("t (end of the window)")
    axes.set_ylabel("CPU microseconds of a round")
    axes.set_title("Sketched-KONS at floor γ; dashed: γ² of the exact one")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with the LIBSVM files (.xz)")
    parser.add_argument("--only", nargs="+", choices=("scaling", "adversary", "real"), help="just these sections")
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(SETS), help="just these sets")
    parser.add_argument("--learners", nargs="+", help="just these, by parts of their names")
    parser.add_argument("--rows", type=int, default=None, help="at most so many rows of each set (and rounds)")
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("--plot", type=Path, help="draw the scaling here (.svg; needs matplotlib)")
    given = parser.parse_args()
    report, chosen = Report(), given.only or ("scaling", "adversary", "real")
    if "scaling" in chosen:
        curves = scaling(report, min(given.rows or 6000, 6000))
        if given.plot:
            plot(curves, given.plot)
    if "adversary" in chosen:
        adversary(report, min(given.rows or 4000, 4000))
    if "real" in chosen:
        real(report, given.data, given.rows, given.sets, given.learners)
    if given.json:
        given.json.write_text(json.dumps(report.records, indent=1))


if __name__ == "__main__":
    main()
