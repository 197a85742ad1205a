"""Count the words of the sentences in the guides: mean and 90th percentile of each page, and of all.

    python tools/sentences.py [PAGE ...]

Code, tables, headings and formulas are left out. tests/project/test_docs_language.py holds the means and percentiles.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDES = ("start", "howto", "explanation")


def lengths(text: str) -> list[int]:
    r"""Return the number of words of each sentence of a page.

    >>> lengths("# Title\n\nOne two three. Four five `a. b`: six.\n\n| a | b |\n")
    [3, 4]
    """
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    text = re.sub(r"\\\(.*?\\\)|`[^`]*`", "x", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    counts = []
    for block in blocks:
        if re.match(r"\s*(#|\||    |!\[|---|!!!)", block):
            continue
        for sentence in re.split(r"(?<=[.!?])\s+", block):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > 1:
                counts.append(len(words))
    return counts


def figures(counts: list[int]) -> tuple[float, int]:
    """Return the mean and the 90th percentile."""
    return sum(counts) / len(counts), sorted(counts)[int(0.9 * (len(counts) - 1))]


def guides() -> list[Path]:
    """Return the pages that teach and explain."""
    return [page for folder in GUIDES for page in sorted((ROOT / "docs" / folder).glob("*.md"))]


if __name__ == "__main__":
    everything: list[int] = []
    for page in [Path(name) for name in sys.argv[1:]] or guides():
        found = lengths(page.read_text(encoding="utf-8"))
        everything += found
        mean, ninth = figures(everything)
    print(f"{'all':28} {len(everything):4} sentences, mean {mean:4.1f}, 90 % below {ninth}")
