"""Named values, as tables and objects have them: what their readers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from onsketch.data.columns import Roles, refuse_changed, with_label
from onsketch.data.cursor import NAMED
from onsketch.rows.encoder import Encoder
from onsketch.rows.interactions import Interactions
from onsketch.rows.labels import Labels
from onsketch.rows.names import Names
from onsketch.rows.schema import Columns, Schema, fitted, without_label


class NamedValues:
    """Schema, encoder and labels of a stream. Its first file decides them, unless a schema is given.

    Args:
        roles: the options that assign columns.
        schema: the columns of a model, if there is one.
        bits: bits of hashed features.
        pairs: products of columns.
        names: collects the names of features.
    """

    schema: Schema
    columns: Columns
    encoder: Encoder
    read: Labels

    def __init__(self, roles: Roles, schema: Schema | None, bits: int, pairs: Interactions, names: Names) -> None:
        self.roles, self.bits, self.pairs, self.names = roles, bits, pairs, names
        self.given = self.decided = schema is not None
        self.begun = False
        """True once the first file has been opened."""
        self.sample: dict[str, Sequence[Any]] = {}
        """First cells of each column, by which the schema was decided."""
        self.notes: list[str] = []
        """Remarks on columns that files lack or have in addition."""
        if schema is not None:
            schema = without_label(schema) if roles.label in (None, "none") else schema
            also = tuple(word for word in roles.na_values if word not in schema.na_values)
            self.schema = replace(schema, na_values=schema.na_values + also)

    @property
    def classes(self) -> list[str]:
        """Words seen as labels, in order; a label is an index into them."""
        return self.read.classes

    def make_encoder(self) -> None:
        """Make the encoder and the reader of labels for the schema."""
        unlabelled = self.roles.unlabelled or self.roles.label in (None, "none")
        schema = self.schema
        gaps = schema.missing_words
        self.read = Labels(self.roles.positive, schema.word_labels, unlabelled, schema.comma_labels, gaps)
        self.encoder = Encoder(self.schema, self.bits, self.roles.missing, self.names, self.pairs)
        self.begun = True

    def match(self, path: str, names: Sequence[str], sample: Mapping[str, Sequence[Any]] | None = None) -> None:
        """Find the columns of a file in the schema, by name; ``sample`` has first cells to compare with a model's."""
        if not self.begun:
            self.schema = with_label(path, self.schema, names, self.roles)
        self.columns = fitted(self.schema, path, names, self.roles.unlabelled, self.roles.missing)
        self.notes += self.columns.notes
        if sample is not None:
            refuse_changed(path, self.schema.fields, sample, self.schema.missing_words)
        if not self.begun:
            self.make_encoder()

    def remedy(self, column: str, reason: str) -> tuple[str, dict[str, Any]]:
        """Return the reason why a cell of a column is bad, with what can be done, and the options named."""
        options: dict[str, Any] = {**NAMED, "on_error": "skip", "na_values": ..., "categorical": column}
        what = []
        if reason.startswith(("expected a number", "expected a finite number")) and not self.given:
            what.append(f"categorical={column!r} takes its words for categories")
        if reason.startswith("expected a "):
            what.append("na_values=... names words for missing values")
        if not column:
            return reason, options
        what.append("on_error='skip' leaves out such rows")
        return f"column {column!r}: {reason}; {', '.join(what)}", options
