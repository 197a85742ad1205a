"""The README names methods that exist; tests/test_docs_examples.py runs its code."""

import re
from pathlib import Path

import onsketch

README = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")


def test_every_method_in_the_table_exists():
    table = "".join(line for line in README.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`([\w-]+)`", table)) <= set(onsketch.methods())
