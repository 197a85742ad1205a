"""The paper, and its data sets."""

from __future__ import annotations

from onsketch.experiments.design import Paper

PAPER = Paper(
    "luo2019",
    "L. Luo, C. Chen, Z. Zhang, W.-J. Li, T. Zhang. Robust Frequent Directions with Application in Online Learning. "
    "2019.",
)
SMALL, WIDE = ("a9a", "gisette", "sido0", "hiva"), ("farm-ads", "rcv1", "real-sim", "reuters")
SETS = (*SMALL, *WIDE)
"""Sets of the paper, with hiva as a possible stand-in for sido0, and reuters for rcv1 and real-sim."""
