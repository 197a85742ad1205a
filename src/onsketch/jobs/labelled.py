"""A stream whose labels are understood: what a race runs on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from onsketch.data.task import Task, find_task
from onsketch.data.usable import labelled_rows, labels, refuse_nothing


class Labelled:
    """The blocks of files, labels as learners take them, with what the labels mean and how much was skipped."""

    def __init__(self, files: list[str], reading: dict[str, Any], task: str | None) -> None:
        from onsketch.data import stream

        self._files = files
        self._skipping = reading.get("on_error") == "skip"
        self._blocks = stream(files, **{"everyday": True, **reading})
        self._first = next(self._blocks, None)
        if self._first is None:
            refuse_nothing(files, self._blocks.skipped)
        first = labelled_rows(self._first, self._skipping).y
        self.task: Task = find_task(first, task, reading.get("positive"), self._blocks.classes)
        self._passed_over, self._rows, self._due = 0, 0, 64

    @property
    def files(self) -> list[str]:
        """Files that are read."""
        return self._files

    def description(self) -> tuple[dict[int, str], dict[str, Any] | None, str | None]:
        """Names, schema and format, as a model keeps them."""
        schema = self._blocks.schema
        return dict(self._blocks.names), schema, self._blocks.format

    @property
    def skipped(self) -> int:
        """Bad lines, and rows that cannot be learned."""
        return self._blocks.skipped + self._passed_over

    def __iter__(self) -> Iterator[Any]:
        for block in chain([self._first], self._blocks):
            assert block is not None
            rows = labelled_rows(block, self._skipping)
            self._passed_over += rows.passed_over
            X, y = rows.X, labels(block, rows, self.task, self._blocks.classes)
            for part in self._parts(y.size):
                yield X[part], y[part], None if rows.sample_weight is None else rows.sample_weight[part]
        if not self._rows:
            refuse_nothing(self._files, self.skipped)

    def _parts(self, count: int) -> Iterator[slice]:
        """Cuts at growing counts of rows, so that the curves of small files have points, too."""
        start = 0
        while start < count:
            stop = min(count, start + self._due - self._rows)
            self._rows += stop - start
            if self._rows == self._due:
                self._due += self._due // 4
            yield slice(start, stop)
            start = stop
