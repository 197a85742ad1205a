"""Forgetting: the metric decays, so that the learner follows a drifting stream.

With λ = ``forget`` the metric of a frequent-directions learner is

    A_t = λ·A_{t−1} + (the row of round t),

its ridge included, until the sketch is full. After a shrink ``A = ridge·I + SᵀS``, with the ridge moved back towards
its start: ``ridge ← ridge₀ + fade·(ridge − ridge₀)``, ``S ← √fade·S``, where ``fade`` is the product of the λ since the
last shrink. The ridge must not decay to zero: without new rows to raise it, steps would grow without bound (the
*wind-up* of recursive least squares with forgetting). The steps through A are those of a learner that minimises Σ_s
λ^{t−s} ℓ_s, so the weights forget without being shrunk. A ridge that was not given starts at 1, and the row after a
shrink raises it again to what all rows so far need: their mean length does not decay.

Between shrinks nothing is rescaled: A = fade·(what is stored), so that a row is stored as x/√fade, a step is divided by
fade, and absent features need no update. O(1) a round, O(m²) a shrink.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import inner
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE


@inner
def write_fade(setup, sketch):
    """Write what forgetting has left into a sketch that has just shrunk, and into its pending change of basis."""
    fade = sketch.numbers[NUMBER.fade]
    kept = sketch.counts[COUNT.rows]
    ridge = setup.ridge + fade * (sketch.numbers[NUMBER.ridge] - setup.ridge)
    sketch.numbers[NUMBER.ridge] = ridge
    sketch.numbers[NUMBER.escaped] *= fade
    sketch.numbers[NUMBER.fade] = 1.0
    for i in range(sketch.transform.shape[0]):
        for e in range(kept):
            sketch.transform[i, e] *= math.sqrt(fade)
    for e in range(kept):
        energy = fade * sketch.squares[SQUARE.gram, e, e]
        sketch.squares[SQUARE.gram, e, e] = energy
        sketch.lines[LINE.values, e] = energy
        if ridge > 0.0:
            sketch.squares[SQUARE.inverse, e, e] = 1.0 / (ridge + energy)
