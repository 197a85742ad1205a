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
    """A call, if any, and the expected value of an array's first word or of the result (0 if there is none)."""

    call: Prepared | None
    word: int = 0
    place: NDArray[Any] | None = None


class Chain(Prepared):
    """Run steps in order, as long as each gives its expected value.

    A call returns the number of steps that succeeded. The ordinary calls then report why the next one failed.
    """

    def __init__(self, steps: list[Step]) -> None:
        super().__init__(run_steps, np.array([_words(step) for step in steps], dtype=np.int64))
        self._steps = steps  # keeps alive what they are for


def _words(step: Step) -> tuple[int, int, int, int]:
    """Return a step as words: machine code, slots, address of the value (results are the first slots), expectation."""
    code, slots = (0, 0) if step.call is None else step.call.address
    return code, slots, slots if step.place is None else step.place.ctypes.data, step.word
