"""What all tests share."""

import os

# Bits are compared across processes, and sums by several BLAS threads have others; two test workers fill two cores.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from hypothesis import settings

# The first call of a kernel compiles it, so that no deadline would mean anything.
settings.register_profile("onsketch", deadline=None, print_blob=True)
settings.load_profile("onsketch")
