"""One writer, many readers: rows are logged and learned by one thread, in order of arrival, and answered when safe.

    submit → queue → [writer: log, learn] → [committer: one fsync for all that has gathered] → answers

A single row that finds nothing under way skips the queue: the thread that submits it is then the writer.
The queue is bounded: requests beyond the bound are refused at once. While an fsync runs, the writer continues with the
next requests, which share the next fsync. So the batch grows with the load, and ``delay`` makes it larger still.
A lock (``core/rwlock.py``) alternates between predictions and the steps of the writer, each about a millisecond.
Predictions never wait for the queue.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onsketch.jobs.serve.batch import Batch, Floats, Rows
from onsketch.jobs.serve.learn_requests import (
    Broken,
    Busy,
    DiskFull,
    LearnRequest,
    Refused,
    Stopping,
    distribute_results,
    validate,
)
from onsketch.jobs.serve.log import Log, LogError
from onsketch.jobs.serve.model import NOTHING, Learned, Model
from onsketch.jobs.serve.store import Store

DURABILITY = ("none", "batch", "row")


@dataclass(frozen=True)
class Settings:
    """Settings of the engine."""

    durability: str = "batch"
    delay: float = 0.0
    """Seconds to gather requests before an fsync."""
    queue_rows: int = 100_000
    batch_rows: int = 8192
    snapshot_rows: int = 100_000


def _is_full(error: OSError) -> bool:
    """Return True if an error means that the disk or a quota is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Engine:
    """A model, its log, and the threads between."""

    def __init__(
        self, model: Model, shadow: Model | None = None, store: Store | None = None, settings: Settings | None = None
    ) -> None:
        self.model, self.shadow, self.store = model, shadow, store
        self.settings = settings or Settings()
        self.durability = self.settings.durability if store is not None else "none"
        self.notes: list[str] = []
        """Messages about the start."""
        self.position: dict[str, Any] = {}
        """Positions in the streams that are consumed, by name."""
        self.failure: str | None = None
        self.disk_full = False
        self.queued = 0
        """Rows waiting or being learned."""
        self._learning = False
        """True while a thread learns; the others leave their rows in the queue."""
        self.refused_rows = 0
        self.snapshots = 0
        self.unsaved_rows = 0
        """Rows learned since the last snapshot."""
        self._queue: deque[LearnRequest] = deque()
        self._learned: deque[tuple[int, list[LearnRequest]]] = deque()
        self._lock = threading.Lock()
        self._arrived, self._unsafe = threading.Condition(self._lock), threading.Condition(self._lock)
        """The writer waits for rows in the queue, the committer for rows that are learned."""
        self._step = threading.Lock()
        self._readers = 0
        self._counting = threading.Lock()
        self._stopping = False
        self._log: Log | None = None
        self._number = 0
        self._saver: threading.Thread | None = None
        self._threads: list[threading.Thread] = []

    # Starting and stopping --------------------------------------------------------------------------------

    def recover(self, number: int, cut_damaged: bool = False) -> None:
        """Learn what the log holds since a snapshot before this record, then begin to write."""
        if self.store is not None:
            for item in self.store.batches(number, cut_damaged):
                if isinstance(item, str):
                    self.notes.append(item)
                    continue
                found, batch = item
                self._apply(batch)
                number = found + 1
            self._number = number
            try:
                if self.durability != "none":
                    self._log = self.store.log(number)
                self.store.snapshot(number, self.model, self.shadow, self._notes())
                self.unsaved_rows = 0
            except OSError as error:
                if not _is_full(error):
                    raise
                self.disk_full = True
                self.notes.append(
                    f"{self.store.folder}: {error.strerror}: predictions continue, learning waits for free space"
                )

    def start(self) -> None:
        """Begin to learn."""
        self._threads = [threading.Thread(target=self._write, name="onsketch-writer", daemon=True)]
        if self.durability == "batch":
            self._threads.append(threading.Thread(target=self._commit, name="onsketch-committer", daemon=True))
        for thread in self._threads:
            thread.start()

    def drain(self) -> None:
        """Take no new rows, learn those in the queue, write a snapshot, and end."""
        with self._lock:
            self._stopping = True
            self._arrived.notify()
        for thread in self._threads:
            thread.join()
        if self._saver is not None:
            self._saver.join()
        if self._log is not None:
            self._log.close()
        if self.store is not None:
            try:
                if self.failure is None:
                    self.store.snapshot(self._number, self.model, self.shadow, self._notes())
            except OSError as error:
                if self.durability == "none":  # else the log has all of it
                    self.failure = f"the last snapshot could not be written: {error}"
            self.store.close()

    @property
    def ready(self) -> bool:
        """True if rows are accepted."""
        return self.failure is None and not self._stopping and bool(self._threads)

    # From other threads -----------------------------------------------------------------------------------

    def submit(self, request: LearnRequest) -> None:
        """Queue rows to be learned; a single row is learned at once if nothing waits, without the way to the writer.

        ``request.future`` gets the outcome when the rows are safe, or the error that refused them.
        """
        with self._lock:
            if self._stopping:
                raise Stopping("the service is stopping; try another one")
            if self.failure is not None:
                raise Broken(self.failure)
            if self.queued and self.queued + request.count > self.settings.queue_rows:
                raise Busy(f"{self.queued:,} rows are waiting to be learned; try again in a second")
            self.queued += request.count
            at_once = self._is_free_for(request)
            if at_once:
                self._learning = True
            else:
                self._queue.append(request)
                self._arrived.notify()
        if at_once:
            try:
                self._process_safely([request])
            finally:
                with self._lock:
                    self._learning = False
                    if self._queue or self._stopping:
                        self._arrived.notify()

    def _is_free_for(self, request: LearnRequest) -> bool:
        """Return True if a request is one row, nothing is under way, and learning it waits for no disk."""
        busy = self._learning or self._queue or self._readers or self._step.locked() or not self._threads
        due = self.store is not None and self.unsaved_rows + 1 >= self.settings.snapshot_rows
        return request.rows is not None and request.count == 1 and self.durability != "row" and not (busy or due)

    def predict(self, rows: Rows) -> Floats:
        """Return margins of the present model.

        The lock admits predictions and steps of the writer in the order of their requests.
        """
        return self.model.predict(rows)

    def between_steps(self, read: Callable[[Model], Any]) -> Any:
        """Return a function of the model and its tallies, computed between two steps of the writer."""
        with self._counting:
            self._readers += 1
        try:
            with self._step:
                return read(self.model)
        finally:
            with self._counting:
                self._readers -= 1

    def save(self, path: Path) -> None:
        """Write the model as it is; only copying it makes others wait."""
        twin = self.between_steps(lambda model: model.copy())
        twin.save(path)

    # The writer -------------------------------------------------------------------------------------------

    def _write(self) -> None:
        try:
            while requests := self._take():
                self._process_safely(requests)
        finally:
            with self._lock:
                self._learned.append((-1, []))
                self._unsafe.notify()

    def _process_safely(self, requests: list[LearnRequest]) -> None:
        """Process requests; an unforeseen error ends learning, and is their answer."""
        try:
            self._process(requests)
        except BaseException as error:
            self._fail(f"learning stopped: {type(error).__name__}; restart the service", requests)
            self._finish(requests)
            raise

    def _take(self) -> list[LearnRequest]:
        """The requests that wait, up to a number of rows; waits for the first."""
        with self._lock:
            self._learning = False
            while self._learning or not (self._queue or self._stopping):
                self._arrived.wait()
            taken: list[LearnRequest] = []
            rows = 0
            while self._queue and (not taken or rows + self._queue[0].count <= self.settings.batch_rows):
                if self._queue[0].rows is None and taken:
                    break
                request = self._queue.popleft()
                taken.append(request)
                rows += request.count
                if self.durability == "row" or request.rows is None:
                    break
            self._learning = bool(taken)
            return taken

    def _process(self, requests: list[LearnRequest]) -> None:
        batch, kept, refused = validate(self.model, requests)
        learned = NOTHING
        if len(batch) or batch.notes:
            error = self._written(batch)
            if error is not None:
                for request in requests:
                    request.result = error
                self._finish(requests)
                return
            self._number += 1
            learned = self._apply(batch)
        self.refused_rows += distribute_results(requests, kept, refused, learned)
        self._snapshot_when_due()
        if self.durability == "batch":
            with self._lock:
                self._learned.append((self._number, requests))
                self._unsafe.notify()
        else:
            self._finish(requests)

    def _written(self, batch: Batch) -> Refused | None:
        """Write a batch to the log; return the error that refuses its requests."""
        if self.store is None or self.durability == "none":
            return None
        try:
            if self._log is None:  # the disk was full when the service started
                self._log = self.store.log(self._number)
            self._log.append(batch.encode())
        except OSError as error:  # nothing was learned of these rows
            self.disk_full = _is_full(error)
            if self.disk_full:
                return DiskFull("the disk is full: nothing was learned; predictions continue")
            return Broken("the log cannot be written")
        self.disk_full = False
        try:
            if self.durability == "row":
                self._log.sync(self._log.number)
        except (OSError, LogError) as error:  # the record may be on the disk: a restart decides
            return self._unsynced(error, [])
        return None

    def _apply(self, batch: Batch) -> Learned:
        """Apply a batch to the models, in the same form for new requests and for records of the log."""
        self.position.update(batch.notes.get("position", {}))
        if batch.notes.get("promote") and self.shadow is not None:
            with self._step:
                self.model, self.shadow = self.shadow, self.model
        learned = NOTHING
        if len(batch):
            for model in (self.model, self.shadow):
                if model is None:
                    continue
                with self._step:
                    found = model.learn(batch, self._pause)
                if model is self.model:
                    learned = found
                    self.unsaved_rows += int(np.count_nonzero(found.taken))
        return learned

    def _pause(self) -> None:
        """Serve the waiting requests to inspect the model."""
        if self._readers:
            self._step.release()
            patience = 100
            while self._readers and patience:
                time.sleep(0.0001)
                patience -= 1
            self._step.acquire()

    def _unsynced(self, error: OSError | LogError, requests: list[LearnRequest]) -> Broken:
        """End learning: a record is in the log, but perhaps not on the disk. Return the answer."""
        what = f"errno {error.errno}" if isinstance(error, OSError) else "half a record in it"
        return self._fail(f"the log could not be put on the disk ({what}); restart the service", requests)

    # The committer ----------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """One fsync for all that has been learned since the last, then the answers.

        After a failure no row is acknowledged, even if a later fsync succeeds: the log may be damaged before the row.
        """
        failure: OSError | LogError | None = None
        while True:
            with self._lock:
                while not self._learned:
                    self._unsafe.wait()
            if self.settings.delay:
                time.sleep(self.settings.delay)
            with self._lock:
                gathered = list(self._learned)
                self._learned.clear()
            requests = [request for _, some in gathered for request in some]
            number = max(number for number, _ in gathered)
            try:
                if failure is None and number > 0 and self._log is not None:
                    self._log.sync(number)
            except (OSError, LogError) as error:
                failure = error
            if failure is not None:
                self._unsynced(failure, requests)
            self._finish(requests)
            if gathered[-1][0] < 0:
                return

    def _finish(self, requests: list[LearnRequest]) -> None:
        with self._lock:
            self.queued -= sum(request.count for request in requests)
        for request in requests:
            request.answer()

    def _fail(self, why: str, requests: list[LearnRequest]) -> Broken:
        """Stop learning: the state in memory may be ahead of the disk. Return the answer to all requests."""
        with self._lock:
            self.failure = why
            waiting = list(self._queue)
            self._queue.clear()
        error = Broken(why)
        for request in [*requests, *waiting]:
            request.result = error
        self._finish(waiting)
        return error

    # Snapshots --------------------------------------------------------------------------------------------

    def _snapshot_when_due(self) -> None:
        """Copy the models and let another thread write them, while logging continues in a new segment."""
        if self.store is None or self.unsaved_rows < self.settings.snapshot_rows:
            return
        if self._saver is not None and self._saver.is_alive():
            return
        with self._step:
            model, shadow = self.model.copy(), None if self.shadow is None else self.shadow.copy()
        number, saved_notes = self._number, self._notes()
        self.unsaved_rows = 0
        if self._log is not None and not self._log.rotate():
            self.disk_full = True  # the snapshot does not need a new segment
        self._saver = threading.Thread(
            target=self._save, args=(number, model, shadow, saved_notes), name="onsketch-saver"
        )
        self._saver.start()

    def _save(self, number: int, model: Model, shadow: Model | None, saved_notes: dict[str, Any]) -> None:
        assert self.store is not None
        try:
            self.store.snapshot(number, model, shadow, saved_notes)
            self.snapshots += 1
        except OSError:
            self.disk_full = True  # the log grows instead; the next snapshot truncates it

    def _notes(self) -> dict[str, Any]:
        return {"position": dict(self.position)}
