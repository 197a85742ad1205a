"""Blocks of rows that readers yield, and the position in the stream after each."""

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
"""Options of reading that bound memory. Model files never set them; only the caller does."""


@dataclass(frozen=True)
class Position:
    """Position between two lines of a stream, from which reading continues exactly.

    Standard input cannot be rewound. To resume, send the same bytes again from the start: the first ``offset`` of them
    are skipped, and the last line among them is compared with the one read before.
    """

    file: int = 0
    """Index of the file, from 0."""
    path: str = ""
    """Name of the file."""
    offset: int = 0
    """Bytes of this file read so far, counted after decompression; rows for Parquet and Arrow."""
    line: int = 0
    """Lines of this file read so far."""
    rows: int = 0
    """Rows delivered, of all files."""
    skipped: int = 0
    """Bad lines skipped, of all files."""
    width: int = 0
    """Number of features so far: the width of the last block."""
    base: int = 0
    """Number subtracted from a LIBSVM index: −1 while ``zero_based="auto"`` is undecided."""
    tail: int = 0
    """Length of the end of the last line read …"""
    checksum: int = 0
    """… and its CRC-32, which detects a changed file."""

    def to_json(self) -> str:
        """Return the position as text, for a checkpoint.

        >>> Position.from_json(Position(offset=7).to_json()).offset
        7
        """
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Return the position that ``to_json`` wrote."""
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
    """Some rows of a stream. Fields that the file does not have are None."""

    rows: Sparse | Floats
    """Rows as they were read, for learners."""
    y: Floats
    """Labels as in the file; NaN where a row has none."""
    position: Position
    """Position of the stream after this block."""
    sample_weight: Floats | None = None
    """Importance weights."""
    tags: list[str] | None = None
    """Names of rows."""
    groups: NDArray[np.int64] | None = None
    """Query ids (``qid:``), −1 for rows without."""
    columns: dict[str, list[Any]] | None = None
    """Cells of the columns that ``columns`` of ``stream`` names, as in the file."""
    initial: Floats | None = None
    """Initial predictions of VW lines, 0 for rows without. The program refuses them; Python code may use them."""

    @cached_property
    def X(self) -> csr_array | Floats:
        """Rows as CSR, or dense for tables without categories. Repeated features of a row are summed."""
        return self.rows.matrix() if isinstance(self.rows, Sparse) else self.rows

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __repr__(self) -> str:
        kind = f"{self.rows.data.size:,} values" if isinstance(self.rows, Sparse) else "dense"
        return f"<block of {len(self):,} rows, {self.rows.shape[1]:,} features, {kind}>"


MOST_VALUES = 200_000_000
"""Largest number of values held in memory at once."""


def stacked(blocks: Iterable[tuple[Any, Floats, Floats | None]]) -> tuple[Any, Floats, Floats]:
    """Return all rows of a stream as one CSR matrix, with labels and weights; refuse too many values."""
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
