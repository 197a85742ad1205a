"""Single rows through River's interface, compared with River's own models: microseconds a row, and ratios.

    python benchmarks/river_rows.py [--methods adagrad auto oja-son] [--rows 3000] [--repeats 3]

Dense rows are dictionaries of 20 numbers with the same keys in every row, with boolean labels and with labels 0 and 1.
Text rows are bags of 40 words drawn by Zipf's law, so that most rows bring a new word. Rows of many classes have 20
numbers and 5 classes, compared with River's ``SoftmaxRegression``.

Each model is shown a third of the rows first. Then it predicts and learns the others in blocks, all models in turn.
The CPU time of a block is the least of all repeats, and a figure is the mean over the blocks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river import linear_model

from onsketch.river import OnlineClassifier

FEATURES, WORDS, VOCABULARY, CLASSES, BLOCK = 20, 40, 20_000, 5, 50

Row = tuple[dict[str, float], Any]


def dense(count: int, label: Callable[[float], Any] = bool) -> list[Row]:
    """Rows of numbers with the same keys."""
    X = np.random.default_rng(0).normal(size=(count, FEATURES))
    names = [f"f{place:02d}" for place in range(FEATURES)]
    return [(dict(zip(names, row.tolist(), strict=True)), label(row[0] > 0.0)) for row in X]


def text(count: int) -> list[Row]:
    """Bags of words."""
    rng = np.random.default_rng(0)
    frequent = 1.0 / np.arange(1, VOCABULARY + 1)
    words = [f"word{place}" for place in range(VOCABULARY)]
    rows = [rng.choice(VOCABULARY, WORDS, replace=False, p=frequent / frequent.sum()) for _ in range(count)]
    return [({words[place]: 1.0 for place in row}, bool((row % 7 < 3).mean() > 3 / 7)) for row in rows]


def classes(count: int) -> list[Row]:
    """Rows of numbers with several classes."""
    return [(x, int(abs(hash(x["f00"])) % CLASSES)) for x, _ in dense(count)]


def predicting(model: Any) -> Callable[[dict[str, float]], Any]:
    """The call that predicts a row: probabilities, or the class where the loss gives none (AROW)."""
    found: Callable[..., Any] = model.predict_one if getattr(model, "method", "") == "arow" else model.predict_proba_one
    return found


def times(models: dict[str, Callable[[], Any]], rows: list[Row], repeats: int) -> dict[str, tuple[float, float]]:
    """Microseconds a row to learn and to predict probabilities, for each model."""
    first = len(rows) // 3 // BLOCK * BLOCK
    starts = range(first, len(rows), BLOCK)
    best = {name: np.full((2, len(starts)), np.inf) for name in models}
    for _ in range(repeats):
        made = {name: make() for name, make in models.items()}
        for model in made.values():
            for x, y in rows[:first]:
                predicting(model)(x)
                model.learn_one(x, y)
        for block, start in enumerate(starts):
            for name, model in made.items():
                part = [(dict(x), y) for x, y in rows[start : start + BLOCK]]  # as fresh for each
                marks = [time.process_time()]
                predict = predicting(model)
                for x, _ in part:
                    predict(x)
                marks.append(time.process_time())
                for x, y in part:
                    model.learn_one(x, y)
                marks.append(time.process_time())
                found = best[name][:, block]
                found[:] = np.minimum(found, np.diff(marks)[::-1] / len(part))
    return {name: tuple(1e6 * found.mean(axis=1)) for name, found in best.items()}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="*", default=["adagrad", "auto", "oja-son"])
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    two = {"River": linear_model.LogisticRegression}
    many = {"River": linear_model.SoftmaxRegression}
    ours = {method: lambda method=method: OnlineClassifier(method) for method in given.methods}
    print(f"{'rows':<22}{'model':<14} {'learn µs':>12}{'× River':>12}{'predict µs':>12}{'× River':>12}")
    for title, rows, peer in (
        ("dense, False and True", dense(given.rows), two),
        ("dense, 0 and 1", dense(given.rows, int), two),
        ("text", text(given.rows), two),
        (f"dense, {CLASSES} classes", classes(given.rows), many),
    ):
        found = times(peer | ours, rows, given.repeats)
        for name, (learn, predict) in found.items():
            cells = learn, learn / found["River"][0], predict, predict / found["River"][1]
            print(f"{title:<22}{name:<14}", "".join(f"{cell:>12.1f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
