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

    def put(kind: str, item: Any) -> bool:
        while not stopped.is_set():
            try:
                waiting.put((kind, item), timeout=0.05)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    break
            else:
                put("end", None)
        except BaseException as error:
            put("error", error)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    thread = threading.Thread(target=work, name="onsketch-reading", daemon=True)
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
