"""Rooms import one way: no room imports one that comes after it."""

import ast
from pathlib import Path

import pytest

import onsketch

PACKAGE = Path(onsketch.__file__).parent

ORDER = (
    "core.errors", "jit", "core", "files", "sketches", "rows", "data", "learners", "jobs", "adapters", "report",
    "experiments", "cli",
)  # fmt: skip
"""From the ground up. ``torch`` stands apart: it imports core.errors alone; core.interrupts counts as core.errors."""


def room_of(module):
    parts = module.split(".")[1:]
    if parts[:2] in (["core", "errors"], ["core", "interrupts"]):
        return "core.errors"
    return parts[0] if parts else ""


def imports():
    """(file, room of the file, room it imports, whether when it is loaded)."""
    for file in sorted(PACKAGE.rglob("*.py")):
        inside = file.relative_to(PACKAGE)
        if len(inside.parts) == 1:
            continue  # the front doors, and the paths of old
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
                yield inside.as_posix(), room_of("onsketch." + ".".join(inside.with_suffix("").parts)), room_of(name)


@pytest.mark.slow
def test_no_room_imports_one_that_comes_after_it():
    wrong = [
        f"{file} -> {there}"
        for file, here, there in imports()
        if here in ORDER and there in ORDER and ORDER.index(there) > ORDER.index(here)
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ORDER)
def test_every_room_is_there(room):
    assert (PACKAGE / room.replace(".", "/")).is_dir() or (PACKAGE / (room.replace(".", "/") + ".py")).is_file()


def test_few_modules_lie_flat():
    doors = {"__init__", "cluster", "errors", "kernel", "river", "sketch", "sklearn"}
    assert {file.stem for file in PACKAGE.glob("*.py")} <= doors
