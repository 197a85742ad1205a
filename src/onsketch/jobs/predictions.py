"""Predictions as a file, one a line; a resumed job continues the file at its checkpoint."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError

Array = NDArray[np.float64]

STDOUT = "-"


class Predictions:
    """A file with one prediction a line, followed by the row's tag if it has one; ``-`` is the standard output."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self.written = 0
        """Bytes of the rows counted so far; later ones were written after the last checkpoint."""

    def open(self) -> None:
        """Start, or continue after the bytes already written."""
        if self.path is None:
            return
        if self.path == STDOUT:
            self._file = sys.stdout.buffer
            return
        target = Path(self.path)
        if self.written and (not target.exists() or target.stat().st_size < self.written):
            raise InputError(f"{target}: shorter than when the checkpoint was written; it cannot be continued.")
        self._file = target.open("r+b" if self.written else "wb")
        self._file.truncate(self.written)
        self._file.seek(self.written)

    @property
    def wanted(self) -> bool:
        """True if predictions are written to a file."""
        return self._file is not None

    def write(self, text: str) -> None:
        """Some lines."""
        if self._file is not None:
            self.written += self._file.write(text.encode())

    def flush(self) -> None:
        """Put everything on the disk."""
        if self._file is not None:
            self._file.flush()
            if self.path != STDOUT:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """End the file."""
        if self._file is not None and self.path != STDOUT:
            self._file.close()
        elif self._file is not None:
            self._file.flush()
        self._file = None


TABLES = (".csv", ".jsonl", ".ndjson", ".parquet")
"""Endings of files that hold predictions as tables."""


class TableFile:
    """A file of predictions as a table, whose format is that of its name; it appears with the first rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._writer: Any = None

    def write(self, table: dict[str, Any]) -> None:
        """Some rows, as columns by name; all calls have the same columns."""
        ending = self._path.suffix.lower()
        if ending == ".parquet":
            from onsketch.rows.encoder import import_pyarrow

            import_pyarrow()
            from pyarrow import ArrowException, parquet, schema, string
            from pyarrow import table as made
            from pyarrow.types import is_null

            try:
                rows = made(table)
                if self._writer is None:
                    kinds = [field.with_type(string()) if is_null(field.type) else field for field in rows.schema]
                    self._writer = parquet.ParquetWriter(self._path, schema(kinds))
                self._writer.write_table(rows.cast(self._writer.schema))
            except ArrowException as error:
                reason = f"a column holds values of several types ({error}); write .csv or .jsonl"
                raise InputError(f"{self._path}: {reason}.".replace("\n", " ")) from None
            return
        first = self._file is None
        if self._file is None:
            self._file = self._path.open("w", encoding="utf-8", newline="")
        rows = zip(*table.values(), strict=True)
        if ending == ".csv":
            writer = csv.writer(self._file, lineterminator="\n")
            if first:
                writer.writerow(table)
            writer.writerows(rows)
        else:
            self._file.writelines(json.dumps(dict(zip(table, row, strict=True)), default=str) + "\n" for row in rows)
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        for opened in (self._writer, self._file):
            if opened is not None:
                opened.close()


def lines(predictions: Array, tags: list[str] | None = None) -> str:
    """Predictions as text, one a line.

    >>> print(lines(np.array([0.5, -1.25]), ["a", ""]), end="")
    0.5 a
    -1.25
    """
    return words([f"{value:.9g}" for value in predictions.tolist()], tags)


def words(predictions: list[str], tags: list[str] | None = None) -> str:
    """Predictions one a line, each followed by its tag if it has one."""
    if tags is None:
        return "".join([f"{word}\n" for word in predictions])
    return "".join([f"{word} {tag}\n" if tag else f"{word}\n" for word, tag in zip(predictions, tags, strict=True)])
