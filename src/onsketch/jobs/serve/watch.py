"""How a model does on live rows: the long run, the recent window, the baseline, and curves short enough to send.

The baseline is the best constant so far, learned as the rows come: for numbers the mean of the labels (squared, Poisson
loss) or a quantile of the last ones (absolute, quantile loss), else the frequency of each class (−ln of it, and the
error of always saying the most frequent).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Any

import numpy as np

from onsketch.core.losses import loss_values, named
from onsketch.jobs.serve.batch import Floats
from onsketch.jobs.serve.model import Model

WINDOW = 1000
"""Rows of the recent window."""
_POINT_ROWS = 128
"""Rows between two points of the curve, at least."""
POINTS = 400
"""Points of a curve; when it is full every second one is left out."""


class Watch:
    """Tallies beside those of the model itself, since the service started."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.rows = 0
        self.loss = self.mistakes = self.base_loss = self.base_mistakes = 0.0
        self.recent: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        self.curve: list[list[float | None]] = []
        """Rows, seconds, mean loss, error, recent loss, recent error, baseline's loss, baseline's error."""
        self._due, self._stride = 1, 1
        self._counts: dict[float, int] = {}
        self._sum = 0.0
        self._labels: deque[float] = deque(maxlen=WINDOW)
        self._began = time.time()
        self._rates: deque[tuple[float, int]] = deque(maxlen=64)
        self._lock = threading.Lock()
        self._waiting: list[tuple[Model, Floats, Floats]] = []
        """Rows that are not counted yet: one at a time they would cost as much as learning them."""
        self._waiting_rows = 0

    def add(self, model: Model, labels: Floats, margins: Floats) -> None:
        """Count rows that were learned, now or when there are enough of them."""
        with self._lock:
            if self._waiting and self._waiting[-1][2].shape[1:] != margins.shape[1:]:
                self._count()  # a class more
            self._waiting.append((model, labels, margins))
            self._waiting_rows += labels.size
            now = time.time()
            if not self._rates or now - self._rates[-1][0] > 0.5:
                self._rates.append((now, self.rows + self._waiting_rows))
            if self._waiting_rows >= _POINT_ROWS:
                self._count()

    def _count(self) -> None:
        """Count the rows that wait; many of them have several points of the curve."""
        if not self._waiting:
            return
        model = self._waiting[0][0]
        labels, margins = (np.concatenate([waiting[k] for waiting in self._waiting]) for k in (1, 2))
        self._waiting, self._waiting_rows = [], 0
        part = max(_POINT_ROWS, self.rows // 50)
        for start in range(0, labels.size, part):
            self._add(model, labels[start : start + part], margins[start : start + part])

    def _add(self, model: Model, labels: Floats, margins: Floats) -> None:
        losses, wrong = model.losses(labels, margins)
        missed = np.zeros(labels.size) if wrong is None else wrong
        base, base_missed = self._baseline(labels, model.progress.loss)
        self.rows += labels.size
        self.loss += float(losses.sum())
        self.mistakes += float(missed.sum())
        self.base_loss += float(base.sum())
        self.base_mistakes += float(base_missed.sum())
        self.recent.extend(zip(losses[-WINDOW:].tolist(), missed[-WINDOW:].tolist(), strict=True))
        if self.rows >= self._due:
            self._point()

    def _baseline(self, labels: Floats, loss: str) -> tuple[Floats, Floats]:
        """The loss and mistake of the best constant before each row, which then counts."""
        seen = self.rows + np.arange(labels.size)
        if self.kind == "regression":
            before = self._sum + np.cumsum(labels) - labels
            self._sum += float(labels.sum())
            means = before / np.maximum(seen, 1)
            if named(loss).smooth:
                constants = np.log(np.maximum(means, 1e-300)) if loss == "poisson" else means
            else:  # a quantile of what came last
                kept = self._labels or [0.0]
                constants = np.full(labels.size, np.quantile(kept, named(loss).level or 0.5))
                self._labels.extend(labels[-WINDOW:].tolist())
            return loss_values(loss, constants, labels), np.zeros(labels.size)
        mine, best = np.zeros(labels.size), np.zeros(labels.size)
        known = {float(label): 0 for label in np.unique(labels)} | self._counts
        for label, count in known.items():
            here = labels == label
            before = count + np.cumsum(here) - here
            mine[here] = before[here]
            best = np.maximum(best, before)
            known[label] = count + int(np.count_nonzero(here))
        self._counts = known
        share = (mine + 0.5) / (seen + 0.5 * max(len(known), 2))
        return -np.log(share), ((mine < best) | (seen == 0)).astype(np.float64)

    def _point(self) -> None:
        self.curve.append([self.rows, round(time.time() - self._began, 3), *self._figures()])
        if len(self.curve) >= POINTS:
            self.curve = self.curve[1::2]
            self._stride *= 2
        self._due = max(self.rows + self._stride, int(self.rows * 1.01) if self.rows < 10_000 else 0)

    def _figures(self) -> list[float | None]:
        rows, recent = max(self.rows, 1), len(self.recent) or 1
        figures: list[float | None] = [self.loss / rows, self.mistakes / rows]
        figures += [sum(loss for loss, _ in self.recent) / recent, sum(miss for _, miss in self.recent) / recent]
        figures += [self.base_loss / rows, self.base_mistakes / rows]
        if self.kind == "regression":
            figures[1] = figures[3] = figures[5] = None
        return figures

    def rate(self) -> float:
        """Rows a second over the last half minute."""
        now = time.time()
        for then, rows in self._rates:
            if now - then < 30.0:
                return (self.rows - rows) / max(now - then, 0.5)
        return 0.0

    def figures(self) -> dict[str, Any]:
        """What is shown, as JSON has it."""
        with self._lock:
            self._count()
            loss, error, recent_loss, recent_error, base_loss, base_error = self._figures()
            return {
                "rows": self.rows,
                "loss": loss,
                "error": error,
                "recent": {"rows": len(self.recent), "loss": recent_loss, "error": recent_error},
                "baseline": {"loss": base_loss, "error": base_error},
                "rows_a_second": round(self.rate(), 1),
                "drift": self._drift(),
            }

    def _drift(self) -> float:
        """The recent window against the long run: how many standard errors its mean loss lies above."""
        count = len(self.recent)
        if count < WINDOW or self.rows < 2 * WINDOW:
            return 0.0
        losses = [loss for loss, _ in self.recent]
        mean = sum(losses) / count
        spread = math.sqrt(sum((loss - mean) ** 2 for loss in losses) / (count - 1) / count)
        return round((mean - self.loss / self.rows) / max(spread, 1e-12), 2)
