"""Learning in the space of a kernel; it lives in ``onsketch.learners.kernel``."""

from onsketch.learners.kernel import (
    KERNELS,
    Kernel,
    RandomFourierFeatures,
    Study,
    effective_dimension,
    kernel_ridge,
    online_effective_dimension,
    regret,
    study,
)

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
