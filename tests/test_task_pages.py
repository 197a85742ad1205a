"""A page for each task: its example runs on data that ship with scikit-learn, and prints the score that it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.learners
@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("tasks/two_classes.md", {"auto: accuracy": 0.94, "rfd-son: accuracy": 0.94, "adagrad: accuracy": 0.9}),
        ("tasks/numbers.md", {"R²": 0.33, "deviations:": 90.0}),
        ("tasks/counts.md", {"explained": 0.5}),
        ("tasks/anomalies.md", {"curve:": 0.93}),
        ("tasks/pca.md", {"captured": 0.735, "it says": 0.735}),
        ("classes.md", {"accuracy": 0.88}),
    ],
)
def test_the_example_reaches_its_score(page: str, least: dict[str, float], capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(example, page, "exec"), {})
    printed = capsys.readouterr().out
    for words, score in least.items():
        found = re.search(rf"{re.escape(words)} (\d+\.\d+)", printed)
        assert found is not None, printed
        assert float(found[1]) >= score, printed
