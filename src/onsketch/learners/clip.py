"""The clip: predictions stay within ±C, and the weights follow by the shortest move in the learner's metric.

With P the inverse of the metric, the w nearest to u with ``|w·x| ≤ C`` is ``u − γ·P x`` with ``γ = (u·x ∓ C)/(x·P x)``:
Haipeng Luo et al., "Efficient second order online learning by sketching", NIPS 2016, lemma 1. Learners compute P x
in their own ways (sketch rows, a number per feature, a factor of A⁻¹, a kernel). The functions here give the length γ.

>>> clipped(3.0, 1.0), shortest_move(3.0, 1.0, 4.0)
(1.0, 0.5)
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import inlined, inner


@inlined
def clipped(margin, bound):
    """The margin, or the bound that it is beyond."""
    return min(max(margin, -bound), bound)


@inlined
def shortest_move(margin, bound, length):
    """γ for a margin beyond the bound, given ``length = x·P x`` above 0; where that is 0, nothing can move."""
    return (margin - bound if margin > 0.0 else margin + bound) / length


@inner
def limited_step(setup, margin, g, leverage):
    """Return the length s of the step ``w ← w − s·P x`` for the gradient g·x, with leverage = x·Px.

    It is η·g. With ``projection="after"`` (luo2019, Algorithm 6) the step is followed by the projection on |w·x| ≤ C
    for the same row; both move along P x, so together they are one step that stops when the margin reaches ±C.
    """
    step = setup.step * g
    if setup.reach == math.inf:
        return step
    if not leverage > 0.0:
        return 0.0
    return (margin - clipped(margin - step * leverage, setup.reach)) / leverage
