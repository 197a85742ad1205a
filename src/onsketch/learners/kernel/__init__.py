"""Learning in the space of a kernel: the function f(x) = Σ a_s k(x_s, x) takes the place of the weights.

The learners are made by :func:`onsketch.learner` (``kons``, ``sketched-kons``, ``pros-n-kons``, ``kernel-ogd``,
``budget-kernel-ogd``). Here are what they are made of, and what helps to judge them: random Fourier features, which
let any linear method see a kernel, effective dimensions, and the regret against kernel ridge regression.
"""

from onsketch.core.kernels import KERNELS, Kernel
from onsketch.learners.kernel.diagnostics import effective_dimension, kernel_ridge, online_effective_dimension, regret
from onsketch.learners.kernel.fourier import RandomFourierFeatures
from onsketch.learners.kernel.study import Study, study

__all__ = [
    "KERNELS",
    "Kernel",
    "RandomFourierFeatures",
    "Study",
    "effective_dimension",
    "kernel_ridge",
    "online_effective_dimension",
    "regret",
    "study",
]
