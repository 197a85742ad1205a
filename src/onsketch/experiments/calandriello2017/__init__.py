"""D. Calandriello, A. Lazaric, M. Valko: Second-Order Kernel Online Convex Optimization with Adaptive Sketching, 2017.

The paper has theorems and no experiments: these check the statements of the theorems.
"""

from __future__ import annotations

from onsketch.experiments.calandriello2017 import adversary, floor, regret

EXPERIMENTS = (regret.EXPERIMENT, floor.EXPERIMENT, adversary.EXPERIMENT)
