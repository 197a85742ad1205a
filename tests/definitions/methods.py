"""Every method by its name."""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from definitions.algorithm import second_order
from definitions.first_order import adam, arow, ftrl
from definitions.options import Options, Result


def _parts(sketch: str, geometry: str, **options: object) -> dict[str, object]:
    return {"sketch": sketch, "geometry": geometry, **options}


METHODS: dict[str, dict[str, object]] = {
    "ogd": _parts("none", "ogd"),
    "adagrad": _parts("diagonal", "adagrad"),
    "ada-full": _parts("exact", "adagrad"),
    "ons": _parts("exact", "newton"),
    "rp-son": _parts("rp", "newton"),
    "fd-son": _parts("fd", "newton"),
    "rfd-son": _parts("rfd", "newton"),
    "pfd-son": _parts("pfd", "newton"),
    "cfd-son": _parts("cfd", "newton"),
    "oja-son": _parts("oja", "newton"),
    "ada-lr": _parts("low-rank", "low-rank"),
    "radagrad": _parts("rada", "rada"),
    "ada-gp": _parts("rp", "adagrad"),
    "ada-dp": _parts("rp", "adagrad", summary="data"),
    "ada-fd": _parts("fd", "adagrad", doubling=False),
    "ada-ffd": _parts("ffd", "adagrad"),
    "s-adagrad": _parts("fd", "s-adagrad", doubling=False),
}
"""The methods that are a sketch under a geometry, each with the defaults that are its own."""

FIRST_ORDER: dict[str, tuple[Callable[[ArrayLike, ArrayLike, Options], Result], dict[str, object]]] = {
    "adam": (adam, {"ridge": 1e-8}),
    "ftrl": (ftrl, {}),
    "arow": (arow, {}),
}
"""The others, each with the defaults that are its own."""


def run(method: str, X: ArrayLike, y: ArrayLike, **options: object) -> Result:
    """One pass of a named method; ``options`` are the fields of ``Options``, the method's own defaults first.

    A field that does not concern the method is ignored.
    """
    if method in FIRST_ORDER:
        learn, defaults = FIRST_ORDER[method]
        return learn(X, y, Options(**(defaults | options)))  # type: ignore[arg-type]
    return second_order(X, y, Options(**(METHODS[method] | options)))  # type: ignore[arg-type]
