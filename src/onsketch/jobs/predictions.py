"""Predictions as users see them: labels, probabilities or margins, in lines and tables, and the files of them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.core.losses import in_units_of_labels
from onsketch.core.probabilities import probabilities
from onsketch.data.task import Task

Array = NDArray[np.float64]

KINDS = ("margin", "probability", "label")


def probable(task: Task, loss: str) -> bool:
    """Return True if a model has probabilities: it tells classes apart by logistic loss."""
    return task.kind != "regression" and loss in ("logistic", "softmax")


def check_kind(kind: str, task: Task, loss: str) -> None:
    """Refuse a kind of prediction that the model does not have."""
    if kind not in KINDS:
        raise OptionError(f"kind={kind!r}: expected margin, probability or label.", kind=kind)
    if kind == "probability" and not probable(task, loss):
        raise OptionError(f"probabilities need a model of classes with logistic loss; this one has {loss} loss.")
    if task.many and not task.names:
        raise OptionError("the model has learned no row yet, so that it knows no class to predict.")


def default_kind(task: Task) -> str:
    """Return the default kind of prediction: margins for two classes, else the class or the number."""
    return "margin" if task.signs else "label"


def classes_of(task: Task) -> NDArray[Any]:
    """Return the labels of the classes, by code: words, or numbers, which are integers if all are whole.

    >>> classes_of(Task("classification", None, 1.0)), classes_of(Task("multiclass", names=["a", "b"], words=True))
    (array([-1,  1]), array(['a', 'b'], dtype=object))
    """
    names: Any = task.shown_names
    if not task.words and task.named is None:
        if task.signs and task.names is None:
            names = [-1.0 if task.negative is None else task.negative, task.positive]
        with suppress(ValueError):  # a service may have words as well
            found = np.array(names, dtype=np.float64)
            return found.astype(np.int64) if (found == np.floor(found)).all() else found
    return np.array(names, dtype=object)


def labels_of(margins: Array, task: Task, loss: str) -> NDArray[Any]:
    """Return the likeliest label of each row, or the number predicted; margins are (rows,) or (rows, K)."""
    if task.kind == "regression":
        return np.asarray(in_units_of_labels(loss, margins))
    found: NDArray[Any] = classes_of(task)[margins.argmax(axis=1) if task.many else (margins > 0.0).astype(np.int64)]
    return found


def answers(margins: Array, task: Task, loss: str, kind: str) -> list[str]:
    """Format the prediction of each row; ``margins`` is (rows,), or (rows, K) for many classes.

    >>> two = Task("classification", 0.0, 1.0, names=["no", "yes"], words=True)
    >>> answers(np.array([2.0, -1.0]), two, "logistic", "label")
    ['yes', 'no']
    >>> answers(np.array([0.0]), two, "logistic", "probability")
    ['0.5']
    """
    if kind == "label":
        return [one if isinstance(one, str) else f"{one:.9g}" for one in labels_of(margins, task, loss).tolist()]
    values = probabilities(margins, loss) if kind == "probability" else margins
    if task.many:  # blanks and colons in names would part a line
        names = ["_".join(name.replace(":", "_").split()) or "_" for name in task.names or []]
        return [" ".join(map("{}:{:.6g}".format, names, row)) for row in values.tolist()]
    return [f"{value:.9g}" for value in (values if values.ndim == 1 else values[:, 1]).tolist()]


def columns_of(margins: Array, task: Task, loss: str, kind: str | None = None) -> dict[str, list[Any]]:
    """Return the predictions as columns of a table: prediction, probabilities and margins, or one of them.

    >>> two = Task("classification", 0.0, 1.0, names=["no", "yes"], words=True)
    >>> columns_of(np.array([0.0]), two, "logistic")
    {'prediction': ['no'], 'probability': [0.5], 'margin': [0.0]}
    """
    usual = {"label": True, "probability": probable(task, loss), "margin": task.kind != "regression"}
    wanted = [kind] if kind is not None else [name for name in usual if usual[name]]
    found: dict[str, list[Any]] = {}
    for one in wanted:
        if one == "label":
            found["prediction"] = labels_of(margins, task, loss).tolist()
            continue
        values = probabilities(margins, loss) if one == "probability" else margins
        if task.many:
            columns = zip(task.names or [], values.T.tolist(), strict=False)
            found |= {f"{one}_{name}": column for name, column in columns}
        else:
            found[one] = (values if values.ndim == 1 else values[:, 1]).tolist()
    return found


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
        """Write some lines."""
        if self._file is not None:
            self.written += self._file.write(text.encode())
            if self.path == STDOUT:
                self._file.flush()  # a reader waits for them

    def flush(self) -> None:
        """Put everything on the disk."""
        if self._file is not None and self.path != STDOUT:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """End the file."""
        if self._file is not None and self.path != STDOUT:
            self._file.close()
        self._file = None


TABLES = (".csv", ".jsonl", ".ndjson", ".parquet")
"""Endings of files that hold predictions as tables."""


class TableFile:
    """A file of predictions as a table, whose format is that of its name; it appears with the first rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._writer: Any = None

    def open(self) -> None:
        """Wait for the first rows."""

    def write(self, table: dict[str, Any]) -> None:
        """Some rows, as columns by name; all calls have the same columns."""
        ending = self._path.suffix.lower()
        if ending == ".parquet":
            from onsketch.rows.arrays import import_pyarrow

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
        import csv

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
