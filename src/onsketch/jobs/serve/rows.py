"""Parse requests into rows of the model's columns: objects, lists, LIBSVM and VW lines.

The columns are those of the model's training: hashed names (VW text, JSON), numbers of features (LIBSVM), or the
columns of a table by name.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onsketch.core.errors import InputError, OptionError, shown
from onsketch.core.tolerances import LARGEST
from onsketch.data import stream
from onsketch.data.block import Block, Position
from onsketch.data.cursor import AT, BAD_AT, CODE, COUNT, ROWS
from onsketch.data.numbers import PADDING
from onsketch.data.text import TextFormat, _bad_line
from onsketch.data.usable import refuse_initial
from onsketch.jobs.model import encoder_of
from onsketch.jobs.plans import NAMED_VALUES
from onsketch.jobs.serve.batch import Rows
from onsketch.jobs.serve.model import Model
from onsketch.rows.encoder import Encoder, flattened
from onsketch.rows.hashing import DEFAULT_BITS
from onsketch.rows.names import Names
from onsketch.rows.schema import Schema, is_gap, number_of
from onsketch.rows.sparse import Sparse

FORMATS = {
    "vw": ("bits", "quadratic", "cubic", "ignore", "keep"),
    "libsvm": ("bits", "quadratic", "cubic", "zero_based"),
}
"""Formats of lines, and the options of a model's training that decide the columns of each."""
_UNDECIDED = 'numbered features need a model that knows whether they count from 0 or 1; train it without "auto".'
_FEWEST = 64
"""Least capacity of a parser of lines, in rows."""
_MOST_NAMES = 1 << 17
"""Names of hashed columns kept for the live page."""


class RowReader:
    """Makes rows for one model. Used by one thread at a time."""

    def __init__(self, model: Model, names: dict[int, str], most_features: int) -> None:
        self.reading = model.reading
        self.most_features = most_features
        width = model.learner.n_features
        bits = self.reading.get("bits") or DEFAULT_BITS
        schema = model.schema
        self.hashed = width in (0, 1 << bits) and not (model.reading.get("format") == "libsvm" and not width)
        self.width = (1 << bits) if self.hashed else width
        self._forms: dict[tuple[str, int, bool], TextFormat] = {}
        self._encoder: Encoder | None = None
        self.table = schema is not None and Schema.from_state(schema).extra != "learn"
        """True if the columns are those of a table, so that others are left out."""
        self._format = model.format
        if self.table or self.hashed:
            found = Schema(extra="learn") if schema is None else Schema.from_state(schema)
            self._encoder = encoder_of(found, self.reading, Names(names, _MOST_NAMES))

    def objects(self, features: Sequence[Any]) -> Rows:
        """Rows from objects or lists. An InputError names row and field."""
        if self._encoder is None or self._format == "libsvm":
            return self._indexed(features)
        if self._format is not None and self._format not in NAMED_VALUES:
            for place, row in enumerate(features):
                if (name := _first_word(row)) is not None:
                    raise InputError(
                        f"row {place}: {shown(name)}: the model was trained on {self._format} rows, whose words have "
                        "other columns. Send numbers, or rows as lines."
                    )
        for place, row in enumerate(features):
            ignored = self.ignored(row)
            if ignored and not flattened(row).keys() & self._encoder.listed:
                raise InputError(
                    f"row {place}: {shown(ignored[0])}: the model was trained on a table without this column, and the "
                    "row has no other."
                )
        return self._checked(self._encoder.objects(features))

    def ignored(self, row: Any) -> list[str]:
        """Return the names in an object that the model's table does not have; they are left out."""
        if not self.table or not isinstance(row, Mapping) or self._encoder is None:
            return []
        listed = self._encoder.listed
        return [] if listed.issuperset(row) else [name for name in flattened(row) if name not in listed]

    def _indexed(self, features: Sequence[Any]) -> Rows:
        """Rows whose names are the numbers of features, as in a LIBSVM file; a list has its columns in order."""
        zero_based, lines = self.reading.get("zero_based", True), []
        for place, row in enumerate(features):
            if not isinstance(row, (Mapping, list)):
                raise InputError(f"row {place}: features: expected an object or a list of numbers, found {shown(row)}.")
            if isinstance(row, Mapping) and zero_based == "auto":
                raise InputError(_UNDECIDED)
            base = 1 if isinstance(row, Mapping) and not zero_based else 0
            line = ["0"]
            for name, value in row.items() if isinstance(row, Mapping) else enumerate(row):
                if isinstance(name, str) and not (name.isascii() and name.isdigit() and base <= int(name[:10]) < 10**9):
                    raise InputError(
                        f"row {place}: {shown(name)}: features of this model are numbered from {base}, as in a LIBSVM "
                        "file."
                    )
                number = 0.0 if value is None else _number(value, f"row {place}: {name}")
                if number != 0.0:
                    line.append(f"{int(name) - base}:{number!r}")
            lines.append(" ".join(line))
        return self.lines("\n".join(lines).encode(), "libsvm", columns=True).rows

    def lines(self, text: bytes, form: str, columns: bool = False) -> Block:
        """Rows from LIBSVM or VW lines, with their labels, weights and tags; ``columns`` counts indices from 0."""
        count = text.count(b"\n") + 1
        size = max(_FEWEST, 1 << (count - 1).bit_length())
        parser = self._form(form, size, columns)
        buffer = bytearray(text + b"\n" + PADDING)
        length = len(text) + 1
        array = np.frombuffer(buffer, dtype=np.uint8)
        state = np.zeros(BAD_AT + 1, dtype=np.int64)
        parser.reserve(0, length)
        while state[AT] < length:
            before = int(state[AT]), int(state[ROWS]), int(state[COUNT])
            parser.parse(array, state, length, length, False)
            if state[CODE]:
                parser.collect(buffer, (0, 0), (0, 0))
                parser.block(0, 0, Position())
                error = _bad_line("line", parser, state, buffer)
                raise InputError(str(error).replace("line:", "line ", 1))
            parser.collect(buffer, (before[1], int(state[ROWS])), (before[2], int(state[COUNT])))
            if int(state[AT]) == before[0]:
                break
        block = parser.block(int(state[ROWS]), int(state[COUNT]), Position(path="lines", rows=int(state[ROWS])))
        refuse_initial(block)
        block.rows = self._checked(block.rows)
        return block

    def _form(self, form: str, rows: int, columns: bool) -> TextFormat:
        """Return the compiled parser of a format, with capacity for this many rows."""
        if form not in FORMATS:
            raise InputError(f"format: {shown(form)}: lines are of format vw or libsvm.")
        if self.table or self._format in NAMED_VALUES:
            raise InputError("this model was trained on a table or on objects; send objects, not lines.")
        if form == "vw" and not self.hashed:
            raise InputError("VW lines need a model of hashed features; this one has numbered ones.")
        found = self._forms.get((form, rows, columns))
        if found is None:
            reading: dict[str, Any] = {name: self.reading[name] for name in FORMATS[form] if name in self.reading}
            if columns:
                reading["zero_based"] = True
            if reading.get("zero_based") == "auto":
                raise InputError(_UNDECIDED)
            if form == "libsvm" and self.hashed:
                reading.setdefault("bits", DEFAULT_BITS)
            with stream(io.BytesIO(b""), form, block_rows=rows, prefetch=0, **reading) as opened:
                made = opened._form
            if not isinstance(made, TextFormat):
                raise OptionError(f"{form}: not a format of lines.")
            found = self._forms[form, rows, columns] = made
        return found

    def _checked(self, rows: Rows) -> Rows:
        """Rows that are short enough in every sense."""
        values = rows.data if isinstance(rows, Sparse) else rows
        if np.abs(values).max(initial=0.0) * max(values.size, 1) ** 0.5 > LARGEST:
            raise InputError(f"a row of this request is longer than {LARGEST:g}: rescale its features.")
        if isinstance(rows, Sparse) and rows.indptr.size > 1:
            most = rows.indptr[1:] - rows.indptr[:-1]
            if most.max() > self.most_features:
                place = int(most.argmax())
                raise InputError(f"row {place}: {int(most[place]):,} features; the limit is {self.most_features:,}.")
        return rows


def _first_word(cell: Any, name: str = "") -> str | None:
    """Return the name of the first cell that is a word, within objects and lists, or None."""
    if isinstance(cell, str):
        return None if is_gap(cell) or number_of(cell) is not None else name
    cells = cell.items() if isinstance(cell, Mapping) else enumerate(cell) if isinstance(cell, list) else ()
    return next((found for key, inner in cells if (found := _first_word(inner, name or str(key))) is not None), None)


def _number(value: Any, place: str) -> float:
    if not isinstance(value, (int, float)):
        raise InputError(f"{place}: expected a number, found {shown(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not abs(number) <= LARGEST:
        raise InputError(f"{place}: {shown(value)} is beyond ±{LARGEST:g}.")
    return number
