"""Ctrl-C, SIGTERM and SIGHUP: stop cleanly, keep the work so far and report it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click

_STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that stop a program: Ctrl-C, a system that shuts down, a terminal that is closed."""


class Interrupted(Exception):
    """Ctrl-C while there was nothing to do but wait."""


@contextmanager
def interruptible(waiting: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Ctrl-C stops after the current block, or at once if there is none; a second one always stops at once."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        if waiting():
            raise Interrupted
        click.echo("\nStopping after this block; press Ctrl-C again to stop at once.", err=True)

    before = {number: signal.getsignal(number) for number in _STOPPING}
    for number, handler in before.items():
        if number == signal.SIGINT or handler is not signal.SIG_IGN:  # respect nohup
            signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def between_blocks(blocks: Iterator[Any]) -> Iterator[Any]:
    """Yield the blocks; Ctrl-C raises KeyboardInterrupt here, after the caller has finished the last block."""
    waiting = True
    with interruptible(lambda: waiting) as interrupted:
        with suppress(Interrupted):
            while not interrupted():
                waiting = True
                block = next(blocks, None)
                waiting = False
                if block is None:
                    return
                yield block
        raise KeyboardInterrupt


def leave(rows: int, kept: str = "") -> NoReturn:
    """Report that the run was cut short, and exit as programs do after Ctrl-C."""
    when = f"after {rows:,} rows" if rows else "before the first rows came"
    click.echo(f"\nInterrupted {when}{kept and '; '}{kept}.", err=True)
    raise SystemExit(130)
