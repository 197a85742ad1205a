"""L. Luo, C. Chen, Z. Zhang, W.-J. Li, T. Zhang: Robust Frequent Directions with Application in Online Learning."""

from __future__ import annotations

from onsketch.experiments.luo2019 import accuracy, sensitivity, sketch_errors

EXPERIMENTS = (*sketch_errors.EXPERIMENTS, accuracy.EXPERIMENT, sensitivity.EXPERIMENT, sensitivity.ONLINE)
