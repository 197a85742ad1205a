"""``onsketch doctor`` and ``onsketch methods``: the state of this installation, and its methods."""

from __future__ import annotations

import onsketch
from onsketch.cli.console import out, print_rows
from onsketch.cli.declaring import command


@command()
def doctor() -> None:
    """Show the versions in use, and the source of compiled code."""
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


@command()
def methods() -> None:
    """List every method, with one line and its citation."""
    print_rows(out(), ("method", "what it is"), [(name, str(entry)) for name, entry in onsketch.methods().items()])
