"""Model files of older formats, as older code wrote them, load and go on as they did."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import onsketch
from onsketch.files.model_file import OLDEST, _write_tensors

pytestmark = pytest.mark.learners

STORED = json.loads((Path(__file__).parent / "old_models.json").read_text())
X = np.array(STORED["rows"])
Y = np.where(X @ np.array([1.0, -2.0, 0.5]) > 0.0, 1.0, -1.0)
CODES = np.abs(X).argmax(axis=1)


@pytest.mark.parametrize("name", STORED["models"])
def test_a_file_of_an_older_format_goes_on(name: str, tmp_path: Path) -> None:
    stored = STORED["models"][name]
    assert json.loads(stored["header"])["format"] == OLDEST
    path = tmp_path / "model"
    path.touch()
    arrays = {
        key: np.array(numbers, dtype=dtype).reshape(shape) for key, (dtype, shape, numbers) in stored["arrays"].items()
    }
    _write_tensors(str(path), arrays, {"onsketch": stored["header"]})
    model = onsketch.load(path)
    if name == "FrequentDirections":
        said = model.update(X[20:]).matrix
    else:
        said = model.learn(X[20:], (CODES if name == "one-vs-rest" else Y)[20:])
    np.testing.assert_allclose(said, stored["then"], rtol=1e-9, atol=1e-12)
