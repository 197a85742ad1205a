"""Ctrl-C at any moment: a call has happened or it has not, and no lock stays held."""

from __future__ import annotations

import _signal
import gc
import os
import signal
import sys
import threading
import time
import types

import numpy as np
import pytest

import onsketch
from checkout import ROOT
from onsketch.core.interrupts import Uninterrupted, uninterrupted

if not hasattr(signal, "setitimer"):
    pytest.skip("needs an alarm", allow_module_level=True)

sys.path.insert(0, str(ROOT / "benchmarks"))

import fuzz_interrupts

INTERRUPTED = (
    "plain adagrad logistic", "plain auto squared", "scaled rfd-son squared", "scaled adagrad logistic",
    "merge plain rfd-son", "merge plain adagrad", "one-vs-rest adagrad", "shared targets", "auto classes",
    "sketch Oja", "merge FrequentDirections", "scikit-learn targets", "River classes", "River third label",
    "River row far longer than others",
    "River auto", "River auto new ridges", "named model auto",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_collection():
    """An exception that a handler raises within a callback of the garbage collector (Hypothesis has one) is lost."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupted_call_has_happened_or_has_not(name):
    (kind,) = (kind for kind in fuzz_interrupts.kinds() if kind.name == name)
    assert fuzz_interrupts.sweep(kind, 25) == []


def test_an_interrupted_prediction_does_not_keep_the_lock():
    X = np.ones((3, 5))
    learner = onsketch.learner("adagrad", loss="squared")
    learner.learn(X, np.ones(3))
    handler = signal.signal(signal.SIGALRM, fuzz_interrupts._stop)
    try:
        for k in range(200):
            fuzz_interrupts._interrupted(lambda: [learner.predict(X) for _ in range(20)], 1e-5 * (1 + k % 20))
            assert learner.lock.idle()
    finally:
        signal.signal(signal.SIGALRM, handler)


def alarm(*_: object) -> None:
    raise TimeoutError


@pytest.fixture
def alarmed():
    before = signal.signal(signal.SIGALRM, alarm)
    yield
    signal.signal(signal.SIGALRM, before)


def test_handlers_run_at_the_end_of_the_outermost_section(alarmed):
    done = []
    with pytest.raises(TimeoutError), uninterrupted:  # noqa: PT012
        with uninterrupted:
            signal.raise_signal(signal.SIGALRM)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGALRM) is alarm


def test_several_signals_all_have_their_handlers_run(alarmed):
    met = []
    before = signal.signal(signal.SIGUSR1, lambda *_: met.append(1))
    try:
        with pytest.raises(TimeoutError), uninterrupted:  # noqa: PT012
            signal.raise_signal(signal.SIGALRM)
            signal.raise_signal(signal.SIGUSR1)
            assert not met
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert met == [1]


def test_where_a_section_is_checked_handlers_may_raise(alarmed):
    with pytest.raises(TimeoutError), uninterrupted:  # noqa: PT012
        signal.raise_signal(signal.SIGALRM)
        uninterrupted.check()
        raise AssertionError
    assert signal.getsignal(signal.SIGALRM) is alarm


def test_a_handler_that_was_not_put_back_puts_itself_back(alarmed):
    section = Uninterrupted()
    section.__enter__()
    section._depth = 0  # as if its end had been cut short
    with pytest.raises(TimeoutError):
        signal.raise_signal(signal.SIGALRM)
    assert _signal.getsignal(signal.SIGALRM) is alarm
    for number in section._replaced:
        signal.signal(number, section._handlers[number])


def test_a_handler_may_use_a_section_while_another_one_ends(monkeypatch):
    met = []

    def handler(*_: object) -> None:
        met.append(1)
        with uninterrupted:
            pass

    def put_back(number: int, installed: object) -> None:
        _signal.signal(number, installed)
        if installed is handler and len(met) < 3:
            signal.raise_signal(number)

    shim = types.SimpleNamespace(signal=put_back, getsignal=_signal.getsignal)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        monkeypatch.setattr("onsketch.core.interrupts._signal", shim)
        with uninterrupted:
            pass
        assert signal.getsignal(signal.SIGALRM) is handler
        assert met == [1, 1, 1]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_thread_that_waits_for_a_lock_can_be_interrupted(alarmed):
    learner = onsketch.learner("adagrad")
    held, finish = threading.Event(), threading.Event()

    def read() -> None:
        with learner.lock.reading:
            held.set()
            finish.wait(30)

    thread = threading.Thread(target=read)
    thread.start()
    held.wait(30)
    began = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeoutError), learner.lock.writing:
            raise AssertionError
        assert time.monotonic() - began < 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        finish.set()
        thread.join()
    assert learner.lock.idle()


@pytest.mark.parametrize("change", [False, True])
def test_a_handler_may_use_the_learner_that_its_thread_waits_for(tmp_path, change):
    X = np.ones((3, 5))
    learner = onsketch.learner("adagrad", loss="squared")
    learner.learn(X, np.ones(3))
    expected = learner.predict(X)
    held, handling, done = threading.Event(), threading.Event(), []

    def handler(*_: object) -> None:
        handling.set()
        if change:
            learner.learn(X, np.ones(3))
        else:
            learner.save(tmp_path / "saved")
        done.append(True)

    def write() -> None:
        with learner.lock.writer, learner.lock.writing:
            held.set()
            handling.wait(30)
            time.sleep(0.2)  # the handler requests the lock

    def stuck(*_: object) -> None:
        os.write(2, b"a handler waits for ever\n")
        os._exit(1)

    rescue = threading.Timer(60, stuck)
    rescue.daemon = True
    rescue.start()
    before = signal.signal(signal.SIGALRM, handler)
    thread = threading.Thread(target=write)
    thread.start()
    held.wait(30)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        found = learner.predict(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        thread.join()
        rescue.cancel()
    assert done == [True]
    assert learner.lock.idle()
    assert np.array_equal(found, expected) != change
    assert change or np.array_equal(onsketch.load(tmp_path / "saved").predict(X), expected)
