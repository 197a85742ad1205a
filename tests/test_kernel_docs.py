"""What the page on kernels shows does run."""

import re
from pathlib import Path

import pytest

import onsketch

PAGE = Path(__file__).parents[1].joinpath("docs", "kernel.md").read_text(encoding="utf-8")


@pytest.mark.learners
def test_the_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(example, "docs/kernel.md", "exec"), {})
    printed = capsys.readouterr().out
    shown = re.findall(r"^# prints (.*)$", example, flags=re.MULTILINE)
    assert len(shown) == 3
    for line in shown:
        assert line in printed


def test_every_method_and_option_named_exists():
    options = set(re.findall(r"^\| `(\w+)`", PAGE, flags=re.MULTILINE)) - {"kons"}
    concerned = onsketch.learners.methods.KERNEL_RULES
    assert options <= set().union(*concerned.values())
    assert set(re.findall(r"`((?:[\w]+-)*(?:kons|kernel-ogd))`", PAGE)) == set(concerned)
