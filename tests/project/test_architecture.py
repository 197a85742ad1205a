"""Every file, function and package that ARCHITECTURE.md names exists."""

import ast
import re
from pathlib import Path

import pytest

import onsketch

PACKAGE = Path(onsketch.__file__).parent
PAGE = PACKAGE.parent.parent / "ARCHITECTURE.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="no checkout around the package")


def part(heading):
    """Return the text under a heading."""
    return PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def names_in(file):
    """Return the functions and classes of a file, methods as Class.method, and the names it imports."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            found |= {f"{node.name}.{inner.name}" for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def test_every_file_in_the_table_exists():
    missing = []
    for line in part("Packages").splitlines():
        if not line.startswith("| `"):
            continue
        first, rest = line.strip("|").split("|", 1)
        packages = re.findall(r"`([\w/]+/)`", first)
        assert packages, line
        for name in packages + re.findall(r"`([\w/]+(?:\.py|/))`", first.partition(",")[2] + rest):
            if not any([*(PACKAGE / package).rglob(name)] or (PACKAGE / name).exists() for package in packages):
                missing.append(name)
    assert missing == []


def test_every_file_named_with_its_folder_exists():
    named = re.findall(r"`(\.?\w+/(?:[\w/]+\.py|\w+/|run|counts))`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 15
    assert [name for name in named if not (PACKAGE / name).exists() and not (PAGE.parent / name).exists()] == []


def test_every_package_is_in_the_table():
    named = set(re.findall(r"^\| `([\w/]+)/` \|", part("Packages"), re.MULTILINE))
    folders = [folder for parent in ("", "learners", "jobs") for folder in (PACKAGE / parent).iterdir()]
    packages = {folder.relative_to(PACKAGE).as_posix() for folder in folders if (folder / "__init__.py").exists()}
    assert packages <= named


def functions():
    """Yield (file, name) of each function and class named in the diagram, or in backticks elsewhere."""
    pattern = r"([\w/]+/\w+)\.([A-Za-z]\w*(?:\.\w+)?)"
    named = re.findall(pattern, part("The flow of data"))
    named += re.findall(f"`{pattern}`", PAGE.read_text(encoding="utf-8"))
    yield from ((path, name) for path, name in named if name not in ("py", "md"))


def test_every_function_named_exists():
    named = [*functions()]
    assert len(named) > 25
    assert [step for step in named if step[1] not in names_in(PACKAGE / f"{step[0]}.py")] == []


def test_every_link_leads_to_a_heading():
    for path, heading in re.findall(r"\]\(([\w./]+)#?([\w-]*)\)", PAGE.read_text(encoding="utf-8")):
        headings = re.findall(r"^#+ (.+)$", (PAGE.parent / path).read_text(encoding="utf-8"), re.MULTILINE)
        assert not heading or heading in {title.lower().replace(" ", "-") for title in headings}
