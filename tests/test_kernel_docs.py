"""What the page on kernels shows does run."""

import re
from pathlib import Path

import pytest

from onsketch.learners.methods import METHODS

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
    kernel = [method for method in METHODS.values() if method.kernel]
    assert options <= frozenset().union(*(method.concerns for method in kernel))
    assert set(re.findall(r"`((?:[\w]+-)*(?:kons|kernel-ogd))`", PAGE)) == {method.name for method in kernel}
