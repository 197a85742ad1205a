"""Functions that the driver calls on a sketch, chosen at compile time by the type of the sketch's state.

A sketch's state is a subclass of ``State`` (state.py). Its module registers ``metric``, ``absorb`` and ``write`` (see
driver.py) with ``register_parts``. It also registers ``enter``, if a new feature has entries in the sketch's rows,
``prepare``, if ``metric`` and ``absorb`` share their first part, ``follow_ridge``, if something depends on the ridge,
and ``measure``, if it keeps small matrices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onsketch.jit.by_type import chosen_by_type


class Verdicts(NamedTuple):
    """Result of ``absorb``."""

    absorbed: int
    """done"""
    full: int
    """done, and the transform is to be applied after the row is written"""
    full_before: int
    """done, and the transform is to be applied before the row is written"""
    refused: int
    """not finite, nothing changed"""


VERDICT = Verdicts(*range(4))


def register_parts(state: type, **parts: Any) -> None:
    """Have the driver use these functions for sketches with this type of state."""
    for part, function in parts.items():
        _parts[part][state] = function


def enter(setup, table, sketch, slot):
    """Add a new feature; return the weight that its row of S implies, which is not stored yet."""
    return 0.0


def prepare(setup, sketch, p):
    """Compute what ``metric`` and ``absorb`` share, from the row gathered in p; the ridge is final for this round."""


def metric(setup, sketch, p, square, q):
    """Return c and fill q such that ``P x = c·x + Sᵀq`` for the current row, gathered in p, with x·x = square."""


def absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    """Absorb the row ρ·x of round t, with gradient g·x and margin w·x; return a verdict.

    It changes a, and writes into ``change`` the multiple of x to add to the head and to each sketch column. The head's
    entry already holds the part of the projection; a sketch that changes all its rows also corrects the sum. The row is
    refused if a number would exceed ``limit``.
    """


def write(table, sketch, slots, x, change, following):
    """Add x_i·change to the packed rows of these slots, as far as the sketch uses them; ``following`` come next."""


def follow_ridge(setup, sketch):
    """Update what the sketch has computed from the ridge, which has been raised."""


def measure(setup, table, sketch):
    """Compute the small matrices from the rows of S, all of which are up to date and outside of a buffer."""


_parts = {part.__name__: chosen_by_type(part) for part in (metric, absorb, write)}
# A sketch without one of these has nothing to do there, as their bodies above.
_parts |= {part.__name__: chosen_by_type(part, otherwise=True) for part in (enter, prepare, follow_ridge, measure)}
