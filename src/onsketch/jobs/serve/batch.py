"""Batches of rows for the model, and their bytes in the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import ModelFileError
from onsketch.rows.sparse import Sparse

Floats = NDArray[np.float64]
Rows = Sparse | Floats


_DECODER = msgspec.msgpack.Decoder(tuple[str, int, list[bytes], str])
"""A record: type of the indices of sparse rows (empty for dense rows), width, bytes of the arrays, notes as JSON."""


@dataclass
class Batch:
    """Rows with labels, in the order in which they are learned."""

    rows: Rows
    labels: Floats
    """As the task has them before they become signs: numbers, or codes of classes."""
    weights: Floats | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """Further state needed to replay the log: new classes, the position in a stream, a promotion."""

    def __len__(self) -> int:
        return self.labels.size

    def encode(self) -> bytes:
        """As bytes that ``decode`` takes."""
        rows = self.rows
        kind, arrays = (rows.indices.dtype.name, rows[:3]) if isinstance(rows, Sparse) else ("", (rows,))
        weights = np.empty(0) if self.weights is None else self.weights
        parts = [array.tobytes() for array in (self.labels, weights, *arrays)]
        return msgspec.msgpack.encode((kind, rows.shape[1], parts, json.dumps(self.notes)))

    @classmethod
    def decode(cls, payload: bytes) -> Batch:
        """The batch that ``encode`` wrote; its checksum was right."""
        try:
            kind, width, parts, notes = _DECODER.decode(payload)
            labels, weights, values = map(np.frombuffer, parts[:3])
            shape = labels.size, width
            if kind:
                rows: Rows = Sparse(values, np.frombuffer(parts[3], kind), np.frombuffer(parts[4], kind), shape)
            else:
                rows = values.reshape(shape)
        except (msgspec.DecodeError, ValueError, TypeError, IndexError) as error:
            raise ModelFileError(f"a record of the log holds no rows ({error}).") from None
        return cls(rows, labels, weights if weights.size else None, json.loads(notes))


def part_of(rows: Rows, start: int, stop: int) -> Rows:
    """Some of the rows, without copying values."""
    if not isinstance(rows, Sparse):
        return rows[start:stop]
    if start == 0 and stop == rows.shape[0]:
        return rows
    first, last = int(rows.indptr[start]), int(rows.indptr[stop])
    indptr = rows.indptr[start : stop + 1] - rows.indptr.dtype.type(first)
    return Sparse(rows.data[first:last], rows.indices[first:last], indptr, (stop - start, rows.shape[1]))


def chosen_of(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """The rows chosen."""
    if not isinstance(rows, Sparse):
        return rows[chosen]
    matrix = rows.matrix()[chosen]
    return Sparse(matrix.data, matrix.indices, matrix.indptr, matrix.shape)


def joined(parts: Sequence[Rows]) -> Rows:
    """Stack the rows of several requests; sparse rows may be of different widths."""
    if len(parts) == 1:
        return parts[0]
    sparse = [part for part in parts if isinstance(part, Sparse)]
    if not sparse:
        return np.concatenate([np.asarray(part) for part in parts])
    ends, shift = [np.zeros(1, dtype=np.int64)], 0
    for part in sparse:
        ends.append(part.indptr[1:] + shift)
        shift += int(part.indptr[-1])
    indptr, indices = np.concatenate(ends), np.concatenate([part.indices for part in sparse])
    kind = np.int64 if indices.dtype == np.int64 or shift > np.iinfo(np.int32).max else np.int32
    shape = (indptr.size - 1, max(part.shape[1] for part in sparse))
    data = np.concatenate([part.data for part in sparse])
    return Sparse(data, indices.astype(kind, copy=False), indptr.astype(kind), shape)
