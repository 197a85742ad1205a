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
"""All tables; compiling.py registers them with Numba."""


def chosen_by_type(function: Function, *, otherwise: bool = False, **options: Any) -> dict[type, Function]:
    """Dispatch compiled calls of ``function`` by the class of its arguments.

    Arguments are named tuples. If no implementation is registered for any of their classes, the function's own body is
    used if ``otherwise`` is True; else it is an error.

    Args:
        function: the function that compiled code calls.
        otherwise: True if its body is the default implementation.
        **options: options of the compilation, in addition to those of ``inner``.

    Returns:
        The table of implementations, plain functions by class. The stamp of compiled code includes it.
    """
    implementations: dict[type, Function] = {}
    function.implementations = implementations  # type: ignore[attr-defined]
    choices.append(Choice(function, implementations, otherwise, {**INNER, **options}))
    return implementations
