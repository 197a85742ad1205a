"""A geometry that the package does not know, as another package would add it: this file is all there is to it."""

import math

from onsketch.core.geometry import Geometry, register


def _metric(energy, ridge, escaped):
    return ridge + math.sqrt(math.sqrt(energy))


QUARTIC = register(Geometry("quartic", _metric, "p(λ) = 1/(ridge + λ^¼)"))
