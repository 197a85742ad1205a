"""Schema of named values: the kind of each column and the rules for its cells, the same for every source.

A cell is a Python value, a field of a CSV file or an entry of an Arrow column. Its meaning depends on the kind of its
column alone:

- a *gap* is None, NaN, NaT, or one of ``GAPS`` or of the schema's ``na_values``, with or without blanks around it;
- a *number* is itself; True is 1 and False is 0; a text that is a number ("3.5") is that number, and so are amounts:
  "$113.40", "57%" (57), "113,397"; with a decimal comma, "7,0" and "1.234,5";
- a *category* is the text without the blanks around it; a number is its text, and the text of 3.0 is "3";
- a *date* is a second: of a text (ISO 8601, "5 Jan 2026 3:05 PM", or with the day or the month first, as the column
  has it), a datetime, date, numpy.datetime64 or Timestamp, in UTC if it has a zone;
- a *text* is the words in it, in lower case, with their counts; if asked for, pairs of neighbours are words, too;
- a cell of the kind *any* is a gap, a number or a category, whichever it looks like.

The schema is decided once, by the first rows; a model file keeps it, and later files and tables are matched by name.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from onsketch.core.errors import InputError, ModelFileError, some, suggestion
from onsketch.rows.cells import DMY, MDY, YMD, amount_of, second_of_text

IGNORED, NUMERIC, CATEGORICAL, LABEL, WEIGHT, TAG, ANY, TEXT, DATE = range(9)
KINDS = {
    "number": NUMERIC, "boolean": NUMERIC, "category": CATEGORICAL, "any": ANY, "text": TEXT, "date": DATE,
    "label": LABEL, "weight": WEIGHT, "tag": TAG, "ignored": IGNORED,
}  # fmt: skip
"""The codes of kinds in compiled readers."""

NUMERIC_KINDS = ("number", "boolean")
FEATURES = (*NUMERIC_KINDS, "category", "text", "date", "any")
"""The kinds of columns that become features."""

ORDERS = {"": YMD, "dmy": DMY, "mdy": MDY}
"""Forms of dates: the order of day, month and year where the year does not come first."""

COMMA, PAIRS = ",", "pairs"
FORMS = {"text": ("", PAIRS), "date": tuple(ORDERS)}
"""Forms of the cells of each kind; other kinds may have a decimal comma."""

ROLES = ("label", "weight", "tag", "ignored")
EXTRA = ("ignore", "learn")

MISSING_WORDS = ("", "NA", "N/A", "n/a", "nan", "NaN", "NAN", "null", "NULL", "None", "?")
"""Texts that represent a missing value."""

GAPS = frozenset(MISSING_WORDS)

_ABSENT_WHEN_PREDICTING = ("label", "weight", "tag", "ignored")

_BLANKS = " \t\r\n"
TRUTHS = {"true": 1.0, "false": 0.0, "True": 1.0, "False": 0.0, "TRUE": 1.0, "FALSE": 0.0}
PLAIN = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
"""Texts that are numbers as compiled readers take them."""
_AMOUNT = re.compile(r"[^A-DF-Za-df-z]*[0-9][^A-DF-Za-df-z]*")
"""A pattern that every amount matches."""
_LONGEST_AMOUNT = 1000
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)\.0")
_TOKEN = re.compile(r"\w+")
_DAYS = 1 << 22
"""A number of days beyond all dates."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def missing_words(also: Iterable[str]) -> frozenset[Any]:
    """Return ``GAPS`` with further words; those that are numbers stand for these numbers, too.

    >>> sorted(map(str, missing_words(["n.a.", "-999"]) - GAPS))
    ['-999', '-999.0', 'n.a.']
    """
    words = [word.strip(_BLANKS) for word in also]
    numbers = [number for number in map(number_of, words) if number is not None]
    return GAPS.union(words, numbers) if words else GAPS


def is_gap(value: Any, gaps: frozenset[Any] = GAPS) -> bool:
    """True for a missing value.

    >>> [is_gap(value) for value in (None, float("nan"), " NA ", 0, "no")]
    [True, True, True, False, False]
    """
    kind = type(value)
    if kind is str:
        return value in gaps or value.strip(_BLANKS) in gaps
    if kind is int or kind is bool:
        return kind is int and gaps is not GAPS and value in gaps
    if value is None or kind.__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value) or (gaps is not GAPS and kind is float and value in gaps)
    except (TypeError, ValueError):  # an array, a mapping
        return False


def number_of(value: Any, comma: bool = False) -> float | None:
    """A cell as a finite number, or None; ``comma`` says that the decimal mark of texts is a comma.

    >>> [number_of(value) for value in (True, " 3.5 ", "true", "1_000", "red", [1])]
    [1.0, 3.5, 1.0, None, None, None]
    >>> [number_of(value) for value in ("$113.40", "57%", "113,397", "7,0")], number_of("1.234,5", comma=True)
    ([113.4, 57.0, 113397.0, None], 1234.5)
    """
    if isinstance(value, str):
        value = value.strip(_BLANKS)
        if value in TRUTHS:
            return TRUTHS[value]
        if comma or not PLAIN.fullmatch(value):
            value = _plain(value, comma)
    elif hasattr(value, "__len__"):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _plain(text: str, comma: bool) -> str:
    """An amount as a plain number; the empty text if it is none."""
    if len(text) > _LONGEST_AMOUNT or not _AMOUNT.fullmatch(text):
        return ""
    cell = np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8).copy()
    out = np.empty(cell.size + 8, dtype=np.uint8)
    return out[: amount_of(cell, comma, out)].tobytes().decode()


def word_of(value: Any) -> str:
    """A cell as a category.

    >>> [word_of(value) for value in (" red ", 3.0, "3.0", 0.5, True)]
    ['red', '3', '3', '0.5', 'True']
    """
    if not isinstance(value, str):
        number = None if isinstance(value, (bool, np.bool_)) else number_of(value)
        value = str(value) if number is None or isinstance(value, int) else repr(number)
    word: str = value.strip(_BLANKS)
    return word[:-2] if word.endswith(".0") and _WHOLE.fullmatch(word) else word


def second_of(value: Any, order: int = YMD) -> int | None:
    """A cell as seconds since 1970, or None if it is no date.

    >>> second_of("1970-01-02T00:00:01Z"), second_of("2 Jan 1970"), second_of("02.01.70", DMY)
    (86401, 86400, 86400)
    """
    if isinstance(value, str):
        cell = np.frombuffer(value.encode("utf-8", "replace"), dtype=np.uint8).copy()
        second, good = second_of_text(cell, order)
        return int(second) if good else None
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=dt.UTC)
        return int((value - _EPOCH) // dt.timedelta(seconds=1))
    if isinstance(value, dt.date):
        return 86400 * (value.toordinal() - _EPOCH.toordinal())
    return int(value.astype("M8[s]").astype("int64")) if isinstance(value, np.datetime64) else None


def date_names(column: str) -> list[str]:
    """Return the names of the features of a date: 24 hours, 7 weekdays, 12 months, and the days from the first."""
    parts = (("hour", 24, 0), ("weekday", 7, 0), ("month", 12, 1))
    return [f"{column}.{part}={k + first}" for part, many, first in parts for k in range(many)] + [f"{column}.days"]


def tokens_of(text: str) -> list[str]:
    """The words of a text as written; ``str.lower`` of each is the feature."""
    return _TOKEN.findall(text)


@dataclass(frozen=True)
class Field:
    """One column."""

    name: str
    kind: str
    why: str = ""
    """Reason for the choice of its kind, if it is worth reporting."""
    words: bool = False
    """True if most of its values were words."""
    form: str = ""
    """How its cells are written or read: "," for a decimal comma, "dmy" or "mdy" for dates whose day or month comes
    first, "pairs" for texts whose pairs of words are features."""
    start: int = 0
    """The day from which the days of dates are counted, in days since 1970."""

    @property
    def comma(self) -> bool:
        """True if numbers have a decimal comma."""
        return self.form == COMMA


@dataclass(frozen=True)
class Schema:
    """The columns of a table in the order of the first file, and how its text is to be read."""

    fields: tuple[Field, ...] = ()
    header: bool = True
    delimiter: str = ","
    decimal: str = "."
    word_labels: bool = False
    """True if labels are words (classes by name), not numbers."""
    gaps: bool = False
    """True if numbers were missing in the first rows: rows are then sparse from the start."""
    extra: str = "ignore"
    """Policy for columns that the schema does not list: "ignore", or "learn" as columns of the kind any."""
    na_values: tuple[str, ...] = ()
    """Further texts that represent a missing value."""

    @property
    def comma_labels(self) -> bool:
        """True if labels that are numbers have a decimal comma."""
        return any(field.comma for field in self.of("label"))

    @cached_property
    def hashed(self) -> bool:
        """True if some column does not hold numbers: all features are then hashed."""
        return self.extra == "learn" or any(one.kind in FEATURES[len(NUMERIC_KINDS) :] for one in self.fields)

    @cached_property
    def missing_words(self) -> frozenset[Any]:
        """Texts and numbers that represent a missing value."""
        return missing_words(self.na_values)

    def state(self) -> dict[str, Any]:
        """As JSON can hold it; ``Schema.from_state(state)`` is the same schema."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Schema:
        """The schema that ``state`` described.

        >>> one = Schema((Field("age", "number"), Field("y", "label")))
        >>> Schema.from_state(one.state()) == one
        True
        """
        try:
            fields = tuple(Field(**field) for field in state["fields"])
            schema = cls(**{**state, "fields": fields, "na_values": tuple(state.get("na_values", ()))})
        except (KeyError, TypeError) as error:
            raise ModelFileError(f"its schema of columns cannot be read ({error}).", "schema") from None
        words = [word for one in fields for word in (one.name, one.kind, one.why, one.form)]
        words += [schema.delimiter, schema.decimal, *schema.na_values]
        flags = [one.words for one in fields] + [schema.header, schema.word_labels, schema.gaps]
        fits = all(type(word) is str for word in words) and all(type(flag) is bool for flag in flags)
        fits = fits and all(type(one.start) is int and abs(one.start) < _DAYS for one in fields)
        if not fits or len(schema.delimiter.encode()) != 1 or schema.decimal not in (".", ","):
            raise ModelFileError("its schema of columns is not one.", "schema")
        known = all(one.kind in FEATURES + ROLES and one.form in FORMS.get(one.kind, ("", COMMA)) for one in fields)
        if not known or schema.extra not in EXTRA:
            raise ModelFileError("its schema names a kind of column that this version does not know.", "schema")
        return schema

    def of(self, *kinds: str) -> list[Field]:
        """The columns of some kinds, in order."""
        return [field for field in self.fields if field.kind in kinds]


class Columns(NamedTuple):
    """A schema as it applies to one file, whose columns may come in another order."""

    fields: tuple[Field, ...]
    """The file's columns as the schema has them."""
    gone: tuple[Field, ...]
    """Features of the schema that the file lacks."""
    notes: tuple[str, ...]
    """Remarks on columns that are missing or left out."""


def fitted(schema: Schema, path: str, names: Sequence[str], unlabelled: bool, missing: str) -> Columns:
    """Find the columns of a file with these names in the schema.

    A column of features that the file lacks is missing in every row, which is an error with ``missing="error"``. A
    column that the schema does not list is left out, or of the kind any. In files without a header, columns are
    identified by position.
    """
    if not schema.header:
        names = _places(schema, path, names, unlabelled)
    wanted: dict[str, list[Field]] = {}
    for field in schema.fields:
        wanted.setdefault(field.name, []).append(field)
    extra = [name for name, count in Counter(names).items() if count > len(wanted.get(name, ()))]
    other = "any" if schema.extra == "learn" else "ignored"
    fields = [wanted[name].pop(0) if wanted.get(name) else Field(name, other) for name in names]
    lacking = [field for fields in wanted.values() for field in fields]
    gone = [field for field in lacking if field.kind in FEATURES]
    optional = (*_ABSENT_WHEN_PREDICTING, *FEATURES) if unlabelled else ("ignored", *FEATURES)
    needed = [field.name for field in lacking if field.kind not in optional]
    notes = matched(schema, path, names, [field.name for field in gone], extra, needed, missing)
    return Columns(tuple(fields), tuple(gone), notes)


def matched(
    schema: Schema, path: str, names: Iterable[str], gone: Sequence[str], extra: Sequence[str],
    needed: Sequence[str] = (), missing: str = "indicate",
) -> tuple[str, ...]:  # fmt: skip
    """Return remarks on columns that data lack or have in addition; refuse data without a column that is needed.

    Args:
        schema: the columns of the model or of the first file.
        path: name of the data for messages.
        names: its columns.
        gone: features of the schema that are not among them. Not all of them may be, unless there are no others.
        extra: columns that the schema does not list.
        needed: columns of other roles that are not among them.
        missing: policy for missing values.
    """
    none = bool(extra) and len(gone) == len(schema.of(*FEATURES)) > 0
    needed = [*(gone if none or missing == "error" else ()), *needed]
    if needed:
        columns, are, were = ("columns", "are", "were") if len(needed) > 1 else ("column", "is", "was")
        raise InputError(
            f"{path}: the {columns} {some([*map(repr, needed)], 5)} {are} not there, but {were} in the first file or "
            f"when the model was trained. Its columns are {some([*names])}."
        )
    found = []
    if gone:
        it = "it counts" if len(gone) == 1 else "they count"
        near = suggestion(gone[0], [*extra]) if len(gone) == 1 else ""
        found.append(f"no column {some([*map(repr, gone)])}: {it} as missing in every row.{near}")
    if extra and schema.extra == "ignore":
        is_left = "which is left out" if len(extra) == 1 else "which are left out"
        found.append(f"the model does not know the column {some([*map(repr, extra)])}, {is_left}.")
    return tuple(f"{path}: {text}" for text in found)


def _places(schema: Schema, path: str, names: Sequence[str], unlabelled: bool) -> list[str]:
    """The names of the schema for a file without a header, whose label may be missing when predicting."""
    fields = list(schema.fields)
    if unlabelled and len(names) < len(fields):
        fields = [field for field in fields if field.kind != "label"]
    if len(names) != len(fields):
        raise InputError(
            f"{path}: {len(names)} columns, where the first file, or that of the training, had {len(schema.fields)}."
        )
    return [field.name for field in fields]


def without_label(schema: Schema) -> Schema:
    """Return the same schema for a file without a label, whose column is then unknown."""
    kept = tuple(replace(field, kind="ignored") if field.kind == "label" else field for field in schema.fields)
    return replace(schema, fields=kept)
