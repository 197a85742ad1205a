"""Progressive validation: every row is predicted before it is learned, so the mean loss so far is honest.

Avrim Blum, Adam Kalai, John Langford: "Beating the hold-out: bounds for k-fold and progressive
cross-validation", COLT 1999.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onsketch.learners.base import Learner

Array = NDArray[np.float64]


class Record(NamedTuple):
    """Where a learner stood after some row of its stream."""

    rows: int
    loss: float
    """Mean loss so far."""
    recent_loss: float
    """Mean loss since the last record."""
    error: float | None
    """Share of rows whose class was mistaken so far; None where labels are numbers."""
    label: float | str
    prediction: float | str
    features: int
    """Of the last row: its label, the prediction made before learning it (or the class said), its non-zeros."""

    def __str__(self) -> str:
        error = "" if self.error is None else f"{self.error:9.4f} "
        label = f"{self.label:>9.9}" if isinstance(self.label, str) else f"{self.label:9.4g}"
        said = f"{self.prediction:>10.10}" if isinstance(self.prediction, str) else f"{self.prediction:10.4f}"
        return f"{self.loss:10.6f} {self.recent_loss:10.6f} {error}{self.rows:12,d} {label} {said} {self.features:8d}"


def _fifth_before(sums: list[tuple[int, float, float, float]], k: int) -> tuple[int, float, float, float]:
    """The last of the sums before place k after which a fifth of the rows came, or more."""
    goal = 0.8 * sums[k][0]
    return next(one for one in reversed(sums[:k]) if one[0] <= goal)


class Course:
    """The course of a tally at evenly spaced rows: thinned by half whenever it has too many points."""

    most = 600

    def __init__(self) -> None:
        self._step = 1
        self._sums: list[tuple[int, float, float, float]] = [(0, 0.0, 0.0, 0.0)]

    def add(self, before: int, losses: Array, mass: Array, wrong: Array) -> None:
        """Note the sums at every ``_step``-th row; ``before`` rows came before this block."""
        first = self._step - 1 - before % self._step
        for at in range(first, len(losses), self._step):
            self._sums.append((before + at + 1, float(losses[at]), float(mass[at]), float(wrong[at])))
        while len(self._sums) > self.most:
            self._step *= 2
            self._sums = self._sums[:1] + [one for one in self._sums[1:] if one[0] % self._step == 0]

    @property
    def sums(self) -> list[tuple[int, float, float, float]]:
        """Rows, and the sums of losses, weights and mistakes over them, from (0, 0, 0, 0) on."""
        return self._sums

    @property
    def points(self) -> list[tuple[int, float, float, float, float]]:
        """Rows; loss so far, recent loss; error so far, recent error."""
        spaced = self._sums[:: max(1, len(self._sums) // 300)]
        return [
            (now[0], _mean(now[1], now[2]), _mean(now[1] - old[1], now[2] - old[2]),
             _mean(now[3], now[2]), _mean(now[3] - old[3], now[2] - old[2]))
            for old, now in ((_fifth_before(spaced, k), spaced[k]) for k in range(1, len(spaced)))
        ]  # fmt: skip


@dataclass
class Progress:
    """Running sums of a progressive validation; records fall due at doubling counts of rows.

    The sums run row by row, so that they do not depend on how a stream is cut into blocks. A row counts with its
    sample weight; mistakes are counted by weight too.
    """

    loss: str
    signs: bool
    """Whether labels are −1 and +1 or codes of classes, so that there are mistakes to count."""
    rows: int = 0
    weight: float = 0.0
    loss_sum: float = 0.0
    mistakes: float = 0.0
    last_weight: float = 0.0
    last_loss: float = 0.0
    """The sums at the last record."""
    due: int = 1
    """Rows at which the next record falls due."""
    curve: Course | None = field(default=None, compare=False, repr=False)
    """Where the course is drawn for a page, if anybody wants one; no part of the state."""
    mark_weight: float = 0.0
    mark_loss: float = 0.0
    """The sums at the end of the last pass."""

    def add(
        self,
        X: Any,
        labels: Array,
        predictions: Array,
        weights: Array | None = None,
        names: Sequence[str] | None = None,
    ) -> list[Record]:
        """Count these rows; returns the records that fell due.

        Args:
            X: the rows.
            labels: as the learner takes them: −1 and +1, numbers, or codes of classes.
            predictions: margins (rows,), or (rows, K) for classes.
            weights: sample weights.
            names: what to call labels in records: the two classes, or all of them.
        """
        count = len(labels)
        if count == 0:
            return []
        shares = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
        each, missed, said = _judged(self.loss, labels, predictions, self.signs)
        losses = _running(self.loss_sum, shares * each)
        mass = _running(self.weight, shares)
        wrong = _running(self.mistakes, shares * missed) if self.signs else np.zeros(count)
        records = []
        while self.due <= self.rows + count:
            at = self.due - self.rows - 1
            shown = _shown(labels[at], said[at], predictions.ndim > 1, names)
            records.append(self._record(self.due, losses[at], mass[at], wrong[at], *shown, _row(X, at)))
            self.last_loss, self.last_weight = float(losses[at]), float(mass[at])
            self.due *= 2
        if self.curve is not None:
            self.curve.add(self.rows, losses, mass, wrong)
        self.rows += count
        self.loss_sum, self.weight, self.mistakes = float(losses[-1]), float(mass[-1]), float(wrong[-1])
        return records

    @property
    def mean_loss(self) -> float:
        """Mean loss over the rows so far; 0 before the first."""
        return _mean(self.loss_sum, self.weight)

    @property
    def error(self) -> float | None:
        """Share of rows whose class was mistaken, where there are classes. A margin of 0 says the negative one."""
        return _mean(self.mistakes, self.weight) if self.signs else None

    def since_mark(self) -> float:
        """The mean loss since the last call: that of a pass, at its end."""
        mean = _mean(self.loss_sum - self.mark_loss, self.weight - self.mark_weight)
        self.mark_loss, self.mark_weight = self.loss_sum, self.weight
        return mean

    def state(self) -> dict[str, Any]:
        """As JSON can hold it; ``Progress(**state)`` goes on."""
        return {name: value for name, value in vars(self).items() if name != "curve"}

    def _record(
        self, rows: int, loss: float, mass: float, wrong: float, label: Any, prediction: Any, features: int
    ) -> Record:
        recent = _mean(float(loss) - self.last_loss, float(mass) - self.last_weight)
        error = _mean(float(wrong), float(mass)) if self.signs else None
        return Record(rows, _mean(float(loss), float(mass)), recent, error, label, prediction, features)


def _judged(loss: str, labels: Array, predictions: Array, signs: bool) -> tuple[Array, NDArray[np.bool_], Array]:
    """The loss of each row, whether its class was mistaken, and what was said."""
    from onsketch.core.losses import loss_values

    if predictions.ndim == 1:
        wrong = (predictions > 0.0) != (labels > 0.0) if signs else np.zeros(len(labels), dtype=bool)
        return loss_values(loss, predictions, labels), wrong, predictions
    from onsketch.jobs.answers import class_losses

    said = predictions.argmax(axis=1) if predictions.shape[1] else np.full(len(labels), -1)
    return class_losses(predictions, labels.astype(np.int64), loss), said != labels, said


def _shown(label: float, said: float, many: bool, names: Sequence[str] | None) -> tuple[float | str, float | str]:
    """A label and a prediction as a record shows them."""
    if names is None:
        return float(label), float(said)
    return (names[int(label)], names[int(said)]) if many else (names[int(label > 0.0)], float(said))


def progressive(
    learner: Learner,
    blocks: Iterable[Any],
    on_record: Callable[[Record], object] | None = None,
    signs: bool | None = None,
) -> Progress:
    """Learn a stream of blocks, predicting each row first; returns the final tally.

    Args:
        learner: any learner.
        blocks: ``(X, y)`` or ``(X, y, sample_weight)``, as :func:`onsketch.data.stream` yields them.
        on_record: called with a :class:`Record` at rows 1, 2, 4, 8, …, for a tracker or a log.
        signs: whether labels are −1 and +1, so that mistakes are counted; by the loss when left out.

    >>> import numpy as np, onsketch
    >>> from onsketch.jobs.evaluation import progressive
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(512, 4))
    >>> y = np.sign(X @ [1.0, 2.0, 0.0, -1.0])
    >>> seen = []
    >>> total = progressive(onsketch.learner("adagrad", loss="logistic"), [(X, y)], lambda r: seen.append(r.rows))
    >>> seen
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    >>> total.error < 0.15
    True
    """
    progress = new_progress(learner, signs)
    for X, y, *weights in blocks:
        predictions = learner.learn(X, y, *weights)
        for record in progress.add(X, y, predictions, *weights):
            if on_record is not None:
                on_record(record)
    return progress


def new_progress(learner: Learner, signs: bool | None = None) -> Progress:
    """An empty tally for a learner; mistakes are counted where its loss is for labels −1 and +1, unless told."""
    by_loss = learner.loss in ("logistic", "hinge", "squared_hinge")
    return Progress(learner.loss, by_loss if signs is None else signs)


def grown(learner: Learner) -> tuple[str, str]:
    """What a model has grown to, in words: features seen, or the points that a kernel learner keeps."""
    from onsketch.core.errors import OptionError
    from onsketch.jobs.models import one_of

    seen = getattr(learner, "features_seen", None)
    if seen is not None:
        return "features", f"{seen:,} seen"
    try:
        return "features", f"{one_of(learner).coefficients()[0].size:,} seen"
    except OptionError:
        return "points", f"{learner.diagnostics()['rows_kept']:,} kept"  # type: ignore[attr-defined]


def _running(start: float, terms: Array) -> Array:
    """Running sums that continue one from before, term by term."""
    return np.cumsum(np.concatenate([[start], terms]))[1:]


def _mean(total: float, weight: float) -> float:
    return total / weight if weight > 0.0 else 0.0


def _row(X: Any, at: int) -> int:
    """Non-zeros of a row."""
    return int(X.indptr[at + 1] - X.indptr[at]) if hasattr(X, "indptr") else int(np.count_nonzero(X[at]))
