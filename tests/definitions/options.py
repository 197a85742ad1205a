"""Options and results of a definition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class Result(NamedTuple):
    """The clipped margins predicted before each update, and the unprojected weights after the last round."""

    predictions: Array
    weights: Array


@dataclass(frozen=True)
class Options:
    """Options of a run, with the library's names; ``None`` and "default" mean as in the library."""

    sketch: str = "none"
    geometry: str = "ogd"
    loss: str = "squared"
    quantile: float = 0.5
    epsilon: float = 0.1
    sketch_size: int = 20
    ridge: float = 1.0
    ridge_share: float = 0.0
    step_size: float = 1.0
    clip: float | str | None = "default"
    projection: str | None = None
    curvature: float | None = None
    curvature_schedule: str | None = None
    summary: str = "gradient"
    update: str = "mirror"
    doubling: bool = True
    diagonal: bool = False
    diagonal_first: bool = False
    oja_step: float | None = None
    oja_block: int = 1
    shrink_fraction: float = 0.2
    l1: float = 0.0
    l2: float = 0.0
    box: tuple[float, float] | None = None
    average: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    seed: int = 0
    sample_weight: ArrayLike | None = None
    Pi: Array | None = None

    @property
    def bound(self) -> float:
        """C: by default 1 for Newton methods, none (infinity) for the others."""
        if self.clip == "default":
            return 1.0 if self.geometry == "newton" else math.inf
        return math.inf if self.clip is None else float(self.clip)

    @property
    def projects_before(self) -> bool:
        """Whether the clip is heeded before a prediction; without a ridge RFD heeds it after a step."""
        robust = self.sketch == "rfd" and self.ridge == 0 and self.update == "mirror" and not self.diagonal_first
        return self.projection == "before" or (self.projection is None and not robust)

    @property
    def composite(self) -> bool:
        """Whether a step ends with a proximal map."""
        return self.l1 != 0 or self.l2 != 0 or self.box is not None


def schedule(o: Options, t: int) -> float:
    """``η_t``: 0, 1/t or 1/√t; by default 1/√t for a loss without curvature, 1/t at ridge 0, else 0."""
    name = o.curvature_schedule
    if name is None:
        straight = o.loss in ("absolute", "hinge", "quantile", "huber", "epsilon_insensitive")
        name = "1/sqrt(t)" if straight else "1/t" if o.ridge == 0 else "none"
    return {"none": 0.0, "1/t": 1 / t, "1/sqrt(t)": 1 / math.sqrt(t)}[name]


def rounds(X: ArrayLike, y: ArrayLike, o: Options) -> Iterator[tuple[int, Array, float, float]]:
    """(t, x_t, y_t, sample weight), t from 1."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    weight = np.ones(len(y)) if o.sample_weight is None else np.asarray(o.sample_weight, dtype=float)
    for t in range(1, len(y) + 1):
        yield t, X[t - 1], float(y[t - 1]), float(weight[t - 1])


def result(predictions: list[float], iterates: list[Array], o: Options) -> Result:
    """The last iterate, or the mean of ``u_2 .. u_{T+1}``; ``iterates`` starts with ``u_1``."""
    average = o.average and len(iterates) > 1
    return Result(np.array(predictions), np.mean(iterates[1:], axis=0) if average else iterates[-1])
