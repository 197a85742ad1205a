"""The ridge of a Newton method to which none was given: it starts at 1 and keeps up with the length of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import definitions
import onsketch
from onsketch.learners.methods import compose_method, ridge_share

Array = NDArray[np.float64]

GROWING = ("fd", "rfd", "pfd", "cfd", "greedy", "ffd", "rp", "oja")


def make(sketch: str, **options: Any) -> Any:
    return onsketch.compose(sketch, "newton", loss="logistic", **options)


def rising(scale: float, n: int = 120, d: int = 8, seed: int = 0) -> tuple[Array, Array]:
    """Rows that become ``scale`` times as long in the course of the stream, and signs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1.0, scale, n)[:, None]
    return X, np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("options", [{}, {"update": "dual"}, {"diagonal": True}, {"sketch_size": 0}], ids=str)
@pytest.mark.parametrize("sketch", GROWING)
def test_equals_the_definition(sketch: str, options: dict[str, Any]) -> None:
    given = {"sketch_size": 4, **options}
    share = ridge_share(compose_method(sketch, "newton"), given["sketch_size"])
    X, y = rising(100.0 / np.sqrt(share))
    learner = make(sketch, **given)
    predictions = learner.learn(csr_array(X), y)
    wanted = definitions.compose_definition(
        X, y, sketch=sketch, geometry="newton", loss="logistic", ridge_share=share, **given
    )
    assert learner.ridge > 20.0 or given.get("diagonal")  # raised several times; adapted rows are short
    np.testing.assert_allclose(predictions, wanted.predictions, rtol=0, atol=1e-8)
    np.testing.assert_allclose(learner.weights, wanted.weights, rtol=1e-6, atol=1e-10 * np.abs(wanted.weights).max())


@pytest.mark.parametrize("sketch", GROWING)
def test_a_given_ridge_stays(sketch: str) -> None:
    X, y = rising(1e4)
    learner = make(sketch, sketch_size=12, ridge=1.0)
    learner.learn(X, y)
    assert learner.ridge == 1.0


@pytest.mark.parametrize("sketch", GROWING)
def test_short_rows_leave_it_at_one(sketch: str) -> None:
    X, y = rising(1.0)
    X *= 0.3
    margins = make(sketch, sketch_size=4).learn(X, y)
    np.testing.assert_array_equal(margins, make(sketch, sketch_size=4, ridge=1.0).learn(X, y))


@pytest.mark.parametrize("sketch", GROWING)
def test_row_by_row_and_saved_half_way(sketch: str, tmp_path: Path) -> None:
    X, y = rising(1e4)
    whole = make(sketch, sketch_size=4)
    margins = whole.learn(X, y)
    steps = make(sketch, sketch_size=4)
    for i in range(60):
        assert steps.learn(X[i : i + 1], y[i : i + 1])[0] == margins[i]
    steps.save(tmp_path / "half")
    resumed = onsketch.load(tmp_path / "half")
    np.testing.assert_array_equal(resumed.learn(X[60:], y[60:]), margins[60:])
    assert resumed.ridge == whole.ridge


@pytest.mark.parametrize("sketch", GROWING)
def test_merging_keeps_the_higher_ridge_once(sketch: str) -> None:
    X, y = rising(1e5)
    one, two = (make(sketch, sketch_size=40, seed=seed) for seed in (0, 1))
    one.learn(X[::2, :4], y[::2])
    two.learn(X[1::2, 4:], y[1::2])
    higher = max(one.ridge, two.ridge)
    if sketch == "rfd":
        assert one._sketch.numbers[3] == 0.0  # nothing has escaped
    one.merge(two)
    assert one.ridge == pytest.approx(higher, rel=1e-12)


@pytest.mark.parametrize("sketch", GROWING)
@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4, 1e8])
def test_no_blow_up_in_any_units(sketch: str, unit: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30)) * np.geomspace(1.0, 1e3, 30) * unit
    y = np.where(X @ rng.normal(size=30) > 0, 1.0, -1.0)
    margins = make(sketch, sketch_size=5).learn(X, y)
    assert np.mean(margins[1000:] * y[1000:] <= 0) < 0.45
