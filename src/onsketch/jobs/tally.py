"""The tally of a job: losses, mistakes and answers of a block of rows are computed once, for all who count them.

:func:`judged` computes them. :class:`Progress` keeps the running means and the records, :class:`Course` the curve of a
page, :class:`Recent` the last rows, and :class:`onsketch.jobs.judging.Judge` what needs more than sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.losses import in_units_of_labels, loss_values
from onsketch.core.probabilities import probabilities
from onsketch.files.records import Count, Note, Weight

Array = NDArray[np.float64]


class Judged(NamedTuple):
    """Rows (n,) with what was predicted before they were learned."""

    labels: Array
    """As the learner takes them: −1 and +1, numbers, or codes of classes."""
    said: Array
    """The margin of each row, or the code of the class predicted."""
    losses: Array
    wrong: NDArray[np.bool_]
    """True where the class was mistaken; false everywhere where labels are numbers."""
    weights: Array
    """Sample weights, 1 where there were none."""
    many: bool
    """True where labels and answers are codes of classes."""

    def part(self, start: int, stop: int) -> Judged:
        """Return some of the rows."""
        return Judged(*(column[start:stop] for column in self[:-1]), self.many)  # type: ignore[call-arg, arg-type]


def joined(blocks: Sequence[Judged]) -> Judged:
    """Return the rows of several blocks as one."""
    *columns, many = zip(*blocks, strict=True)
    return Judged(*map(np.concatenate, columns), many[0])  # type: ignore[call-arg, arg-type]


def judged(loss: str, labels: Array, predictions: Array, signs: bool, weights: Array | None = None) -> Judged:
    """Compute the loss, the mistake and the answer of each row.

    Args:
        loss: the loss, by name.
        labels: as the learner takes them, (n,).
        predictions: margins (n,), or (n, K) for K classes.
        signs: true where mistakes are counted: labels are −1 and +1, or codes. A margin of 0 means the negative class.
        weights: sample weights (n,).
    """
    shares = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=np.float64)
    if predictions.ndim == 1:
        wrong = (predictions > 0.0) != (labels > 0.0) if signs else np.zeros(len(labels), dtype=bool)
        return Judged(labels, predictions, loss_values(loss, predictions, labels), wrong, shares, False)
    said = predictions.argmax(axis=1) if predictions.shape[1] else np.full(len(labels), -1)
    shown = probabilities(predictions, loss if loss == "logistic" else "softmax")
    own = shown[np.arange(len(labels)), labels.astype(np.int64)]
    losses = -np.log(np.maximum(own, 1e-300))
    return Judged(labels, said.astype(np.float64), losses, said != labels, shares, True)


class Record(NamedTuple):
    """Record of a learner's progress after some row of its stream."""

    rows: Count
    loss: float
    """Mean loss so far."""
    recent_loss: float
    """Mean loss since the last record."""
    error: float | None
    """Share of rows whose class was mistaken so far; None where labels are numbers."""
    label: float | str
    prediction: float | str
    features: Count
    """Of the last row: its label, the prediction before learning it (or the predicted class), its non-zeros."""

    def __str__(self) -> str:
        error = "" if self.error is None else f"{self.error:9.4f} "
        label = f"{self.label:>9.9}" if isinstance(self.label, str) else f"{self.label:9.4g}"
        said = f"{self.prediction:>10.10}" if isinstance(self.prediction, str) else f"{self.prediction:10.4f}"
        return f"{self.loss:10.6f} {self.recent_loss:10.6f} {error}{self.rows:12,d} {label} {said} {self.features:8d}"


def _fifth_before(sums: list[tuple[int, float, float, float]], k: int) -> tuple[int, float, float, float]:
    """Return the last of the sums before place k that has at most 80 % of the rows of k."""
    goal = 0.8 * sums[k][0]
    return next(one for one in reversed(sums[:k]) if one[0] <= goal)


class Course:
    """The course of a tally at evenly spaced rows: thinned by half whenever it has too many points."""

    most = 600

    def __init__(self) -> None:
        self._step = 1
        self.sums: list[tuple[int, float, float, float]] = [(0, 0.0, 0.0, 0.0)]
        """Rows, and the sums of losses, weights and mistakes over them, from (0, 0, 0, 0) on."""

    def add(self, before: int, losses: Array, mass: Array, wrong: Array) -> None:
        """Note the sums at every ``_step``-th row; ``before`` rows precede this block."""
        first = self._step - 1 - before % self._step
        for at in range(first, len(losses), self._step):
            self.sums.append((before + at + 1, float(losses[at]), float(mass[at]), float(wrong[at])))
        while len(self.sums) > self.most:
            self._step *= 2
            self.sums = self.sums[:1] + [one for one in self.sums[1:] if one[0] % self._step == 0]

    @property
    def points(self) -> list[tuple[int, float, float, float, float]]:
        """Rows; loss so far, recent loss; error so far, recent error."""
        spaced = self.sums[:: max(1, len(self.sums) // 300)]
        return [
            (now[0], _mean(now[1], now[2]), _mean(now[1] - old[1], now[2] - old[2]),
             _mean(now[3], now[2]), _mean(now[3] - old[3], now[2] - old[2]))
            for old, now in ((_fifth_before(spaced, k), spaced[k]) for k in range(1, len(spaced)))
        ]  # fmt: skip


class Progress(Note):
    """Running sums of a progressive validation; records fall due at doubling counts of rows.

    The sums run row by row, so that they do not depend on how a stream is cut into blocks. A row counts with its
    sample weight; mistakes are counted by weight too.
    """

    loss: str
    signs: bool
    """True if labels are −1 and +1 or codes of classes, so that mistakes are counted."""
    rows: Count = 0
    weight: Weight = 0.0
    loss_sum: float = 0.0
    mistakes: Weight = 0.0
    last_weight: Weight = 0.0
    last_loss: float = 0.0
    """The sums at the last record."""
    due: Count = 1
    """Rows at which the next record falls due."""
    mark_weight: Weight = 0.0
    mark_loss: float = 0.0
    """The sums at the end of the last pass."""

    def __post_init__(self) -> None:
        if self.due <= self.rows:
            raise ValueError("the next record was due before its last row")

    def add(
        self, block: Judged, X: Any = None, names: Sequence[str] | None = None, course: Course | None = None
    ) -> list[Record]:
        """Count the rows of a block, on a course, too, if there is one; return the records that fell due.

        Records show the non-zeros of a row of ``X``, and labels by ``names``: of the two classes, or of all of them.
        """
        count = len(block.labels)
        if count == 0:
            return []
        starts = self.loss_sum, self.weight, self.mistakes
        terms = block.weights * block.losses, block.weights, block.weights * block.wrong
        losses, mass, wrong = sums = [
            np.cumsum(np.concatenate([[start], each]))[1:] for start, each in zip(starts, terms, strict=True)
        ]
        records = []
        while self.due <= self.rows + count:
            at = self.due - self.rows - 1
            said = block.said[at] if self.signs else in_units_of_labels(self.loss, block.said[at])
            recent = _mean(losses[at] - self.last_loss, mass[at] - self.last_weight)
            error = _mean(wrong[at], mass[at]) if self.signs else None
            shown = _shown(block.labels[at], said, block.many, names)
            records.append(Record(self.due, _mean(losses[at], mass[at]), recent, error, *shown, _nonzeros(X, at)))
            self.last_loss, self.last_weight = float(losses[at]), float(mass[at])
            self.due *= 2
        if course is not None:
            course.add(self.rows, *sums)
        self.rows += count
        self.loss_sum, self.weight, self.mistakes = (float(each[-1]) for each in sums)
        return records

    @property
    def mean_loss(self) -> float:
        """Mean loss over the rows so far; 0 before the first."""
        return _mean(self.loss_sum, self.weight)

    @property
    def error(self) -> float | None:
        """Share of rows predicted wrongly, if there are classes. A margin of 0 means the negative class."""
        return _mean(self.mistakes, self.weight) if self.signs else None

    def since_mark(self) -> float:
        """The mean loss since the last call: that of a pass, at its end."""
        mean = _mean(self.loss_sum - self.mark_loss, self.weight - self.mark_weight)
        self.mark_loss, self.mark_weight = self.loss_sum, self.weight
        return mean

    def merge(self, other: Progress) -> None:
        """Add the tally of other rows.

        Every row of every shard was predicted before that shard had learned it, by a model that no other shard had
        shown it to, so the sum is a progressive loss as honest as that of one stream.
        """
        self.rows += other.rows
        self.weight += other.weight
        self.loss_sum += other.loss_sum
        self.mistakes += other.mistakes
        self.last_loss, self.last_weight = self.loss_sum, self.weight
        while self.due <= self.rows:
            self.due *= 2

    def judged(self, labels: Array, predictions: Array, weights: Array | None = None) -> Judged:
        """Judge a block by the loss of this tally."""
        return judged(self.loss, labels, predictions, self.signs, weights)


class Recent:
    """Weights, losses and mistakes of the last rows."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.table: Array = np.empty((0, 3))
        """The weight, loss and mistake of each row."""

    def __len__(self) -> int:
        return len(self.table)

    def add(self, block: Judged) -> None:
        """Count the rows of a block."""
        last = block.part(max(len(block.labels) - self._most, 0), len(block.labels))
        rows = np.column_stack([last.weights, last.losses, last.wrong])
        self.table = np.concatenate([self.table, rows])[-self._most :]

    def means(self) -> tuple[float, float]:
        """Return the mean loss and the share of mistakes."""
        weight, losses, wrong = self.table.T
        mass = float(weight.sum())
        return _mean(float(weight @ losses), mass), _mean(float(weight @ wrong), mass)


def _shown(label: float, said: float, many: bool, names: Sequence[str] | None) -> tuple[float | str, float | str]:
    """A label and a prediction as a record shows them."""
    if names is None:
        return float(label), float(said)
    return (names[int(label)], names[int(said)]) if many else (names[int(label > 0.0)], float(said))


def _mean(total: float, weight: float) -> float:
    return float(total / weight) if weight > 0.0 else 0.0


def _nonzeros(X: Any, at: int) -> int:
    """Count the non-zeros of a row."""
    if X is None:
        return 0
    return int(X.indptr[at + 1] - X.indptr[at]) if hasattr(X, "indptr") else int(np.count_nonzero(X[at]))
