"""What a reader yields: a block of rows, and the place in the stream just after it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]


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

    X: csr_array | Floats
    """The rows: CSR, or dense for tables without categories. A feature listed twice in a row counts as the sum."""
    y: Floats
    """Labels as they stand in the file; NaN where a row has none."""
    sample_weight: Floats | None
    """Importance weights."""
    tags: list[str] | None
    """Names of rows."""
    groups: NDArray[np.int64] | None
    """Query ids (``qid:``), −1 for rows without."""
    initial: Floats | None
    """Initial predictions of VW lines, 0 for rows without."""
    position: Position
    """Where the stream stands after this block."""

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        kind = "dense" if isinstance(self.X, np.ndarray) else f"{self.X.nnz:,} values"
        return f"<block of {len(self):,} rows, {self.X.shape[1]:,} features, {kind}>"


def csr(indptr: NDArray[Any], indices: NDArray[np.int64], values: Floats, width: int) -> csr_array:
    """Copies of these parts as a CSR array, with 32-bit indices where they fit."""
    from scipy.sparse import csr_array

    narrow = width <= np.iinfo(np.int32).max and indices.size <= np.iinfo(np.int32).max
    kind = np.int32 if narrow else np.int64
    parts = values.copy(), indices.astype(kind), indptr.astype(kind)
    return csr_array(parts, shape=(indptr.size - 1, width))
