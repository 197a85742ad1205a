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


def _reading(
    label: Annotated[
        str | None,
        typer.Option(
            help="Label column of a table, by name or place; none for no label.",
            show_default="label, target, y or class",
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Tell this label from all others.",
            show_default="of two, the larger or the later in the alphabet",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="libsvm, vw, csv, json, parquet or arrow.", show_default="by the name, then by the content"),
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.", show_default="none")] = None,
    tag: Annotated[str | None, typer.Option(help="Column that names rows.", show_default="none")] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column (VW: namespace) to leave out; repeat for more.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Column (VW: namespace) to use, and no other; repeat for more.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="Column of categories, beside those that hold words; repeat for more."),
    ] = None,
    numeric: Annotated[list[str] | None, typer.Option(help="Column of numbers; repeat for more.")] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Empty fields: indicate (a feature says so), zero or error.",
            show_default="indicate",
            callback=_one_of("error", "zero", "indicate"),
        ),
    ] = None,
    on_error: Annotated[
        str | None,
        typer.Option(help="A bad line: stop or skip.", show_default="stop", callback=_one_of("stop", "skip")),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Of CSV fields.", show_default="by the first lines")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark.", show_default="by the first lines")] = None,
    header: Annotated[
        bool | None, typer.Option(help="Whether CSV begins with names.", show_default="by the first lines")
    ] = None,
    interact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B", help="Columns to multiply, two or three; repeat for more.", rich_help_panel=PRODUCTS
        ),
    ] = None,
    quadratic: Annotated[
        list[str] | None,
        typer.Option(
            "--quadratic",
            "-q",
            help="Pairs of namespaces to multiply, as VW's -q ab; :: for all.",
            rich_help_panel=PRODUCTS,
        ),
    ] = None,
    cubic: Annotated[
        list[str] | None,
        typer.Option(help="Three namespaces to multiply, as VW's --cubic abc.", rich_help_panel=PRODUCTS),
    ] = None,
    bits: Annotated[int | None, typer.Option("--bits", "-b", help="Bits of feature hashes.", show_default="18")] = None,
    names: Annotated[
        bool | None, typer.Option("--names", help="Keep the names of hashed features of VW files, too.")
    ] = None,
    zero_based: Annotated[
        bool | None,
        typer.Option("--zero-based/--one-based", help="LIBSVM indices count from.", show_default="column = index"),
    ] = None,
    block_rows: Annotated[int | None, typer.Option(min=1, help="Rows read at a time.")] = None,
    max_line_bytes: Annotated[
        int | None, typer.Option(min=1 << 18, help="A longer line is refused.", show_default="64 MiB")
    ] = None,
    max_unpack_bytes: Annotated[
        int | None, typer.Option(min=1 << 18, help="Memory to unpack zst and xz.", show_default="128 MiB")
    ] = None,
    max_products: Annotated[
        int | None,
        typer.Option(
            min=1, help="Products of a row; more are refused.", show_default="1,048,576", rich_help_panel=PRODUCTS
        ),
    ] = None,
) -> None: ...


def _parameters(declared: Callable[..., None], panel: str) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(declared, eval_str=True).parameters.values())
    for parameter in parameters:
        asked = parameter.annotation.__metadata__[0]
        asked.rich_help_panel = asked.rich_help_panel or panel
        kinds = {"str | None": "NAME", "list[str] | None": "NAME", "int | None": "N"}
        asked.metavar = asked.metavar or kinds.get(str(parameter.annotation.__origin__).replace("typing.", ""))
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]


def _typed_in(kind: Any) -> Any:
    """The type of a learner's option as it is typed on a command line: words where several types are possible."""
    kinds = [part for part in get_args(kind) if part is not type(None)] if isinstance(kind, UnionType) else [kind]
    return kinds[0] if len(kinds) == 1 else str


def _learning() -> list[inspect.Parameter]:
    """The options of a learner, as they are declared in ``learners/options.py``."""
    kinds = get_type_hints(Options)
    parameters = []
    for name, option in DECLARED.items():
        kind = _typed_in(kinds[name])
        low = getattr(option.check, "low", None)
        least = None if kind not in (int, float) or getattr(option.check, "above", False) else low
        asked = typer.Option(
            *([option.switch] if option.switch else []),
            min=least,
            metavar={int: "N", float: "X", str: "WORD"}.get(kind),
            hidden=_panel(name) in _FAMILIES and ALL not in sys.argv,
            help=option.sentence[:1].upper() + option.sentence[1:],
            show_default=SHOWN.get(name, option.shown),
            rich_help_panel=_panel(name),
        )
        kind = Annotated[kind | None, asked]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    told = "The method as its paper has it: no scales, implicit steps or intercept unless asked for."
    plain = Annotated[bool | None, typer.Option("--plain", help=told, show_default="", rich_help_panel=LEARNING)]
    return [*parameters, inspect.Parameter("plain", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=plain)]


SHOWN = {"loss": "by the labels"}
"""Defaults that the program works out by itself, in words."""

_SHARED = {"learning": _learning(), "reading": _parameters(_reading, READING)}


def switches() -> dict[str, tuple[str, str]]:
    """What is typed for every option that commands share, and for a flag's opposite."""
    found = {name: (f"--{name}", "") for name in ("task", "passes", "holdout", "kind")}
    for parameter in chain(*_SHARED.values()):
        asked = parameter.annotation.__metadata__[0]
        told = [name for name in (asked.default, *asked.param_decls) if str(name).startswith("--")]
        switch, _, opposite = (told or [f"--{parameter.name.replace('_', '-')}"])[0].partition("/")
        found[parameter.name] = switch, opposite or switch.replace("--", "--no-", 1)
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
        from difflib import get_close_matches

        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else "'onsketch methods' lists them all"
        raise typer.BadParameter(f"there is no method {name!r}; {hint}", param_hint="--learner")
    return name
