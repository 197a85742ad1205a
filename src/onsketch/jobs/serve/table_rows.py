"""Objects as rows of a table with words or gaps: they are written as CSV and read by the reader that the training used.

So the service and the program cannot disagree on which column a word or a gap is.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from onsketch.core.errors import InputError, shown
from onsketch.data import stream
from onsketch.jobs.serve.batch import Rows
from onsketch.rows.schema import Schema

_OF_THE_FILE = (
    "format",
    "label",
    "weight",
    "tag",
    "header",
    "delimiter",
    "decimal",
    "positive",
    "on_error",
    "block_rows",
)
"""How the training's own files were to be read; requests are not files."""


class TableRows:
    """Makes rows of a table's columns by name; a column that is not there, or null, is a gap."""

    def __init__(self, schema: Mapping[str, Any], reading: Mapping[str, Any]) -> None:
        found = Schema.from_state(schema)
        self._fields = [field for field in found.fields if field.kind in ("number", "category")]
        self._words = {field.name: field.kind == "category" for field in self._fields}
        self._schema = replace(found, header=True, delimiter=",", decimal=".").state()
        self._reading = {name: value for name, value in reading.items() if name not in _OF_THE_FILE}

    def rows(self, features: Sequence[Any]) -> Rows:
        """The rows of these objects."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow([field.name for field in self._fields])
        for place, row in enumerate(features):
            writer.writerow(self._cells(row, place))
        options = {**self._reading, "everyday": True, "unlabelled": True, "schema": self._schema, "prefetch": 0}
        with stream(io.BytesIO(text.getvalue().encode()), "csv", block_rows=len(features) + 1, **options) as blocks:
            (block,) = blocks
        return block.rows

    def _cells(self, row: Any, place: int) -> list[str]:
        if not isinstance(row, Mapping):
            raise InputError(f"row {place}: features: expected an object with the columns of the table.")
        for name in row:
            if name not in self._words:
                raise InputError(f"row {place}: {shown(name)}: the model was trained on a table without this column.")
        return [self._cell(field.name, row.get(field.name), place) for field in self._fields]

    def _cell(self, name: str, value: Any, place: int) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, (int, float)):
            return repr(value)
        if not isinstance(value, str) or "\n" in value or "\r" in value:
            raise InputError(f"row {place}: {shown(name)}: expected a number or a word, found {shown(value)}.")
        if not self._words[name]:
            raise InputError(f"row {place}: {shown(name)}: expected a number, found {shown(value)}.")
        return value
