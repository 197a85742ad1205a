"""JSON Lines: an object on each line, flat or with its features apart (see ``json_rows.py``)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, shown
from onsketch.data.block import Block, Position
from onsketch.data.columns import decide, refuse_changed, sampled, words_are_labels
from onsketch.data.cursor import AT, BAD_AT, BAD_LINE, CODE, COLUMN, COUNT, LAST, LINE, ROWS, SKIPPED
from onsketch.data.json_rows import Example, example, roles_of
from onsketch.data.named import NamedValues
from onsketch.data.sampling import LOOKED_AT, SAMPLE_LINES, first_lines
from onsketch.data.sources import Bytes
from onsketch.data.text import TextFormat
from onsketch.rows.encoder import CellError, flattened
from onsketch.rows.schema import COMMA, FEATURES, Field, Schema, matched

MOST_NOTED = 100
"""Keys that are left out of which note is taken."""

_decode = json.JSONDecoder().decode
_BAD = 1000
"""The code of every bad line; the reason is kept as text."""


def _named(columns: str | tuple[Any, ...]) -> tuple[Any, ...]:
    return () if columns == "auto" else tuple(columns)


class JSONLines(NamedValues, TextFormat):
    """Reader of objects, one a line, as rows of a schema that the first lines decide.

    Keys that most of the first objects have are columns, as those of a table. Other keys may occur at any time. The
    kind of each of their values is inferred on its own, and a row without such a key has no missing value.

    Cost: Python's own ``json``, a few microseconds a row; text and tables are read ten times as fast.
    """

    takes_arrays = True

    def __init__(self, rows: int, *common: Any) -> None:
        TextFormat.__init__(self, rows)
        NamedValues.__init__(self, *common)
        roles = self.roles
        self.marks: dict[str, str | None] = {}
        """The keys of label, weight and tag in a flat object."""
        for option in ("label", "weight", "tag"):
            given = getattr(roles, option)
            self.marks[option] = None if given is None or (option, given) == ("label", "none") else str(given)
        named = {"weight": roles.weight, "tag": roles.tag}
        self._unmet = {option: str(name) for option, name in named.items() if name is not None and not roles.unlabelled}
        """Keys that an option names and that no row has had so far."""
        self._start()
        self._why: tuple[str, dict[str, Any]] = "", {}

    def _start(self) -> None:
        """Begin a block."""
        self.ends: list[int] = [0]
        self.slots: list[int] = []
        self.numbers: list[float] = []
        self.origins: list[int] = []
        """The namespace of each feature, where products are made."""
        self.labels: list[float] = []
        self.weights: list[float] = []
        self.tags: list[str] = []
        self.cells: dict[str, list[Any]] = {str(name): [] for name in self.roles.columns}
        """Cells of the columns passed through."""

    def begin(self, source: Bytes) -> int:
        """Decide the columns by the first lines of the first file."""
        if self.begun:
            return 0
        if not self.decided:
            self.schema, self.decided = self._decide(source.name, first_lines(source, SAMPLE_LINES).lines), True
        elif os.path.isfile(source.name):  # a pipe may not have brought enough
            flat = self._sample(first_lines(source, LOOKED_AT).lines)[1]
            keys = dict.fromkeys(name for row in flat for name in row)
            cells = {name: [row.get(name) for row in flat] for name in keys}
            refuse_changed(source.name, self.schema.fields, cells, self.schema.missing_words)
        features = self.schema.of(*FEATURES)
        self._unseen = dict.fromkeys([*(field.name for field in features), *self.pairs.named()])
        self._strange = dict[str, None]()
        self.make_encoder()
        self._label = next((field.name for field in self.schema.of("label")), "label")
        self.width = self.encoder.width
        return 0

    def _sample(self, lines: list[str]) -> tuple[list[Example], list[dict[str, Any]], dict[tuple[str, str], None]]:
        """Return the objects of these lines, their features, and the keys of label, weight and tag."""
        rows, keys = [], dict[tuple[str, str], None]()
        for line in lines:
            try:
                row = json.loads(line)
                rows.append(example(row, **self.marks))
            except (InputError, ValueError, RecursionError):
                continue
            named = zip(("label", "weight", "tag"), roles_of(row, **self.marks), strict=True)
            keys |= {(name, option): None for option, name in named if name is not None and name in row}
        return rows, [flattened(row.features) for row in rows if isinstance(row.features, dict)], keys

    def _decide(self, path: str, lines: list[str]) -> Schema:
        """Infer the schema from the first lines; lines without an object are passed over and reported on reading."""
        rows, flat, keys = self._sample(lines)
        counts = Counter(name for row in flat for name in row)
        roles = replace(self.roles, label=None, weight=None, tag=None, sparse=True)
        given = roles.ignore, roles.keep, roles.numeric, roles.text, roles.dates, _named(roles.categorical)
        in_options = {str(name) for names in (*given, self.pairs.named()) for name in names}
        names = [name for name, count in counts.items() if 2 * count > len(rows) or name in in_options]
        cells = [[row.get(name) for row in flat] for name in names]
        labels = [row.label for row in rows]
        self.sample = {name: labels for name, role in keys if role == "label"} | dict(zip(names, cells, strict=True))
        schema = decide(path, names, cells, roles)
        seen = sampled(labels, gaps=schema.missing_words)
        worded = words_are_labels(path, labels, seen, self.roles)
        form = COMMA if seen.comma else ""
        marks = tuple(Field(*key, form=form * (key[1] == "label")) for key in keys if key[0] not in names)
        extra = "ignore" if roles.keep else "learn"
        return replace(schema, fields=(*marks, *schema.fields), word_labels=worded, extra=extra)

    def parse(self, text: NDArray[np.uint8], state: NDArray[np.int64], stop: int, budget: int, skipping: bool) -> None:
        """Parse lines of the text from ``state`` on."""
        at, line = int(state[AT]), int(state[LINE])
        whole = text[:stop].tobytes()
        while at < stop and at < budget and state[ROWS] < self.rows:
            end = whole.index(b"\n", at) + 1
            state[LAST], line = at, line + 1
            if whole[at:end].strip():
                try:
                    self._row(whole[at:end])
                except (InputError, ValueError, RecursionError) as error:
                    if state[CODE] == 0:
                        state[CODE], state[COLUMN], state[BAD_LINE], state[BAD_AT] = _BAD, 1, line, at
                        column = error.column if isinstance(error, CellError) else ""
                        why = error.reason if isinstance(error, CellError) else str(error).rstrip(".")
                        self._why = self.remedy(column, why)
                    if not skipping:
                        line -= 1
                        break
                    state[SKIPPED] += 1
                else:
                    state[ROWS] += 1
            at = end
        state[AT], state[LINE], state[COUNT] = at, line, len(self.slots)

    def _row(self, line: bytes) -> None:
        row = _decode(line.decode())
        parts = example(row, **self.marks)
        if self._unmet:
            self._unmet = {option: name for option, name in self._unmet.items() if name not in row}
        try:
            label = self.read.one(parts.label)
        except InputError as error:
            raise CellError(self._label, str(error)) from None
        try:
            weight = 1.0 if parts.weight is None else float(parts.weight)
        except (TypeError, ValueError, OverflowError):
            weight = np.nan
        if not 0.0 <= weight < np.inf:
            raise InputError(f"{shown(parts.weight)} is no weight: weights are finite and not negative")
        features = self.encoder.named(parts.features)
        if self._unseen or self.encoder.schema.extra == "ignore":
            self._compare(features)
        origins: list[int] | None = [] if self.pairs else None
        columns, numbers = self.encoder.object(features, origins)
        self.origins += origins or ()
        self.slots += columns
        self.numbers += numbers
        self.ends.append(len(self.slots))
        self.labels.append(label)
        self.weights.append(weight)
        self.tags.append("" if parts.tag is None else str(parts.tag))
        for name, cells in self.cells.items():
            cells.append(row[name] if name in row else flattened(row).get(name))

    def _compare(self, features: Mapping[str, Any]) -> None:
        """Take note of the listed columns that have not been met, and of keys that are not listed."""
        strange = features.keys() - self.encoder.listed
        if strange:
            features = flattened(features)
            strange = features.keys() - self.encoder.listed
        for name in features.keys() & self._unseen.keys():
            del self._unseen[name]
        if strange and self.encoder.schema.extra == "ignore" and len(self._strange) < MOST_NOTED:
            self._strange |= dict.fromkeys(sorted(strange))

    def finish(self, path: str) -> None:
        """Refuse a key that an option names and that no row had; take note of columns that no row had."""
        for option, name in self._unmet.items():
            raise InputError(f"{path}: {option}={name!r}: no row has this key.", **{option: name})
        self.notes += matched(self.schema, path, self._strange, [*self._unseen], [*self._strange])

    def reason(self, code: int, found: str) -> tuple[str, dict[str, Any]]:
        """Return the reason why a line is bad."""
        return self._why

    def word(self, rest: bytearray) -> bytearray:
        """Return the part of a bad line to show."""
        return rest[:16]

    def block(self, rows: int, count: int, position: Position) -> Block:
        """The rows parsed so far."""
        encoder, weights, tags = self.encoder, np.array(self.weights), self.tags
        X = encoder.block(self.ends, self.slots, self.numbers, self.origins)
        block = Block(
            rows=X,
            y=np.array(self.labels),
            sample_weight=weights if (weights != 1.0).any() else None,
            tags=tags if any(tags) else None,
            columns=self.cells or None,
            position=replace(position, width=X.shape[1]),
        )
        self._start()
        return block
