"""A kernel learner by its method."""

from __future__ import annotations

from onsketch.learners.kernel.gradient import KernelGradient
from onsketch.learners.kernel.learner import KernelLearner
from onsketch.learners.kernel.newton import KernelNewton
from onsketch.learners.kernel.projected import ProjectedNewton
from onsketch.learners.methods import Method
from onsketch.learners.options import Options


def kernel_learner(method: Method, options: Options) -> KernelLearner:
    """The learner of this method with these options."""
    if method.geometry == "gradient":
        return KernelGradient(method, options)
    if method.rule == "pros-n-kons":
        return ProjectedNewton(method, options)
    return KernelNewton(method, options)
