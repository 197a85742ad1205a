"""Rows that wait for their labels: features predicted under an id, kept for a time and up to a number."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from onsketch.jobs.serve.batch import Rows


@dataclass
class Waiting:
    """A row that was predicted and not yet learned."""

    rows: Rows
    weight: float | None
    predicted: dict[str, Any]
    until: float


class Waitlist:
    """Used by one thread. Ids that are gone are remembered as long as there is room, to say what became of them."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._rows: OrderedDict[str, Waiting] = OrderedDict()
        self._gone: OrderedDict[str, str] = OrderedDict()
        self.expired = self.evicted = self.unknown = self.repeated = self.late = self.labelled = 0

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, key: str, rows: Rows, weight: float | None, predicted: dict[str, Any]) -> None:
        """Let a row wait; one of the same id that waits already is replaced."""
        self.sweep()
        self._rows.pop(key, None)
        self._gone.pop(key, None)
        while len(self._rows) >= self.most:
            oldest, _ = self._rows.popitem(last=False)
            self._forget(oldest, "evicted")
            self.evicted += 1
        self._rows[key] = Waiting(rows, weight, predicted, time.monotonic() + self.seconds)

    def get(self, key: str) -> Waiting | None:
        """The row that waits under this id; it goes on waiting until ``done``."""
        self.sweep()
        return self._rows.get(key)

    def done(self, key: str) -> None:
        """The row has been learned."""
        if self._rows.pop(key, None) is not None:
            self.labelled += 1
            self._forget(key, "labelled")

    def why_not(self, key: str) -> tuple[int, str]:
        """Why there is no row under this id: a status and words. It is counted."""
        reason = self._gone.get(key)
        if reason == "labelled":
            self.repeated += 1
            return 409, "the label of this id has come already; it is learned once"
        if reason is not None:
            self.late += 1
            limit = f"the label came later than {self.seconds:g} seconds" if reason == "expired" else (
                f"more than {self.most:,} rows were waiting, and the oldest made room"
            )  # fmt: skip
            return 410, f"the features of this id are no longer kept: {limit}"
        self.unknown += 1
        return 404, "no row with this id waits for a label; predict it with the id first"

    def sweep(self) -> None:
        """Let go of what has waited too long."""
        now = time.monotonic()
        while self._rows:
            key, row = next(iter(self._rows.items()))
            if row.until > now:
                return
            del self._rows[key]
            self._forget(key, "expired")
            self.expired += 1

    def _forget(self, key: str, reason: str) -> None:
        self._gone[key] = reason
        while len(self._gone) > self.most:
            self._gone.popitem(last=False)

    def counts(self) -> dict[str, int]:
        """What became of rows and labels so far."""
        names = ("labelled", "expired", "evicted", "unknown", "repeated", "late")
        return {"waiting": len(self._rows), **{name: getattr(self, name) for name in names}}
