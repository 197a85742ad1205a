"""docs/papers/items.md names methods, tests and experiments: they must exist."""

import re

import pytest

from checkout import ROOT
from onsketch import sketch
from onsketch.experiments import every
from onsketch.learners.methods import METHODS

TEXT = (ROOT / "docs" / "papers" / "items.md").read_text(encoding="utf-8")
QUOTED = set(re.findall(r"`([^`]+)`", TEXT))


@pytest.mark.parametrize("name", sorted(name for name in QUOTED if "::" in name and name != "file::test"))
def test_every_test_named_is_there(name):
    file, _, function = name.partition("::")
    (path,) = (ROOT / "tests").rglob(f"{file}.py")
    assert f"def {function}(" in path.read_text(encoding="utf-8")


def test_every_method_sketch_and_experiment_named_is_there():
    experiments = {name for name in QUOTED if re.match(r"(luo|wan|calandriello)\d{4}-", name)}
    assert experiments
    assert experiments <= set(every())
    sketches = {name.removeprefix("sketch.") for name in QUOTED if name.startswith("sketch.")}
    assert all(hasattr(sketch, name) for name in sketches)
    methods = {name for name in QUOTED if re.fullmatch(r"[a-z]+(-[a-z]+)*", name)} & set(METHODS)
    papers = {m.name for m in METHODS.values() if re.search(r"\b(Luo|Wan|Calandriello)\b", m.citation)}
    assert papers - {"pfd-son", "cfd-son", "pros-n-kons"} <= methods


def test_every_experiment_has_a_row():
    assert all(name in QUOTED for name in every())
