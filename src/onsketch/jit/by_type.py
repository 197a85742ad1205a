"""Functions of compiled code that are chosen by the type of an argument, when their caller is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from onsketch.jit.decorators import INNER

Function = Callable[..., Any]


class Choice(NamedTuple):
    """A function with several implementations."""

    function: Function
    implementations: dict[type, Function]
    otherwise: bool
    options: dict[str, Any]


choices: list[Choice] = []
"""All of them; Numba is told when it is there (compiling.py)."""


def chosen_by_type(function: Function, *, otherwise: bool = False, **options: Any) -> dict[type, Function]:
    """Have compiled code that calls ``function`` call what is kept for the class of one of its arguments.

    Arguments are named tuples. Where nothing is kept for any of their classes, the function's own body is meant if
    ``otherwise`` says so; else it is an error.

    Args:
        function: called by compiled code.
        otherwise: whether its body is an implementation, too.
        **options: of the compilation, beside those of ``inner``.

    Returns:
        The table of implementations, plain functions by class. The stamp of what is compiled looks at it, too.
    """
    implementations: dict[type, Function] = {}
    function.implementations = implementations  # type: ignore[attr-defined]
    choices.append(Choice(function, implementations, otherwise, {**INNER, **options}))
    return implementations
