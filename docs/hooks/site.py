"""Pages that are generated rather than written, and their places in the menu of mkdocs.yml.

- a page for each method, from the methods table and the declared options;
- a page of the program, from its declared commands;
- a page for each paper, from the committed results in docs/results;
- the home page from README.md, and the project's pages from the files at the root of the repository.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

import methods
import results

import program

ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "reference/changelog.md",
    "SECURITY.md": "project/security.md",
}
"""Files at the root of the repository that are pages of the site."""


def on_config(config: Any) -> Any:
    """Add generated pages to the menu."""
    _section(config.nav, "Methods").extend(methods.menu())
    _section(config.nav, "Papers").extend(results.menu())
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add generated pages to the site."""
    generated = {**methods.pages(), **program.pages(), **results.pages()}
    generated |= {page: _root_page(name, page) for name, page in ROOT_PAGES.items()}
    for name, content in generated.items():
        files.append(File.generated(config, name, content=content))
    return files


def _section(menu: list[Any], title: str) -> list[Any]:
    """Return the list of entries under the heading of this title, at any depth."""
    for entry in menu:
        if isinstance(entry, dict):
            ((name, inner),) = entry.items()
            if isinstance(inner, list) and (found := inner if name == title else _section(inner, title)):
                return found
    return []


def _root_page(name: str, page: str) -> str:
    """Return a file of the repository's root as a page, with links relative to that page."""

    def relinked(link: re.Match[str]) -> str:
        path, mark, part = link[1].partition("#")
        if path in ROOT_PAGES:
            target = ROOT_PAGES[path]
        elif path == "docs/results":
            target = "papers/index.md"
        elif path.startswith("docs/"):
            target = path.removeprefix("docs/")
        else:
            return link[0]
        return f"]({posixpath.relpath(target, posixpath.dirname(page) or '.')}{mark}{part})"

    return re.sub(r"\]\(([^)\s]+)\)", relinked, (ROOT / name).read_text(encoding="utf-8"))
