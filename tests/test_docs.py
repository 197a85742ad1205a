"""What the documentation shows does run."""

import re
from pathlib import Path

import pytest

PAGES = [Path(__file__).parents[1] / "docs" / "program.md"]  # the others have tests beside those of their subject
EXAMPLES = [
    pytest.param(code, id=f"{page.stem}-{k}")
    for page in PAGES
    for k, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
]


@pytest.mark.learners
@pytest.mark.parametrize("code", EXAMPLES)
def test_the_examples_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "example"})
