"""Kernel learners with rows in scales of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from onsketch.core.errors import OptionError
from onsketch.core.kernels import Kernel
from onsketch.learners.kernel.learner import KernelLearner
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import as_rows
from onsketch.learners.scaled.learner import Floats, ScaledLearner


class ScaledKernelLearner(ScaledLearner):
    """A kernel learner with rows and labels in scales of their own: so are the rows that it keeps."""

    def __init__(self, method: Method, options: Options) -> None:
        if not isinstance(options.kernel, str):
            raise OptionError("scaling: a kernel function takes rows as they come; leave scaling out.", scaling="none")
        super().__init__(method, options)

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def _kernel_learner(self) -> KernelLearner:
        assert isinstance(self._inner, KernelLearner)
        return self._inner

    @property
    def kernel(self) -> Kernel:
        """The kernel, of rows in scales."""
        return self._kernel_learner.kernel

    def expansion(self) -> tuple[Any, Floats]:
        """The rows kept, in scales, and their coefficients."""
        return self._kernel_learner.expansion()

    def diagnostics(self) -> dict[str, float]:
        """Figures about the state, by name."""
        return self._kernel_learner.diagnostics()

    def history(self) -> dict[str, Floats]:
        """How the dictionary grew."""
        return self._kernel_learner.history()

    def in_scales(self, X: Any, y: Any) -> tuple[KernelLearner, Any, Floats]:
        """Return the learner of scaled rows, and these rows and labels in the scales in use."""
        from scipy import sparse

        rows = self._stage.scaled(as_rows(X, self.options.n_features), shared=False)
        csr = sparse.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.count, rows.n_features))
        return self._kernel_learner, csr, self._stage.scaled_labels(np.asarray(y, np.float64)[:, None])[:, 0]
