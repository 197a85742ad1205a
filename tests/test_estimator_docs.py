"""What the pages on scikit-learn and River show does run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.learners
@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("sklearn.md", ["accuracy after one pass over 1,347 rows: 9", "it says the same: True", "first 3 directions"]),
        ("river.md", ["Accuracy: 90", "['dog', 'cat', 'bird'] cat bird", "within 100 rows: True"]),
    ],
)
def test_the_example_runs(page: str, said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(example, page, "exec"), {})
    printed = capsys.readouterr().out
    for words in said:
        assert words in printed
