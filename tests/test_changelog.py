"""The changelog has one section for the version, and one line for each change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import onsketch

PAGE = Path(__file__).resolve().parents[1] / "CHANGELOG.md"
TEXT = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""

pytestmark = pytest.mark.skipif(not TEXT, reason="no checkout around the package")


def test_the_first_section_is_that_of_the_version():
    sections = re.findall(r"^## \[([^\]]+)\]", TEXT, flags=re.MULTILINE)
    assert sections[0] == onsketch.__version__
    assert len(set(sections)) == len(sections)


def test_each_change_is_one_line_that_names_its_area():
    body = TEXT.split("\n### ", 1)[1]
    lines = [line for line in body.splitlines()[1:] if line and not line.startswith(("#", "- **"))]
    limits = TEXT.split("### Known limits", 1)[1].splitlines()
    assert [line for line in lines if line not in limits] == []
    assert [line for line in body.splitlines() if len(line) > 180] == []
