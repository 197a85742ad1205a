"""Prefetching in another thread, so that reading and learning overlap."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item], depth: int) -> Iterator[Item]:
    """Yield the same items in the same order, up to ``depth`` of them computed in advance.

    An error is raised at the same item. Closing the iterator ends the thread at its next item.

    >>> list(ahead(iter(range(5)), depth=2))
    [0, 1, 2, 3, 4]
    """
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    stopped = threading.Event()
    given = items, waiting, stopped
    thread = threading.Thread(target=_work, args=given, name="onsketch-reading", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise item
            yield item
    finally:
        stopped.set()
        if threading.current_thread() is not thread:  # the garbage collector may close it in any thread
            thread.join(timeout=0.5)  # a thread that waits for a pipe is not joined


def _work(items: Iterator[Any], waiting: queue.Queue[tuple[str, Any]], stopped: threading.Event) -> None:
    """Run the thread: put items into the queue, then the end or the error, unless stopped."""
    try:
        for item in items:
            if not _put(("item", item), waiting, stopped):
                break
        else:
            _put(("end", None), waiting, stopped)
    except BaseException as error:
        _put(("error", error), waiting, stopped)
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def _put(item: tuple[str, Any], waiting: queue.Queue[tuple[str, Any]], stopped: threading.Event) -> bool:
    """Wait for space in the queue; return False if stopped."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.05)
        except queue.Full:
            continue
        return True
    return False
