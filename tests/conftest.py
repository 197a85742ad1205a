"""What all tests share."""

import os

# Bits are compared across processes, and sums by several BLAS threads have others; two test workers fill two cores.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, so that no deadline would mean anything.
settings.register_profile("onsketch", deadline=None, print_blob=True)
settings.load_profile("onsketch")


@pytest.fixture
def ten(tmp_path):
    """A file of ten rows of two classes."""
    path = tmp_path / "ten.svm"
    path.write_text("1 1:1 2:0.5\n-1 2:1\n" * 5)
    return path
