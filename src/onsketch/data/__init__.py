"""Streams to learn from: files read in blocks, and synthetic streams.

Names are imported on first use: the readers import Numba, which takes half a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onsketch.data.block import Block, Position
    from onsketch.data.labels import LabelMap
    from onsketch.data.reading import Stream, stream
    from onsketch.data.synthetic import a9a_like, ill_conditioned, live_features, low_rank_regression, text_like
    from onsketch.data.writing import write
    from onsketch.rows.hashing import hash_name

__all__ = [
    "Block",
    "LabelMap",
    "Position",
    "Stream",
    "a9a_like",
    "hash_name",
    "ill_conditioned",
    "live_features",
    "low_rank_regression",
    "stream",
    "text_like",
    "write",
]

_HOMES = {
    "Block": "data.block",
    "LabelMap": "data.labels",
    "Position": "data.block",
    "Stream": "data.reading",
    "hash_name": "rows.hashing",
    "stream": "data.reading",
    "write": "data.writing",
}


def __getattr__(name: str) -> Any:
    """Import a name from the module that holds it."""
    if name in __all__:
        value = getattr(import_module(f"onsketch.{_HOMES.get(name, 'data.synthetic')}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'onsketch.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
