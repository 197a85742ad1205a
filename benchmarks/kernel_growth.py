"""Kernel online Newton: regret against kernel ridge regression solved offline, and how the dictionary grows.

    python benchmarks/kernel_growth.py [--rows N] [--plot FILE.svg]

The picture shows the same for the paper's adversary, one point with losses that alternate in sign.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS", "MKL", "OMP", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
from measure import Report

import onsketch

Curves = dict[str, tuple[list[int], list[float], list[float]]]
"""By name: rounds, regret and rows of the dictionary there."""


def growth(report: Report, T: int) -> Curves:
    """Least squares on a noisy wave, against kernel ridge regression solved offline with the same ridge."""
    from onsketch.kernel import study

    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(T, 2))
    y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.normal(size=T)
    newton: dict[str, Any] = {"summary": "curvature"}
    field: list[tuple[str, str, dict[str, Any]]] = [
        ("kons", "kons", newton),
        ("sketched-kons, floor 0.1", "sketched-kons", {**newton, "floor": 0.1}),
        ("pros-n-kons", "pros-n-kons", newton),
        ("pros-n-kons, restart", "pros-n-kons", {**newton, "restart": True}),
        ("kernel-ogd", "kernel-ogd", {}),
    ]
    curves: Curves = {}
    rows = []
    for label, method, options in field:
        found = study(onsketch.learner(method, kernel="rbf", gamma=1.0, clip=None, **options), X, y)
        history = found.learner.history()
        t = [int(number) for number in history["rounds"]]
        size = history.get("dictionary_size", history["rows_kept"])
        curves[label] = t, [float(found.regret[k - 1]) for k in t], size.tolist()
        told = [found.regret[T // 4 - 1], found.regret[T // 2 - 1], found.regret[-1]]
        rows.append([label, *map(float, told), int(size[-1]), history.get("online_effective_dimension", [None])[-1]])
    exact = f"effective dimension {found.effective_dimension:.0f}, online {found.online_effective_dimension:.0f}"
    columns = ["", f"regret at {T // 4:,}", f"at {T // 2:,}", f"at {T:,}", "dictionary", "its Σ τ̃"]
    report.table("growth", f"Regret against kernel ridge regression, squared loss, {T:,} rows; {exact}", columns, rows)
    return curves


def adversary_curves(T: int) -> Curves:
    """The adversary's regret and dictionary at doubling rounds."""
    curves: Curves = {}
    y = np.where(np.arange(T) % 2 == 0, 1.0, -1.0)
    for label, method, options in (
        ("kons", "kons", {}),
        ("sketched-kons", "sketched-kons", {}),
        ("sketched-kons, floor 0.1", "sketched-kons", {"floor": 0.1}),
        ("pros-n-kons", "pros-n-kons", {}),
    ):
        learner: Any = onsketch.learner(method, loss="hinge", curvature=1.0, ridge=1.0, gamma=1.0, **options)
        losses = np.cumsum(-y * learner.learn(np.ones((T, 1)), y))
        history = learner.history()
        t = [int(number) for number in history["rounds"]]
        curves[label] = t, [float(losses[k - 1]) for k in t], history["dictionary_size"].tolist()
    return curves


def plot_growth(panels: dict[str, Curves], path: Path) -> None:
    """Regret and dictionary against rounds, a row of panels for each stream."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.hashsalt": "onsketch", "svg.fonttype": "none"})
    figure, axes = pyplot.subplots(len(panels), 2, figsize=(8, 3.2 * len(panels)))
    for (title, curves), (left, right) in zip(panels.items(), axes, strict=True):
        for label, (t, regret, size) in curves.items():
            left.semilogx(t, regret, marker=".", label=label)
            right.loglog(t, np.maximum(size, 0.5), marker=".", label=label)
        left.set_title(f"{title}: regret")
        left.set_yscale("symlog", linthresh=1.0)
        right.set_title("rows in the dictionary")
        right.legend(fontsize=7)
        left.set_xlabel("rounds")
        right.set_xlabel("rounds")
        left.minorticks_off()
        right.minorticks_off()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    path.write_text(re.sub(r"(\d\.\d\d)\d+", r"\1", path.read_text()))  # hundredths of a point are enough


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000, help="rounds, at a cost of their cube")
    parser.add_argument("--plot", type=Path, help="draw regret and dictionaries here (.svg; needs matplotlib)")
    given = parser.parse_args()
    curves = growth(Report(), given.rows)
    if given.plot:
        plot_growth({"a noisy wave": curves, "the adversary": adversary_curves(2 * given.rows)}, given.plot)


if __name__ == "__main__":
    main()
