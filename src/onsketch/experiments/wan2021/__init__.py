"""Y. Wan, L. Zhang: Efficient Adaptive Online Learning via Frequent Directions, 2021 (Ada-FD and Ada-FFD)."""

from __future__ import annotations

from onsketch.experiments.wan2021 import classification, cnn, jump, regret, sketch_size

EXPERIMENTS = (
    *regret.EXPERIMENTS, sketch_size.EXPERIMENT, jump.EXPERIMENT, classification.EXPERIMENT, cnn.SMALL, cnn.FINE_TUNING,
)  # fmt: skip
