"""Batches of rows for the model, and their bytes in the log."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import ModelFileError
from onsketch.rows.sparse import Sparse

Floats = NDArray[np.float64]
Rows = Sparse | Floats

_SHAPE = struct.Struct("<IQQBI")
"""Rows, values, width, flags, bytes of notes."""
_DENSE, _WEIGHTED, _WIDE = 1, 2, 4


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
        notes = json.dumps(self.notes, ensure_ascii=False).encode() if self.notes else b""
        parts = [self.labels.tobytes()]
        flags = 0
        if self.weights is not None:
            flags |= _WEIGHTED
            parts.append(self.weights.tobytes())
        if isinstance(self.rows, Sparse):
            values, width = self.rows.data, self.rows.shape[1]
            if self.rows.indices.dtype == np.int64:
                flags |= _WIDE
            parts += [self.rows.indptr.tobytes(), self.rows.indices.tobytes()]
        else:
            values, width = np.ascontiguousarray(self.rows), self.rows.shape[1]
            flags |= _DENSE
        head = _SHAPE.pack(len(self), values.size, width, flags, len(notes))
        return b"".join([head, *parts, values.tobytes(), notes])

    @classmethod
    def decode(cls, payload: bytes) -> Batch:
        """The batch that ``encode`` wrote; its checksum has been seen to."""
        count, size, width, flags, noted = _SHAPE.unpack_from(payload)
        at = _SHAPE.size

        def part(kind: Any, length: int) -> NDArray[Any]:
            nonlocal at
            array = np.frombuffer(payload, kind, length, at)
            at += array.nbytes
            return array

        labels = part(np.float64, count)
        weights = part(np.float64, count) if flags & _WEIGHTED else None
        if flags & _DENSE:
            rows: Rows = part(np.float64, size).reshape(count, width)
        else:
            kind = np.int64 if flags & _WIDE else np.int32
            indptr, indices = part(kind, count + 1), part(kind, size)
            rows = Sparse(part(np.float64, size), indices, indptr, (count, width))
        if at + noted != len(payload):
            raise ModelFileError("a record of the log is not of the length that it says.")
        return cls(rows, labels, weights, json.loads(payload[at:]) if noted else {})


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
