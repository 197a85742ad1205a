"""Work ahead in another thread, so that reading and learning overlap."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item], depth: int) -> Iterator[Item]:
    """The same items in the same order, up to ``depth`` of them made before they are asked for.

    An error comes where it would have come. Closing the iterator ends the thread at its next item.

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
        if threading.current_thread() is not thread:  # the collector may close us from anywhere
            thread.join(timeout=0.5)  # one that waits for a pipe is left to itself


def _work(items: Iterator[Any], waiting: queue.Queue[tuple[str, Any]], stopped: threading.Event) -> None:
    """The thread: items as they come, then the end or the error, unless nobody wants more."""
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
    """Wait for room; False where nobody wants it any more."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.05)
        except queue.Full:
            continue
        return True
    return False
