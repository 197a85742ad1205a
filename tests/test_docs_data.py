"""What docs/data.md shows does run."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1].joinpath("docs", "data.md").read_text(encoding="utf-8")


@pytest.mark.learners
def test_the_examples_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(example, "docs/data.md", "exec"), names)
    shown = capsys.readouterr().out
    assert "progressive error after 5000 rows" in shown
    assert "bad.svm:2:6: expected a number, found 'oops'" in shown
    assert "[ 1. -1.] [2. 1.] ['first', '']" in shown
    assert "[-1.  1.  1.] 5" in shown
