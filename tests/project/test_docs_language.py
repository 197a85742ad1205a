"""The guides are written in short sentences, and docstrings say what a thing does."""

from __future__ import annotations

import ast
import re
import sys

from examples import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from sentences import figures, guides, lengths


def test_sentences_of_the_guides_are_fast():
    counts = [count for page in guides() for count in lengths(page.read_text(encoding="utf-8"))]
    mean, ninth = figures(counts)
    assert mean <= 17
    assert ninth <= 30


def test_words_of_code_and_tables_do_not_count():
    text = "# A title\n\nOne two. Three `a b c` four!\n\n| a | b |\n|---|---|\n\n```sh\nfive six\n```\n"
    assert lengths(text) == [2, 3]


OLD = ("learners/scaled",)
"""Packages that are about to be replaced; all others follow the rule below."""


def test_no_docstring_begins_with_what_or_whether():
    """A docstring says what a function does ("Return ...") or names a thing; it is not an indirect question."""
    found = []
    for path in sorted((ROOT / "src/onsketch").rglob("*.py")):
        if path.relative_to(ROOT / "src/onsketch").as_posix().startswith(OLD):
            continue
        strings = (
            node.value
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )
        found += [
            f"{path.relative_to(ROOT)}:{string.lineno}"
            for string in strings
            if isinstance(string.value, str) and re.match(r"\s*(What|Whether)\b", string.value)
        ]
    assert not found
