"""Examples in docstrings are shown as code: a run of lines that begins with ``>>>`` ends at an empty line."""

from __future__ import annotations

from typing import Any

import griffe


class FenceDoctests(griffe.Extension):
    """Put fences around doctests before they are read as Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its doctests between fences."""
    lines: list[str] = []
    margin = ""
    inside = False
    for line in [*text.split("\n"), ""]:
        if not inside and line.lstrip().startswith(">>>"):
            margin = line[: len(line) - len(line.lstrip())]
            lines += ["", f"{margin}```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append(f"{margin}```")
            inside = False
        lines.append(line)
    return "\n".join(lines[:-1])
