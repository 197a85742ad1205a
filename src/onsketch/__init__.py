"""onsketch: second-order online learning by matrix sketching.

>>> import onsketch
>>> sorted(onsketch.methods())[:4]
['ada-dp', 'ada-fd', 'ada-ffd', 'ada-full']
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from onsketch import cluster, data, errors, kernel, sketch
    from onsketch.files.model_file import load
    from onsketch.jobs.model import Model
    from onsketch.learners.base import Learner
    from onsketch.learners.build import compose, learner, methods, safe_learner

__all__ = [
    "Learner",
    "Model",
    "__version__",
    "cluster",
    "compose",
    "data",
    "errors",
    "kernel",
    "learner",
    "load",
    "methods",
    "safe_learner",
    "sketch",
]

_HOMES = {
    "Learner": "onsketch.learners.base",
    "Model": "onsketch.jobs.model",
    "compose": "onsketch.learners.build",
    "learner": "onsketch.learners.build",
    "load": "onsketch.files.model_file",
    "methods": "onsketch.learners.build",
    "safe_learner": "onsketch.learners.build",
}
_MODULES = ("cluster", "data", "errors", "kernel", "sketch")
_OPTIONAL = ("river", "sklearn", "torch")
"""Modules that need another package of the same name; not in ``__all__``, because it may be missing."""


def __getattr__(name: str) -> Any:
    """Import a name at its first use: Numba alone takes half a second."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES or name in _OPTIONAL:
        return import_module(f"onsketch.{name}")
    raise AttributeError(f"module 'onsketch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *(name for name in _OPTIONAL if find_spec(name) is not None)]
