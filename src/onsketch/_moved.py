"""Modules that have moved: the old import paths go on working, with a warning, until version 1.0.

``import onsketch.model_file`` gives ``onsketch.files.model_file``, the very same module.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "arrays": "files.arrays",
    "auto": "learners.auto",
    "compare": "jobs.compare",
    "compiling": "jit.machine_code",
    "draws": "core.draws",
    "eigen": "core.eigen",
    "estimators": "adapters.options",
    "evaluation": "jobs.evaluation",
    "geometry": "core.geometry",
    "ingredients": "jit.link_only",
    "learnable": "data.usable",
    "limits": "core.tolerances",
    "linear": "learners",
    "losses": "core.losses",
    "model_file": "files.model_file",
    "multiclass": "learners.multiclass",
    "numerics": "jit.decorators",
    "offline": "jobs.offline",
    "prediction": "jobs.prediction",
    "quantile": "core.quantile",
    "secular": "core.secular",
    "standings": "jobs.standings",
    "task": "data.task",
    "training": "jobs.training",
    "vectors": "jit.vectors",
}
"""Old name within the package → new one. What lies inside a package has moved with it."""


class _Alias:  # a Loader; importing that class takes as long as a third of NumPy
    def __init__(self, home: str) -> None:
        self._home = home

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._home)
        warnings.warn(f"{spec.name} is now {self._home}.", DeprecationWarning, stacklevel=2)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import machinery has written the alias's over it


class _Moved:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        first, _, inside = rest.partition(".")
        if package != "onsketch" or first not in MOVED:
            return None
        home = f"onsketch.{MOVED[first]}" + (f".{inside}" if inside else "")
        return ModuleSpec(fullname, _Alias(home))  # type: ignore[arg-type]


def install() -> None:
    """Let the old paths be found (first, so that no module is loaded twice under two names)."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())
