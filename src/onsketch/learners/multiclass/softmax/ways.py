"""Which way to learn: a metric for each class, one sketch for all, or neither.

A stream does not say how wide it is, so this is decided anew before every row, from what has been seen up to and with
it, never from how the stream was cut into blocks:

* **few features**: a metric for each class, while K·(d + 1)² numbers are few;
* **wide**: no metric at all, once many features have been seen and rows have few of them;
* **dense**: one sketch for all classes, else.

There is no way back: few → dense → wide.
"""

from __future__ import annotations

from onsketch.jit.decorators import exact
from onsketch.learners.multiclass.softmax.state import TALLY

FEW = 700_000
"""K·(d + 1)² up to which each class has a metric."""
WIDE, SPARSE = 2000, 0.1
"""With more features, of which a row has a smaller share, a stream is wide; …"""
BROAD, SPARSER = 400, 0.02
"""… or with more than this, and a smaller share than this."""


@exact
def outgrown(common, capacity, slots, low, high):
    """Whether the present way (a metric for each class at capacity 0) is no longer the one for this row."""
    seen = common.tally[TALLY.seen]
    for j in range(low, high):
        seen = max(seen, slots[j] + 1)
    if capacity == 0:
        return common.tally[TALLY.classes] * (seen + 1.0) * (seen + 1.0) > FEW
    share = (common.tally[TALLY.nonzeros] + high - low) / ((common.tally[TALLY.rounds] + 1.0) * max(seen, 1))
    return (seen > WIDE and share < SPARSE) or (seen > BROAD and share < SPARSER)
