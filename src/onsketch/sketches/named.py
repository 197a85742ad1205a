"""Public sketches by their short names, for the program, clusters and model files; extensible."""

from __future__ import annotations

from typing import NamedTuple

from onsketch import sketches as sketch
from onsketch.core.errors import OptionError
from onsketch.sketches.base import Sketch


class Named(NamedTuple):
    """Class of sketches, made by ``of(n_features, size)``; an argument may double its buffer."""

    of: type[Sketch]
    doubling: bool = False


NAMED: dict[str, Named] = {
    "fd": Named(sketch.FrequentDirections),
    "fast-fd": Named(sketch.FastFrequentDirections),
    "rfd": Named(sketch.RobustFrequentDirections),
    "fast-rfd": Named(sketch.FastRobustFrequentDirections),
    "cfd": Named(sketch.CompensativeFrequentDirections, doubling=True),
    "pfd": Named(sketch.ParameterizedFrequentDirections, doubling=True),
    "rp": Named(sketch.RandomProjection),
    "oja": Named(sketch.Oja),
}
"""Sketches by their short names."""


def make(kind: str, n_features: int, size: int, shard: int = 0) -> Sketch:
    """Return an empty sketch by its short name, for one shard of the rows; shards draw independently."""
    if kind not in NAMED:
        raise OptionError(f"there is no sketch {kind!r}; the sketches are {', '.join(NAMED)}.")
    known = NAMED[kind]
    more = ({"doubling": True} if known.doubling else {}) | ({"seed": shard} if known.of.independent else {})
    return known.of(n_features, size, **more)  # type: ignore[call-arg]


def class_named(name: str) -> type[Sketch] | None:
    """Return the class of this name, of the package itself or registered."""
    own = {thing: getattr(sketch, thing) for thing in sketch.__all__ if thing not in ("CUTOFF", "Sketch")}
    return ({known.of.__name__: known.of for known in NAMED.values()} | own).get(name)
