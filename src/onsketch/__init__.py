"""onsketch: second-order online learning by matrix sketching.

>>> import onsketch
>>> sorted(onsketch.methods())[:4]
['ada-dp', 'ada-fd', 'ada-ffd', 'ada-full']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from onsketch import cluster, data, errors, kernel, sketch
    from onsketch.linear.base import Learner
    from onsketch.linear.build import compose, learner, methods
    from onsketch.model_file import load

__all__ = [
    "Learner",
    "__version__",
    "cluster",
    "compose",
    "data",
    "errors",
    "kernel",
    "learner",
    "load",
    "methods",
    "sketch",
]

_HOMES = {
    "Learner": "onsketch.linear.base",
    "compose": "onsketch.linear.build",
    "learner": "onsketch.linear.build",
    "load": "onsketch.model_file",
    "methods": "onsketch.linear.build",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: Numba alone takes half a second."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in ("cluster", "data", "errors", "kernel", "sketch"):
        return import_module(f"onsketch.{name}")
    raise AttributeError(f"module 'onsketch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
