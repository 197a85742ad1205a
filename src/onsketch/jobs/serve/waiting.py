"""Rows that wait for their labels: features predicted under an id, kept for a time and up to a number."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from onsketch.jobs.serve.batch import Rows

_OBJECT = 1000
"""Bytes of a row besides its numbers: id, prediction, and the objects around them."""


@dataclass
class Waiting:
    """A row that was predicted but not learned yet."""

    rows: Rows
    weight: float | None
    predicted: dict[str, Any]
    until: float

    @property
    def nbytes(self) -> int:
        """Memory, about."""
        rows = self.rows
        arrays = (rows,) if isinstance(rows, np.ndarray) else (rows.data, rows.indices, rows.indptr)
        return _OBJECT + sum(array.nbytes for array in arrays)


class Waitlist:
    """Used by one thread. Ids of removed rows are remembered, within a limit, to report what became of them."""

    def __init__(self, most: int, seconds: float, most_bytes: int = 1 << 62) -> None:
        self.most, self.seconds, self.most_bytes = most, seconds, most_bytes
        self._bytes = 0
        self._rows: OrderedDict[str, Waiting] = OrderedDict()
        self._gone: OrderedDict[str, str] = OrderedDict()
        """Outcomes of rows that wait no more, by key."""
        self.outcomes = dict.fromkeys(("labelled", "expired", "evicted", "unknown", "repeated", "late"), 0)
        """How many rows were learned or dropped, and labels refused."""

    def __len__(self) -> int:
        return len(self._rows)

    @staticmethod
    def key(id: str | int) -> str:
        """The key of an id; that of a long one is a digest, so that ids of any length take little memory."""
        text = str(id)
        return text if len(text) <= 100 else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def put(self, key: str, rows: Rows, weight: float | None, predicted: dict[str, Any]) -> None:
        """Let a row wait; one of the same id that waits already is replaced."""
        self.sweep()
        if key in self._rows:
            self._bytes -= self._rows.pop(key).nbytes
        self._gone.pop(key, None)
        one = Waiting(rows, weight, predicted, time.monotonic() + self.seconds)
        self._bytes += one.nbytes
        while self._rows and (len(self._rows) >= self.most or self._bytes > self.most_bytes):
            self._drop(next(iter(self._rows)), "evicted")
        self._rows[key] = one

    def _drop(self, key: str, outcome: str) -> None:
        """Take a row out, and remember its outcome, within the limit."""
        self._bytes -= self._rows.pop(key).nbytes
        self.outcomes[outcome] += 1
        self._gone[key] = outcome
        while len(self._gone) > self.most:
            self._gone.popitem(last=False)

    def get(self, key: str) -> Waiting | None:
        """Return the row that waits under this id; it keeps waiting until ``done``."""
        self.sweep()
        return self._rows.get(key)

    def done(self, key: str) -> None:
        """The row has been learned."""
        if key in self._rows:
            self._drop(key, "labelled")

    def why_not(self, key: str) -> tuple[int, str]:
        """Return the status and the reason why there is no row under this id, and count the case."""
        outcome = self._gone.get(key)
        if outcome == "labelled":
            self.outcomes["repeated"] += 1
            return 409, "the label of this id has come already; it is learned once"
        if outcome is not None:
            self.outcomes["late"] += 1
            limit = f"the label came later than {self.seconds:g} seconds" if outcome == "expired" else (
                f"more than {self.most:,} rows or {self.most_bytes >> 20:,} MiB were waiting; the oldest were dropped"
            )  # fmt: skip
            return 410, f"the features of this id are no longer kept: {limit}"
        self.outcomes["unknown"] += 1
        return 404, "no row with this id waits for a label; predict it with the id first"

    def sweep(self) -> None:
        """Let go of what has waited too long."""
        now = time.monotonic()
        while self._rows:
            key, row = next(iter(self._rows.items()))
            if row.until > now:
                return
            self._drop(key, "expired")

    def counts(self) -> dict[str, int]:
        """Counts of the rows and labels so far, by outcome."""
        return {"waiting": len(self._rows), **self.outcomes}
