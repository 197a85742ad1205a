"""What one-vs-rest keeps to go back: bounded in memory, left out of copies, and right whoever touches the learners."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import onsketch
from onsketch.errors import UpdateError
from onsketch.learners.multiclass import OneVersusRest
from onsketch.learners.multiclass.undo import _LEAST
from onsketch.learners.rows import as_rows

REFUSES: dict[str, Any] = {"loss": "squared_hinge", "step_size": 1e60}
"""Options of AdaGrad under which ``WILD`` is refused after it has been learned by a class or two."""

WILD = np.full((1, 12), 1e145)


def stream(n: int = 60, d: int = 12) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(3, size=n)


def arrays_in(block: Any) -> int:
    rows, labels, weights = block
    return sum(array.nbytes for array in (rows.indptr, rows.indices, rows.values, labels, weights))


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).normal(size=(40, 30)),
        random_array((40, 3000), density=0.02, rng=np.random.default_rng(0), format="csr"),
        csr_array((1000, 30)),  # rows without a single value take memory all the same
    ],
    ids=["dense", "sparse", "empty"],
)
@pytest.mark.parametrize("size", [1, 40])
def test_the_rows_kept_take_no_more_memory_than_the_learners(X: Any, size: int) -> None:
    """All their arrays together, and they are thrown away before there are more."""
    model = OneVersusRest("adagrad", 3)
    held, kept = 0, []
    for _ in range(600):
        model.learn(X[:size], np.zeros(size, dtype=np.int64))
        held = sum(learner.state_bytes()["total"] for learner in model.learners)
        kept.append(sum(map(arrays_in, model._undo._since)))
        assert kept[-1] <= max(_LEAST, held)
        assert len(model._undo._since) <= max(_LEAST, held) / 1024
    assert max(kept) > 0
    assert min(kept) == 0


@pytest.mark.parametrize("X", [np.eye(5), csr_array(np.eye(5)), csr_array((5, 5))], ids=["dense", "sparse", "empty"])
def test_rows_say_how_many_bytes_a_copy_has(X: Any) -> None:
    for rows in (as_rows(X, None), as_rows(X, None).part(1, 3)):
        copied = rows.copy()
        assert rows.nbytes == copied.indptr.nbytes + copied.indices.nbytes + copied.values.nbytes


def learned_and_refused(features: int) -> tuple[OneVersusRest, int]:
    """A model that has met these features, learned blocks of short rows and refused a row now and then.

    Returns it, and the most memory ever taken.
    """
    rng = np.random.default_rng(0)
    X = random_array((20, features), density=0.01, rng=rng, format="csr")
    codes = rng.integers(3, size=20)
    wild = 1e145 * X[:1]
    model = OneVersusRest("adagrad", 3, **REFUSES)
    for _ in range(2):
        model.learn(np.ones((1, features)), [0])
    tracemalloc.reset_peak()
    for i in range(90):
        model.learn(X, codes)
        if i % 35 == 30:
            try:
                model.learn(wild, [0])
            except UpdateError:
                continue
            raise AssertionError("it was not refused")
    return model, tracemalloc.get_traced_memory()[1]


def test_a_model_takes_three_times_the_memory_of_its_learners_at_most() -> None:
    """Whether it learns or goes back, and without waiting for the garbage collector."""
    tracemalloc.start()
    try:
        learned_and_refused(1000)  # compiles what there is to compile
        gc.collect()
        gc.disable()
        before = tracemalloc.get_traced_memory()[0]
        model, peak = learned_and_refused(100_000)
    finally:
        tracemalloc.stop()
        gc.enable()
    held = sum(learner.state_bytes()["total"] for learner in model.learners)
    assert 2.5 < (peak - before) / held < 3.5  # a half for what learning takes in passing; one copy more would be 4


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["copy", "pickle"]
)
def test_copies_and_pickles_hold_no_rows_and_go_on_equal(again: Any) -> None:
    X, codes = stream()
    model = OneVersusRest("adagrad", 3, **REFUSES)
    model.learn(X[:30], codes[:30])
    assert model._undo._since
    twin = again(model)
    assert twin._undo._since == twin._undo._copies == []
    assert model._undo._since
    for each in (model, twin):
        with pytest.raises(UpdateError):
            each.learn(np.vstack([X[30:33], WILD]), codes[30:34])
    assert (twin.learn(X[33:], codes[33:]) == model.learn(X[33:], codes[33:])).all()
    assert (twin.weights == model.weights).all()
    assert twin.rounds == model.rounds == 60


def test_a_pickle_has_no_row_in_it() -> None:
    X, codes = stream()
    model = OneVersusRest("adagrad", 3)
    model.learn(X, codes)
    written = pickle.dumps(model)
    assert X[7].tobytes() not in written
    assert len(written) < 3 * len(pickle.dumps(model.learners[0])) + 1000


def touched(model: OneVersusRest, how: str) -> None:
    X, _ = stream(5)
    if how == "taught":
        for learner in model.learners:
            learner.learn(X, np.ones(5))
    elif how == "merged":
        other = onsketch.learner("adagrad", **REFUSES)
        other.learn(X, np.ones(5))
        model.learners[1].merge(other)
    elif how == "replaced":  # by one that has played as many rounds
        other = onsketch.learner("adagrad", **REFUSES)
        other.learn(np.ones((model.rounds, 12)), np.ones(model.rounds))
        model.learners[1] = other
    else:
        model.learners.reverse()


@pytest.mark.parametrize("how", ["taught", "merged", "replaced", "reversed"])
def test_a_refused_row_brings_back_what_others_did_to_the_learners(how: str) -> None:
    X, codes = stream()
    model, twin = (OneVersusRest("adagrad", 3, **REFUSES) for _ in range(2))
    for each in (model, twin):
        each.learn(X[:20], codes[:20])
        touched(each, how)
    with pytest.raises(UpdateError):
        model.learn(WILD, [0])
    assert (model.weights == twin.weights).all()
    assert (model.learn(X[20:], codes[20:]) == twin.learn(X[20:], codes[20:])).all()


def test_rows_refused_one_after_the_other_are_not_paid_for_again() -> None:
    """Going back makes a new start: what has been learned once more is not learned a third time."""
    X, codes = stream()
    model = OneVersusRest("adagrad", 3, **REFUSES)
    for row in range(60):
        model.learn(X[row : row + 1], codes[row : row + 1])
    assert len(model._undo._since) == 60
    for _ in range(3):
        with pytest.raises(UpdateError):
            model.learn(WILD, [0])
        assert model._undo._since == []
    assert model.rounds == 60
