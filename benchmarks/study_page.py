"""Write docs/studies/auto.md from the results, losses first."""

from __future__ import annotations

from typing import Any

import numpy as np
from study_peers import PEERS

HELD = ("australian", "breast-cancer", "cifar10", "cod-rna.30k", "covtype", "mnist", "mushrooms", "skin_nonskin.30k",
        "splice", "usps")  # fmt: skip
"""Sets that no constant was chosen on: those that ``default_study.py`` keeps for judging, and one that it lacks."""
SMALL = 2000

HEAD = """# The study of `auto`

Made by `python benchmarks/auto_study.py --data FOLDER` from `docs/results/auto/study.json`; do not edit. One pass
over raw features, each row predicted before it is learned; sets are shuffled and cut to 8,000 rows and 700,000
non-zeros, those of many classes are their most frequent class against the rest. Figures are means over {seeds}
shuffles. "VW" is Vowpal Wabbit as it ships (squared loss, the sign of the prediction); its variants have the logistic
loss. AdaGrad and gradient descent (SGD) are given the best of 13 step sizes in hindsight, set by set. `auto` has no
options.
"""
HELD_OUT = """## Against offline logistic regression

Learned on three quarters of the rows, judged on the last: `auto` in one pass over raw features, scikit-learn's logistic
regression (C = 1, features of unit deviation) until it has converged or made 300 iterations. Errors in per cent, and
log losses:
"""
REGRESSION = """## Regression with offsets

R² on 2,000 held-out rows after one pass over 5,000; the second figure of the name is what was added to the labels, in
their standard deviations. `ons` has curvature rows, no clip and its default ridge; offline is scikit-learn's ridge
regression (alpha = 1):
"""


class Figures:
    """The results by section, set and contender: means over the shuffles."""

    def __init__(self, results: dict[str, dict[str, float]]) -> None:
        self._runs: dict[tuple[str, str, str], dict[int, dict[str, float]]] = {}
        for key, figures in results.items():
            section, name, seed, contender = key.split("|")
            self._runs.setdefault((section, name, contender), {})[int(seed)] = figures

    @property
    def seeds(self) -> int:
        return max((len(runs) for runs in self._runs.values()), default=0)

    def sets(self, section: str) -> list[str]:
        return [name for s, name, contender in self._runs if s == section and contender == "auto"]

    def mean(self, section: str, name: str, contender: str, what: str = "error") -> float:
        runs = self._runs.get((section, name, contender), {}).values()
        values = [run[what] for run in runs if what in run]
        return float(np.mean(values)) if values else float("nan")

    def contenders(self, section: str) -> list[str]:
        return list(dict.fromkeys(contender for s, _, contender in self._runs if s == section))


def page(results: dict[str, dict[str, float]]) -> str:
    """The whole page."""
    figures = Figures(results)
    made = [made(figures) for made in (_errors, _weights, _held_out, _drift, _regression)]
    losses = [line for lost, _ in made for line in lost]
    lines = [HEAD.format(seeds=figures.seeds), "## Where it loses", "", *(losses or ["Nowhere in this study."])]
    for _, part in made:
        lines += ["", *part]
    return "\n".join(lines) + "\n"


Part = tuple[list[str], list[str]]
"""What is lost, and the section's text."""


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1),
            *("| " + " | ".join(row) + " |" for row in rows)]  # fmt: skip


def _cell(number: float, digits: int = 2) -> str:
    return f"{number:.{digits}f}" if np.isfinite(number) else "–"


def _geometric(ratios: Any) -> float:
    kept = [max(ratio, 1e-3) for ratio in ratios if np.isfinite(ratio)]
    return float(np.exp(np.mean(np.log(kept)))) if kept else float("nan")


def _errors(figures: Figures) -> Part:
    names = figures.sets("errors")
    rows = {name: int(figures.mean("errors", name, "auto", "rows")) for name in names}
    error = {name: {c: figures.mean("errors", name, c) for c in ("auto", *PEERS)} for name in names}
    to_vw = {name: error[name]["auto"] / max(error[name]["VW"], 1e-9) for name in names}
    best = {name: error[name]["auto"] / max(np.nanmin([error[name][c] for c in PEERS]), 1e-9) for name in names}
    order = sorted(names, key=lambda name: -best[name])
    lost = [
        f"- **{name}** ({rows[name]:,} rows): {best[name]:.2f} times the errors of the best of VW's variants and tuned "
        f"AdaGrad and SGD ({100 * error[name]['auto']:.2f} against "
        f"{100 * min(error[name][c] for c in PEERS):.2f} %: "
        f"{min(PEERS, key=lambda c: error[name][c])}); {to_vw[name]:.2f} times VW's."
        for name in order
        if best[name] > 1.02
    ]
    table = _table(
        ["set", "rows", "auto", *PEERS, "auto / VW", "auto / best"],
        [
            [name, f"{rows[name]:,}", *(_cell(100 * error[name][c]) for c in ("auto", *PEERS)), _cell(to_vw[name]),
             _cell(best[name])]
            for name in order
        ],
    )  # fmt: skip
    large = [name for name in names if rows[name] >= SMALL]
    summary = _table(
        ["sets", "number", "auto / VW", "worst", "auto / best", "worst"],
        [
            [label, str(len(part)), _cell(_geometric(to_vw[n] for n in part), 3),
             _cell(max((to_vw[n] for n in part), default=np.nan)),
             _cell(_geometric(best[n] for n in part), 3), _cell(max((best[n] for n in part), default=np.nan))]
            for label, part in (
                ("all", names), (f"of {SMALL:,} rows or more", large),
                ("others", [n for n in names if n not in HELD]),
                ("kept for judging only", [n for n in names if n in HELD]),
            )
        ],
    )  # fmt: skip
    logs = _table(
        ["", *(c for c in ("auto", *PEERS) if c != "VW")],
        [
            [label, *(_cell(float(np.nanmean([figures.mean("errors", n, c, what) for n in names])), 3)
                      for c in ("auto", *PEERS) if c != "VW")]
            for label, what in (("mean log loss", "log_loss"), ("mean calibration error", "calibration"))
        ],
    )  # fmt: skip
    text = ["## Errors", "", "Geometric means of ratios of errors:", "", *summary, ""]
    text += [f"Kept for judging only: {', '.join(HELD)}. The earlier default was chosen on some of them."]
    text += ["", "Probabilities (the calibration error is the mean gap "]
    text[-1] += "between probability and share of positives over ten bins):"
    text += [
        "",
        *logs,
        "",
        "Errors in per cent, the sets where `auto` is farthest behind the best of all others first:",
    ]
    text += ["", *table]
    return lost, text


def _weights(figures: Figures) -> Part:
    peers = ("VW", "VW logistic")
    rows, lost = [], []
    for name in figures.sets("weights"):
        own, *others = (100 * figures.mean("weights", name, c) for c in ("auto", *peers))
        rows.append([name, _cell(own), *map(_cell, others)])
        for peer, other in zip(peers, others, strict=True):
            if own > other:
                lost.append(
                    f"- **{name}** with the rarer class weighted ×20: {own:.2f} % against {other:.2f} of {peer}."
                )
    text = ["## The rarer class weighted 20 times", "", "Weighted progressive errors in per cent:", ""]
    return lost, [*text, *_table(["set", "auto", *peers], rows)]


def _held_out(figures: Figures) -> Part:
    rows, lost = [], []
    for name in figures.sets("held-out"):
        pairs = [figures.mean("held-out", name, c, w)
                 for w in ("error", "log_loss") for c in ("auto", "offline logistic")]  # fmt: skip
        rows.append([name, *(_cell(100 * v) for v in pairs[:2]), *(_cell(v, 3) for v in pairs[2:])])
    behind = [row[0] for row in rows if float(row[1]) > 1.02 * float(row[2])]
    if behind:
        said = "Behind offline logistic regression by more than 2 % of errors on held-out rows"
        lost.append(f"- {said}: {', '.join(behind)}.")
    return lost, [HELD_OUT, *_table(["set", "auto", "offline", "auto, log loss", "offline, log loss"], rows)]


def _drift(figures: Figures) -> Part:
    fixed = [c for c in figures.contenders("drift") if c != "auto"]
    rows, lost = [], []
    for name in figures.sets("drift"):
        own = figures.mean("drift", name, "auto")
        errors = {c: figures.mean("drift", name, c) for c in fixed}
        if not errors:
            continue
        best = min(errors, key=lambda c: errors[c])
        ratio = own / errors[best]
        rows.append([name, _cell(100 * own), _cell(100 * errors.get("forget=1", np.nan)), best,
                     _cell(100 * errors[best]), _cell(ratio)])  # fmt: skip
        if ratio > 1.10:
            lost.append(f'- Drift, **{name}**: `forget="auto"` makes {ratio:.2f} times the errors of {best}.')
    text = ["## Streams that drift", "", "8,000 rows; errors in per cent:", ""]
    head = ["stream", 'forget="auto"', "no forgetting", "best fixed rate", "its errors", "ratio"]
    return lost, [*text, *_table(head, rows)]


def _regression(figures: Figures) -> Part:
    rows, lost = [], []
    for name in figures.sets("regression"):
        r2 = {c: figures.mean("regression", name, c, "r2") for c in ("auto", "ons", "offline ridge")}
        rows.append([name, *(_cell(value, 4) for value in r2.values())])
        for c in ("auto", "ons"):
            if r2[c] < r2["offline ridge"] - 0.01:
                offline = r2["offline ridge"]
                lost.append(f"- Regression, **{name}**: R² {r2[c]:.3f} of `{c}` against {offline:.3f} offline.")
    return lost, [REGRESSION, *_table(["features, offset", "auto", "ons", "offline ridge"], rows)]
