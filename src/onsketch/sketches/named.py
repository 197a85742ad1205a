"""Public sketches by their short names, for the program, clusters and model files; others may add theirs."""

from __future__ import annotations

from typing import NamedTuple

from onsketch import sketches as sketch
from onsketch.core.errors import OptionError
from onsketch.sketches.base import Sketch


class Named(NamedTuple):
    """A class of sketches, made by ``of(n_features, size)``, and whether its buffer is doubled by an argument."""

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
"""The sketches by their short names; those that can double their buffer do."""


def make(kind: str, n_features: int, size: int, shard: int = 0) -> Sketch:
    """An empty sketch by its short name, for a part of the rows: parts that are to be added draw independently."""
    if kind not in NAMED:
        raise OptionError(f"there is no sketch {kind!r}; the sketches are {', '.join(NAMED)}.")
    known = NAMED[kind]
    more = ({"doubling": True} if known.doubling else {}) | ({"seed": shard} if known.of.independent else {})
    return known.of(n_features, size, **more)  # type: ignore[call-arg]


def class_named(name: str) -> type[Sketch] | None:
    """The class of this name, of the package's own or of those that were added."""
    own = {thing: getattr(sketch, thing) for thing in sketch.__all__ if thing not in ("CUTOFF", "Sketch")}
    return ({known.of.__name__: known.of for known in NAMED.values()} | own).get(name)
