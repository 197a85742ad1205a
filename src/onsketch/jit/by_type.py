"""Functions of compiled code that are chosen by the type of an argument, when their caller is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.errors import TypingError
from numba.extending import overload

from onsketch.jit.decorators import INNER

Function = Callable[..., Any]


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

    def choose(*args: Any) -> Function:
        for arg in args:
            kind = getattr(arg, "instance_class", None)
            if kind in implementations:
                return implementations[kind]
        if otherwise:
            return function
        raise TypingError(f"{function.__name__}: nothing has been registered for any of {args}.")

    settings: Any = {**INNER, **options}
    overload(function, jit_options=settings, strict=False)(choose)
    return implementations
