"""Kinds of the columns of a table (CSV, Parquet, Arrow), from names, a sample of rows and the user's options."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError, meant, some, suggestion
from onsketch.rows.schema import (
    COMMA,
    FEATURES,
    GAPS,
    NUMERIC_KINDS,
    ORDERS,
    PAIRS,
    PLAIN,
    TRUTHS,
    Field,
    Schema,
    is_gap,
    missing_words,
    number_of,
    second_of,
)

Column = str | int

LABEL_NAMES = ("label", "target", "y", "class")
"""Columns used as the label if none is named, in any case."""

_LIKELY = {
    "churn", "click", "clicked", "cnt", "converted", "count", "default", "deposit", "diagnosis", "exited", "fraud",
    "income", "outcome", "output", "price", "purchased", "quality", "rating", "response", "result", "revenue", "sales",
    "score", "species", "subscribed", "survived", "type",
}  # fmt: skip
"""Common names of labels: suggested in errors, never used automatically."""

_ROW_NUMBERS = re.compile(r"|unnamed: 0|rowid|(.*[ _-])?(id|index|row)", re.IGNORECASE)
"""Names of columns of row numbers and of keys."""
_CODE = re.compile(r"\s*0\d+\s*")
_DATED = re.compile(r"(?=.*\d).{2,}[-/. ].*")
"""Texts that may be dates."""
_LONGEST_DATE = 50
_WORDS_OF_TEXT = 1.5
"""Words that a cell of a column of texts has on average."""
_CHANGED = 20
"""Number of values needed to decide that a column has changed."""
_ENOUGH = 100
"""Sample size from which a column without repeated values counts as a row name."""

MISSING = ("error", "zero", "indicate")
_TRUTH = (bool, np.bool_)
_REASONS = {"": "", "dmy": "day first", "mdy": "month first"}


@dataclass(frozen=True)
class Roles:
    """Options that assign columns."""

    label: Column | None = "auto"
    weight: Column | None = None
    tag: Column | None = None
    ignore: tuple[Column, ...] = ()
    keep: tuple[Column, ...] = ()
    """The only columns used as features, if any are given."""
    categorical: str | tuple[Column, ...] = "auto"
    """Columns of categories; "auto" for those that hold words. ``everyday`` adds these to the named ones."""
    numeric: tuple[Column, ...] = ()
    """Columns of numbers, whatever their first rows hold."""
    text: tuple[Column, ...] = ()
    """Columns of free text."""
    dates: tuple[Column, ...] = ()
    """Columns of dates."""
    word_pairs: bool = False
    """True if pairs of neighbouring words of texts are features, too."""
    day_first: bool | None = None
    """True for dates as 31/12/2026, False for 12/31/2026; None if the first rows decide."""
    positive: str | None = None
    missing: str = "error"
    unlabelled: bool = False
    """True if columns of label, weight and tag may be absent, and labels missing: for prediction."""
    everyday: bool = False
    """True if labels may be words and columns of row names are left out, as in the program."""
    columns: tuple[Column, ...] = ()
    """Columns whose cells are passed through."""
    na_values: tuple[str, ...] = ()
    """Further texts that represent a missing value."""
    sparse: bool = False
    """True if rows may have columns that are not among the first ones."""

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise OptionError(
                f"missing={self.missing!r}: it is {', '.join(map(repr, MISSING[:-1]))} or 'indicate'.",
                missing=self.missing,
            )


class Sampled(NamedTuple):
    """Statistics of a column over the first rows."""

    words: float
    """Share of words among the values present."""
    gaps: bool
    """True if values are missing."""
    rows: int
    """Rows examined in which there is a value."""
    distinct: int = 0
    """Distinct values among them."""
    whole: bool = False
    """True if all values are whole numbers."""
    coded: bool = False
    """True if some number has a leading zero, as codes do (01234)."""
    boolean: bool = False
    """True if all values are true or false."""
    nested: bool = False
    """True if there are objects or lists."""
    category: bool = False
    """True if the column's type is one of categories."""
    comma: bool = False
    """True if numbers have a decimal comma."""
    dates: Mapping[str, int] = {}
    """The orders of day, month and year by which all values are dates, each with the first day."""
    lengths: float = 0.0
    """Words of a value, on average."""

    @property
    def wordy(self) -> bool:
        """True if the values are words: half of them, or some of a few recurring values (1, 2, 3+)."""
        return self.category or self.words >= 0.5 or (self.words > 0.0 and 5 * self.distinct <= self.rows)

    @property
    def text(self) -> bool:
        """True if the values are texts of several words, most of them different."""
        return not self.category and self.lengths >= _WORDS_OF_TEXT and 2 * self.distinct > self.rows


def sampled(cells: Sequence[Any] | NDArray[np.float64], decimal: str = "auto", gaps: frozenset[Any] = GAPS) -> Sampled:
    """Return the statistics of these cells of a column: numbers, fields of a text, or values of any type.

    Cost: O(cells), with a few compiled operations for each; each distinct cell is examined once.
    """
    if isinstance(cells, np.ndarray):
        there = cells[~np.isnan(cells)]
        whole = bool((there == np.floor(there)).all())
        return Sampled(0.0, there.size < cells.size, there.size, np.unique(there).size, whole)
    kinds = set(map(type, cells)) - {type(None)}
    if any(issubclass(kind, (Mapping, list, tuple)) for kind in kinds):
        rows = sum(not is_gap(cell, gaps) for cell in cells)
        return Sampled(0.0, rows < len(cells), rows, nested=True)
    alike = len(kinds) <= 1 and kinds <= {str, float, int, bool}
    keys: Any = cells if alike else [(type(cell), str(cell)) for cell in cells]  # 1 and True are not the same
    cell_of = dict(zip(keys, cells, strict=True))
    comma = decimal == COMMA
    read = [(cell_of[key], count, number(cell_of[key], comma)) for key, count in Counter(keys).items()]
    plain = gaps is GAPS  # no number is a gap then
    read = [one for one in read if (plain and one[2] is not None and one[2] == one[2]) or not is_gap(one[0], gaps)]
    different, numbers = [(cell, count) for cell, count, _ in read], [value for _, _, value in read]
    if decimal == "auto" and None in numbers:
        others = [number(cell, True) for cell, _ in different]
        comma = others.count(None) < numbers.count(None)
        numbers = others if comma else numbers
    words = sum(count for (_, count), value in zip(different, numbers, strict=True) if value is None)
    rows = sum(count for _, count in different)
    wordy = 2 * words > rows
    truths = all(cell.strip() in TRUTHS if type(cell) is str else type(cell) in _TRUTH for cell, _ in different)
    return Sampled(
        words / max(rows, 1),
        rows < len(cells),
        rows,
        len(different),
        not words and all(value.is_integer() for value in numbers if value is not None and abs(value) < 1e300),
        any(map(_CODE.fullmatch, [cell for cell, _ in different if isinstance(cell, str)])),
        rows > 0 and truths,
        comma=comma,
        dates=_dates([cell for cell, _ in different]) if wordy else {},
        lengths=sum(count * len(str(cell).split()) for cell, count in different) / rows if wordy else 0.0,
    )


def _dates(cells: Sequence[Any]) -> dict[str, int]:
    """Return the orders by which all these cells are dates, each with the first day; the likely order comes first."""
    if all(isinstance(cell, (dt.date, np.datetime64)) for cell in cells):
        orders: tuple[str, ...] = ("",)
    elif all(isinstance(cell, str) and len(cell) <= _LONGEST_DATE and _DATED.fullmatch(cell) for cell in cells):
        orders = ("", "mdy", "dmy") if "/" in cells[0] else ("", "dmy", "mdy")
    else:
        return {}
    found = {}
    for order in orders:
        seconds = list(takewhile(lambda second: second is not None, (second_of(cell, ORDERS[order]) for cell in cells)))
        if len(seconds) == len(cells):
            found[order] = min(second // 86400 for second in seconds if second is not None)
            if order == "":
                break
    return found


def refuse_changed(
    path: str, fields: Iterable[Field], sample: Mapping[str, Sequence[Any]], gaps: frozenset[Any] = GAPS
) -> None:
    """Refuse a column of words that holds only numbers in the sample, or a column of numbers that holds only words."""
    for field in fields:
        seen = sampled(sample.get(field.name, ()), COMMA if field.comma else ".", gaps)
        if seen.rows < _CHANGED or seen.nested:
            continue
        to_numbers = field.kind == "category" and field.words and seen.words == 0.0 and not seen.coded
        to_words = field.kind in NUMERIC_KINDS and not field.words and seen.words == 1.0 and not seen.boolean
        if to_numbers or to_words:
            now, then = ("numbers", "words") if to_numbers else ("words", "numbers")
            raise InputError(
                f"{path}: the column {field.name!r} holds {now}, and held {then} in the first file or when the model "
                "was trained. Are the columns what they were?"
            )


def number(cell: Any, comma: bool = False) -> float | None:
    """Return a cell as a number, NaN and infinities included, None for a word. Only for the first rows and options."""
    if type(cell) is float or (type(cell) is str and not comma and PLAIN.fullmatch(cell)):
        return float(cell)
    if hasattr(cell, "isoformat") or (isinstance(cell, str) and cell.strip() in TRUTHS):  # dates have a float, too
        return None
    found = number_of(cell, comma) if isinstance(cell, str) else None
    try:
        return float(cell) if found is None and not (isinstance(cell, str) and "_" in cell) else found
    except (TypeError, ValueError, OverflowError):
        return None


def decide(
    path: str, names: Sequence[str], cells: Sequence[Any], roles: Roles, decimal: str = "auto",
    categories: Container[str] = (),
) -> Schema:  # fmt: skip
    """Return the schema of columns with these names and first cells.

    Args:
        path: name of the source for messages.
        names: the columns.
        cells: the first cells of each column, as ``sampled`` takes them.
        roles: the options that assign columns.
        decimal: the decimal mark of texts.
        categories: columns of a type of categories.
    """
    sample, gaps = [], missing_words(roles.na_values)
    for name, column in zip(names, cells, strict=True):
        seen = sampled(column, decimal, gaps)
        sample.append(seen._replace(category=name in categories and seen.rows > 0))
    found = dict.fromkeys(range(len(names)), ("number", ""))
    if roles.everyday or roles.categorical == "auto":
        found = {k: _by_sample(names[k], seen, roles.everyday) for k, seen in enumerate(sample)}
    chosen = () if roles.categorical == "auto" else roles.categorical
    found |= _named_by_option(path, names, "categorical", chosen, "category")
    found |= _named_by_option(path, names, "numeric", roles.numeric, "number")
    found |= _named_by_option(path, names, "text", roles.text, "text")
    found |= _named_by_option(path, names, "dates", roles.dates, "date")
    if roles.keep:
        kept = _named_by_option(path, names, "keep", roles.keep, "").keys()
        found |= dict.fromkeys(found.keys() - kept, ("ignored", "not among those to keep"))
        found |= {
            k: ("category" if sample[k].wordy else "number", "by option") for k in kept if found[k][0] == "ignored"
        }
    found |= _named_by_option(path, names, "ignore", roles.ignore, "ignored")
    for option, given in (("weight", roles.weight), ("tag", roles.tag)):
        if given is not None and not (roles.unlabelled and _absent(given, names)):
            found |= _named_by_option(path, names, option, (given,), option)
    label = _label(path, names, [found[k][0] for k in range(len(names))], sample, roles)
    worded = False
    if label is not None:
        found[label] = "label", ""
        worded = words_are_labels(path, cells[label], sample[label], roles)
    if not roles.sparse and not set(FEATURES) & {kind for kind, _ in found.values()}:
        raise InputError(f"{path}: no column is left for features.")
    fields = tuple(_field(name, *found[k], sample[k], roles) for k, name in enumerate(names))
    gappy = any(seen.gaps for seen, field in zip(sample, fields, strict=True) if field.kind in NUMERIC_KINDS)
    gappy = gappy and roles.missing == "indicate" and not roles.sparse
    return Schema(fields, word_labels=worded, gaps=gappy, na_values=roles.na_values)


def words_are_labels(path: str, labels: Iterable[Any], seen: Sampled, roles: Roles) -> bool:
    """Return True if labels are classes named by words.

    A class to learn (``positive``) that no row has is refused if it looks like a slip: another case, or a letter more
    or less.
    """
    positive = roles.positive
    if not roles.everyday or positive is None:
        return roles.everyday and seen.wordy
    known = sorted({str(label) for label in labels if not is_gap(label, missing_words(roles.na_values))})
    value = number(positive)
    if not roles.unlabelled and positive not in known and value is None:
        folded = {label.casefold(): label for label in known}
        close = meant(positive.casefold(), folded, cutoff=0.75)
        if close:
            raise InputError(
                f"{path}: positive={positive!r}: no label of the first rows is spelt like this; did you mean "
                f"{folded[close]!r}? The labels are {some(known)}.",
                positive=positive,
            )
    return False


def _field(name: str, kind: str, why: str, seen: Sampled, roles: Roles) -> Field:
    """Return a column of this kind, with the form of its cells."""
    if kind == "text":
        return Field(name, kind, why, True, PAIRS if roles.word_pairs else "")
    if kind == "date":
        requested = {True: "dmy", False: "mdy"}.get(roles.day_first)  # type: ignore[arg-type]
        order = requested if requested and "" not in seen.dates else next(iter(seen.dates), "")
        return Field(name, kind, why or _REASONS[order], True, order, seen.dates.get(order, 0))
    return Field(name, kind, why, seen.words > 0.5, COMMA if seen.comma and kind != "category" else "")


def with_label(path: str, schema: Schema, names: Sequence[str], roles: Roles) -> Schema:
    """Return the schema with the file's column of labels, if it lists none: estimators and services know no name."""
    known, label = {field.name for field in schema.fields}, roles.label
    if schema.of("label"):
        return schema
    if label not in names and (isinstance(label, int) or _is_place(str(label))):
        label = names[place_of(path, names, label or 0, "label")]
    others = [name for name in names if name not in known]
    nothing = [Sampled(0.0, False, 0)] * len(others)
    place = _label(path, others, ["any"] * len(others), nothing, replace(roles, label=label, ignore=(), keep=()))
    return schema if place is None else replace(schema, fields=(*schema.fields, Field(others[place], "label")))


def _named_by_option(
    path: str, names: Sequence[str], option: str, columns: Iterable[Column], kind: str
) -> dict[int, tuple[str, str]]:
    """Return the positions of columns that an option names, each with its kind and the reason."""
    return {place_of(path, names, column, option): (kind, "by option") for column in columns}


def _by_sample(name: str, seen: Sampled, everyday: bool) -> tuple[str, str]:
    """Return the kind that the first rows suggest, with the reason."""
    if seen.nested:
        return "any", "objects or lists"
    if everyday and not seen.rows:
        return "any", "no value in the first rows"
    if seen.boolean and not seen.category:
        return "boolean", ""
    if seen.dates and not seen.category:
        return "date", ""
    if seen.text:
        return "text", "several words"
    unique = everyday and seen.rows >= _ENOUGH and seen.distinct == seen.rows
    if unique and (seen.words > 0.5 or (_ROW_NUMBERS.fullmatch(name.strip()) and seen.whole)):
        return "ignored", "all values differ"
    if seen.wordy:
        return "category", ""
    if everyday and seen.coded:
        return "category", "numbers with leading zeros are codes"
    return "number", ""


def _label(
    path: str, names: Sequence[str], kinds: Sequence[str], sample: Sequence[Sampled], roles: Roles
) -> int | None:
    """Return the position of the label column, None for no label."""
    label = roles.label
    if label == "none" and "none" not in names:  # as on the command line
        return None
    usual = any(name.lower() in LABEL_NAMES for name in names)
    if roles.unlabelled and label is not None and _absent(label, names) and not (label == "auto" and usual):
        return None
    if label == "auto":
        found = [k for k, name in enumerate(names) if name.lower() in LABEL_NAMES and kinds[k] not in ("weight", "tag")]
        if roles.ignore or roles.keep:
            found = [k for k in found if kinds[k] != "ignored"] or found
        if len(found) != 1:
            which = "no column is" if not found else "several columns are"
            raise InputError(
                f"{path}: {which} named {', '.join(LABEL_NAMES[:-1])} or {LABEL_NAMES[-1]}. Give the label's name or "
                f"place: label=... (-1 for the last column, none for no label). {_candidates(names, sample)}",
                label=...,
            )
        label = found[0]
    if label is None:
        return None
    place = place_of(path, names, label, "label")
    requested = place in {place_of(path, names, column, "ignore") for column in roles.ignore}
    if kinds[place] in ("weight", "tag") or requested:
        raise OptionError(f"{path}: column {names[place]!r} cannot be the label and something else too.")
    return place


def _candidates(names: Sequence[str], sample: Sequence[Sampled]) -> str:
    """Return columns that may be the label, as a hint; all of them if there are few."""
    usual = [name for name in names if name.strip().lower() in _LIKELY]
    two = [name for name, seen in zip(names, sample, strict=True) if seen.distinct == 2]
    likely = list(dict.fromkeys([*usual, *names[-1:], *two]))[:4]
    return f"Likely: {', '.join(likely)}. The columns are: {some(names)}."


def as_columns(columns: Column | Iterable[Column]) -> tuple[Column, ...]:
    """Return one column or several as a tuple."""
    return (columns,) if isinstance(columns, str | int) else tuple(columns)


def _absent(column: Column, names: Sequence[str]) -> bool:
    """Return True if there is no column of this name; positions always refer to a column."""
    return isinstance(column, str) and column not in names and not _is_place(column)


def _is_place(column: str) -> bool:
    """Return True if the text is a number, the only form of positions on the command line."""
    return column.lstrip("-").isdigit()


def place_of(path: str, names: Sequence[str], column: Column, option: str) -> int:
    """Return the position of a column given by name or position; negative positions count from the end."""
    if isinstance(column, str):
        found = [k for k, name in enumerate(names) if name == column]
        if len(found) > 1:
            raise InputError(
                f"{path}: {option}={column!r}: {len(found)} columns have this name; give its place.", **{option: column}
            )
        if found:
            return found[0]
        if _is_place(column):
            return place_of(path, names, int(column), option)
        several = "," in column and all(part.strip() in names for part in column.split(","))
        hint = " Name one column each time." if several else suggestion(column, names)
        raise InputError(
            f"{path}: {option}={column!r}: there is no such column.{hint} The columns are: {some(names)}.",
            **{option: column},
        )
    if not -len(names) <= column < len(names):
        hint = " If there is no label, say so: label='none'." if option == "label" else ""
        raise InputError(
            f"{path}: {option}={column}: the file has {len(names)} columns, counted from 0.{hint}",
            **{option: (column, "none")},
        )
    return column % len(names)
