"""Self-contained page of text, tables and charts, in the light or dark scheme of the reader's system."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from onsketch.report.plots import STYLE


def imprint() -> str:
    """Return the command that made a page, with version and date."""
    import onsketch

    typed = shlex.join(["onsketch", *sys.argv[1:]])
    return f"{typed} · onsketch {onsketch.__version__} · {datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}"


_STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5d6873; --paper: #ffffff; --line: #d8dde2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --soft: #9aa5b0; --paper: #16191d; --line: #343b42; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
       max-width: 50rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p.note { color: var(--soft); font-size: .9rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; }
details { margin: .3rem 0 1rem; } summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
@media (max-width: 40rem) {
  svg.plot text { font-size: 17px; } body { margin: 1rem auto; } p.note { word-break: break-word; }
}
div.scroll { overflow-x: auto; } svg.chart { width: 100%; height: auto; max-width: 50rem; }
"""


class Page:
    """Page that is assembled part by part.

    >>> page = Page("Results").heading("A table").table(["a", "b"], [["x", "1.5"]])
    >>> page.html().count("<td")
    2
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>"]

    def heading(self, text: str) -> Page:
        """Add a section's title."""
        return self._add(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> Page:
        """Add a paragraph."""
        return self._add(f"<p>{escape(text)}</p>")

    def note(self, text: str) -> Page:
        """Add a paragraph in small print."""
        return self._add(f'<p class="note">{escape(text)}</p>')

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Page:
        """Add a table; numeric cells are right-aligned."""
        numeric = [bool(rows) and all(_is_number(row[k]) for row in rows) for k in range(len(headings))]

        def cells(tag: str, row: Sequence[str]) -> str:
            marked = zip(row, numeric, strict=True)
            return "".join(f"<{tag}{' class=n' if n else ''}>{escape(cell)}</{tag}>" for cell, n in marked)

        lines = [f"<tr>{cells('th', headings)}</tr>"] + [f"<tr>{cells('td', row)}</tr>" for row in rows]
        return self._add(f'<div class="scroll"><table>{"".join(lines)}</table></div>')

    def folded(self, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Page:
        """Add a table that opens at a click, such as the numbers of a chart."""
        self._add(f"<details><summary>{escape(title)}</summary>")
        self.table(headings, rows)
        return self._add("</details>")

    def raw(self, html: str) -> Page:
        """Add a part that is HTML already."""
        return self._add(html)

    def chart(self, svg: str, title: str) -> Page:
        """Add a chart with a title for screen readers."""
        return self._add(f'<figure role="img" aria-label="{escape(title)}" style="margin:0">{svg}</figure>')

    def html(self) -> str:
        """Return the whole page."""
        title = f"<title>{escape(self._title)}</title>"
        style = f"<style>{STYLE}{_STYLE}</style>"
        head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">{title}{style}'
        body = "\n".join(self._parts)
        return f"<!doctype html>\n<html lang=en><head>{head}</head>\n<body>{body}</body></html>\n"

    def _add(self, part: str) -> Page:
        self._parts.append(part)
        return self


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("%").replace(",", ""))
    except ValueError:
        return cell in ("", "-", "diverged")
    return True
