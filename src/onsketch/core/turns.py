"""Threads: one writer at a time, any number of readers, and nobody sees a model that is half changed.

A learner may be used from any number of threads. ``predict``, ``weights``, ``leverage`` and ``save`` read: they run
side by side. ``learn`` and ``merge`` write: a second one waits for the first. A long ``learn`` lets readers in between
two stretches of rows, so they see the model after some of its rows, and wait for milliseconds rather than for the call.
All come in the order in which they asked, so that neither side waits for ever. Sketches and learners of many classes
do the same, call by call.

Cost: one to two microseconds a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from threading import Condition, Lock, RLock, get_ident
from typing import Any, ClassVar, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


class Turns:
    """Who may read and who may write, in order of asking; a thread that has its turn may ask again.

    >>> turns = Turns()
    >>> with turns.writing, turns.reading:  # whoever writes may read
    ...     pass
    """

    __slots__ = (
        "_changed",
        "_given_up",
        "_next",
        "_readers",
        "_serving",
        "_writer",
        "_writes",
        "mutex",
        "reading",
        "writer",
        "writing",
    )

    def __init__(self) -> None:
        self.mutex = RLock()
        """Held while turns are given; see ``idle``. A signal's handler may come in its midst and ask for a turn."""
        self._changed = Condition(self.mutex)
        self._readers: dict[int, int] = {}
        """How often each thread has asked to read and has not finished."""
        self._writer: int | None = None
        self._writes = 0
        self._next = self._serving = 0
        self._given_up: set[int] = set()
        self.reading = _Turn(self._begin_reading, self._end_reading)
        self.writing = _Turn(self._begin_writing, self._end_writing)
        self.writer = RLock()
        """Held for the whole of a call that writes, while its turns to write come and go."""

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        return Turns, ()  # turns are of a process and of an object: a copy has its own

    def idle(self) -> bool:
        """Whether nobody has a turn or waits for one; if the mutex is held, nobody gets one until it is given back.

        So a few microseconds of reading or writing need no turn of their own.
        """
        return self._writer is None and not self._readers and self._next == self._serving

    def _begin_reading(self) -> None:
        me = get_ident()
        with self.mutex:
            if me in self._readers or self._writer == me:
                self._readers[me] = self._readers.get(me, 0) + 1
                return
            if self._next != self._serving or self._writer is not None:
                self._wait(lambda: self._writer is None)
            self._readers[me] = 1

    def _end_reading(self) -> None:
        me = get_ident()
        with self.mutex:
            self._readers[me] -= 1
            if not self._readers[me]:
                del self._readers[me]
                if self._next != self._serving:
                    self._changed.notify_all()

    def _begin_writing(self) -> None:
        me = get_ident()
        with self.mutex:
            if self._writer != me:
                if me in self._readers:
                    raise RuntimeError("a thread that reads a learner cannot change it before it has finished reading.")
                if self._next != self._serving or self._writer is not None or self._readers:
                    self._wait(lambda: self._writer is None and not self._readers)
                self._writer = me
            self._writes += 1

    def _end_writing(self) -> None:
        with self.mutex:
            self._writes -= 1
            if not self._writes:
                self._writer = None
                if self._next != self._serving:
                    self._changed.notify_all()

    def _wait(self, free: Callable[[], bool]) -> None:
        """Wait until all who asked before have had their turn, and it is free."""
        ticket, self._next = self._next, self._next + 1
        try:
            self._changed.wait_for(lambda: self._serving == ticket and free())
        except BaseException:  # interrupted while waiting
            self._given_up.add(ticket)
            raise
        else:
            self._serving += 1
        finally:
            while self._serving in self._given_up:
                self._given_up.discard(self._serving)
                self._serving += 1
            self._changed.notify_all()


class _Turn:
    """A turn, for ``with``."""

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, *exception: object) -> None:
        self._end()


_FIRST = Lock()


class TakesTurns:
    """What threads share: methods named in ``reads`` and ``writes`` wait for their turn, in every subclass."""

    __slots__ = ("_turns",)  # no attribute among others: it is no part of what a thing is

    _turns: Turns
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for names, wrapped in ((cls.reads, reading), (cls.writes, writing)):
            for name in names:
                found = vars(cls).get(name)
                if isinstance(found, property) and found.fget is not None:
                    setattr(cls, name, property(wrapped(found.fget), doc=found.__doc__))
                elif found is not None and not getattr(found, "__isabstractmethod__", False):
                    setattr(cls, name, wrapped(found))

    @property
    def turns(self) -> Turns:
        """Who may read and who may write."""
        try:
            return self._turns
        except AttributeError:
            with _FIRST:  # two threads may ask at the same time
                if not hasattr(self, "_turns"):
                    self._turns = Turns()
            return self._turns


def reading(method: Method) -> Method:
    """The method of something that takes turns, run while nothing changes."""

    @wraps(method)
    def waiting(self: TakesTurns, *arguments: Any, **named: Any) -> Any:
        with self.turns.reading:
            return method(self, *arguments, **named)

    return cast(Method, waiting)


def writing(method: Method) -> Method:
    """The method of something that takes turns, run while nobody reads and nobody else writes."""

    @wraps(method)
    def waiting(self: TakesTurns, *arguments: Any, **named: Any) -> Any:
        turns = self.turns
        with turns.writer, turns.writing:
            return method(self, *arguments, **named)

    return cast(Method, waiting)


@contextmanager
def together(writer: TakesTurns, *readers: TakesTurns) -> Iterator[None]:
    """Write one while others are read; asked for in one order everywhere, so that no two wait for each other."""
    with ExitStack() as held:
        for one in sorted({id(one): one for one in (writer, *readers)}.values(), key=id):
            if one is writer:
                held.enter_context(one.turns.writer)
            held.enter_context(one.turns.writing if one is writer else one.turns.reading)
        yield
