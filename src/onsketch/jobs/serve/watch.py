"""Quality of a model on live rows: over all rows, a recent window and the best constant, with curves to send."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Any

from onsketch.data.task import Task
from onsketch.jobs.judging import Judge
from onsketch.jobs.tally import Judged, Progress, Recent

WINDOW = 1000
"""Rows of the recent window."""
_POINT_ROWS = 128
"""Rows between two points of the curve, at least."""
POINTS = 400
"""Points of a curve; when it is full every second one is left out."""


class Watch:
    """Tallies of a model since the service started."""

    def __init__(self, task: Task, loss: str) -> None:
        self._total = Progress(loss, task.kind != "regression")
        self._judge = Judge(task, loss)
        self._recent = Recent(WINDOW)
        self.curve: list[list[float | None]] = []
        """Rows, seconds, mean loss, error, recent loss, recent error, best constant's loss, best constant's error."""
        self._due, self._stride = 1, 1
        self._began = time.time()
        self._arrived = 0
        self._rates: deque[tuple[float, int]] = deque(maxlen=64)
        """Times, and the rows that had arrived by then."""
        self._lock = threading.Lock()

    def arrive(self, rows: int) -> None:
        """Note that rows were learned, which are counted later."""
        now = time.time()
        self._arrived += rows
        if not self._rates or now - self._rates[-1][0] > 0.5:
            self._rates.append((now, self._arrived))

    def add(self, block: Judged) -> None:
        """Count rows that were learned; many of them have several points of the curve."""
        with self._lock:
            self._judge.add(block)
            part = max(_POINT_ROWS, self._total.rows // 50)
            for start in range(0, len(block.labels), part):
                piece = block.part(start, start + part)
                self._total.add(piece)
                self._recent.add(piece)
                if self._total.rows >= self._due:
                    self._point()

    def _point(self) -> None:
        rows = self._total.rows
        self.curve.append([rows, round(time.time() - self._began, 3), *self._figures()])
        if len(self.curve) >= POINTS:
            self.curve = self.curve[1::2]
            self._stride *= 2
        self._due = max(rows + self._stride, int(rows * 1.01) if rows < 10_000 else 0)

    def _figures(self) -> list[float | None]:
        loss, error = self._recent.means()
        recent_error = error if self._total.signs else None
        return [self._total.mean_loss, self._total.error, loss, recent_error, *self._judge.best_constant()]

    def rate(self) -> float:
        """Rows a second over the last half minute."""
        now = time.time()
        for then, rows in self._rates:
            if now - then < 30.0:
                return (self._arrived - rows) / max(now - then, 0.5)
        return 0.0

    def figures(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        with self._lock:
            loss, error, recent_loss, recent_error, base_loss, base_error = self._figures()
            return {
                "rows": self._total.rows,
                "loss": loss,
                "error": error,
                "recent": {"rows": len(self._recent), "loss": recent_loss, "error": recent_error},
                "baseline": {"loss": base_loss, "error": base_error},
                "rows_a_second": round(self.rate(), 1),
                "drift": self._drift(),
            }

    def _drift(self) -> float:
        """Return how many standard errors the mean loss of the recent window exceeds that of the long run."""
        if len(self._recent) < WINDOW or self._total.rows < 2 * WINDOW:
            return 0.0
        losses = self._recent.table[:, 1]
        spread = math.sqrt(losses.var(ddof=1) / losses.size)
        return round((float(losses.mean()) - self._total.mean_loss) / max(spread, 1e-12), 2)
