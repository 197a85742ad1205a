"""Write docs/gallery: each example of examples/ with its code, what it printed and the picture that it drew.

    python tools/gallery.py [NAME ...]

The pages are committed, so that a reader of the repository sees them too.
tests/project/test_gallery.py runs the examples again.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("churn", "text_classes", "drift", "pca_anomalies", "service", "pytorch_training")


def code(name: str) -> str:
    """Return the source of an example."""
    return (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")


def title_and_text(name: str) -> tuple[str, str]:
    """Return the first line of the example's docstring, without its full stop, and the rest."""
    title, _, text = (ast.get_docstring(ast.parse(code(name))) or "").partition("\n")
    return title.rstrip("."), text.strip()


def run(name: str, folder: Path) -> str:
    """Run an example in this folder and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "svg", "SOURCE_DATE_EPOCH": "0"}
    (folder / "matplotlibrc").write_text("svg.fonttype: none\nsvg.hashsalt: gallery\nfont.family: sans-serif\n")
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, timeout=600, check=True
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def page(name: str, printed: str) -> str:
    """Return the page of an example."""
    title, text = title_and_text(name)
    body = code(name).split('"""', 2)[2].strip()
    return (
        f"# {title}\n\n{text}\n\n![{title}]({name}.svg)\n\nIt prints\n\n```text\n{printed}\n```\n\n"
        f"## The code\n\n`examples/{name}.py`:\n\n```python\n{body}\n```\n"
    )


def index() -> str:
    """Return the overview of the gallery."""
    lines = [
        "# Examples",
        "",
        "Six scripts that run as they are. Each page shows what its script prints and draws.",
        "",
    ]
    lines += [f"- [{title_and_text(name)[0]}]({name}.md)" for name in NAMES]
    return "\n".join(lines) + "\n"


def main(names: list[str]) -> None:
    """Run the examples of these names, or all, and write their pages."""
    gallery = ROOT / "docs" / "gallery"
    gallery.mkdir(exist_ok=True)
    for name in names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            printed = run(name, Path(folder))
            picture = (Path(folder) / f"{name}.svg").read_text(encoding="utf-8")
        (gallery / f"{name}.svg").write_text(picture, encoding="utf-8")
        (gallery / f"{name}.md").write_text(page(name, printed), encoding="utf-8")
        print(f"{name}: {len(picture) / 1000:.0f} kB")
    (gallery / "index.md").write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
