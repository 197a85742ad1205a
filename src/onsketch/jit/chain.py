"""Kernels one after the other, without Python in between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onsketch.jit.calling import PLAIN, Prepared
from onsketch.jit.decorators import Intrinsic, bare_kernel

call, word_at = Intrinsic("call"), Intrinsic("word_at")


@bare_kernel
def run_steps(steps):
    """Run the steps until one fails, or leaves another word than it should; returns how many were fine, and whether
    one failed.
    """
    for i in range(steps.shape[0]):
        if steps[i, 0] != 0 and call(steps[i, 0], steps[i, 1]) != 0:
            return i, True
        if word_at(steps[i, 2]) != steps[i, 3]:
            return i, False
    return steps.shape[0], False


class Step(NamedTuple):
    """A call, if any, and the word that must then stand first in an array, or be returned (0 where nothing is)."""

    call: Prepared | None
    word: int = 0
    place: np.ndarray | None = None


class Chain:
    """Steps, one after the other, as long as each leaves the word that it should. For one thread at a time."""

    __slots__ = ("_run", "_steps")

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps  # keeps alive what they are for
        words = [] if PLAIN else [(*_where(call), _address(call, place), word) for call, word, place in steps]
        self._run = Prepared(run_steps, np.array(words, dtype=np.int64).reshape(-1, 4))

    def __call__(self) -> int:
        """How many steps came to what they should."""
        if PLAIN:
            return _in_python(self._steps)
        done, failed = self._run()
        if failed:
            self._steps[done].call()  # says why
        return done


def _where(call: Prepared | None) -> tuple[int, int]:
    return (0, 0) if call is None else call.address


def _address(call: Prepared | None, place: np.ndarray | None) -> int:
    """Where the word is: in an array, or where results are returned."""
    return call.address[1] if place is None else place.ctypes.data


def _in_python(steps: list[Step]) -> int:
    for done, (call, word, place) in enumerate(steps):
        found = None if call is None else call()
        if place is not None:
            found = place.view(np.int64).flat[0]
        if (found[0] if isinstance(found, tuple) else found or 0) != word:
            return done
    return len(steps)
