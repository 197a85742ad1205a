"""Rows a second through River's interface, one dictionary of 30 numbers at a time, beside River's own model.

    python benchmarks/river_rows.py

Each figure is the best of 600 turns of 50 rows, in CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river import linear_model

from onsketch.river import OnlineClassifier

FEATURES, ROWS, TURN, TURNS = 30, 400, 50, 600


def rate(act: Callable[[Any, bool], Any], pairs: list[tuple[dict[str, float], bool]]) -> float:
    """Rows a second of the fastest turn."""
    least = float("inf")
    for turn in range(TURNS):
        start = turn * TURN % ROWS
        began = time.process_time()
        for x, y in pairs[start : start + TURN]:
            act(x, y)
        least = min(least, time.process_time() - began)
    return TURN / least


def main() -> None:
    """Print a line for each model."""
    X = np.random.default_rng(0).normal(size=(ROWS, FEATURES))
    names = [f"f{place:02d}" for place in range(FEATURES)]
    pairs = [(dict(zip(names, row.tolist(), strict=True)), bool(row[0] > 0)) for row in X]
    models: dict[str, Any] = {name: OnlineClassifier(name) for name in ("adagrad", "auto", "rfd-son")}
    models["River's logistic regression"] = linear_model.LogisticRegression()
    print(f"{'rows a second':<28}{'learn_one':>12}{'predict_one':>14}{'predict_proba_one':>20}")
    for name, model in models.items():
        for x, y in pairs:
            model.learn_one(x, y)
        learned = rate(model.learn_one, pairs)
        said = rate(lambda x, y, model=model: model.predict_one(x), pairs)
        sure = rate(lambda x, y, model=model: model.predict_proba_one(x), pairs)
        print(f"{name:<28}{learned:>12,.0f}{said:>14,.0f}{sure:>20,.0f}", flush=True)


if __name__ == "__main__":
    main()
