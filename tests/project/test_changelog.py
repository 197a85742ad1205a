"""The changelog has one section for each version, the present one first."""

from __future__ import annotations

import re

import pytest

import onsketch
from checkout import ROOT

PAGE = ROOT / "CHANGELOG.md"
TEXT = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""

pytestmark = pytest.mark.skipif(not TEXT, reason="no checkout around the package")


def test_the_first_section_is_that_of_the_version():
    sections = re.findall(r"^## \[([^\]]+)\]", TEXT, flags=re.MULTILINE)
    assert sections[0] == onsketch.__version__
    assert len(set(sections)) == len(sections)
