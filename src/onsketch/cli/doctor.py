"""``onsketch doctor``: what this installation is made of."""

from __future__ import annotations

import onsketch
from onsketch.cli.console import out, print_rows


def doctor() -> None:
    """Say which versions are in use, and where compiled code comes from."""
    import platform

    from onsketch.jit.machine_code import described

    rows = [("onsketch", onsketch.__version__), ("Python", f"{platform.python_version()}, {platform.machine()}")]
    rows += [(name, _version(name)) for name in ("numpy", "scipy", "numba", "llvmlite")]
    print_rows(out(), ("what", "which"), [*rows, *described()])


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
