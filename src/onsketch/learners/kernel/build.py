"""The class of a kernel learner, by its method."""

from __future__ import annotations

from onsketch.learners.kernel.gradient import KernelGradient
from onsketch.learners.kernel.learner import KernelLearner
from onsketch.learners.kernel.newton import KernelNewton
from onsketch.learners.kernel.projected import ProjectedNewton
from onsketch.learners.methods import Method


def kernel_class(method: Method) -> type[KernelLearner]:
    """The class of learners of this method."""
    if method.geometry == "gradient":
        return KernelGradient
    return ProjectedNewton if method.moves.projects else KernelNewton
