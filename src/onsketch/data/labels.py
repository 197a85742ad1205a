"""Conversion of file labels to the −1 and +1 of classification losses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError

Floats = NDArray[np.float64]


class LabelMap:
    """Map from labels to −1/+1 that treats each label on its own, so that the order of rows does not matter.

    ================  =====================================================================================
    ``positive``      rule
    ================  =====================================================================================
    left out          +1 stays, −1 stays, 0 becomes −1; anything else is an error that asks for ``positive``,
                      and so is a stream with both 0 and −1, which has three classes
    a label           that label becomes +1, every other −1
    ================  =====================================================================================

    So {1, 2} needs ``positive=2`` (or 1): for a stream that begins with 1s, their meaning is unknown otherwise.

    >>> import numpy as np
    >>> LabelMap()(np.array([0.0, 1.0])), LabelMap(positive=2)(np.array([1.0, 2.0, 3.0]))
    (array([-1.,  1.]), array([-1.,  1., -1.]))
    """

    def __init__(self, positive: float | None = None) -> None:
        self.positive = positive
        self._negative: float | None = None

    def __call__(self, labels: Floats) -> Floats:
        """Return the labels as −1 and +1; a missing label (NaN) stays missing."""
        labels = np.asarray(labels, dtype=np.float64)
        missing = np.isnan(labels)
        if self.positive is not None:
            return np.where(missing, np.nan, np.where(labels == self.positive, 1.0, -1.0))
        strange = ~missing & ~np.isin(labels, (-1.0, 0.0, 1.0))
        if strange.any():
            raise InputError(
                f"label {labels[strange][0]:g}: only -1/+1 and 0/1 say which class is positive. "
                f"Name it: positive={labels[strange][0]:g}.",
                positive=float(labels[strange][0]),
            )
        for negative in (-1.0, 0.0):
            if (labels == negative).any():
                if self._negative not in (None, negative):
                    raise InputError(
                        "labels -1, 0 and 1 in one stream are three classes. Name the positive one: positive=1.",
                        positive=1,
                    )
                self._negative = negative
        return np.where(missing, np.nan, np.where(labels == 1.0, 1.0, -1.0))
