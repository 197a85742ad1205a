"""Options that several commands share, declared once: how to read, and how to learn.

A command asks for them with :func:`gathering`: their parameters join its own, and what the user gave arrives as one
dictionary.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from itertools import chain
from typing import Annotated, Any

import typer

LEARNING, READING = "Learning", "Reading"


def _one_of(*words: str) -> Callable[[str | None], str | None]:
    """Refuse any other word, with the option named."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in words:
            raise typer.BadParameter(f"expected {' or '.join(words)}, not {value!r}")
        return value

    return check


def _learning(
    loss: Annotated[
        str | None,
        typer.Option(help="squared, absolute, logistic, hinge or squared_hinge.", show_default="by the labels"),
    ] = None,
    sketch_size: Annotated[int | None, typer.Option(min=0, help="Rows of the sketch.", show_default="20")] = None,
    ridge: Annotated[
        float | None, typer.Option(min=0.0, help="What the metric starts from.", show_default="the method's")
    ] = None,
    step_size: Annotated[float | None, typer.Option(help="Factor of each step.", show_default="the method's")] = None,
    clip: Annotated[
        str | None, typer.Option(help="Bound of predictions; none for no bound.", show_default="the method's")
    ] = None,
    curvature: Annotated[float | None, typer.Option(help="σ of Newton methods.", show_default="by the loss")] = None,
    curvature_schedule: Annotated[str | None, typer.Option(help="η_t: none, 1/t or 1/sqrt(t).")] = None,
    summary: Annotated[
        str | None, typer.Option(help="What the sketch absorbs: gradient, data or curvature.", show_default="gradient")
    ] = None,
    update: Annotated[str | None, typer.Option(help="mirror or dual.", show_default="mirror")] = None,
    doubling: Annotated[bool | None, typer.Option(help="Frequent directions with a doubled buffer.")] = None,
    diagonal: Annotated[bool | None, typer.Option(help="Adapt to the scale of each feature first.")] = None,
    shrink_fraction: Annotated[float | None, typer.Option(help="β of pfd-son.", show_default="0.2")] = None,
    l1: Annotated[float | None, typer.Option(min=0.0, help="Weight of |w|₁.", show_default="0")] = None,
    l2: Annotated[float | None, typer.Option(min=0.0, help="Weight of |w|²/2.", show_default="0")] = None,
    box: Annotated[
        tuple[float, float] | None, typer.Option(help="Bounds of every weight.", show_default="none")
    ] = None,
    fit_intercept: Annotated[
        bool | None, typer.Option("--intercept/--no-intercept", help="A constant feature.")
    ] = None,
    average: Annotated[bool | None, typer.Option(help="Predict with the mean of the iterates.")] = None,
    forget: Annotated[float | None, typer.Option(help="Decay of the past per row.", show_default="1: none")] = None,
    betas: Annotated[tuple[float, float] | None, typer.Option(help="Adam's rates.", show_default="0.9 0.999")] = None,
    kernel: Annotated[
        str | None, typer.Option(help="Kernel methods: linear, rbf, laplacian or polynomial.", show_default="rbf")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Width of the kernel.", show_default="by the data")] = None,
    degree: Annotated[int | None, typer.Option(min=1, help="Of the polynomial kernel.", show_default="3")] = None,
    coef0: Annotated[float | None, typer.Option(help="Constant of that kernel.", show_default="1")] = None,
    max_points: Annotated[
        int | None, typer.Option(min=1, help="Most rows a kernel learner keeps.", show_default="the method's")
    ] = None,
    restart: Annotated[bool | None, typer.Option(help="pros-n-kons as published: forget at a new row.")] = None,
    accuracy: Annotated[float | None, typer.Option(help="ε of row sampling.", show_default="0.5")] = None,
    budget: Annotated[float | None, typer.Option(help="β of row sampling.", show_default="practical")] = None,
    floor: Annotated[float | None, typer.Option(help="γ of sketched-kons.", show_default="0")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of random sketches.", show_default="0")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float64 or float32, of what is kept per feature.", show_default="float64")
    ] = None,
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Width of the rows; others are errors.", show_default="as they come")
    ] = None,
) -> None: ...


def _reading(
    format: Annotated[
        str | None,
        typer.Option(help="libsvm, vw, csv, parquet or arrow.", show_default="by the name, then by the content"),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Tell this label from all others.", show_default="the larger")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Label column of a table, by name or place; none for no label.",
            show_default="label, target, y or class",
        ),
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.", show_default="none")] = None,
    tag: Annotated[str | None, typer.Option(help="Column that names rows.", show_default="none")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; repeat for more.")] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="Column of categories; repeat for more.", show_default="those that hold a word"),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Of CSV fields.", show_default="by the first line")] = None,
    header: Annotated[
        bool | None, typer.Option(help="Whether CSV begins with names.", show_default="by the first line")
    ] = None,
    bits: Annotated[int | None, typer.Option("--bits", "-b", help="Bits of feature hashes.", show_default="18")] = None,
    quadratic: Annotated[
        list[str] | None,
        typer.Option("--quadratic", "-q", help="Pairs of namespaces to multiply, as VW's -q ab; :: for all."),
    ] = None,
    names: Annotated[bool | None, typer.Option("--names", help="Keep the names of hashed features.")] = None,
    zero_based: Annotated[
        bool | None,
        typer.Option("--zero-based/--one-based", help="LIBSVM indices count from.", show_default="column = index"),
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="Empty fields of a table: error or zero.", callback=_one_of("error", "zero"))
    ] = None,
    on_error: Annotated[
        str | None,
        typer.Option(help="A bad line: stop or skip.", show_default="stop", callback=_one_of("stop", "skip")),
    ] = None,
    block_rows: Annotated[int | None, typer.Option(min=1, help="Rows read at a time.")] = None,
) -> None: ...


def _parameters(declared: Callable[..., None], panel: str) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(declared, eval_str=True).parameters.values())
    for parameter in parameters:
        parameter.annotation.__metadata__[0].rich_help_panel = panel
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]


_SHARED = {"learning": _parameters(_learning, LEARNING), "reading": _parameters(_reading, READING)}


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
    options = {name: value for name, value in learning.items() if value is not None}
    if "clip" in options:
        options["clip"] = None if options["clip"] == "none" else options["clip"]
    return options


def known_method(name: str) -> str:
    """The method's name, or a complaint with a hint."""
    from onsketch.learners.methods import METHODS as known

    if name not in known:
        from difflib import get_close_matches

        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else "'onsketch methods' lists them all"
        raise typer.BadParameter(f"there is no method {name!r}; {hint}", param_hint="--learner")
    return name
