"""Learn requests under way: their rows, which of them can be learned, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from onsketch.core.errors import OnsketchError
from onsketch.jobs.serve.batch import Batch, Floats, Rows, chosen_of, joined
from onsketch.jobs.serve.model import Learned, Model


class Refused(OnsketchError):
    """A request that cannot be served now."""


class Busy(Refused):
    """The queue is full."""


class Stopping(Refused):
    """The service is draining."""


class DiskFull(Refused):
    """The log cannot be written."""


class Broken(Refused):
    """Something failed after which learning must not go on."""


class Outcome(NamedTuple):
    """Outcome of one request's rows."""

    margins: Floats
    """Of the rows that were learned, NaN for the others."""
    refused: dict[int, str]
    """Reasons why rows were not learned, by row."""


@dataclass
class LearnRequest:
    """A request on its way through the queue. ``future`` gets the outcome when the rows are safe, or the error."""

    rows: Rows | None
    labels: Sequence[Any] | Floats
    weights: Floats | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    result: Outcome | Exception | None = None
    """The outcome once it is known, before the rows are safe."""
    future: Future[Outcome] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.future.set_running_or_notify_cancel()  # a client that hangs up does not cancel it

    @property
    def count(self) -> int:
        """Rows."""
        return len(self.labels)

    def answer(self) -> None:
        """Hand over the result."""
        if isinstance(self.result, Outcome):
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.result)


def validate(model: Model, requests: list[LearnRequest]) -> tuple[Batch, Any, dict[int, str]]:
    """All rows with a label that the model can take; which rows of the requests they are; why the others not."""
    some = [request for request in requests if request.rows is not None]
    notes = {name: note for request in requests for name, note in request.notes.items()}
    if not some:
        return Batch(np.empty((0, 1)), np.empty(0), None, notes), np.empty(0, dtype=bool), {}
    rows = joined([request.rows for request in some if request.rows is not None])
    if len(some) == 1:
        labels: Any = some[0].labels
    elif all(isinstance(request.labels, np.ndarray) for request in some):
        labels = np.concatenate([request.labels for request in some])
    else:
        labels = [label for request in some for label in request.labels]
    weights = None
    if any(request.weights is not None for request in some):
        weights = np.concatenate([np.ones(one.count) if one.weights is None else one.weights for one in some])
    codes, refused, classes = model.admit(labels)
    kept = ~np.isnan(codes)
    if refused:
        rows, codes = chosen_of(rows, kept), codes[kept]
        weights = None if weights is None else weights[kept]
    if classes:
        notes["classes"] = classes
    return Batch(rows, codes, weights, notes), kept, refused


def distribute_results(requests: list[LearnRequest], kept: Any, refused: dict[int, str], learned: Learned) -> int:
    """Give each request what concerns its rows; returns how many were refused."""
    taken, margins = learned.taken, learned.margins
    width = margins.shape[1:]
    everywhere = margins
    if refused or not taken.all():
        everywhere = np.full((kept.size, *width), np.nan)
        places = np.flatnonzero(kept)
        everywhere[places[taken]] = margins[taken]
        for row in places[~taken].tolist():
            refused[row] = "the update would not be finite: the values of this row are too large. Nothing was learned"
    start = 0
    for request in requests:
        stop = start + (0 if request.rows is None else request.count)
        mine = {row - start: why for row, why in refused.items() if start <= row < stop} if refused else {}
        request.result = Outcome(everywhere[start:stop], mine)
        start = stop
    return len(refused)
