"""The site's menu, and the pages that are made rather than written.

- a page for each method, from the methods table and the options the program declares;
- a page for each paper, from the results in docs/results;
- the architecture and the benchmarks, from ARCHITECTURE.md and README.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

import methods
import results

MENU: list[Any] = [
    {"Start": "index.md"},
    {"Tutorial": "tutorial.md"},
    {"Choosing a method": "choosing.md"},
    {"One algorithm": "algorithm.md"},
    {"Guides": [
        {"The program": "program.md"},
        {"Threads and files": "threads.md"},
        {"Coming from Vowpal Wabbit": "coming_from_vw.md"},
        {"A service that learns": "serve.md"},
        {"Data": "data.md"},
        {"Data sets": "datasets.md"},
        {"One learner that needs no tuning": "auto.md"},
        {"Kernels": "kernel.md"},
        {"Networks (PyTorch)": "torch.md"},
        {"scikit-learn": "sklearn.md"},
        {"River": "river.md"},
        {"Many classes": "classes.md"},
        {"Many machines (Ray)": "cluster.md"},
    ]},
]  # fmt: skip
"""What is written; a page that is not there is left out."""


def on_config(config: Any) -> Any:
    """Put the menu together from the pages there are."""
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    menu = _only(MENU, there)
    menu.append({"Methods": [{"All methods": "methods/index.md"}, *methods.menu()]})
    menu.append(
        {
            "The papers, reproduced": [
                {"Overview": "reproduction/index.md"},
                {"Item by item": "papers.md"},
                *results.menu(),
            ]
        }
    )
    menu.append({"Benchmarks": "benchmarks.md"})
    menu.append(
        {
            "Reference": [
                {page.stem: f"reference/{page.name}"} for page in sorted((ROOT / "docs/reference").glob("*.md"))
            ]
        }
    )
    menu.append({"Contributing": "contributing.md"})
    menu.append({"Architecture": "architecture.md"})
    menu.append({"Versions": "versions.md"})
    config.nav = menu
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what is made."""
    made = {**methods.pages(), **results.pages(), "benchmarks.md": _benchmarks()}
    made |= {"architecture.md": _root_page("ARCHITECTURE.md"), "contributing.md": _root_page("CONTRIBUTING.md")}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def _only(menu: list[Any], there: set[str]) -> list[Any]:
    kept = []
    for entry in menu:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            inner = _only(target, there)
            if inner:
                kept.append({title: inner})
        elif target in there:
            kept.append(entry)
    return kept


def _root_page(name: str) -> str:
    """A page that lies at the root of the repository, with links as the site has them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return text.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")


def _benchmarks() -> str:
    """The README's section, so that the figures are written down once."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Benchmarks\n(.*?)(?=^## )", text, flags=re.DOTALL | re.MULTILINE)
    body = section.group(1) if section else ""
    body = re.sub(r"\]\((?!http)(?:docs/)?([^)]+)\)", r"](\1)", body)
    return f"# Benchmarks\n{body}\nThe scripts are in `benchmarks/`; each says at its top how it is run.\n"
