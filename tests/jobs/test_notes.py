"""Notes of a model file: an altered note is refused, and the error names it."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onsketch.core.errors import ModelFileError
from onsketch.jobs.notes import noted, read_noted
from onsketch.jobs.training import Plan, Training


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The notes of a checkpoint."""
    folder = tmp_path_factory.mktemp("notes")
    rng = np.random.default_rng(0)
    lines = [f"{rng.choice([-1, 1])} 1:{rng.normal():.4f} 2:{rng.normal():.4f}" for _ in range(60)]
    Path(folder, "rows.svm").write_text("\n".join(lines) + "\n")
    job = Training(Plan([str(folder / "rows.svm")], "adagrad", holdout=5))
    for _ in job.run():
        pass
    job.checkpoint(folder / "checkpoint")
    found: dict[str, Any] = json.loads(json.dumps(read_noted(folder / "checkpoint").notes))
    return found


def test_what_jobs_write_is_taken(notes: dict[str, Any]) -> None:
    noted(notes)
    noted({**notes, "labels": ["of somebody else"]})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("training.progress.rows", -1),
        ("training.progress.rows", True),
        ("training.progress.rows", 1.5),
        ("training.progress.weight", math.nan),
        ("training.progress.weight", math.inf),
        ("training.progress.loss", "logistic 0.5 or more"),
        ("training.judge.cells", [[5000, 1, 1]]),
        ("training.names", {"one": "a"}),
        ("training.reading", {"no_such_option": 1}),
        ("training.task.kind", "guess"),
        ("training.task.positive", None),
        ("training.format", "xls"),
        ("checkpoint.records", [[1, 2.0]]),
        ("checkpoint.passes", [{"loss": 1.0}]),
        ("checkpoint.unheard_of", 1),
        ("training", []),
    ],
)
def test_altered_notes_are_refused_by_name(notes: dict[str, Any], path: str, value: Any) -> None:
    altered = copy.deepcopy(notes)
    *above, last = path.split(".")
    place = altered
    for name in above:
        place = place[name]
    place[last] = value
    with pytest.raises(ModelFileError) as refused:
        noted(altered)
    assert refused.value.field is not None
    assert refused.value.field.startswith("notes")
    assert last in str(refused.value) or above[-1] in str(refused.value)


@pytest.mark.parametrize("path", ["training.progress.due", "training.task", "checkpoint.plan"])
def test_missing_notes_are_refused(notes: dict[str, Any], path: str) -> None:
    altered = copy.deepcopy(notes)
    *above, last = path.split(".")
    place = altered
    for name in above:
        place = place[name]
    del place[last]
    with pytest.raises(ModelFileError, match=last):
        noted(altered)
