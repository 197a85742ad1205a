"""Consume a live stream: its rows go through the queue of requests, with the position in the same log record."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

import numpy as np

from onsketch.core.errors import InputError, shown
from onsketch.core.tolerances import LARGEST
from onsketch.data.json_rows import example
from onsketch.data.live import Message, open_live
from onsketch.jobs.serve.batch import Rows, joined
from onsketch.jobs.serve.learn_requests import LearnRequest, Refused
from onsketch.jobs.serve.rows import RowReader
from onsketch.jobs.serve.service import Service

_LOGGER = logging.getLogger(__name__)
_MOST, _WAIT = 1000, 0.5


class Consumer:
    """A thread that polls a stream and waits until what it polled is learned."""

    def __init__(self, service: Service, address: str) -> None:
        self.service = service
        self.stream = open_live(address)
        self.bad = 0
        """Messages that are no rows; they are counted and passed over."""
        self.problem: str | None = None
        self._stop = threading.Event()
        model = service.engine.model
        self._reader = RowReader(model, {}, service.limits.features)
        self._thread = threading.Thread(target=self._run, name="onsketch-consumer", daemon=True)

    @property
    def figures(self) -> dict[str, Any]:
        """Figures on the stream for GET /status."""
        return {"address": self.stream.address, "bad_messages": self.bad, "problem": self.problem}

    def start(self) -> None:
        """Go on where the log ends."""
        self.stream.seek(self.service.engine.position.get(self.stream.address))
        self._thread.start()

    def stop(self) -> None:
        """Poll no more."""
        self._stop.set()
        self._thread.join()
        self.stream.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                messages = self.stream.poll(_MOST, _WAIT)
                self.problem = None
            except Exception as error:
                if self.problem is None:
                    _LOGGER.warning("%s: %s", self.stream.address, error, exc_info=not isinstance(error, InputError))
                self.problem = str(error) or type(error).__name__
                self._stop.wait(1.0)
                continue
            if messages:
                self._learn(messages)

    def _learn(self, messages: list[Message]) -> None:
        rows = []
        for message in messages:
            try:
                rows.append(self._row(message.text))
            except (ValueError, RecursionError) as error:
                self.bad += 1
                if self.bad & (self.bad - 1) == 0:  # the 1st, 2nd, 4th, 8th, ...
                    _LOGGER.warning(
                        "%s: message %s is no row of this model (%s), passed over (%d so far)",
                        self.stream.address, shown(message.text.decode("utf-8", "replace")), error, self.bad,
                    )  # fmt: skip
        matrices, labels, weights = zip(*rows, strict=True) if rows else ((), (), ())
        shares = None if {*weights} <= {1.0} else np.array(weights)
        notes = {"position": {self.stream.address: self.stream.position}}
        self._queue(joined(matrices) if rows else None, list(labels), shares, notes)

    def _row(self, text: bytes) -> tuple[Rows, Any, float]:
        """Return features, label and weight of a message: a JSON object or a VW line; a ValueError refuses others."""
        if b"|" in text and text.lstrip()[:1] != b"{":
            block = self._reader.lines(text.strip(), "vw")
            if len(block) != 1 or np.isnan(block.y[0]):
                raise InputError("expected one line with a label")
            return block.rows, float(block.y[0]), 1.0 if block.sample_weight is None else float(block.sample_weight[0])
        parts = example(json.loads(text))
        matrix, weight = self._reader.objects([parts.features]), 1.0 if parts.weight is None else parts.weight
        for why in self.service.engine.model.admit([parts.label]).refused.values():
            raise InputError(why)
        if not isinstance(weight, (int, float)) or not 0.0 <= weight <= LARGEST:
            raise InputError(f"weight: {shown(weight)} is no weight")
        return matrix, parts.label, float(weight)

    def _queue(self, *parts: Any) -> None:
        """Hand rows over; wait while the queue is full, and until they are learned."""
        while True:
            request = LearnRequest(*parts)
            try:
                self.service.engine.submit(request)
                request.future.result()
                return
            except Refused as error:
                self.problem = str(error)
            if self._stop.is_set() or not self.service.engine.ready:
                self._stop.set()  # what was polled is not learned, and the position is not kept: nothing is lost
                return
            time.sleep(0.1)
