"""The data sets of the papers: their sources, known properties, and local copies.

A set is searched in the given folder, in ``$ONSKETCH_DATA`` and in the cache that ``onsketch data get`` fills,
under its published name or the other names listed, compressed or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError, suggestion
from onsketch.data.catalogue.pictures import PICTURES
from onsketch.data.catalogue.record import DataSet, File, cache, folders, found
from onsketch.data.catalogue.tables import TABLES

__all__ = ["CATALOGUE", "DataSet", "File", "cache", "entry", "found", "is_at_hand", "load", "pictures"]

CATALOGUE: Mapping[str, DataSet] = {entry.name: entry for entry in (*TABLES, *PICTURES)}
"""All sets by name. A name that ends in ``.t`` is the test part of the set before the dot."""


def entry(name: str) -> DataSet:
    """Return the set's entry, or raise an error with a suggestion.

    >>> entry("a9a").features
    123
    """
    if name not in CATALOGUE:
        hint = suggestion(name, CATALOGUE) or " 'onsketch data list' shows them."
        raise OptionError(f"there is no data set {name!r}.{hint}")
    return CATALOGUE[name]


def is_at_hand(name: str, given: Path | None = None) -> bool:
    """Return True if every file of the set is available."""
    if name in ("gisette-like", "gisette-like.t"):
        return is_at_hand("mnist", given)
    known = CATALOGUE.get(name)
    return known is not None and bool(known.files) and all(found(file, given) for file in known.files)


def load(name: str, given: Path | None = None) -> tuple[Any, NDArray[np.float64]]:
    """Return all rows of a set (CSR or dense), and its labels as −1 and +1.

    The sets are small enough to be held in memory; for larger files there is :func:`onsketch.data.stream`.
    """
    return _loaded(name, tuple(folders(given)), given)


def pictures(name: str, given: Path | None = None) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return pixels and labels of a set in MNIST's format, one row for each picture."""
    from onsketch.data import sets

    return sets.digits(list(_paths(entry(name), given)))


@lru_cache(maxsize=6)
def _loaded(name: str, _where: tuple[Path, ...], given: Path | None) -> tuple[Any, NDArray[np.float64]]:
    from onsketch.data import sets

    known = entry(name)
    if known.form == "made":
        images, digits = sets.digits(list(_paths(entry("mnist"), given)))
        return sets.gisette_like(images, digits, test=name.endswith(".t"))
    if known.form == "images":
        raise InputError(f"{name}: pictures for networks; see onsketch.torch.")
    return sets.read(known, list(_paths(known, given)))


def _paths(known: DataSet, given: Path | None) -> Iterator[Path]:
    for file in known.files:
        path = found(file, given)
        if path is None:
            places = ", ".join(str(folder) for folder in folders(given))
            raise InputError(
                f"{known.name}: {file.name} is in none of {places}. Get it with 'onsketch data get {known.name}', or "
                "say where it is with --data (or the environment variable ONSKETCH_DATA)."
            )
        yield path
