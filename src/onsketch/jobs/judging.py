"""Judging a stream of predictions: what a constant would have done, ranking, calibration, confusion, and sorted labels.

Everything is counted in one pass, in memory that does not grow, and row by row, so that no cut of the stream into
blocks or days changes a bit of it. Margins of two classes are counted in fixed cells (2,047 of them, 0.0008 wide around
0), which gives areas under curves to about 1e-4.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.losses import in_units_of_labels, loss_values, named
from onsketch.data.task import Task
from onsketch.files.records import Count, Note, Number, Weight
from onsketch.jobs.tally import Judged

Array = NDArray[np.float64]

_HALF = 1023
_FINE = _HALF / math.asinh(8.0 * 40.0)
CELLS = 2 * _HALF + 1
SAMPLED = ("absolute", "quantile", "huber", "epsilon_insensitive")
"""Losses whose best constant is found on a sample of the labels."""
KEPT = 2000
"""Labels kept as this sample."""
_ENOUGH = 200
"""Rows needed before a warning that labels look sorted."""


class Point(NamedTuple):
    """A point of a curve."""

    x: float
    y: float
    weight: float = 0.0


class Counts(Note, kw_only=True):
    """The counts of a judge."""

    loss: str
    rows: Count
    changes: Count
    last: Number | None
    cells: list[tuple[Annotated[int, Meta(ge=0, lt=CELLS)], Weight, Weight]]
    """The cells of margins that are not empty: place, and weight of negative and of positive rows."""
    confusion: list[tuple[Count, Annotated[int, Meta(ge=-1, le=LONGEST_COUNT)], Weight]]
    """Code, predicted code, and weight of the rows."""
    sums: Annotated[list[float], Meta(min_length=5, max_length=5)]
    own: Annotated[list[float], Meta(min_length=2, max_length=2)]
    first: Number
    sample: list[Number]


class Judge:
    """Running counts over labels and predictions; ``figures`` computes the metrics from them."""

    def __init__(self, task: Task, loss: str) -> None:
        self.task = task
        self.loss = loss
        self.rows = 0
        self.changes = 0
        self.last: float | None = None
        self.counts = np.zeros((2, CELLS))
        """Weight of rows by label (negative, positive) and cell of the margin."""
        self.confusion: dict[tuple[int, int], float] = {}
        """Weight of rows by class and predicted class."""
        self.sums = np.zeros(5)
        """Σc, Σc(y − y₀), Σc(y − y₀)², Σc(z − y)², Σ(yₜ − yₜ₋₁)²."""
        self.own = np.zeros(2)
        """Quantile loss: Σc over the labels not above their predictions. Poisson: Σc·ℓ, and Σc·ℓ of perfect margins."""
        self.first = 0.0
        self.sample: list[float] = []

    # Counting -----------------------------------------------------------------------------------------------

    def add(self, block: Judged) -> None:
        """Count the rows of a block."""
        labels, predictions, shares = block.labels, block.said, block.weights
        if not labels.size:
            return
        steps = np.diff(np.concatenate([[labels[0] if self.last is None else self.last], labels]))
        self.changes += int(np.count_nonzero(steps))
        self.last = float(labels[-1])
        if self.task.signs:
            cells = _cells(predictions)
            np.add.at(self.counts, ((labels > 0.0).astype(np.intp), cells), shares)
        elif self.task.many:
            pairs, place = np.unique(np.stack([labels, predictions]).astype(int), axis=1, return_inverse=True)
            keys = [(code, said) for code, said in pairs.T.tolist()]
            sums = np.array([self.confusion.get(key, 0.0) for key in keys])
            np.add.at(sums, place.reshape(-1), shares)
            self.confusion |= dict(zip(keys, sums.tolist(), strict=True))
        else:
            self._add_numbers(block, steps)
        self.rows += labels.size

    def _add_numbers(self, block: Judged, steps: Array) -> None:
        labels, shares = block.labels, block.weights
        if self.rows == 0:
            self.first = float(labels[0])
        said = in_units_of_labels(self.loss, block.said)
        away, off = labels - self.first, said - labels
        terms = np.stack([shares, shares * away, shares * away * away, shares * off * off, steps * steps])
        self.sums = np.cumsum(np.concatenate([self.sums[:, np.newaxis], terms], axis=1), axis=1)[:, -1]
        if self.loss == "poisson":
            perfect = labels - labels * np.log(np.maximum(labels, 1e-300))
            self._count(shares * block.losses, shares * perfect)
        if not self._samples:
            return
        self._count(shares * (off >= 0.0), 0.0 * shares)
        for place, label in zip(_reservoir(self.rows, labels.size), labels.tolist(), strict=True):
            if place == len(self.sample):
                self.sample.append(label)
            elif place < KEPT:
                self.sample[place] = label

    def _count(self, *terms: Array) -> None:
        """Add to this loss's own sums, row by row."""
        self.own = np.cumsum(np.concatenate([self.own[:, np.newaxis], np.stack(terms)], axis=1), axis=1)[:, -1]

    @property
    def _level(self) -> float | None:
        """The quantile of the labels that is this loss's best constant; None where that is no quantile."""
        loss = named(self.loss) if self.loss.split(" ")[0] in ("absolute", "quantile") else None
        return None if loss is None else loss.level or 0.5

    @property
    def _samples(self) -> bool:
        """True for losses whose best constant is found on a sample of the labels."""
        return self.loss.split(" ")[0] in SAMPLED

    # Judging ------------------------------------------------------------------------------------------------

    @property
    def shares(self) -> Array:
        """The weight of each class as a share of all."""
        if self.task.signs:
            mass = self.counts.sum(axis=1)
        else:
            mass = np.zeros(len(self.task.names or []))
            for (code, _), weight in sorted(self.confusion.items()):
                mass[code] += weight
        total = mass.sum()
        return np.asarray(mass / total) if total > 0.0 else mass

    def best_constant(self) -> tuple[float | None, float | None]:
        """The loss and the error of the best constant prediction in hindsight; None if there is none."""
        if self.rows == 0:
            return None, None
        if self.task.signs or self.task.many:
            p = self.shares
            error = 1.0 - float(p.max())
            if self.task.many or self.loss == "logistic":
                return 0.0 - sum(share * math.log(share) for share in p.tolist() if share > 0.0), error
            q = float(p[1]) if p.size > 1 else 0.0
            by_loss = {"hinge": 2.0 * min(q, 1.0 - q), "squared_hinge": 4.0 * q * (1.0 - q), "squared": 4 * q * (1 - q)}
            return by_loss.get(self.loss), error
        mass, mean, square = self.sums[:3].tolist()
        if mass <= 0.0:
            return None, None
        if self.loss == "squared":
            return max(0.0, square / mass - (mean / mass) ** 2), None
        if self.loss == "poisson":
            rate = mean / mass + self.first
            return (rate - rate * math.log(rate) if rate > 0.0 else 0.0), None
        if self._samples:
            return self._best_on_sample(), None
        return None, None

    def _best_on_sample(self) -> float:
        """Return the mean loss of the best constant for the sampled labels: a quantile, or by Brent's method."""
        kept = np.array(self.sample)

        def mean_loss(constant: float) -> float:
            return float(loss_values(self.loss, np.full(kept.size, constant), kept).mean())

        if self._level is not None:
            return mean_loss(float(np.quantile(kept, self._level)))
        from scipy.optimize import minimize_scalar

        ends = float(kept.min()), float(kept.max())
        found = minimize_scalar(mean_loss, bounds=ends, method="bounded") if ends[0] < ends[1] else None
        return min(mean_loss(ends[0]), math.inf if found is None else float(found.fun))

    def auc(self) -> float | None:
        """The chance that a positive row is ranked above a negative one, ties counting half."""
        negative, positive = self.counts
        both = negative.sum() * positive.sum()
        if not both > 0.0:
            return None
        below = np.cumsum(negative) - negative
        return float((positive * (below + 0.5 * negative)).sum() / both)

    def _rates(self) -> Array:
        """Return false-positive rate, recall and precision as the threshold falls; nothing without a positive row."""
        false, true = np.cumsum(self.counts[:, ::-1], axis=1)
        if not true[-1] > 0.0:
            return np.empty((3, 0))
        precision = np.divide(true, true + false, where=true > 0.0, out=np.ones_like(true))
        return np.stack([false / max(false[-1], 1e-300), true / true[-1], precision])

    def average_precision(self) -> float | None:
        """Σ (recall gained)·(precision) from the highest margin down."""
        _, recall, precision = self._rates()
        return float((np.diff(recall, prepend=0.0) * precision).sum()) if recall.size else None

    def roc(self) -> list[Point]:
        """False-positive against true-positive rate."""
        false, recall, _ = self._rates()
        return [Point(0.0, 0.0), *_thinned(false, recall)] if recall.size else []

    def precision_recall(self) -> list[Point]:
        """Recall against precision."""
        _, recall, precision = self._rates()
        return _thinned(recall[recall > 0.0], precision[recall > 0.0]) if recall.size else []

    def reliability(self, least: float = 1e-300) -> list[Point]:
        """Mean predicted probability, observed share and weight, for ten cells of equal width that have rows enough."""
        bins = 10
        if not self.task.signs or self.loss != "logistic":
            return []
        middle = np.sinh((np.arange(-_HALF, _HALF + 1) - 0.5) / _FINE) / 8.0  # a margin in each cell
        p = 1.0 / (1.0 + np.exp(-middle))
        place = np.minimum((p * bins).astype(int), bins - 1)
        mass = self.counts.sum(axis=0)
        weight = np.bincount(place, mass, bins)
        mean, seen = np.bincount(place, mass * p, bins), np.bincount(place, self.counts[1], bins)
        return [
            Point(float(mean[k] / weight[k]), float(seen[k] / weight[k]), float(weight[k]))
            for k in range(bins)
            if weight[k] >= least
        ]

    def calibration_error(self) -> float | None:
        """Expected calibration error over ten cells of probability."""
        curve = self.reliability()
        total = sum(point.weight for point in curve)
        return sum(point.weight * abs(point.x - point.y) for point in curve) / total if total else None

    @property
    def sorted_labels(self) -> bool:
        """Return True if labels come in long runs, far from what a shuffled file would show."""
        if self.rows < _ENOUGH:
            return False
        if self.task.signs or self.task.many:
            expected = self.rows * (1.0 - float((self.shares**2).sum()))
            return expected > 40.0 and self.changes < 0.1 * expected
        mass, mean, square = self.sums[:3].tolist()
        variance = square / mass - (mean / mass) ** 2 if mass > 0.0 else 0.0
        return variance > 0.0 and float(self.sums[4]) / self.rows < 0.002 * variance

    def figures(self) -> dict[str, float]:
        """Return the metrics by name; those that are undefined are left out."""
        loss, error = self.best_constant()
        found: dict[str, float | None] = {"best_constant_loss": loss, "best_constant_error": error}
        if self.task.signs:
            found |= {
                "auc": self.auc(),
                "average_precision": self.average_precision(),
                "calibration_error": self.calibration_error(),
            }
        elif not self.task.many and self.rows:
            mass, mean, square, off = self.sums[:4].tolist()
            spread = square - mean * mean / mass if mass > 0.0 else 0.0
            found |= {"rmse": math.sqrt(off / mass) if mass > 0.0 else None}
            found |= {"r_squared": 1.0 - off / spread if spread > 0.0 else None}
            if mass > 0.0 and self.loss == "poisson":
                deviance, constant = (2.0 * (each - self.own[1] / mass) for each in (self.own[0] / mass, loss or 0.0))
                found |= {"deviance": deviance, "best_constant_deviance": constant}
                found |= {"deviance_explained": 1.0 - deviance / constant if constant > 0.0 else None}
            if mass > 0.0 and self.loss.startswith("quantile"):
                found |= {"coverage": self.own[0] / mass}
        return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}

    def confusion_matrix(self) -> tuple[list[str], list[list[float]]]:
        """The labels, and the weight of rows by label and predicted label."""
        if self.task.signs:
            names = list(self.task.two_names)
            said = np.arange(CELLS) > _HALF
            rows = [[float(side[~said].sum()), float(side[said].sum())] for side in self.counts]
            return names, rows
        names = list(self.task.names or [])
        matrix = [[0.0] * len(names) for _ in names]
        for (code, answer), weight in self.confusion.items():
            matrix[code][answer] += weight
        return names, matrix

    # Keeping ------------------------------------------------------------------------------------------------

    def state(self) -> Counts:
        """Return the counts, for a file."""
        return Counts(
            loss=self.loss,
            rows=self.rows,
            changes=self.changes,
            last=self.last,
            cells=[(int(k), *self.counts[:, k].tolist()) for k in np.flatnonzero(self.counts.any(axis=0))],
            confusion=[(*pair, weight) for pair, weight in sorted(self.confusion.items())],
            sums=self.sums.tolist(),
            own=self.own.tolist(),
            first=self.first,
            sample=self.sample,
        )

    @classmethod
    def from_state(cls, task: Task, state: Counts) -> Judge:
        """Return a judge with these counts, to count on."""
        judge = cls(task, state.loss)
        judge.rows, judge.changes, judge.last, judge.first = state.rows, state.changes, state.last, state.first
        for cell, negative, positive in state.cells:
            judge.counts[:, cell] = negative, positive
        judge.confusion = {(code, said): weight for code, said, weight in state.confusion}
        judge.sums, judge.own, judge.sample = np.array(state.sums), np.array(state.own), list(state.sample)
        return judge


def _cells(margins: Array) -> NDArray[np.intp]:
    """The cell of each margin: above the middle one exactly where the margin is positive."""
    reach = np.ceil(np.abs(np.arcsinh(8.0 * margins)) * _FINE)
    cells = np.where(margins > 0.0, reach, 1.0 - np.maximum(reach, 1.0))
    return (np.clip(cells, -_HALF, _HALF) + _HALF).astype(np.intp)


def _reservoir(before: int, count: int) -> list[int]:
    """Return the index in the sample for each of the next rows, or a number beyond it; all rows are equally likely.

    J. S. Vitter: "Random sampling with a reservoir", ACM TOMS 11(1), 1985, algorithm R, with draws keyed by the row.
    """
    from onsketch.core.draws import bits_of

    rows = np.arange(before, before + count, dtype=np.uint64)
    drawn = bits_of(rows).astype(np.float64) / 2.0**64 * (rows.astype(np.float64) + 1.0)
    return np.where(rows < KEPT, rows.astype(np.int64), drawn.astype(np.int64)).tolist()  # type: ignore[no-any-return]


def _thinned(x: Array, y: Array) -> list[Point]:
    """Return at most 200 of the points that differ from the one before; first and last among them."""
    rows = np.stack([x, y], axis=1)
    kept = rows[np.concatenate([[True], (np.diff(rows, axis=0) != 0.0).any(axis=1)])]
    chosen = kept[np.unique(np.linspace(0, len(kept) - 1, min(200, len(kept))).round().astype(int))]
    return [Point(*row) for row in chosen.tolist()]
