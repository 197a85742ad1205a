"""Threads share a learner: one writes at a time, readers see a whole model, and all go on as if they had been alone."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from onsketch import sketch
from onsketch.core.rwlock import RWLock
from onsketch.learners.multiclass import OneVersusRest

BLOCKS, ROWS = 25, 60


def arriving(seed: int, block: int) -> csr_array:
    """Rows of a stream that brings features with every block."""
    rng = np.random.default_rng([seed, block])
    indices = rng.integers(0, 100 * (block + 1), ROWS * 10)
    return csr_array((rng.normal(size=ROWS * 10), indices, np.arange(ROWS + 1) * 10), shape=(ROWS, 10**6))


def signs(seed: int, block: int) -> Any:
    return np.sign(np.random.default_rng([9, seed, block]).normal(size=ROWS))


def all_at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """Run them together; raises what one of them raised."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        return [job.result(timeout=60) for job in [pool.submit(task) for task in tasks]]


@pytest.mark.parametrize("method", ["adagrad", "rfd-son", "auto"])
def test_readers_see_a_model_that_was_there_between_two_blocks(method: str) -> None:
    learner, done = onsketch.learner(method, loss="logistic"), threading.Event()
    asked = arriving(5, 3)
    reached = [learner.predict(asked)]
    seen: list[Any] = []

    def learn() -> None:
        try:
            for block in range(BLOCKS):
                learner.learn(arriving(0, block), signs(0, block))
                reached.append(learner.predict(asked))
        finally:
            done.set()

    def read() -> None:
        while not (seen and done.is_set()):
            seen.append(learner.predict(asked))
            assert np.isfinite(learner.weights[:100]).all()

    all_at_once(learn, read, read)
    known = {margins.tobytes() for margins in reached}
    assert seen
    assert all(margins.tobytes() in known for margins in seen)


@pytest.mark.parametrize("method", ["adagrad", "oja-son"])
def test_two_writers_wait_for_each_other_and_all_rows_are_learned(method: str, tmp_path: Path) -> None:
    learner = onsketch.learner(method, loss="logistic")

    def learn(seed: int) -> None:
        for block in range(BLOCKS):
            learner.learn(arriving(seed, block), signs(seed, block))

    all_at_once(lambda: learn(0), lambda: learn(1), lambda: [learner.save(tmp_path / "m") for _ in range(5)])
    assert learner.rounds == 2 * BLOCKS * ROWS
    learner.save(tmp_path / "m")
    again = onsketch.load(tmp_path / "m")
    assert (again.predict(arriving(7, 9)) == learner.predict(arriving(7, 9))).all()


def test_learners_that_take_in_each_other_at_the_same_time_do_not_wait_for_ever() -> None:
    one, two = (onsketch.learner("adagrad", loss="logistic") for _ in range(2))
    one.learn(arriving(0, 0), signs(0, 0))
    two.learn(arriving(1, 0), signs(1, 0))
    start = threading.Barrier(2)

    def merge(mine: Any, other: Any) -> None:
        start.wait(10)
        mine.merge(other)

    all_at_once(lambda: merge(one, two), lambda: merge(two, one))
    assert {one.rounds, two.rounds} in ({2 * ROWS, 3 * ROWS}, {2 * ROWS})


def test_classes_are_read_between_two_blocks() -> None:
    model = OneVersusRest("adagrad", 3)
    reached, seen, asked = [model.predict(arriving(5, 1))], [], arriving(5, 1)

    def learn() -> None:
        for block in range(8):
            codes = np.random.default_rng(block).integers(3, size=ROWS)
            model.learn(arriving(0, block), codes)
            reached.append(model.predict(asked))

    all_at_once(learn, lambda: seen.extend(model.predict(asked) for _ in range(30)))
    known = {margins.tobytes() for margins in reached}
    assert all(margins.tobytes() in known for margins in seen)


def test_a_reader_comes_in_between_two_stretches_of_a_long_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onsketch.learners.base._CHUNK", 1000)
    learner = onsketch.learner("adagrad", loss="logistic")
    X = np.random.default_rng(0).normal(size=(20_000, 10))
    y = np.sign(X[:, 0])
    learner.predict(X[:1])
    found: list[int] = []
    started = threading.Event()
    inner = learner._learn

    def slowly(*block: Any) -> int:
        started.set()
        time.sleep(0.005)
        return inner(*block)

    monkeypatch.setattr(learner, "_learn", slowly)

    def read() -> None:
        started.wait(60)
        learner.predict(X[:1])
        found.append(learner.rounds)

    all_at_once(lambda: learner.learn(X, y), read)
    assert 0 < found[0] < len(X)


def test_a_sketch_is_read_between_two_blocks() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 30, 12))
    shared, known = sketch.FrequentDirections(12, 4), set()
    alone = sketch.FrequentDirections(12, 4)
    for block in rows:
        known.add(alone.matrix.tobytes())
        alone.update(block)
    known.add(alone.matrix.tobytes())
    seen: list[Any] = []
    all_at_once(lambda: [shared.update(block) for block in rows], lambda: seen.extend(shared.matrix for _ in range(60)))
    assert all(matrix.tobytes() in known for matrix in seen)
    assert (shared.matrix == alone.matrix).all()


def test_a_copy_has_a_lock_of_its_own() -> None:
    learner = onsketch.learner("adagrad", loss="squared")
    learner.learn(np.ones((2, 3)), [1.0, 2.0])
    with learner.lock.writer, learner.lock.writing:
        twins = copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))
    for twin in twins:
        assert twin.lock is not learner.lock
        twin.learn(np.ones((1, 3)), [1.0])
        assert (twin.rounds, learner.rounds) == (3, 2)


def test_requests_are_granted_in_order_and_whoever_gives_up_leaves_no_gap() -> None:
    lock, order, waiting = RWLock(), [], []

    def ask(name: str, held: Any) -> None:
        with held:
            order.append(name)

    class GivenUp(Exception):
        pass

    def give_up(*_: Any, **__: Any) -> None:
        raise GivenUp

    with lock.writing:
        for name, held in (("w1", lock.writing), ("r1", lock.reading), ("w2", lock.writing), ("r2", lock.reading)):
            thread = threading.Thread(target=ask, args=(name, held))
            before = lock._next
            thread.start()
            while lock._next == before:
                pass
            waiting.append(thread)
        kept, lock._changed.wait_for = lock._changed.wait_for, give_up  # type: ignore[method-assign,assignment]

        def asks_and_gives_up() -> None:
            with pytest.raises(GivenUp), lock.reading:
                pass

        impatient = threading.Thread(target=asks_and_gives_up)
        impatient.start()
        impatient.join(60)
        lock._changed.wait_for = kept  # type: ignore[method-assign]
    for thread in waiting:
        thread.join(60)
    assert order == ["w1", "r1", "w2", "r2"]
    with lock.writing:
        assert lock._serving == lock._next


def test_reading_and_then_writing_in_one_thread_is_an_error_not_a_wait() -> None:
    learner = onsketch.learner("adagrad", loss="squared")
    with learner.lock.reading, pytest.raises(RuntimeError, match="reads"):
        learner.learn(np.ones((1, 2)), [1.0])
