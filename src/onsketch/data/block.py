"""What a reader yields: a block of rows, and the place in the stream just after it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.rows.sparse import Sparse

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

SAFETY = ("max_line_bytes", "max_unpack_bytes", "max_products")
"""Options of reading that keep memory bounded. No model file sets them: they are for whoever reads to say."""


@dataclass(frozen=True)
class Position:
    """A place between two lines of a stream: all that is needed to go on reading exactly there.

    For standard input nothing can be rewound, so whoever resumes must send the same bytes again from the start;
    the first ``offset`` of them are passed over, and the last line among them is compared with the one met before.
    """

    file: int = 0
    """Which of the files, from 0."""
    path: str = ""
    """Its name."""
    offset: int = 0
    """Bytes of this file already used, counted after decompression; rows for Parquet and Arrow."""
    line: int = 0
    """Lines of this file already used."""
    rows: int = 0
    """Rows delivered, of all files."""
    skipped: int = 0
    """Bad lines passed over, of all files."""
    width: int = 0
    """Features so far: the width of the last block."""
    base: int = 0
    """What is taken off a LIBSVM index: −1 while ``zero_based="auto"`` is undecided."""
    tail: int = 0
    """Length of the end of the last line used …"""
    checksum: int = 0
    """… and its CRC-32, by which a file that has changed is recognised."""

    def to_json(self) -> str:
        """As text, for a checkpoint.

        >>> Position.from_json(Position(offset=7).to_json()).offset
        7
        """
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Position:
        """The position that ``to_json`` wrote."""
        try:
            fields = json.loads(text)
            position = cls(**fields)
        except (ValueError, TypeError) as error:
            raise InputError(f"not a position in a stream ({error}).") from None
        for name, value in asdict(position).items():
            fits = isinstance(value, str) if name == "path" else type(value) is int and (value >= 0 or name == "base")
            if not fits:
                raise InputError(f"not a position in a stream: {name} is {value!r}.")
        return position


@dataclass
class Block:
    """Some rows of a stream. What the file does not have is None."""

    rows: Sparse | Floats
    """The rows as they were read, for learners."""
    y: Floats
    """Labels as they stand in the file; NaN where a row has none."""
    position: Position
    """Where the stream stands after this block."""
    sample_weight: Floats | None = None
    """Importance weights."""
    tags: list[str] | None = None
    """Names of rows."""
    groups: NDArray[np.int64] | None = None
    """Query ids (``qid:``), −1 for rows without."""
    initial: Floats | None = None
    """Initial predictions of VW lines, 0 for rows without. The program refuses them; from Python they are yours."""

    @cached_property
    def X(self) -> csr_array | Floats:
        """The rows: CSR, or dense for tables without categories. A feature listed twice in a row counts as the sum."""
        return self.rows.matrix() if isinstance(self.rows, Sparse) else self.rows

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __repr__(self) -> str:
        kind = f"{self.rows.data.size:,} values" if isinstance(self.rows, Sparse) else "dense"
        return f"<block of {len(self):,} rows, {self.rows.shape[1]:,} features, {kind}>"


MOST_VALUES = 200_000_000
"""Largest number of values that are held in memory at once."""


def stacked(blocks: Iterable[tuple[Any, Floats, Floats | None]]) -> tuple[Any, Floats, Floats]:
    """All rows of a stream as one CSR matrix, with labels and weights; refused where they would not fit."""
    from scipy.sparse import csr_array, vstack

    parts, labels, weights, held = [], [], [], 0
    for X, y, share in blocks:
        rows = csr_array(X)
        held += rows.nnz
        if held > MOST_VALUES:
            raise OptionError(f"the stream has more than {MOST_VALUES:,} values, too many to hold in memory.")
        parts.append(rows)
        labels.append(y)
        weights.append(np.ones(len(y)) if share is None else share)
    if not parts:
        raise InputError("there is not a single row.")
    width = max(part.shape[1] for part in parts)
    for part in parts:
        part.resize((part.shape[0], width))
    return csr_array(vstack(parts)), np.concatenate(labels), np.concatenate(weights)
