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
    """Work out what ``metric`` and ``absorb`` both need of the row gathered in p; the ridge is what it will be."""


def metric(setup, sketch, p, square, q):
    """``P x = c·x + Sᵀq`` for the current row, gathered in p, with x·x = square; returns c and fills q."""


def absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    """Take in the row ρ·x of round t, whose gradient is g·x and whose margin w·x; returns a verdict.

    Changes a, writes what to add along x to the head and the sketch columns into ``change`` (whose head already
    holds the projection's part; a sketch that moves all its rows corrects the sum too), and refuses when something
    would exceed ``limit``.
    """


def write(table, sketch, slots, x, change, following):
    """Add x_i·change to the packed rows of these slots, as far as the sketch uses them; ``following`` come next."""


def follow_ridge(setup, sketch):
    """The ridge has been raised: bring what the sketch has computed from it up to date."""


def measure(setup, table, sketch):
    """Compute the small matrices from the rows of S, all of which are up to date and outside of a buffer."""


_parts = {part.__name__: chosen_by_type(part) for part in (metric, absorb, write)}
# A sketch without one of these has nothing to do there, as their bodies above.
_parts |= {part.__name__: chosen_by_type(part, otherwise=True) for part in (enter, prepare, follow_ridge, measure)}
