"""Every public name is in the API reference."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import Any

import pytest

from examples import ROOT
from onsketch.learners.methods import METHODS

PAGES = ROOT / "docs" / "reference" / "api"
PUBLIC = ("", ".sketch", ".sklearn", ".river", ".torch", ".kernel", ".cluster", ".data", ".errors")
OPTIONAL = {".torch": "torch", ".sklearn": "sklearn", ".river": "river"}


def _found(path: str) -> Any:
    """Import the object of a dotted path."""
    parts = path.split(".")
    for k in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for name in parts[k:]:
            thing = getattr(thing, name)
        return thing
    raise AssertionError(f"{path} does not exist")


def _documented() -> list[Any]:
    """Return the objects that the reference shows, with the members of modules."""
    things = []
    for page in sorted(PAGES.glob("*.md")):
        for path, options in re.findall(
            r"^::: (\S+)\n((?:    .*\n?)*)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            thing = _found(path)
            things.append(thing)
            if inspect.ismodule(thing):
                members = re.search(r"members: \[([^\]]*)\]", options)
                names = re.findall(r"\w+", members[1]) if members else getattr(thing, "__all__", dir(thing))
                things += [getattr(thing, name) for name in names]
    return things


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module):
    if module in OPTIONAL:
        pytest.importorskip(OPTIONAL[module])
    public = importlib.import_module(f"onsketch{module}")
    documented = _documented()
    missing = [
        name
        for name in public.__all__
        if not name.startswith("__")
        and not inspect.ismodule(getattr(public, name))  # its names have a test of their own
        and not any(getattr(public, name) is thing for thing in documented)
    ]
    assert missing == []


def test_every_cited_paper_has_a_link():
    sys.path.insert(0, str(ROOT / "docs" / "hooks"))
    try:
        from methods import linked
    finally:
        sys.path.pop(0)
    cited = [method for method in METHODS.values() if method.citation != "combined here"]
    without = [method.name for method in cited if "](https://" not in linked(method.citation)]
    assert without == []
