"""Private names of other libraries are used in few places, and a version without one of them is named at once."""

import ast
import importlib
import importlib.metadata
import re
from pathlib import Path

import pytest

import onsketch

PACKAGE = Path(onsketch.__file__).parent

ALLOWED = {
    "numba": ("jit/",),
    "ray": ("jobs/cluster/ray_engine.py",),
    "torch": ("torch/",),
}
"""Where the names of a library may be used that it does not document."""


def is_private(name):
    """Numba documents nothing below ``core``, the others mark theirs by an underscore."""
    library, *rest = name.split(".")
    if library == "numba" and rest[:1] == ["core"]:
        return True
    return any(part.startswith("_") and not part.startswith("__") for part in rest)


def dotted(node):
    """``a.b.c`` of an attribute, or an empty word."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def private_names():
    """(file, line, name) of each private name of these libraries that the sources use."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.Attribute):
                names = [dotted(node)]
            for name in names:
                if name.split(".")[0] in ALLOWED and is_private(name):
                    yield file.relative_to(PACKAGE).as_posix(), node.lineno, name


USED = sorted(private_names())


def test_private_names_are_used_where_they_are_expected_alone():
    for file, line, name in USED:
        places = ALLOWED[name.split(".")[0]]
        assert file.startswith(places), f"{file}:{line} uses {name}; such names belong into {', '.join(places)}"


@pytest.mark.slow
@pytest.mark.parametrize("library", ALLOWED)
def test_every_private_name_is_there(library):
    there = pytest.importorskip(library, reason=f"{library} is not installed")
    without_cuda = library == "torch" and there.version.cuda is None
    version = importlib.metadata.version(library)
    for file, line, name in USED:
        if name.split(".")[0] == library and not ("cuda" in name and without_cuda):
            assert exists(name), f"{library} {version} has no {name}, which onsketch/{file}:{line} needs"


@pytest.mark.parametrize("library", ALLOWED)
def test_what_is_used_privately_has_an_upper_bound(library):
    """A version that may have other private names is not installed unseen."""
    root = PACKAGE.parents[1]
    if not (root / "pyproject.toml").is_file():
        pytest.skip("an installed package has no pyproject.toml")
    declared = [*re.findall(rf'"({library}[<>=][^"]*)"', (root / "pyproject.toml").read_text())]
    declared += re.findall(rf'"({library}[<>=][^"]*)"', (root / "hatch_build.py").read_text())
    assert declared
    for requirement in declared:
        assert "<" in requirement or "==" in requirement, requirement


def exists(name):
    """Whether a dotted name is a module, or what one holds."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
