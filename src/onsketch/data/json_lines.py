"""JSON Lines: an object on each line, flat or with namespaces as nested objects (see ``json_rows.py``)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError
from onsketch.data.block import Block, Position
from onsketch.data.columns import Roles
from onsketch.data.cursor import AT, BAD_AT, BAD_LINE, CODE, COLUMN, COUNT, LAST, LINE, ROWS, SKIPPED
from onsketch.data.json_rows import ObjectRows, example
from onsketch.data.text import TextFormat
from onsketch.rows.interactions import Interactions, interact
from onsketch.rows.names import Names
from onsketch.rows.schema import Schema
from onsketch.rows.sparse import Sparse, csr

_BAD = 1000
"""The code of every bad line; the reason is kept as text."""


class JSONLines(TextFormat):
    """Objects, one a line, with names hashed to ``bits`` bits as VW text has them.

    Cost: Python's own ``json``, a few microseconds a row; text and tables are read ten times as fast.
    """

    def __init__(
        self, rows: int, roles: Roles, schema: Schema | None, bits: int, pairs: Interactions, names: Names, naming: bool
    ) -> None:
        super().__init__(rows)
        self.roles, self.schema, self.pairs, self.names, self.naming = roles, schema, pairs, names, naming
        self.objects = ObjectRows(bits, names.known if naming else None)
        self.width = self.objects.width
        self.labels: list[float] = []
        self.weights: list[float] = []
        self.tags: list[str] = []
        self.classes: list[str] = []
        """The words met as labels, in their order; a label is a place among them."""
        self._codes: dict[str, int] = {}
        self._why = ""
        named = {"weight": roles.weight, "tag": roles.tag}
        self._unmet = {option: str(name) for option, name in named.items() if name is not None and not roles.unlabelled}
        """Keys that an option names and that no row has had so far."""

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
                        self._why = str(error).rstrip(".")
                    if not skipping:
                        line -= 1
                        break
                    state[SKIPPED] += 1
                else:
                    state[ROWS] += 1
            at = end
        state[AT], state[LINE], state[COUNT] = at, line, len(self.objects.columns)

    def _row(self, line: bytes) -> None:
        roles = self.roles
        label_name = None if roles.label in (None, "none") else str(roles.label)
        weight_name, tag_name = (None if name is None else str(name) for name in (roles.weight, roles.tag))
        row = json.loads(line)
        parts = example(row, label_name, weight_name, tag_name)
        if self._unmet:
            self._unmet = {option: name for option, name in self._unmet.items() if name not in row}
        label = self._label(parts.label)
        weight = 1.0 if parts.weight is None else float(parts.weight)
        if not 0.0 <= weight < np.inf:
            raise InputError(f"{parts.weight!r} is no weight: weights are finite and not negative")
        features = parts.features
        if isinstance(features, dict) and (roles.ignore or roles.keep):
            kept = {name: value for name, value in features.items() if name not in roles.ignore}
            features = {name: value for name, value in kept.items() if not roles.keep or name in roles.keep}
        self.objects.add(features)
        self.labels.append(label)
        self.weights.append(weight)
        self.tags.append("" if parts.tag is None else str(parts.tag))

    def _label(self, label: Any) -> float:
        """A label as a number: itself, the place of a word, or +1 and −1 where a class is named."""
        positive = self.roles.positive
        if label is None:
            if self.roles.unlabelled:
                return float("nan")
            raise InputError("the label is missing")
        if positive is not None:
            word = label if isinstance(label, str) else f"{float(label):g}"
            return 1.0 if word == positive else -1.0
        if self.schema is None:
            self.schema = Schema((), word_labels=isinstance(label, str) and self.roles.everyday)
        if self.schema.word_labels:
            word = label if isinstance(label, str) else json.dumps(label)
            if word not in self._codes:
                self._codes[word] = len(self.classes)
                self.classes.append(word)
            return float(self._codes[word])
        if isinstance(label, (bool, int, float)) and abs(float(label)) < np.inf:
            return float(label)
        raise InputError(f"the label {label!r} is no number")

    def finish(self, path: str) -> None:
        """Refuse a key that an option names and that no row had."""
        for option, name in self._unmet.items():
            raise InputError(f"{path}: {option}={name!r}: no row has this key.")

    def reason(self, code: int, found: str) -> str:
        """Why a line is bad."""
        return self._why

    def word(self, rest: bytearray) -> bytearray:
        """What to show of a bad line."""
        return rest[:16]

    def block(self, rows: int, count: int, position: Position) -> Block:
        """The rows parsed so far."""
        from dataclasses import replace

        spaces = np.array(self.objects.spaces, dtype=np.uint8)
        X: Sparse = self.objects.take()
        if self.pairs:
            parts = X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data
            naming = self.names if self.naming else None
            X = csr(*interact(*parts, spaces, self.pairs, self.objects.mask, naming), self.width)
        weights, tags = np.array(self.weights), self.tags
        block = Block(
            rows=X,
            y=np.array(self.labels),
            sample_weight=weights if (weights != 1.0).any() else None,
            tags=tags if any(tags) else None,
            position=replace(position, width=self.width),
        )
        self.labels, self.weights, self.tags = [], [], []
        return block
