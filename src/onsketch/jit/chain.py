"""Run several kernels one after the other, without Python in between."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.calling import Prepared
from onsketch.jit.decorators import Intrinsic, kernel

call, word_at = Intrinsic("call"), Intrinsic("word_at")


CODE, SLOTS, PLACE, WORD, UNDO_CODE, UNDO_SLOTS = range(6)
"""Columns of the array that describes the steps: addresses of code and slots, address of the word that shows success
and its expected value, and what undoes the step (0 for nothing)."""


@kernel
def run_steps(steps: Any) -> Any:
    """Run the steps in order; return 1 if all succeed. If one fails, undo it and those before it and return 0."""
    for i in range(steps.shape[0]):
        if call(steps[i, CODE], steps[i, SLOTS]) != 0 or word_at(steps[i, PLACE]) != steps[i, WORD]:
            for j in range(i, -1, -1):
                if steps[j, UNDO_CODE] != 0:
                    call(steps[j, UNDO_CODE], steps[j, UNDO_SLOTS])
            return 0
    return 1


class Step(NamedTuple):
    """A call, and the word that shows its success."""

    call: Prepared
    word: int = 0
    """Expected as the result (0 if the kernel returns nothing), or as the first eight bytes of ``place``."""
    place: NDArray[Any] | None = None
    undo: Prepared | None = None
    """Undoes the step, and also what a failed one has done."""


class Chain(Prepared):
    """Calls the steps in order. If one fails, those before it are undone. No signal is handled in between."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__(run_steps, np.array([_words(step) for step in steps], dtype=np.int64))
        self._steps = steps  # keeps the arguments alive


def _words(step: Step) -> tuple[int, ...]:
    code, slots = step.call.address  # results stand first in the slots
    place = slots if step.place is None else step.place.ctypes.data
    return code, slots, place, step.word, *((0, 0) if step.undo is None else step.undo.address)
