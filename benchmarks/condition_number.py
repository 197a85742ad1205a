"""The README's picture: progressive error against the condition number of the features (luo2016, figure 1).

    python benchmarks/condition_number.py docs/images/condition_number.svg

The labels are the same at every condition number; only the coordinates change. Each learner is shown by the best of
the settings it tried in the same pass (``onsketch.jobs.compare.PUBLISHED``); `auto` has none to try.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

from onsketch.jobs.compare import PUBLISHED, Race, embedded
from onsketch.report.plots import Curve, curves, standalone

CONDITIONS = (1.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0)
SEEDS = range(3)


def main(target: Path) -> None:
    errors: dict[str, list[list[float]]] = {name: [] for name in PUBLISHED}
    for seed in SEEDS:
        race = Race(
            embedded(10_000, 100, CONDITIONS, seed), list(PUBLISHED.values()),
            {"n_features": 100, "loss": "squared", "sketch_size": 10}, signs=True, by="error",
        )  # fmt: skip
        *_, (_, standings) = race.run()
        for standing in standings:
            errors[standing.name].append([100.0 * (score.error or 0.0) for score in standing.scores])
    lines = []
    for name, runs in errors.items():
        mean = [sum(values) / len(values) for values in zip(*runs, strict=True)]
        spread = [(max(values) - min(values)) / 2 for values in zip(*runs, strict=True)]
        lines.append(Curve(name, CONDITIONS, mean, spread=spread))
        print(f"{name:10s}", "  ".join(f"{value:5.1f}" for value in mean))
    target.parent.mkdir(parents=True, exist_ok=True)
    chart = curves(lines, "condition number of the features", "progressive error (%), 10,000 rows")
    target.write_text(standalone(chart), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
