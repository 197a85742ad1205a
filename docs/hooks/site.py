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
    {"By task": [
        {"Two classes": "tasks/two_classes.md"},
        {"Many classes": "classes.md"},
        {"Numbers": "tasks/numbers.md"},
        {"Counts": "tasks/counts.md"},
        {"Anomalies by leverage": "tasks/anomalies.md"},
        {"PCA of a stream": "tasks/pca.md"},
    ]},
    {"One algorithm": "algorithm.md"},
    {"Guides": [
        {"The program": "program.md"},
        {"Threads and files": "threads.md"},
        {"What was tried to break it": "reliability.md"},
        {"Coming from Vowpal Wabbit": "coming_from_vw.md"},
        {"A service that learns": "serve.md"},
        {"Data": "data.md"},
        {"Data sets": "datasets.md"},
        {"One learner that needs no tuning": "auto.md"},
        {"The study of auto": "auto_study.md"},
        {"What the front doors add": "doors.md"},
        {"Kernels": "kernel.md"},
        {"Networks (PyTorch)": "torch.md"},
        {"scikit-learn": "sklearn.md"},
        {"River": "river.md"},
        {"Many machines (Ray)": "cluster.md"},
    ]},
]  # fmt: skip
"""What is written; a page that is not there is left out."""


FOR = {
    "tutorial.md": "anybody who writes Python and wants to see a learner at work",
    "choosing.md": "those who want one method instead of `auto`, and ask which",
    "algorithm.md": "readers of the papers, and anybody who wants to know why two dozen methods are one loop",
    "threads.md": "those who share a model between threads or keep it in files",
    "reliability.md": "those who ask what happens to a model when things go wrong",
    "data.md": "those who read files, pipes and tables from Python",
    "datasets.md": "those who want the sets that the papers use",
    "auto.md": "everybody who has data and no time to tune; and those who ask what the default does",
    "auto_study.md": "those who ask how the default does beside others, and where it loses",
    "kernel.md": "those whose function is no line",
    "torch.md": "those who train networks with PyTorch",
    "sklearn.md": "users of scikit-learn: pipelines, grids, `partial_fit`",
    "river.md": "users of River: rows as dictionaries, one at a time",
    "classes.md": "those with more than two classes",
    "cluster.md": "those whose files are too many for one machine",
    "doors.md": "those who ask what the estimators and the program do with a named method",
    "tasks/two_classes.md": "those with a table and a yes or no",
    "tasks/numbers.md": "those who predict numbers, one or several",
    "tasks/counts.md": "those who predict how many",
    "tasks/anomalies.md": "those who look for rows unlike the others",
    "tasks/pca.md": "those with more rows than memory, who want their main directions",
    "versions.md": "those who build on this, and ask what may change",
    "benchmarks.md": "those who ask how it does beside others",
    "architecture.md": "newcomers to the code",
    "contributing.md": "those who add a method, a sketch or a loss",
    "methods/index.md": "those who look for a method by its name or its paper",
    "methods/options.md": "those who look up an option",
    "reproduction/index.md": "readers of the papers",
}
"""Who a page is for, where it does not say so itself."""

FAMILIES = {
    "reference/": "those who write Python against this library, and look up a name",
    "methods/": "those who think of using this method, or compare with it",
    "reproduction/": "readers of this paper",
}
"""The same for pages that are alike."""


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Say who a page is for, below its title."""
    path = page.file.src_uri
    family = next((told for start, told in FAMILIES.items() if path.startswith(start)), None)
    told = FOR.get(path, family)
    if told is None:
        return markdown
    return re.sub(r"^(# .*\n)", rf"\1\n*For {told}.*\n", markdown, count=1)


def on_config(config: Any) -> Any:
    """Put the menu together from the pages there are."""
    there = {"index.md"} | {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
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
    made = {**methods.pages(), **results.pages(), "benchmarks.md": _benchmarks(), "index.md": _start()}
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


def _start() -> str:
    """The README up to its list of papers: the front door is written once."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## The papers\n")[0]
    text = text.replace("](docs/results)", "](reproduction/index.md)").replace("](docs/", "](")
    return f"{text}\n\nGo on with the [tutorial](tutorial.md), or with [the program](program.md).\n"


def _benchmarks() -> str:
    """The README's section, so that the figures are written down once."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Beside others\n(.*?)(?=^## )", text, flags=re.DOTALL | re.MULTILINE)
    body = section.group(1) if section else ""
    body = re.sub(r"\]\((?!http)(?:docs/)?([^)]+)\)", r"](\1)", body)
    return f"# Benchmarks\n{body}\nThe scripts are in `benchmarks/`; each says at its top how it is run.\n"
