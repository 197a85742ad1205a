"""Operations of the service for every protocol: predict, learn, label, promote and report the status."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import onsketch
from onsketch.core.errors import InputError
from onsketch.core.tolerances import LARGEST
from onsketch.data.block import Block
from onsketch.jobs.serve.answers import answers, contributions
from onsketch.jobs.serve.batch import Floats, Rows, joined, part_of
from onsketch.jobs.serve.engine import Engine
from onsketch.jobs.serve.learn_requests import LearnRequest, Outcome
from onsketch.jobs.serve.limits import Limits
from onsketch.jobs.serve.model import Model
from onsketch.jobs.serve.requests import Label, Row
from onsketch.jobs.serve.rows import RowReader
from onsketch.jobs.serve.waiting import Waiting, Waitlist

if TYPE_CHECKING:
    from onsketch.jobs.serve.consume import Consumer


class Asked(NamedTuple):
    """The rows of a request, in whatever form it was."""

    rows: Rows
    labels: Sequence[Any] | Floats
    """None or NaN where a row has no label."""
    weights: Floats | None
    notes: Sequence[dict[str, Any]]
    """Parts of the answer to each row: its tag, and the names that were left out."""
    ids: Sequence[str | int | None] = ()

    def noted(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to the rows with their notes and ids."""
        for answer, note in zip(found, self.notes, strict=True):
            if note:
                answer.update(note)
        for answer, id in zip(found, self.ids, strict=False):
            if id is not None:
                answer["id"] = id
        return found


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

    # Rows ---------------------------------------------------------------------------------------------------

    def asked(self, rows: Sequence[Row]) -> Asked:
        """Rows that were sent as objects, lists or lines within JSON."""
        self._check_count(len(rows))
        features, words = [row.features for row in rows], sum(isinstance(row.features, str) for row in rows)
        if 0 < words < len(rows):
            raise InputError("some rows are objects and some are lines; send them apart.")
        matrix = self._lines_within(features) if words else self.reader.objects(features)
        notes: list[dict[str, Any]] = [{} if row.tag is None else {"tag": row.tag} for row in rows]
        if self.reader.table:
            for row, note in zip(rows, notes, strict=True):
                if ignored := self.reader.ignored(row.features):
                    note["ignored"] = ignored
        labels, weights = [row.label for row in rows], _weights([row.weight for row in rows])
        return Asked(matrix, labels, weights, notes, [row.id for row in rows])

    def _lines_within(self, lines: Sequence[Any]) -> Rows:
        for place, line in enumerate(lines):
            if "\n" in line:
                raise InputError(f"row {place}: features: a line has no line break in it.")
        block = self.reader.lines("\n".join(lines).encode(), "vw" if "|" in lines[0] else "libsvm")
        if len(block) != len(lines):
            raise InputError("features: a line is empty.")
        return block.rows

    def asked_lines(self, text: bytes, form: str) -> Asked:
        """Rows that were sent as lines."""
        self._check_count(1 + text.rstrip(b"\n").count(b"\n"))
        block: Block = self.reader.lines(text, form)
        self._check_count(len(block))
        notes = [{"tag": tag} if tag else {} for tag in block.tags or [""] * len(block)]
        return Asked(block.rows, block.y, block.sample_weight, notes)

    def _check_count(self, count: int) -> None:
        if count > self.limits.rows:
            raise InputError(f"{count:,} rows in one request; the limit is {self.limits.rows:,}.")
        if not count:
            raise InputError("the request holds not a single row.")

    # Predicting ---------------------------------------------------------------------------------------------

    def predict(self, asked: Asked, explain: bool = False) -> list[dict[str, Any]]:
        """Answers for rows; those with an id wait for their labels from now on."""
        margins = self.engine.predict(asked.rows)
        found = answers(self.engine.model, margins)
        if explain:
            shares = self.engine.between_steps(lambda model: contributions(model, asked.rows, margins, self.names))
            for answer, share in zip(found, shares, strict=True):
                answer["contributions"] = share
        for place, id in enumerate(asked.ids):
            if id is not None:
                weight = None if asked.weights is None else float(asked.weights[place])
                predicted = {**found[place], **asked.notes[place]}
                self.waitlist.put(self.waitlist.key(id), _owned(asked.rows, place), weight, predicted)
        return asked.noted(found)

    # Learning -----------------------------------------------------------------------------------------------

    async def learn(self, asked: Asked) -> list[dict[str, Any]]:
        """Learn rows; answers with the predictions made before each was learned."""
        return asked.noted(self._answers_of(await self.outcome(asked)))

    async def outcome(self, asked: Asked) -> Outcome:
        """Queue rows and wait until they are learned and safe; nothing is learned if a label is unfit."""
        refused = self.engine.model.admit(asked.labels).refused
        if refused:
            row, why = next(iter(refused.items()))
            raise InputError(f"row {row}: {why} Nothing was learned.")
        return await self.queued(LearnRequest(asked.rows, asked.labels, asked.weights))

    async def queued(self, request: LearnRequest) -> Outcome:
        """Queue rows in the engine and wait for the outcome."""
        self.engine.submit(request)
        if request.future.done():  # learned at once
            return request.future.result()
        return await asyncio.wrap_future(request.future)

    def _answers_of(self, outcome: Outcome) -> list[dict[str, Any]]:
        found = answers(self.engine.model, outcome.margins)
        for row, why in outcome.refused.items():
            found[row] = {"error": why}
        return found

    async def label(self, labels: Sequence[Label]) -> list[tuple[int, dict[str, Any]]]:
        """Learn rows that were predicted before under their ids, all together; a status and an answer for each."""
        if labels:
            self._check_count(len(labels))
        _weights([one.weight for one in labels])
        refused = self.engine.model.admit([one.label for one in labels]).refused
        found: list[tuple[int, dict[str, Any]]] = []
        taken: dict[int, Waiting] = {}
        for place, one in enumerate(labels):
            key = self.waitlist.key(one.id)
            waiting = self.waitlist.get(key)
            status, why = self.waitlist.why_not(key) if waiting is None else (422, refused.get(place))
            if waiting is not None and why is None:
                self.waitlist.done(key)  # before it is learned, so that a second label is refused
                taken[place] = waiting
            found.append((status, {"id": one.id, "error": why}))
        if not taken:
            return found
        given, rows = [labels[place] for place in taken], list(taken.values())
        weights = [row.weight if one.weight is None else one.weight for one, row in zip(given, rows, strict=True)]
        request = LearnRequest(joined([row.rows for row in rows]), [one.label for one in given], _weights(weights))
        try:
            outcome = await self.queued(request)
        except Exception:
            for one, row in zip(given, rows, strict=True):
                self.waitlist.put(self.waitlist.key(one.id), row.rows, row.weight, row.predicted)
                self.waitlist.outcomes["labelled"] -= 1
            raise
        for (place, row), answer in zip(taken.items(), self._answers_of(outcome), strict=True):
            id = {"id": labels[place].id}
            answer = {**id, "predicted": {**row.predicted, **id}, **answer}
            found[place] = 422 if "error" in answer else 200, answer
        return found

    async def promote(self) -> dict[str, Any]:
        """Let the second model answer from now on; the first one continues to learn."""
        if self.engine.shadow is None:
            raise InputError("there is no second model; start the service with --shadow.")
        await self.queued(LearnRequest(None, [], notes={"promote": True}))
        return self.status()

    # Status -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the answer to GET /status."""
        engine, learner = self.engine, self.engine.model.learner
        found = {
            **_quality(engine.model),
            "version": onsketch.__version__,
            "learner": getattr(getattr(learner, "method", None), "name", None) or type(learner).__name__,
            "task": engine.model.kind,
            "ready": engine.ready,
            "queue": engine.queued,
            "durability": engine.durability,
            "disk_full": engine.disk_full,
            "failure": engine.failure,
            "unsaved_rows": engine.unsaved_rows,
            "labels": self.waitlist.counts(),
            "seconds": round(time.time() - self.began, 3),
            "features": learner.n_features,
        }
        if engine.model.task.many:
            found["classes"] = engine.model.classes
        if engine.shadow is not None:
            found["shadow"] = _quality(engine.shadow)
        if engine.position:
            found["position"] = engine.position
        if self.consumer is not None:
            found["stream"] = self.consumer.figures
        return found


def _quality(model: Model) -> dict[str, Any]:
    progress = model.counted().progress
    average = {"loss": progress.mean_loss, "error": progress.error}
    return {"rows": progress.rows, "average": average, "since_start": model.quality.figures()}


def _owned(matrix: Rows, place: int) -> Rows:
    """Copy a row, so that a waiting row does not keep its request in memory."""
    part = part_of(matrix, place, place + 1)
    if isinstance(part, np.ndarray):
        return part.copy()
    return part._replace(data=part.data.copy(), indices=part.indices.copy(), indptr=part.indptr.copy())


def _weights(given: Sequence[float | None]) -> Floats | None:
    """Weights of rows, 1 where there is none; None if there are none at all."""
    if given.count(None) == len(given):
        return None
    for place, weight in enumerate(given):
        if weight is not None and not 0.0 <= weight <= LARGEST:
            raise InputError(f"row {place}: weight: {weight:g} is no weight: weights are finite and not negative.")
    return np.array([1.0 if weight is None else weight for weight in given])
