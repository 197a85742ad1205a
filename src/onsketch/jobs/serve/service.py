"""Operations of the service for every protocol: predict, learn, label, promote and report the status."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import onsketch
from onsketch.core.errors import InputError
from onsketch.core.tolerances import LARGEST
from onsketch.jobs.serve.answers import answers, contributions
from onsketch.jobs.serve.batch import Floats, Rows, joined, part_of
from onsketch.jobs.serve.engine import Engine
from onsketch.jobs.serve.learn_requests import LearnRequest, Outcome, hand_over
from onsketch.jobs.serve.limits import Limits
from onsketch.jobs.serve.requests import Label, Row
from onsketch.jobs.serve.rows import RowReader
from onsketch.jobs.serve.waiting import Waiting, Waitlist

if TYPE_CHECKING:
    from onsketch.jobs.serve.consume import Consumer


class Service:
    """It runs in the event loop's thread and passes learning to the engine."""

    def __init__(self, engine: Engine, limits: Limits | None = None) -> None:
        self.engine = engine
        self.limits = limits or Limits()
        self.waitlist = Waitlist(self.limits.waiting, self.limits.label_seconds, self.limits.waiting_bytes)
        model = engine.model
        self.names: dict[int, str] = dict(model.names)
        self.reader = RowReader(model, self.names, self.limits.features)
        self.began = time.time()
        self.consumer: Consumer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answers of the engine come into this loop, all that are ready at once."""
        self._loop, mine = loop, threading.get_ident()

        def deliver(requests: list[LearnRequest]) -> None:
            if threading.get_ident() == mine:
                hand_over(requests)
            else:
                loop.call_soon_threadsafe(hand_over, requests)

        self.engine.deliver = deliver

    # Predicting -------------------------------------------------------------------------------------------

    def predict(self, rows: list[Row], explain: bool = False) -> list[dict[str, Any]]:
        """Answers for rows; those with an id wait for their labels from now on."""
        matrix = self.matrix(rows)
        found = self.predict_rows(matrix, explain)
        for place, row in enumerate(rows):
            if ignored := self.reader.ignored(row.features):
                found[place]["ignored"] = ignored
            if row.tag is not None:
                found[place]["tag"] = row.tag
            if row.id is not None:
                weight = None if row.weight is None else _weight(row.weight, place)
                self.waitlist.put(self.waitlist.key(row.id), _owned(matrix, place), weight, dict(found[place]))
                found[place]["id"] = row.id
        return found

    def predict_rows(self, matrix: Rows, explain: bool = False) -> list[dict[str, Any]]:
        """Answers for rows of the model's own columns."""
        engine = self.engine
        margins = engine.predict(matrix)
        found = answers(engine.model, margins)
        if explain:
            shares = engine.between_steps(lambda model: contributions(model, matrix, margins, self.names))
            for answer, share in zip(found, shares, strict=True):
                answer["contributions"] = share
        return found

    def matrix(self, rows: Sequence[Row]) -> Rows:
        """Rows of the model's own columns."""
        if len(rows) > self.limits.rows:
            raise InputError(f"{len(rows):,} rows in one request; the limit is {self.limits.rows:,}.")
        if not rows:
            raise InputError("the request holds not a single row.")
        words = sum(isinstance(row.features, str) for row in rows)
        if words == 0:
            return self.reader.objects([row.features for row in rows])
        if words < len(rows):
            raise InputError("some rows are objects and some are lines; send them apart.")
        lines = [str(row.features) for row in rows]
        for place, line in enumerate(lines):
            if "\n" in line:
                raise InputError(f"row {place}: features: a line has no line break in it.")
        block = self.reader.lines("\n".join(lines).encode(), "vw" if "|" in lines[0] else "libsvm")
        if len(block) != len(rows):
            raise InputError("features: a line is empty.")
        return block.rows

    # Learning ---------------------------------------------------------------------------------------------

    async def learn(self, rows: list[Row]) -> list[dict[str, Any]]:
        """Learn rows; answers with the predictions made before each was learned."""
        matrix = self.matrix(rows)
        labels = [row.label for row in rows]
        weights = None
        if any(row.weight is not None for row in rows):
            weights = np.array([1.0 if row.weight is None else _weight(row.weight, k) for k, row in enumerate(rows)])
        found = await self.learn_rows(matrix, labels, weights)
        for answer, row in zip(found, rows, strict=True):
            if ignored := self.reader.ignored(row.features):
                answer["ignored"] = ignored
            if row.tag is not None:
                answer["tag"] = row.tag
            if row.id is not None:
                answer["id"] = row.id
        return found

    async def learn_rows(
        self, matrix: Rows, labels: Sequence[Any] | Floats, weights: Floats | None
    ) -> list[dict[str, Any]]:
        """The same for rows of the model's own columns."""
        outcome = await self.outcome(matrix, labels, weights)
        return self.answers_of(outcome)

    def answers_of(self, outcome: Outcome) -> list[dict[str, Any]]:
        """An answer for each row of a request that was learned."""
        found = answers(self.engine.model, outcome.margins)
        for row, why in outcome.refused.items():
            found[row] = {"error": why}
        return found

    async def outcome(self, matrix: Rows, labels: Sequence[Any] | Floats, weights: Floats | None) -> Outcome:
        """Queue rows and wait until they are learned and safe."""
        refused = self.engine.model.admit(labels).refused
        if refused:
            row, why = next(iter(refused.items()))
            raise InputError(f"row {row}: {why} Nothing was learned.")
        return await self.queued(matrix, labels, weights)

    async def queued(
        self, matrix: Rows | None, labels: Sequence[Any] | Floats, weights: Floats | None, notes: Any = None
    ) -> Outcome:
        """Queue rows in the engine and wait for the outcome."""
        assert self._loop is not None
        future: asyncio.Future[Outcome] = self._loop.create_future()

        def done(result: Outcome | Exception) -> None:
            if future.cancelled():
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.engine.submit(LearnRequest(matrix, labels, weights, done, notes or {}))
        return await future

    async def label(self, labels: list[Label]) -> list[tuple[int, dict[str, Any]]]:
        """Learn rows that were predicted before under their ids, all together; a status and an answer for each."""
        if len(labels) > self.limits.rows:
            raise InputError(f"{len(labels):,} labels in one request; the limit is {self.limits.rows:,}.")
        weights = [None if one.weight is None else _weight(one.weight, place) for place, one in enumerate(labels)]
        refused = self.engine.model.admit([one.label for one in labels]).refused
        found: list[tuple[int, dict[str, Any]]] = []
        taken: dict[int, Waiting] = {}
        for place, one in enumerate(labels):
            key, status = self.waitlist.key(one.id), 422
            waiting, why = self.waitlist.get(key), refused.get(place)
            if waiting is None:
                status, why = self.waitlist.why_not(key)
            elif why is None:
                self.waitlist.done(key)  # before it is learned, so that a second label is refused
                taken[place] = waiting
            found.append((status, {"id": one.id, "error": why}))
        if not taken:
            return found
        given = [taken[place].weight if weights[place] is None else weights[place] for place in taken]
        try:
            outcome = await self.queued(
                joined([waiting.rows for waiting in taken.values()]),
                [labels[place].label for place in taken],
                np.array([1.0 if weight is None else weight for weight in given])
                if given != [None] * len(given)
                else None,
            )
        except Exception:
            for place, waiting in taken.items():
                self.waitlist.put(self.waitlist.key(labels[place].id), waiting.rows, waiting.weight, waiting.predicted)
                self.waitlist.labelled -= 1
            raise
        for k, (place, answer) in enumerate(zip(taken, self.answers_of(outcome), strict=True)):
            status = 422 if k in outcome.refused else 200
            found[place] = (
                status,
                {"id": labels[place].id, "predicted": {**taken[place].predicted, "id": labels[place].id}, **answer},
            )
        return found

    async def promote(self) -> dict[str, Any]:
        """Let the second model answer from now on; the first one continues to learn."""
        if self.engine.shadow is None:
            raise InputError("there is no second model; start the service with --shadow.")
        await self.queued(None, [], None, {"promote": True})
        return self.status()

    # Status ------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the answer to GET /status."""
        engine = self.engine
        model = engine.model
        progress = model.progress
        learner = model.learner
        name = getattr(getattr(learner, "method", None), "name", None) or type(learner).__name__
        found = {
            "rows": progress.rows,
            "version": onsketch.__version__,
            "learner": name,
            "task": model.kind,
            "ready": engine.ready,
            "average": {"loss": progress.mean_loss, "error": progress.error},
            "since_start": model.quality.figures(),
            "queue": engine.queued,
            "durability": engine.durability,
            "disk_full": engine.disk_full,
            "failure": engine.failure,
            "unsaved_rows": engine.unsaved_rows,
            "labels": self.waitlist.counts(),
            "seconds": round(time.time() - self.began, 3),
            "features": learner.n_features,
        }
        if model.kind == "multiclass":
            found["classes"] = model.classes
        if engine.shadow is not None:
            progress = engine.shadow.progress
            found["shadow"] = {
                "rows": progress.rows,
                "average": {"loss": progress.mean_loss, "error": progress.error},
                "since_start": engine.shadow.quality.figures(),
            }
        if engine.position:
            found["position"] = engine.position
        if self.consumer is not None:
            found["stream"] = self.consumer.figures
        return found


def _owned(matrix: Rows, place: int) -> Rows:
    """Copy a row, so that a waiting row does not keep its request in memory."""
    part = part_of(matrix, place, place + 1)
    if isinstance(part, np.ndarray):
        return part.copy()
    return part._replace(data=part.data.copy(), indices=part.indices.copy(), indptr=part.indptr.copy())


def _weight(weight: float, place: int) -> float:
    if not 0.0 <= weight <= LARGEST:
        raise InputError(f"row {place}: weight: {weight:g} is no weight: weights are finite and not negative.")
    return weight
