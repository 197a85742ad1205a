"""The README names methods that exist; tests/project/test_docs_examples.py runs its code."""

import re

import onsketch
from checkout import ROOT

README = ROOT.joinpath("README.md").read_text(encoding="utf-8")


def test_every_method_in_the_table_exists():
    table = "".join(line for line in README.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`([\w-]+)`", table)) <= set(onsketch.methods())
