"""Kernels one after the other, without Python in between."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.calling import Prepared
from onsketch.jit.decorators import Intrinsic, kernel

call, word_at = Intrinsic("call"), Intrinsic("word_at")


@kernel
def run_steps(steps: Any) -> Any:
    """Run the steps until one fails, or leaves another word than it should; returns how many were fine."""
    for i in range(steps.shape[0]):
        if steps[i, 0] != 0 and call(steps[i, 0], steps[i, 1]) != 0:
            return i
        if word_at(steps[i, 2]) != steps[i, 3]:
            return i
    return steps.shape[0]


class Step(NamedTuple):
    """A call, if any, and the word that must then stand first in an array, or be returned (0 where nothing is)."""

    call: Prepared | None
    word: int = 0
    place: NDArray[Any] | None = None


class Chain(Prepared):
    """Steps, one after the other, as long as each leaves the word that it should.

    A call returns how many steps came to what they should; why the next did not is for the long way to say.
    """

    def __init__(self, steps: list[Step]) -> None:
        super().__init__(run_steps, np.array([_words(step) for step in steps], dtype=np.int64))
        self._steps = steps  # keeps alive what they are for


def _words(step: Step) -> tuple[int, int, int, int]:
    """A step in words: machine code, slots, where to look (results stand first in the slots), and what for."""
    code, slots = (0, 0) if step.call is None else step.call.address
    return code, slots, slots if step.place is None else step.place.ctypes.data, step.word
