"""Functions that the driver calls on a sketch, chosen at compile time by the type of the sketch's state.

A sketch's state is a subclass of ``State`` (state.py). Its module registers ``metric``, ``absorb`` and ``write`` (see
driver.py) with ``register_parts``. It also registers ``enter``, if a new feature has entries in the sketch's rows,
``prepare``, if ``metric`` and ``absorb`` share their first part, ``follow_ridge``, if something depends on the ridge,
and ``measure``, if it keeps small matrices.
"""

from __future__ import annotations

from collections.abc import Callable
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

_parts: dict[str, dict[type, Callable[..., Any]]] = {}


def _nothing_to_enter(setup, table, sketch, slot):
    return 0.0


def _nothing_to_prepare(setup, sketch, p):
    pass


def _nothing_to_follow(setup, sketch):
    pass


def _nothing_to_measure(setup, table, sketch):
    pass


def register_parts(
    state: type,
    *,
    metric: Any,
    absorb: Any,
    write: Any,
    enter: Any = _nothing_to_enter,
    prepare: Any = _nothing_to_prepare,
    follow_ridge: Any = _nothing_to_follow,
    measure: Any = _nothing_to_measure,
) -> None:
    """Have the driver use these compiled functions for sketches with this type of state."""
    registered = {
        "enter": enter,
        "prepare": prepare,
        "metric": metric,
        "absorb": absorb,
        "write": write,
        "follow_ridge": follow_ridge,
        "measure": measure,
    }
    for part, function in registered.items():
        _parts[part][state] = function


def enter(setup, table, sketch, slot):
    """Add a new feature; return the weight that its row of S implies, which is not stored yet."""


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


for _part in (enter, prepare, metric, absorb, write, follow_ridge, measure):
    _parts[_part.__name__] = chosen_by_type(_part)
