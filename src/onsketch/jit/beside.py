"""A second process that compiles beside this one, so that two kernels are made at a time.

It is started only when there is something to compile, gets a kernel and the forms of its arguments by a pipe, and
answers with the object file: nothing need be kept on disk. It does nothing unless its code is that of this process
(the same stamp), ends when this process does, and where it cannot do its work this process does it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Queue
from typing import Any

from onsketch.jit import machine_code
from onsketch.jit.calling import Form
from onsketch.jit.decorators import Kernel


class _Helper:
    """The second process, as this one sees it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self.closed = False

    def compile(self, kernel: Kernel, forms: tuple[Form, ...], symbol: str) -> tuple[str, bytes] | None:
        """What ``compile_kernel`` returns; None where this process must do it."""
        try:
            job = pickle.dumps((kernel, forms, symbol))
        except (AttributeError, TypeError, pickle.PicklingError):  # a function inside a function
            return None
        answer: tuple[str, bytes] | None
        try:
            self.start()
            process = self._process
            if process is None or process.stdin is None or process.stdout is None:
                raise OSError("there is no second process.")
            process.stdin.write(job)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except Exception:  # it is gone, or something else has written to its pipe: it is asked no more
            answer = None
            if self._process is not None:
                self._process.kill()
        if self.closed:
            raise SystemExit  # nobody waits for this thread any more
        return answer

    def start(self, *job: Any) -> None:
        """Start the process, if it has not been: there is something to compile."""
        with self._starting, suppress(OSError, TypeError):  # where no process can be had, this one does the work
            if self._process is None and not self.closed:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "onsketch.jit.beside"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for this process, at whose end the other one ends
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                )

    def close(self) -> None:
        """End the process, whatever it is doing."""
        with self._starting:
            self.closed = True
            if self._process is not None:
                self._process.kill()
                with suppress(OSError), self._process:  # waits, and closes the pipes
                    pass


def side_by_side(jobs: Iterable[Callable[[], Any]]) -> None:
    """Do jobs that may have to compile, in their order, two at a time: what the second needs is compiled beside.

    Ctrl-C stops at once. An error is raised when both are done with what they were doing.
    """
    waiting, errors, helper = deque(jobs), list[BaseException](), _Helper()

    def work() -> None:
        while not errors:
            try:
                job = waiting.popleft()
            except IndexError:
                return
            job()

    def second() -> None:
        machine_code.helping.compile = helper.compile
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=second, daemon=True)
    two = len(waiting) > 1 and (os.cpu_count() or 1) > 1 and not hasattr(sys, "frozen")
    before = machine_code.helping.compile
    try:
        try:
            if two:
                machine_code.helping.compile = helper.start  # which is ready when this process has compiled something
                first = waiting.popleft()
                thread.start()
                first()
            work()
        except Exception as error:
            errors.insert(0, error)
        if thread.is_alive():
            thread.join()
    finally:  # Ctrl-C comes here at once
        waiting.clear()
        machine_code.helping.compile = before
        helper.close()
    if errors:
        raise errors[0]


def _serve() -> None:
    """The second process: object files for kernels, until nobody asks any more."""
    jobs: Queue[Any] = Queue()

    def receive() -> None:
        try:
            while True:
                jobs.put(pickle.load(sys.stdin.buffer))
        except EOFError:
            os._exit(0)  # in the midst of compiling, too
        except Exception:
            os._exit(1)

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed by others goes nowhere
    threading.Thread(target=receive, daemon=True).start()
    while True:
        kernel, forms, symbol = jobs.get()
        try:
            own, results, object_file = machine_code.object_file(kernel, forms)
            answer = (results, object_file) if own == symbol else None
        except Exception:
            answer = None
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    _serve()
