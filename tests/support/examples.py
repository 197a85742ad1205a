"""Code blocks of Markdown pages: found, run in order, and compared with the output that the page shows.

- ```` ```python ````: run; a ```` ```text ```` block right after it is what it prints.
- ```` ```pycon ````: a doctest.
- ```` ```console ````: lines after ``$ onsketch`` are run in this process; other lines are their output.

Words must agree exactly. Numbers may differ by 5 % or 0.01, because results differ by that between machines and
versions of libraries; ``...`` stands for anything.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from checkout import ROOT
from program import run

NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
BLOCK = re.compile(
    r"^(?P<margin> *)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=margin)```$"
    r"(?:\n+(?P=margin)```text\n(?P<shown>.*?)^(?P=margin)```$)?",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A block of code and what the page says that it prints, if it does."""

    language: str
    code: str
    shown: str | None


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of these languages in the order of the page."""
    text = page.read_text(encoding="utf-8")
    return [Block(m["language"], m["code"], m["shown"]) for m in BLOCK.finditer(text) if m["language"] in languages]


def pages() -> list[Path]:
    """Return the README and the pages of docs, without the gallery, which tests/project/test_gallery.py runs."""
    written = (page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "gallery")
    return [ROOT / "README.md", *written]


def run_page(page: Path) -> None:
    """Run the blocks of a page in order, in one namespace and the current folder, and check what they print."""
    names: dict[str, Any] = {"__name__": "example"}
    for block in blocks(page, "python", "pycon", "console"):
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.code, str(page), "exec"), names)
            if block.shown is not None:
                assert agree(printed.getvalue(), block.shown), printed.getvalue()
        elif block.language == "pycon":
            test = doctest.DocTestParser().get_doctest(block.code, names, str(page), str(page), 0)
            test.globs = names
            failed = doctest.DocTestRunner(_Checker(), verbose=False, optionflags=doctest.ELLIPSIS).run(test).failed
            assert not failed, block.code
        else:
            _run_console(block.code)


def _run_console(code: str) -> None:
    for call in re.split(r"^\$ ", code.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        line, _, shown = call.partition("\n")
        words = shlex.split(line, comments=True)
        if words[0] == "onsketch":
            done = run(*words[1:])
            assert done.exit_code == 0, done.output
            assert not shown.strip() or agree(done.output, shown), done.output


class _Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return agree(got, want)


def agree(printed: str, shown: str, tolerance: float = 0.05) -> bool:
    """True if what is printed is what is shown, up to spaces, small differences of numbers, and ``...``."""
    got, want = (" ".join(text.split()) for text in (printed, shown))
    parts = [
        ".*?" if word == "..." else f"({NUMBER.pattern})" if NUMBER.fullmatch(word) else re.escape(word)
        for word in re.split(rf"(\.\.\.|{NUMBER.pattern})", want)
    ]
    found = re.fullmatch("".join(parts), got, re.DOTALL)
    if found is None:
        return False
    expected = NUMBER.findall(want.replace("...", " "))
    pairs = [(_number(a), _number(b)) for a, b in zip(found.groups(), expected, strict=True)]
    return all(abs(a - b) <= max(tolerance * abs(b), 0.01) for a, b in pairs)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
