"""Options that several commands share: how to read, and how to learn.

The options of learners are generated from their declaration in ``learners/options.py``. A command takes a group with
``@command(shared=reading())``, and receives what the user gave as one dictionary.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import click

from onsketch.cli.declaring import Option
from onsketch.learners.options import DECLARED, LEVELS, Options, own_loss

LEARNING, READING, PRODUCTS = "Learning", "Reading", "Products of features"

_FAMILIES = {
    "Learning: second-order methods": (
        "ridge", "clip", "curvature", "curvature_schedule", "summary", "update", "doubling", "diagonal",
        "diagonal_first", "shrink_fraction", "projection", "oja_step", "oja_block",
    ),
    "Learning: kernel methods": (
        "kernel", "gamma", "degree", "coef0", "max_points", "restart", "accuracy", "budget", "floor",
    ),
}  # fmt: skip
"""Options of one family of methods, which ``--help`` leaves out."""


def _read(name: str, sentence: str, shown: str = "", *names: str, panel: str = READING, **more: Any) -> Option:
    """Create an option of reading; words unless another type is given."""
    return Option(
        [*(names or [f"--{name.replace('_', '-')}"]), name], help=sentence, show_default=shown or False, panel=panel,
        group="reading", default=None, **{"metavar": None if more.get("is_flag") else "NAME", **more},
    )  # fmt: skip


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": click.Choice(words), "metavar": "NAME"}


def _from(least: int) -> dict[str, Any]:
    return {"type": click.IntRange(least), "metavar": "N"}


_READING = (
    _read("label", "Label column of a table, by name or place; none for no label.", "label, target, y or class"),
    _read(
        "positive", "The positive label; all others are negative.", "of two, the larger or the later in the alphabet",
        metavar="LABEL",
    ),
    _read("format", "libsvm, vw, csv, json, parquet or arrow.", "by the name, then by the content"),
    _read("weight", "Column of sample weights.", "none"),
    _read("tag", "Column that names rows.", "none"),
    _read("ignore", "Column (VW: namespace) to leave out; repeat for more.", multiple=True),
    _read("keep", "Column (VW: namespace) to use, and no other; repeat for more.", multiple=True),
    _read("categorical", "Column of categories, in addition to columns of words; repeat for more.", multiple=True),
    _read("numeric", "Column of numbers; repeat for more.", multiple=True),
    _read("text", "Column of free text, in addition to columns of several words; repeat for more.", multiple=True),
    _read("dates", "Column of dates, in addition to columns that hold only dates; repeat for more.", multiple=True),
    _read("word_pairs", "Count pairs of neighbouring words of texts, too.", is_flag=True),
    _read(
        "day_first", "Dates as 31/12/2026, or as 12/31/2026.", "by the first rows", "--day-first/--month-first",
        is_flag=True,
    ),
    _read(
        "missing", "Empty fields: indicate (a feature says so), zero or error.", "indicate",
        **_one_of("error", "zero", "indicate"),
    ),
    _read(
        "na_values", "Word for a missing value, as n.a., in addition to NA, NaN, null and ?; repeat for more.",
        multiple=True, metavar="WORD",
    ),
    _read("on_error", "A bad line: stop or skip.", "stop", **_one_of("stop", "skip")),
    _read("delimiter", "Of CSV fields.", "by the first lines"),
    _read("decimal", "Decimal mark.", "by the first lines"),
    _read("encoding", "Of text, as latin-1.", "UTF-8, or UTF-16 with its mark", metavar="NAME"),
    _read("header", "CSV begins with names.", "by the first lines", "--header/--no-header", is_flag=True),
    _read(
        "interact", "Columns to multiply, two or three; repeat for more.", multiple=True, panel=PRODUCTS, metavar="A,B",
    ),
    _read(
        "quadratic", "Pairs of namespaces to multiply, as VW's -q ab; :: for all.", "", "--quadratic", "-q",
        panel=PRODUCTS, multiple=True,
    ),
    _read("cubic", "Three namespaces to multiply, as VW's --cubic abc.", panel=PRODUCTS, multiple=True),
    _read("bits", "Bits of feature hashes.", "18", "--bits", "-b", type=int, metavar="N"),
    _read("names", "Keep the names of hashed features of VW files, too.", is_flag=True),
    _read(
        "zero_based", "LIBSVM indices count from 0, or from 1.", "column = index", "--zero-based/--one-based",
        is_flag=True,
    ),
    _read("block_rows", "Rows read at a time.", **_from(1)),
    _read("max_line_bytes", "A longer line is refused.", "64 MiB", **_from(1 << 18)),
    _read("max_unpack_bytes", "Memory to unpack zst and xz.", "128 MiB", **_from(1 << 18)),
    _read("max_products", "Products of a row; more are refused.", "1,048,576", panel=PRODUCTS, **_from(1)),
)  # fmt: skip
"""The options of reading, in the order of the help."""

SHOWN = {"loss": "by the labels"}
"""Defaults that the program works out by itself, in words."""


def _type(kind: Any, check: Any) -> dict[str, Any]:
    """Return the type on the command line of a learner's option: words where several types are possible."""
    kinds = [part for part in get_args(kind) if part is not type(None)] if isinstance(kind, UnionType) else [kind]
    kind = kinds[0] if len(kinds) == 1 else str
    if kind is bool:
        return {"is_flag": True}
    if get_origin(kind) is tuple:
        return {"type": get_args(kind)}
    low = None if getattr(check, "above", False) else getattr(check, "low", None)
    ranges = {int: click.IntRange, float: click.FloatRange}
    typed = ranges[kind](low) if kind in ranges and low is not None else kind
    return {"type": typed, "metavar": {int: "N", float: "X"}.get(kind, "WORD")}


def _learn(name: str, kind: Any) -> Option:
    """Create the option of the program for a declared option of learners."""
    known = DECLARED[name]
    switch = f"--{name.replace('_', '-')}"
    panel = next((panel for panel, names in _FAMILIES.items() if name in names), LEARNING)
    typed = _type(kind, known.check)
    usual = f"{switch}/--no{switch[1:]}" if typed.get("is_flag") else switch
    return Option(
        [known.switch or usual, name], help=known.sentence, panel=panel,
        rare=panel in _FAMILIES, group="learning", default=None, show_default=SHOWN.get(name, known.shown), **typed,
    )  # fmt: skip


@cache
def _learning() -> tuple[Option, ...]:
    kinds = get_type_hints(Options)
    sentence = "The method as published: no scaling, implicit steps or intercept unless given."
    plain = Option(
        ["--plain"], is_flag=True, default=None, show_default=False, help=sentence, panel=LEARNING, group="learning"
    )
    return (*(_learn(name, kinds[name]) for name in DECLARED), plain)


def reading(without: tuple[str, ...] = ()) -> tuple[Option, ...]:
    """Return the options of reading except those named."""
    return tuple(one for one in _READING if one.name not in without)


def learning(without: tuple[str, ...] = ()) -> tuple[Option, ...]:
    """Return the options of learners except those named."""
    return tuple(one for one in _learning() if one.name not in without)


@cache
def switches() -> dict[str, tuple[str, str]]:
    """Return the spelling of every shared option, and of a flag's opposite, empty if it has none."""
    found = {name: (f"--{name}", "") for name in ("task", "passes", "holdout", "kind", "columns")} | {
        "method": ("-l", "")
    }
    for one in (*_learning(), *_READING):
        found[one.name or ""] = one.opts[0], next(iter(one.secondary_opts), "")
    return found


def learner_options(learning: dict[str, Any]) -> dict[str, Any]:
    """The learner's keyword arguments from what was given on the command line."""
    kinds = get_type_hints(Options)
    found = {
        name: _understood(value) if isinstance(value, str) and kinds[name] is not str else value
        for name, value in learning.items()
        if value is not None
    }
    return found | ({"loss": own_loss(found["loss"])} if "loss" in found else {})


def _understood(text: str) -> Any:
    """Parse the value of an option of several types: none, a number, or the word itself."""
    if text.lower() == "none":
        return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def check_concerns(method: str, learning: dict[str, Any]) -> None:
    """Refuse options that this method does not use."""
    from onsketch.core.errors import OptionError
    from onsketch.learners.methods import METHODS

    for level, losses in LEVELS.items():
        if level in learning and learning.get("loss") not in losses:
            wanted = " or ".join(f"--loss {loss}" for loss in losses)
            raise OptionError(f"--{level} is the level of {wanted}, and does nothing without it.")
    concerns = METHODS[method].concerns
    for name in learning:
        if name not in concerns and name != "plain":
            known = ", ".join(sorted(concerns))
            raise OptionError(
                f"{switches()[name][0]} does not concern {method}, and would do nothing; its options are {known}."
            )


def known_method(name: str) -> str:
    """The method's name, or a complaint with a hint."""
    from onsketch.learners.methods import METHODS as known

    if name not in known:
        from onsketch.core.errors import suggestion

        hint = suggestion(name, known) or " 'onsketch methods' lists them all."
        raise click.BadParameter(f"there is no method {name!r}.{hint}", param_hint="--learner")
    return name
