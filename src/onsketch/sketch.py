"""Summaries of a stream of rows; they live in ``onsketch.sketches``."""

from onsketch.sketches import (
    CUTOFF,
    CompensativeFrequentDirections,
    Diagonal,
    Exact,
    FastFrequentDirections,
    FastRobustFrequentDirections,
    FrequentDirections,
    FrobeniusFrequentDirections,
    GreedyTruncation,
    Oja,
    ParameterizedFrequentDirections,
    RandomProjection,
    RobustFrequentDirections,
    RowSampling,
    Sketch,
)

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
