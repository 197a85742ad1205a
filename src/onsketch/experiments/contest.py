"""Comparison of learners on a stream: a grid for each on one order of the rows, repeats only of the best setting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean, stdev
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

import onsketch
from onsketch.core.errors import UpdateError
from onsketch.core.losses import loss_values
from onsketch.experiments.design import Cell, Conditions, Result, Results, Row
from onsketch.experiments.streams import Data, Sources

POINTS = 40
"""Points of a curve."""


class Entry(NamedTuple):
    """Learner of a contest: its label, its method, its options, and its grid."""

    label: str
    method: str
    options: Mapping[str, Any] = {}
    grid: Mapping[str, Sequence[Any]] = {}
    random: bool = False
    """True if it draws random numbers, so that a repeat on the same rows differs."""

    def settings(self) -> list[dict[str, Any]]:
        """Return every combination of the grid with the options."""
        combinations = itertools.product(*self.grid.values())
        return [{**self.options, **dict(zip(self.grid, values, strict=True))} for values in combinations]


def learn(sources: Sources, stream: Mapping[str, Any], method: str, options: Mapping[str, Any], seed: int) -> Result:
    """Learn in one pass; return cumulative losses and mistakes at some points, CPU seconds, and the error on test rows.

    The seconds are those of the learning thread, without compilation.
    """
    data = sources.stream(**stream)
    X, y = data.X, data.y
    options = dict(options)
    if method in ("ada-full", "ons", "ada-lr", "radagrad"):
        options["n_features"] = X.shape[1]
    concerned = {**options, "seed": seed}
    with suppress(UpdateError):  # a setting that diverges at once is detected below
        onsketch.learner(method, **concerned).learn(X[:16], y[:16])  # compiles
    return measured(onsketch.learner(method, **concerned), data)


def measured(learner: Any, data: Data) -> Result:
    """Return the results of one pass of a learner (its ``learn``, ``predict`` and ``loss``)."""
    X, y = data.X, data.y
    edges = np.unique(np.linspace(0, len(y), min(POINTS, len(y)) + 1).astype(int))
    losses, mistakes, seconds = [0.0], [0], [0.0]
    diverged = False
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        began = thread_time()
        try:
            margins = learner.learn(X[start:stop], y[start:stop])
        except UpdateError:
            diverged = True
            break
        seconds.append(seconds[-1] + thread_time() - began)
        losses.append(losses[-1] + float(loss_values(learner.loss, margins, y[start:stop]).sum()))
        mistakes.append(mistakes[-1] + int(np.sum(margins * y[start:stop] <= 0.0)))
    outcome: dict[str, Any] = {
        "rows": edges[1 : len(losses)].tolist(),
        "losses": losses[1:],
        "mistakes": mistakes[1:],
        "seconds": seconds[1:],
        "diverged": diverged,
    }
    if data.test_y is not None and not diverged:
        outcome["test_error"] = float(np.mean(learner.predict(data.test_X) * data.test_y <= 0.0))
    return outcome


def score(result: Result, metric: str) -> float:
    """Return the score of a cell: ``loss`` or ``mistakes`` (sums), ``error`` (share of mistakes) or ``test_error``."""
    if result["diverged"]:
        return math.inf
    if metric == "error":
        return float(result["mistakes"][-1] / result["rows"][-1])
    if metric == "test_error":
        return float(result["test_error"])
    return float(result["losses" if metric == "loss" else metric][-1])


@dataclass(frozen=True)
class Contest:
    """Entries on one stream."""

    stream: Mapping[str, Any]
    entries: Sequence[Entry]
    repeats: int = 1
    metric: str = "loss"
    """Metric, to be minimised, that selects the setting."""
    reshuffle: bool = True
    """True if repeats shuffle the rows; if not, only the learner's seed changes."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the rows of this contest."""

    def cell(self, entry: Entry, options: Mapping[str, Any], repeat: int) -> Cell:
        """Return the cell of one run."""
        stream = {**self.stream, "seed": repeat if self.reshuffle else 0}
        given = {"stream": stream, "method": entry.method, "options": options, "seed": repeat if entry.random else 0}
        return Cell(learn, given)

    def grid(self, entry: Entry) -> list[Cell]:
        """Return the runs of the grid."""
        return [self.cell(entry, options, 0) for options in entry.settings()]

    def cells(self, results: Results) -> Iterator[Cell]:
        """Yield the grids, and the repeats of the selected settings."""
        for entry in self.entries:
            grid = self.grid(entry)
            yield from grid
            if all(cell in results for cell in grid):
                yield from self.runs(entry, results)

    def best(self, entry: Entry, results: Results) -> Cell:
        """Return the cell of the grid with the least metric."""
        return min(self.grid(entry), key=lambda cell: score(results[cell], self.metric))

    def runs(self, entry: Entry, results: Results) -> list[Cell]:
        """Return the selected setting for every order of the rows (once, if repeats are equal)."""
        options = self.best(entry, results).given["options"]
        count = self.repeats if self.reshuffle or entry.random else 1
        return [self.cell(entry, options, repeat) for repeat in range(count)]

    def rows(self, results: Results, metrics: Sequence[str]) -> list[Row]:
        """Return a row for each entry: mean and spread of each metric over the repeats, the setting and the time."""
        return [self._row(entry, results, metrics) for entry in self.entries]

    def _row(self, entry: Entry, results: Results, metrics: Sequence[str]) -> Row:
        best = self.best(entry, results)
        runs = [results[cell] for cell in self.runs(entry, results)]
        finite = [run for run in runs if not run["diverged"]]
        row: Row = {**self.about, "learner": entry.label, "method": entry.method}
        for metric in metrics:
            values = [score(run, metric) for run in finite]
            row[metric] = fmean(values) if values else None
            row[f"{metric}_sd"] = stdev(values) if len(values) > 1 else None
        row["repeats"] = len(runs)
        row["diverged"] = len(runs) - len(finite)
        chosen = {name: best.given["options"][name] for name in entry.grid}
        row["setting"] = ", ".join(f"{name} {value:g}" for name, value in chosen.items())
        row["at_edge"] = any(
            len(values) > 1 and chosen[name] in (min(values), max(values)) for name, values in entry.grid.items()
        )
        row["tried"] = len(entry.settings())
        row["microseconds"] = fmean(1e6 * run["seconds"][-1] / run["rows"][-1] for run in finite) if finite else None
        row["curve_x"] = finite[0]["rows"] if finite else []
        for name in ("losses", "mistakes"):
            curves = list(zip(*(run[name] for run in finite), strict=True))
            row[f"curve_{name}"] = [round(fmean(values), 6) for values in curves]
            row[f"curve_{name}_sd"] = [round(stdev(values), 6) for values in curves] if len(finite) > 1 else None
        return row


Contests = Callable[[Conditions], Sequence[Contest]]


def cells_of(contests: Contests) -> Callable[[Conditions, Results], Iterator[Cell]]:
    """Return the ``cells`` function of an experiment made of contests."""
    return lambda conditions, results: (cell for contest in contests(conditions) for cell in contest.cells(results))


def rows_of(contests: Contests, *metrics: str, curves: bool = True) -> Callable[[Conditions, Results], list[Row]]:
    """Return its ``rows`` function, with or without curves."""

    def rows(conditions: Conditions, results: Results) -> list[Row]:
        found = [row for contest in contests(conditions) for row in contest.rows(results, metrics)]
        return [{name: row[name] for name in row if curves or not name.startswith("curve")} for row in found]

    return rows
