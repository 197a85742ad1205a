"""Sections in which signals wait, so that Ctrl-C never leaves a state half changed or a lock held.

A signal's handler runs between any two Python instructions of the main thread, and may raise there (Ctrl-C raises
KeyboardInterrupt). Within ``with uninterrupted:`` handlers only note their signal. The handlers that were installed run
when the outermost section is left, after everything inside it is complete, or at ``uninterrupted.check()``, which is
called where it is safe to raise, such as between two blocks of rows. Other threads never run handlers.

Cost of an outermost section: about two microseconds.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
from threading import get_ident, main_thread
from typing import Any

# ``_signal`` is used where it matters: ``signal.signal`` converts numbers to enumerations and back, ten times the time.
_NUMBERS = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


class Uninterrupted:
    """The section; use the one object ``uninterrupted``. Sections may be nested."""

    __slots__ = ("_depth", "_handlers", "_noted", "_noting", "_replaced")

    def __init__(self) -> None:
        self._depth = 0
        self._noting = self._note
        self._handlers: dict[int, Any] = {}
        """The handlers that were installed when a section began, by number."""
        self._replaced: list[int] = []
        self._noted: dict[int, Any] = {}
        """Signals that have come, with their frames."""

    def __enter__(self) -> None:
        if get_ident() != main_thread().ident:
            return
        self._depth += 1
        if self._depth > 1:
            return
        try:
            for number in _NUMBERS:
                handler = _signal.getsignal(number)
                if callable(handler) and handler is not self._noting:
                    self._handlers[number] = handler
                    self._replaced.append(number)
                    _signal.signal(number, self._noting)
        except BaseException:  # a signal whose handler had not been replaced
            self.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        if get_ident() != main_thread().ident:
            return
        self._depth -= 1
        if self._depth:
            return
        try:
            for number in tuple(self._replaced):  # a handler that runs here may begin and end sections of its own
                if _signal.getsignal(number) is self._noting:
                    _signal.signal(number, self._handlers[number])
            self._replaced.clear()
        finally:
            self.check()

    @property
    def due(self) -> bool:
        """True if ``check`` would run a handler in this thread."""
        return bool(self._noted) and get_ident() == main_thread().ident

    def check(self) -> None:
        """Run the handlers of the signals that have come; the first exception of one is raised."""
        if not self.due:
            return
        noted, self._noted = self._noted, {}
        failure: BaseException | None = None
        for number, frame in noted.items():
            try:
                self._handlers[number](number, frame)
            except BaseException as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _note(self, number: int, frame: Any) -> None:
        if self._depth:
            self._noted[number] = frame
        else:  # a section ended before it could put this handler back
            _signal.signal(number, self._handlers[number])
            self._handlers[number](number, frame)


uninterrupted = Uninterrupted()
