"""The guides are written in short sentences."""

from __future__ import annotations

import sys

from examples import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from sentences import figures, guides, lengths


def test_sentences_of_the_guides_are_short():
    counts = [count for page in guides() for count in lengths(page.read_text(encoding="utf-8"))]
    mean, ninth = figures(counts)
    assert mean <= 17
    assert ninth <= 30


def test_words_of_code_and_tables_do_not_count():
    text = "# A title\n\nOne two. Three `a b c` four!\n\n| a | b |\n|---|---|\n\n```sh\nfive six\n```\n"
    assert lengths(text) == [2, 3]
