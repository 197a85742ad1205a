"""A second process compiles beside this one: the same object files, nobody left behind, errors as they are."""

import pickle
import subprocess
import sys
import threading
import time

import pytest

from onsketch.core.losses import _fill_values, loss_values
from onsketch.jit import calling, machine_code
from onsketch.jit.beside import _Helper, side_by_side
from onsketch.jit.decorators import kernel

pytestmark = pytest.mark.skipif(calling.PLAIN, reason="nothing is compiled")


def _forms():
    loss_values("squared", [0.0], [1.0])
    return next(forms for known, forms in calling.known() if known is _fill_values)


def test_the_second_process_makes_the_same_object_file_and_ends_with_whoever_asked():
    pytest.importorskip("numba")
    symbol, results, code = machine_code.object_file(_fill_values, _forms())
    helper = _Helper()
    try:
        assert helper.compile(_fill_values, _forms(), symbol) == (results, code)
        assert helper.compile(_fill_values, _forms(), "onsketch_of_other_code") is None
        process = helper._process
        process.stdin.close()
        assert process.wait(30) == 0
        assert helper.compile(_fill_values, _forms(), symbol) is None  # this process must do it
    finally:
        helper.close()
    with pytest.raises(SystemExit):
        helper.compile(_fill_values, _forms(), symbol)


def test_a_job_that_cannot_be_sent_stays_here():
    @kernel
    def local(x):
        return x

    helper = _Helper()
    assert helper.compile(local, ("f8",), "onsketch_any") is None
    assert helper._process is None


def test_what_is_no_job_ends_the_second_process():
    words = [sys.executable, "-P", "-m", "onsketch.jit.beside"]
    done = subprocess.run(words, input=b"no job", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert pickle.loads(pickle.dumps(_fill_values)) is _fill_values


def test_all_jobs_are_done_in_two_threads_and_no_process_is_started_for_nothing(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **options: pytest.fail("nothing is to be compiled"))
    done, both = [], threading.Barrier(2, timeout=30)

    def job(number):
        if number < 2:
            both.wait()
        done.append((number, threading.get_ident()))

    side_by_side([lambda number=number: job(number) for number in range(6)])
    assert sorted(number for number, _ in done) == list(range(6))
    assert len({thread for _, thread in done}) == 2


@pytest.mark.parametrize("where", [0, 1])
def test_an_error_of_either_thread_is_raised(where):
    began = threading.Barrier(2, timeout=30)

    def job(number):
        began.wait()
        if number == where:
            raise ValueError(number)

    with pytest.raises(ValueError, match=str(where)):
        side_by_side([lambda number=number: job(number) for number in range(2)])
    assert machine_code.helping.compile(_fill_values, (), "") is None


def test_an_error_of_the_first_thread_leaves_nobody_working():
    began, done = threading.Barrier(2, timeout=30), []

    def fail():
        began.wait()
        raise ValueError("first")

    def slow():
        began.wait()
        time.sleep(0.2)
        done.append("slow")

    with pytest.raises(ValueError, match="first"):
        side_by_side([fail, slow, lambda: done.append("never")])
    assert done == ["slow"]


def test_what_others_print_is_no_answer(monkeypatch):
    """And whoever has printed is asked no more, for its answers would be those of the question before."""
    words = [sys.executable, "-c", "import time; print('config loaded\\nok', flush=True); time.sleep(60)"]
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: start(words, **options))
    helper = _Helper()
    try:
        assert helper.compile(_fill_values, _forms(), "onsketch_any") is None
        assert helper._process.wait(30) != 0
        assert helper.compile(_fill_values, _forms(), "onsketch_any") is None
    finally:
        helper.close()
