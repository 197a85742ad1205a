"""Options that several commands share, declared once: how to read, and how to learn.

A command asks for them with :func:`gathering`: their parameters join its own, and what the user gave arrives as one
dictionary.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from itertools import chain
from types import UnionType
from typing import Annotated, Any, get_args, get_type_hints

import typer

from onsketch.cli.declaring import option
from onsketch.learners.options import DECLARED, Options

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
"""Options of one family of methods, shown apart from what everybody needs."""


ALL = "--help-all"
"""Shows them."""


def _panel(name: str) -> str:
    """The group of an option of learners in the help."""
    return next((panel for panel, names in _FAMILIES.items() if name in names), LEARNING)


def _one_of(*words: str) -> Callable[[str | None], str | None]:
    """Refuse any other word, with the option named."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in words:
            raise typer.BadParameter(f"expected {' or '.join(words)}, not {value!r}")
        return value

    return check


def _asked(kind: Any, sentence: str, shown: str | bool = True, *names: str, panel: str = READING, **more: Any) -> Any:
    """The type of an option that may be left out, as Typer wants it annotated."""
    named = {"metavar": {str: "NAME", list[str]: "NAME", int: "N"}.get(kind), **more}
    return Annotated[kind | None, option(sentence, *names, shown=shown, panel=panel, **named)]


_STRINGS = list[str]

_READING = {
    "label": _asked(str, "Label column of a table, by name or place; none for no label.", "label, target, y or class"),
    "positive": _asked(
        str, "Tell this label from all others.", "of two, the larger or the later in the alphabet", metavar="LABEL"
    ),
    "format": _asked(str, "libsvm, vw, csv, json, parquet or arrow.", "by the name, then by the content"),
    "weight": _asked(str, "Column of sample weights.", "none"),
    "tag": _asked(str, "Column that names rows.", "none"),
    "ignore": _asked(_STRINGS, "Column (VW: namespace) to leave out; repeat for more."),
    "keep": _asked(_STRINGS, "Column (VW: namespace) to use, and no other; repeat for more."),
    "categorical": _asked(_STRINGS, "Column of categories, beside those that hold words; repeat for more."),
    "numeric": _asked(_STRINGS, "Column of numbers; repeat for more."),
    "missing": _asked(
        str, "Empty fields: indicate (a feature says so), zero or error.", "indicate",
        callback=_one_of("error", "zero", "indicate"),
    ),
    "on_error": _asked(str, "A bad line: stop or skip.", "stop", callback=_one_of("stop", "skip")),
    "delimiter": _asked(str, "Of CSV fields.", "by the first lines"),
    "decimal": _asked(str, "Decimal mark.", "by the first lines"),
    "header": _asked(bool, "Whether CSV begins with names.", "by the first lines"),
    "interact": _asked(
        _STRINGS, "Columns to multiply, two or three; repeat for more.", panel=PRODUCTS, metavar="A,B"
    ),
    "quadratic": _asked(
        _STRINGS, "Pairs of namespaces to multiply, as VW's -q ab; :: for all.", True, "--quadratic", "-q",
        panel=PRODUCTS,
    ),
    "cubic": _asked(_STRINGS, "Three namespaces to multiply, as VW's --cubic abc.", panel=PRODUCTS),
    "bits": _asked(int, "Bits of feature hashes.", "18", "--bits", "-b"),
    "names": _asked(bool, "Keep the names of hashed features of VW files, too.", True, "--names"),
    "zero_based": _asked(bool, "LIBSVM indices count from.", "column = index", "--zero-based/--one-based"),
    "block_rows": _asked(int, "Rows read at a time.", min=1),
    "max_line_bytes": _asked(int, "A longer line is refused.", "64 MiB", min=1 << 18),
    "max_unpack_bytes": _asked(int, "Memory to unpack zst and xz.", "128 MiB", min=1 << 18),
    "max_products": _asked(int, "Products of a row; more are refused.", "1,048,576", panel=PRODUCTS, min=1),
}  # fmt: skip
"""The options of reading, in the order of the help."""


def _parameters(declared: dict[str, Any]) -> list[inspect.Parameter]:
    """Parameters of a command, all of which may be left out."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in declared.items()]


def _typed_in(kind: Any) -> Any:
    """The type of a learner's option as it is typed on a command line: words where several types are possible."""
    kinds = [part for part in get_args(kind) if part is not type(None)] if isinstance(kind, UnionType) else [kind]
    return kinds[0] if len(kinds) == 1 else str


def _learning() -> list[inspect.Parameter]:
    """The options of a learner, as they are declared in ``learners/options.py``."""
    kinds = get_type_hints(Options)
    declared: dict[str, Any] = {}
    for name, known in DECLARED.items():
        kind = _typed_in(kinds[name])
        low = getattr(known.check, "low", None)
        least = None if kind not in (int, float) or getattr(known.check, "above", False) else low
        asked = typer.Option(
            *([known.switch] if known.switch else []),
            min=least,
            metavar={int: "N", float: "X", str: "WORD"}.get(kind),
            hidden=_panel(name) in _FAMILIES and ALL not in sys.argv,
            help=known.sentence[:1].upper() + known.sentence[1:],
            show_default=SHOWN.get(name, known.shown),
            rich_help_panel=_panel(name),
        )
        declared[name] = Annotated[kind | None, asked]
    told = "The method as its paper has it: no scales, implicit steps or intercept unless asked for."
    plain = option(told, "--plain", shown="", panel=LEARNING)
    return _parameters({**declared, "plain": Annotated[bool | None, plain]})


SHOWN = {"loss": "by the labels"}
"""Defaults that the program works out by itself, in words."""

_SHARED = {"learning": _learning(), "reading": _parameters(_READING)}


def switches() -> dict[str, tuple[str, str]]:
    """What is typed for every option that commands share, and for a flag's opposite, empty where it has none."""
    found = {name: (f"--{name}", "") for name in ("task", "passes", "holdout", "kind")}
    for parameter in chain(*_SHARED.values()):
        asked = parameter.annotation.__metadata__[0]
        told = [name for name in (asked.default, *asked.param_decls) if str(name).startswith("--")]
        switch, _, opposite = (told or [f"--{parameter.name.replace('_', '-')}"])[0].partition("/")
        found[parameter.name] = switch, opposite
    return found


def gathering(*groups: str, without: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take these groups of options, each as one dictionary of what was given."""
    shared = {group: [p for p in _SHARED[group] if p.name not in without] for group in groups}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_groups(**values: Any) -> None:
            for group, parameters in shared.items():
                given = {p.name: values.pop(p.name) for p in parameters}
                values[group] = {name: value for name, value in given.items() if value is not None}
            command(**values)

        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name not in groups]
        whole = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *chain(*shared.values()))]
        with_groups.__signature__ = inspect.Signature(whole)  # type: ignore[attr-defined]
        with_groups.__annotations__ = {p.name: p.annotation for p in whole}
        return with_groups

    return decorate


def learner_options(learning: dict[str, Any]) -> dict[str, Any]:
    """The learner's keyword arguments from what was given on the command line."""
    kinds = get_type_hints(Options)
    return {
        name: _understood(value) if isinstance(value, str) and kinds[name] is not str else value
        for name, value in learning.items()
        if value is not None
    }


def _understood(text: str) -> Any:
    """What was typed for an option of several types: none, a number, or the word itself."""
    if text.lower() == "none":
        return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def check_concerns(method: str, learning: dict[str, Any]) -> None:
    """Refuse options that would do nothing with this method, whatever their value."""
    from onsketch.core.errors import OptionError
    from onsketch.learners.methods import METHODS

    if "quantile" in learning and learning.get("loss") != "quantile":
        raise OptionError("--quantile is the level of --loss quantile, and does nothing without it.")
    concerns = METHODS[method].concerns
    for name in learning:
        if name not in concerns and name != "plain":
            option = DECLARED[name].switch.split("/")[0] or f"--{name.replace('_', '-')}"
            known = ", ".join(sorted(concerns))
            raise OptionError(f"{option} does not concern {method}, and would do nothing; its options are {known}.")


def known_method(name: str) -> str:
    """The method's name, or a complaint with a hint."""
    from onsketch.learners.methods import METHODS as known

    if name not in known:
        from onsketch.core.errors import meant

        close = meant(name, known)
        hint = f"did you mean {close}?" if close else "'onsketch methods' lists them all"
        raise typer.BadParameter(f"there is no method {name!r}; {hint}", param_hint="--learner")
    return name
