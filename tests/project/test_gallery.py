"""The gallery shows the examples as they are, and what they print."""

from __future__ import annotations

import re
import sys

import pytest

from examples import ROOT, agree

sys.path.insert(0, str(ROOT / "tools"))
from gallery import NAMES, index, page, run

GALLERY = ROOT / "docs" / "gallery"
TOLERANCES = {"text_classes": 0.3}  # its texts are the docstrings of the Python that runs it, which differ by version


def printed(name: str) -> str:
    """Return what the page of an example says that it prints."""
    found = re.search(r"```text\n(.*?)\n```", (GALLERY / f"{name}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_the_example_as_it_is(name):
    assert (GALLERY / f"{name}.md").read_text(encoding="utf-8") == page(name, printed(name))
    assert (GALLERY / "index.md").read_text(encoding="utf-8") == index()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_example_prints_what_its_page_shows(name, tmp_path):
    if name == "pytorch_training":
        pytest.importorskip("torch")
    assert agree(run(name, tmp_path), printed(name), TOLERANCES.get(name, 0.05))
