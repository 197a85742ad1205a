"""Packages import in one direction: none imports a package above it."""

import ast
from pathlib import Path

import pytest

import onsketch

PACKAGE = Path(onsketch.__file__).parent

ORDER = (
    "core.errors", "jit", "core", "files", "sketches", "rows", "data", "learners", "jobs", "adapters", "report",
    "experiments", "cli",
)  # fmt: skip
"""From the lowest layer up. ``torch`` is separate and only imports core.errors; core.interrupts counts as that."""


def layer_of(module):
    parts = module.split(".")[1:]
    if parts[:2] in (["core", "errors"], ["core", "interrupts"]):
        return "core.errors"
    return parts[0] if parts else ""


def imports():
    """Yield (file, layer of the file, layer that it imports) for all imports outside TYPE_CHECKING."""
    for file in sorted(PACKAGE.rglob("*.py")):
        inside = file.relative_to(PACKAGE)
        if len(inside.parts) == 1:
            continue  # public import paths
        tree = ast.parse(file.read_text())
        typing = {
            node
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
            for node in ast.walk(block)
        }
        for node in ast.walk(tree):
            if node in typing:
                continue
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("onsketch."):
                names = [node.module]
            elif isinstance(node, ast.ImportFrom) and node.module == "onsketch":
                names = [f"onsketch.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.startswith("onsketch.")]
            for name in names:
                yield inside.as_posix(), layer_of("onsketch." + ".".join(inside.with_suffix("").parts)), layer_of(name)


@pytest.mark.slow
def test_no_package_imports_one_above_it():
    wrong = [
        f"{file} -> {there}"
        for file, here, there in imports()
        if here in ORDER and there in ORDER and ORDER.index(there) > ORDER.index(here)
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", ORDER)
def test_every_layer_exists(layer):
    assert (PACKAGE / layer.replace(".", "/")).is_dir() or (PACKAGE / (layer.replace(".", "/") + ".py")).is_file()


def test_top_level_modules_are_public_import_paths():
    public = {"__init__", "cluster", "errors", "kernel", "river", "sketch", "sklearn"}
    assert {file.stem for file in PACKAGE.glob("*.py")} <= public
