"""What ARCHITECTURE.md names is there: a newcomer who follows it arrives."""

import ast
import re
from pathlib import Path

import pytest

import onsketch

PACKAGE = Path(onsketch.__file__).parent
PAGE = PACKAGE.parent.parent / "ARCHITECTURE.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="no checkout beside the package")


def part(heading):
    """The text under a heading."""
    return PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def names_in(file):
    """Functions and classes of a file, methods as Class.method, and what it takes from elsewhere."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            found |= {f"{node.name}.{inner.name}" for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def test_every_file_of_a_room_is_there():
    missing = []
    for line in part("Rooms").splitlines():
        if not line.startswith("| `"):
            continue
        first, rest = line.strip("|").split("|", 1)
        rooms = re.findall(r"`([\w/]+/)`", first)
        assert rooms, line
        for name in rooms + re.findall(r"`([\w/]+(?:\.py|/))`", first.partition(",")[2] + rest):
            if not any([*(PACKAGE / room).rglob(name)] or (PACKAGE / name).exists() for room in (*rooms, "learners")):
                missing.append(name)
    assert missing == []


def test_every_room_is_in_the_table():
    named = set(re.findall(r"`([a-z]+)/", part("Rooms")))
    assert {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()} <= named


def steps():
    """(file, name) of each line of a row's walk, and of the places that a newcomer asks for."""
    for path, name in re.findall(r"([\w/]+/\w+)\.([A-Za-z]\w*(?:\.\w+)?)", part("A row's walk")):
        yield path, name
    for path, name in re.findall(r"^ +(\w+)\.(\w+) ", part("A row's walk"), re.MULTILINE):
        yield f"learners/sketched/{path}" if path != "losses" else "core/losses", name
    for path, name in re.findall(r"`([\w/]+/\w+)\.(\w+)`", part("Rooms")):
        if name != "py":
            yield path, name


def test_every_step_of_a_rows_walk_is_there():
    walked = [*steps()]
    assert len(walked) > 15
    assert [step for step in walked if step[1] not in names_in(PACKAGE / f"{step[0]}.py")] == []
