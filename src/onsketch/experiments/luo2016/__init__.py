"""H. Luo, A. Agarwal, N. Cesa-Bianchi, J. Langford: Efficient Second Order Online Learning by Sketching, 2016."""

from __future__ import annotations

from onsketch.experiments.luo2016 import condition, real_data, recovery

EXPERIMENTS = (condition.EXPERIMENT, recovery.EXPERIMENT, real_data.EXPERIMENT, real_data.AS_PROGRAMMED)
