"""Places in state arrays have names that belong to their array: a wrong name is an error, never another number."""

import ast
import importlib
from pathlib import Path

import pytest
from numba import njit
from numba.core.errors import TypingError

import onsketch
from onsketch.learners.sketched.state import COUNT, NUMBER

PACKAGE = Path(onsketch.__file__).parent
PACKAGES = ("learners/sketched", "learners/first_order", "learners/dense", "learners/setup.py", "learners/multiclass")

OWNERS = {
    "counts": {"COUNT"},
    "numbers": {"NUMBER"},
    "lines": {"LINE"},
    "squares": {"SQUARE", "OJA_SQUARE", "FFD_SQUARE"},
    "clock": {"CLOCK", "TIMER"},
}
"""The arrays of a learner's state, and the names of places in them."""


def trees():
    for package in PACKAGES:
        place = PACKAGE / package
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            yield file, ast.parse(file.read_text())


def index_tuples():
    """Named tuples of numbers at module level: (name, module)."""
    for file, tree in trees():
        module = ".".join(("onsketch", *file.relative_to(PACKAGE).with_suffix("").parts))
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and isinstance(node.targets[0], ast.Name)
            ):
                value = getattr(importlib.import_module(module), node.targets[0].id)
                if isinstance(value, tuple) and hasattr(value, "_fields") and all(isinstance(v, int) for v in value):
                    yield node.targets[0].id, module


def test_each_set_of_places_has_a_name_of_its_own():
    names = [name for name, _ in index_tuples()]
    assert len(names) > 10
    assert len(names) == len(set(names))


def test_no_two_modules_give_one_bare_name_to_two_numbers():
    found: dict[str, dict[int, str]] = {}
    for file, tree in trees():
        for node in tree.body:
            unpacked = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
            if unpacked and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "range":
                for place, target in enumerate(node.targets[0].elts):
                    found.setdefault(target.id, {})[place] = file.name
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_an_array_is_indexed_by_its_own_names_alone():
    for file, tree in trees():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)):
                continue
            owners = OWNERS.get(node.value.attr)
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            named = isinstance(first, ast.Attribute) and isinstance(first.value, ast.Name)
            if owners and named and first.value.id.isupper():
                assert first.value.id in owners, f"{file.name}:{node.lineno}: {ast.unparse(node)}"


def test_a_wrong_name_is_an_error_in_python_and_in_compiled_code():
    with pytest.raises(AttributeError):
        _ = COUNT.ridge  # type: ignore[attr-defined]

    @njit
    def read(numbers):
        return numbers[NUMBER.rows]

    with pytest.raises(TypingError, match="rows"):
        read((1.0, 2.0))
