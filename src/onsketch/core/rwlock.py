"""A reader-writer lock: one writer at a time or any number of readers, first come, first served.

A learner may be used from any number of threads. ``predict``, ``weights``, ``leverage``, ``save`` and copies read: they
run concurrently. ``learn`` and ``merge`` write: a second one waits for the first. A long ``learn`` releases the lock
between two blocks of rows. Readers see the model after some of its rows, and wait for milliseconds instead of the whole
call. Sketches and learners of many classes do the same, call by call.

While the lock is held, signals wait (``interrupts.py``), so that Ctrl-C neither leaves it held nor interrupts a change.
A thread that waits for the lock can be interrupted.

Cost: three to five microseconds a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import wraps
from threading import Condition, Lock, RLock, get_ident
from typing import Any, ClassVar, TypeVar, cast

from onsketch.core.interrupts import uninterrupted

Method = TypeVar("Method", bound=Callable[..., Any])


class RWLock:
    """Grants reading and writing in the order of requests; a thread that holds the lock may request it again.

    >>> lock = RWLock()
    >>> with lock.writing, lock.reading:  # the writer may read
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
        """Guards the fields; see ``idle``. It is reentrant, because a signal's handler may request the lock."""
        self._changed = Condition(self.mutex)
        self._readers: dict[int, int] = {}
        """How often each thread that reads has entered."""
        self._writer: int | None = None
        self._writes = 0
        self._next = self._serving = 0
        self._given_up: set[int] = set()
        self.reading = _Held(self._begin_reading, self._end_reading)
        self.writing = _Held(self._begin_writing, self._end_writing)
        self.writer = RLock()
        """Held for the whole of a call that writes, which may release the lock between two blocks of rows."""

    def __reduce__(self) -> tuple[type[RWLock], tuple[()]]:
        return RWLock, ()  # a copy of an object has its own lock

    def idle(self) -> bool:
        """Return True if no thread holds the lock or waits for it.

        While the mutex is held this remains so: short reads and writes of a few microseconds only need the mutex.
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
        """Wait until all earlier requests have been granted, and the lock is free.

        Handlers of signals run without a ticket and without the mutex, since they may request the same lock.
        """
        while not self._queue(free):
            self.mutex.release()
            try:
                uninterrupted.check()
            finally:
                self.mutex.acquire()

    def _queue(self, free: Callable[[], bool]) -> bool:
        """Wait with a new ticket; return False if it was given up, because handlers of signals are due."""
        ticket, self._next = self._next, self._next + 1
        granted = False
        try:
            while not granted and not uninterrupted.due:
                granted = self._changed.wait_for(lambda: self._serving == ticket and free(), _SLICE)
        finally:
            if granted:
                self._serving += 1
            else:
                self._given_up.add(ticket)
            while self._serving in self._given_up:
                self._given_up.discard(self._serving)
                self._serving += 1
            self._changed.notify_all()
        return granted


_SLICE = 0.1
"""Seconds of waiting after which signals are checked."""


class _Held:
    """The lock held for reading or for writing, for ``with``."""

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end

    def __enter__(self) -> None:
        uninterrupted.__enter__()
        try:
            self._begin()
        except BaseException:
            uninterrupted.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        self._end()
        uninterrupted.__exit__()


_FIRST = Lock()


class Locked:
    """Base class of what threads share: the methods named in ``reads`` and ``writes`` hold the lock, in all subclasses.

    Copies and pickles hold it, too.
    """

    __slots__ = ("_lock", "_single")  # no entries of ``vars``: they are not part of the state

    _lock: RWLock
    _single: Any
    """Prepared calls, for classes that have some."""
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
    def lock(self) -> RWLock:
        """The reader-writer lock of this object."""
        try:
            return self._lock
        except AttributeError:
            with _FIRST:  # two threads may arrive at the same time
                if not hasattr(self, "_lock"):
                    self._lock = RWLock()
            return self._lock

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        with self.lock.reading:
            twin = memo[id(self)] = type(self).__new__(type(self))
            vars(twin).update(deepcopy(self._copied(), memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        with self.lock.reading:
            return deepcopy(self._copied(), {id(self): self})

    def _copied(self) -> dict[str, Any]:
        """The attributes that copies and pickles have."""
        return vars(self)


def reading(method: Method) -> Method:
    """Decorate a method to run while nothing changes."""

    @wraps(method)
    def waiting(self: Locked, *arguments: Any, **named: Any) -> Any:
        with self.lock.reading:
            return method(self, *arguments, **named)

    return cast(Method, waiting)


def writing(method: Method) -> Method:
    """Decorate a method to run while no other thread reads or writes."""

    @wraps(method)
    def waiting(self: Locked, *arguments: Any, **named: Any) -> Any:
        lock = self.lock
        with lock.writer, lock.writing:
            return method(self, *arguments, **named)

    return cast(Method, waiting)


@contextmanager
def together(writer: Locked, *readers: Locked) -> Iterator[None]:
    """Write one object while others are read. Locks are taken in one order everywhere, so that there is no deadlock."""
    with uninterrupted, ExitStack() as held:
        for one in sorted({id(one): one for one in (writer, *readers)}.values(), key=id):
            if one is writer:
                while not one.lock.writer.acquire(timeout=_SLICE):
                    uninterrupted.check()
                held.callback(one.lock.writer.release)
            held.enter_context(one.lock.writing if one is writer else one.lock.reading)
        yield
