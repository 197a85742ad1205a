"""The tally: a block is judged once, and whoever counts it agrees, however the stream is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onsketch.core.losses import loss_values
from onsketch.data.task import Task
from onsketch.jobs.serve.watch import WINDOW, Watch
from onsketch.jobs.tally import Judged, Progress, Recent, joined, judged

ROWS = 300


def stream(kind: str) -> Judged:
    """Rows with random predictions, labels and weights."""
    rng = np.random.default_rng(3)
    weights = rng.random(ROWS)
    if kind == "classes":
        return judged("softmax", rng.integers(3, size=ROWS).astype(float), rng.normal(size=(ROWS, 3)), True, weights)
    if kind == "numbers":
        return judged("squared", rng.normal(size=ROWS), rng.normal(size=ROWS), False, weights)
    return judged("logistic", rng.choice([-1.0, 1.0], ROWS), rng.normal(size=ROWS), True, weights)


def test_a_block_is_judged_as_defined() -> None:
    block = stream("signs")
    np.testing.assert_array_equal(block.losses, loss_values("logistic", block.said, block.labels))
    np.testing.assert_array_equal(block.wrong, (block.said > 0) != (block.labels > 0))
    rng = np.random.default_rng(0)
    margins, codes = rng.normal(size=(50, 4)), rng.integers(4, size=50)
    powers = np.exp(margins)
    block = judged("softmax", codes.astype(float), margins, True)
    np.testing.assert_allclose(block.losses, -np.log(powers[np.arange(50), codes] / powers.sum(axis=1)))
    np.testing.assert_array_equal(block.wrong, margins.argmax(axis=1) != codes)
    np.testing.assert_array_equal(block.weights, 1.0)


@pytest.mark.parametrize("kind", ["signs", "classes", "numbers"])
@given(cuts=st.lists(st.integers(0, ROWS), max_size=6), most=st.integers(1, 2 * ROWS))
def test_progress_and_window_are_means_for_any_cut(kind: str, cuts: list[int], most: int) -> None:
    whole = stream(kind)
    edges = [0, *sorted(cuts), ROWS]
    parts = [whole.part(a, b) for a, b in zip(edges, edges[1:], strict=False)]
    for one, other in zip(joined(parts)[:-1], whole[:-1], strict=True):
        np.testing.assert_array_equal(one, other)
    total, recent = Progress("any", kind != "numbers"), Recent(most)
    for part in parts:
        total.add(part)
        recent.add(part)
    assert total.mean_loss == pytest.approx(np.average(whole.losses, weights=whole.weights))
    last = whole.part(max(ROWS - most, 0), ROWS)
    wanted = [np.average(column, weights=last.weights) for column in (last.losses, last.wrong)]
    assert recent.means() == pytest.approx(wanted)


@pytest.mark.parametrize("kind", ["signs", "classes", "numbers"])
def test_a_service_shows_the_means_of_what_was_learned(kind: str) -> None:
    names = ["a", "b", "c"]
    task = {"signs": Task("classification", 1.0, -1.0), "classes": Task("multiclass", names=names)}.get(
        kind, Task("regression")
    )
    block = stream(kind)
    watch = Watch(task, "squared" if kind == "numbers" else "logistic")
    for start in range(0, ROWS, 7):
        watch.add(block.part(start, start + 7))
    figures = watch.figures()
    assert figures["rows"] == figures["recent"]["rows"] == ROWS < WINDOW
    mean = np.average(block.losses, weights=block.weights)
    assert [figures["loss"], figures["recent"]["loss"]] == pytest.approx([mean, mean])
    assert (figures["error"] is None) == (kind == "numbers")
    assert figures["baseline"]["loss"] > 0.0
