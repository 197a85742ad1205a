"""Streams of the experiments by name: synthetic ones, and available data sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError

Array = NDArray[np.float64]

STAND_INS = {"gisette": "gisette-like"}
"""Substitutes for absent sets; always shown under their own names."""


class Data(NamedTuple):
    """Rows to learn, and test rows if there are any."""

    X: Any
    y: Array
    test_X: Any = None
    test_y: Array | None = None


class Sources:
    """Sources of the streams: a folder of data sets, or none.

    >>> Sources().stream("ill_conditioned", rows=100, condition=50.0).X.shape
    (100, 100)
    """

    def __init__(self, folder: Path | None = None, networks: Path = Path("cnn/runs.jsonl")) -> None:
        self.folder = folder
        self.networks = networks
        """Runs of the CNN study, for the figures on networks."""
        self._kept: dict[str, Data] = {}
        self._lock = Lock()

    def has(self, name: str) -> bool:
        """Return True if the set is available."""
        from onsketch.data.catalogue import is_at_hand

        return is_at_hand(name, self.folder)

    def best(self, name: str) -> str | None:
        """Return the set itself, else its stand-in, else None."""
        for candidate in (name, STAND_INS.get(name)):
            if candidate is not None and self.has(candidate):
                return candidate
        return None

    def among(self, *names: str) -> list[str]:
        """Return the available sets, stand-ins under their own names."""
        return [found for name in names if (found := self.best(name)) is not None]

    def stream(self, name: str, **options: Any) -> Data:
        """Return a stream by name and options; the last three are cached."""
        key = json.dumps([name, options], sort_keys=True)
        with self._lock:
            if key not in self._kept:
                if len(self._kept) >= 3:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = self._make(name, options)
            return self._kept[key]

    def pictures(self, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return pixels and labels of a set of pictures, one row for each."""
        from onsketch.data.catalogue import pictures

        return pictures(name, self.folder)

    def _make(self, name: str, options: Mapping[str, Any]) -> Data:
        from onsketch.data import synthetic

        if name == "ill_conditioned":
            X, y = synthetic.ill_conditioned(options["rows"], 100, options["condition"], seed=options.get("seed", 0))
            return Data(X, y)
        if name == "low_rank_regression":
            X, y = synthetic.low_rank_regression(
                options["rows"], options["dimension"], seed=options.get("data_seed", 0)
            )
            return Data(X, y)
        return self._from_set(name, **options)

    def _from_set(
        self, name: str, seed: int = 0, rows: int | None = None, train_share: float | None = None,
        scaled: bool = False,
    ) -> Data:  # fmt: skip
        from onsketch.data.catalogue import load

        X, y = load(name, self.folder)
        if scaled:
            X = _scaled(X)
        order = np.random.default_rng(seed).permutation(len(y))
        if rows is not None:
            order = order[:rows]
        if train_share is not None:
            train, test = np.split(order, [round(train_share * len(order))])
            return Data(X[train], y[train], X[test], y[test])
        if self.has(f"{name}.t"):
            test_X, test_y = load(f"{name}.t", self.folder)
            if test_X.shape[1] != X.shape[1]:
                raise InputError(f"{name}: training rows have {X.shape[1]} features, test rows {test_X.shape[1]}.")
            return Data(X[order], y[order], test_X, test_y)
        return Data(X[order], y[order])


def _scaled(X: Any) -> Any:
    """Map dense columns to −1..1, as LIBSVM's own scaled versions do; sparse rows are unchanged."""
    if hasattr(X, "multiply"):
        return X
    low, high = X.min(axis=0), X.max(axis=0)
    return 2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0
