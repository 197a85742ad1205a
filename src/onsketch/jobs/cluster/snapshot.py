"""Learners and sketches as plain data, to travel between machines: what a model file holds, without the file."""

from __future__ import annotations

from typing import Any, NamedTuple

from onsketch.core import state
from onsketch.core.arrays import Arrays
from onsketch.files import model_file
from onsketch.learners.base import Learner


class Snapshot(NamedTuple):
    """The state of a learner or a sketch."""

    kind: str
    header: dict[str, Any]
    arrays: Arrays


def snapshot(thing: Any) -> Snapshot:
    """The state of this learner or sketch.

    >>> import onsketch
    >>> rebuilt(snapshot(onsketch.learner("adagrad")))
    <onsketch learner adagrad, 0 rounds, 0 features>
    """
    if isinstance(thing, Learner):
        return Snapshot("learner", thing._header(), thing._arrays())
    from onsketch.sketches.saving import arguments

    header = {"class": type(thing).__name__, "arguments": arguments(thing)}
    return Snapshot("sketch", header, state.pack(thing))


def rebuilt(taken: Snapshot) -> Any:
    """Build an independent learner or sketch in that state."""
    return model_file.build(model_file.Content(taken.kind, taken.header, taken.arrays, {}))
