"""What the README shows does run."""

import re
from pathlib import Path

import pytest

import onsketch

README = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")


@pytest.mark.learners
@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_the_examples_run(example, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    assert "progressive error" in capsys.readouterr().out


@pytest.mark.learners
def test_every_method_in_the_table_exists():
    table = "".join(line for line in README.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`([\w-]+)`", table)) <= set(onsketch.methods())
