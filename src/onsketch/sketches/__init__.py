"""Summaries of a stream of rows: a small matrix ``B`` with ``BᵀB (+ ridge·I) ≈ AᵀA``.

``A`` is the matrix of all rows seen so far. Sketches know nothing of learners: they absorb rows
(`update`), show the small matrix (`matrix`, `ridge`, `spectrum`) and add up over workers (`merge`).

All sketches of the frequent-directions family are one mechanism with one rule each: see
`onsketch.sketches.shrinking`.
"""

from onsketch.core.tolerances import CUTOFF
from onsketch.sketches.base import Sketch
from onsketch.sketches.exact import Diagonal, Exact
from onsketch.sketches.frequent_directions import (
    CompensativeFrequentDirections,
    FastFrequentDirections,
    FastRobustFrequentDirections,
    FrequentDirections,
    FrobeniusFrequentDirections,
    GreedyTruncation,
    ParameterizedFrequentDirections,
    RobustFrequentDirections,
)
from onsketch.sketches.oja import Oja
from onsketch.sketches.random_projection import RandomProjection
from onsketch.sketches.row_sampling import RowSampling

__all__ = [
    "CUTOFF",
    "CompensativeFrequentDirections",
    "Diagonal",
    "Exact",
    "FastFrequentDirections",
    "FastRobustFrequentDirections",
    "FrequentDirections",
    "FrobeniusFrequentDirections",
    "GreedyTruncation",
    "Oja",
    "ParameterizedFrequentDirections",
    "RandomProjection",
    "RobustFrequentDirections",
    "RowSampling",
    "Sketch",
]
