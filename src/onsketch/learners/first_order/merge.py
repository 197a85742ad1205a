"""Merging learners that keep a few numbers per feature: two tables and that of their base become one.

Everything that is a sum over rounds (energies E, ḡ, FTRL's z and n, sums of iterates, the rounds themselves)
adds up, with the base counted once: ``a + b − base``. For dual averaging and FTRL-proximal that is all.

Weights reached by steps are merged feature by feature, by the rules of ``learners.merging``. By precision for Newton
(``H = ridge + E``) and AROW (``1 + E``): M_0 is H of the base and ``K_i = s_i (H_i − H_0)``. With s = 1 that is
``(H_a w_a + H_b w_b − H_0 w_0)/(H_a + H_b − H_0)``, the exact rule of quadratic losses; for gradient rows s is the
weight of their energy (``setup.knowledge``). By mean for all others, with ``M_i = H_i − H_0``: ``H = ridge + √E`` for
AdaGrad, the averaging of Vowpal Wabbit (Agarwal, Chapelle, Dudík and Langford 2014) with a base. Gradient descent and
Adam have no metric that grows with the data: there H is the number of rounds, which is the mixing of parameters of
Zinkevich, Weimer, Smola and Li (2010). Adam's moments are means over the recent past, and become the mean of both
learners' by rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onsketch.core.geometry import geometry_of
from onsketch.learners.first_order.rules import ADAM
from onsketch.learners.first_order.steps import CELL, Terms
from onsketch.learners.merging import Metric, by_fisher_weight, by_mean
from onsketch.learners.methods import Method

Floats = NDArray[np.float64]


def precision(method: Method, terms: Terms, table: Floats, rounds: int) -> Floats:
    """H of each feature, as a learner's weights are trusted in a merge."""
    if method.moves.unit_metric:
        return 1.0 + table[:, CELL.energy]
    geometry = geometry_of(method.geometry)
    if not geometry.spectral:
        return np.full(len(table), float(rounds))
    return np.array(geometry.metrics(table[:, CELL.energy], terms.ridge))


def merged(
    method: Method, terms: Terms, dual: bool, tables: Floats, rounds: list[int], worth: Sequence[float] = (1.0, 1.0)
) -> Floats:
    """The table of both learners together, given those of the two and of their base over the same features.

    The tables are up to date, with whole sums of iterates. Dual averaging and FTRL are ``dual``; ``worth`` are the s
    of Newton learners.
    """
    a, b, base = tables
    table: Floats = a + b - base
    if dual:
        return table
    trust = [precision(method, terms, part, t) for part, t in zip(tables, rounds, strict=True)]
    gained = [np.maximum(part - trust[2], 0.0) for part in trust[:2]]
    moved = [part[:, CELL.head] - base[:, CELL.head] for part in (a, b)]
    nothing = np.zeros((0, len(base)))
    if geometry_of(method.geometry).newton:
        known = [Metric(s * part, nothing) for s, part in zip(worth, gained, strict=True)]
        way = by_fisher_weight(Metric(trust[2], nothing), known, moved)
    else:
        way = by_mean([Metric(part, nothing) for part in gained], moved)
    weights = base[:, CELL.head] + way
    table[:, CELL.head] = np.clip(weights, terms.low, terms.high)
    if method.moves.moments:
        of_a = rounds[0] / max(rounds[0] + rounds[1], 1)
        for moment in (ADAM.first, ADAM.second):
            table[:, moment] = of_a * a[:, moment] + (1.0 - of_a) * b[:, moment]
    else:
        table[:, CELL.energy] = np.maximum(table[:, CELL.energy], 0.0)
    return table
