"""The contenders of the study: each gives the margins it predicts for a stream's rows before learning them.

A peer that returns no margin for a row (it diverged) counts as wrong there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

Contender = Callable[..., np.ndarray]
"""Of rows, labels and sample weights (None: all 1)."""

STEPS = tuple(10.0**k for k in np.arange(-4, 2.1, 0.5))
"""Step sizes among which AdaGrad and gradient descent are tuned in hindsight."""


def ours(method: str, X: Any, y: np.ndarray, weights: Any = None, **options: Any) -> np.ndarray:
    """A learner of this package; from the row on that it refuses, its margins are missing."""
    import onsketch
    from onsketch.errors import UpdateError

    options = {"loss": "logistic", "fit_intercept": True, **options}
    try:
        return onsketch.learner(method, **options).learn(X, y, weights)
    except UpdateError as error:
        margins = np.full(len(y), np.nan)
        margins[: len(error.predictions)] = error.predictions
        return margins


def tuned(method: str, X: Any, y: np.ndarray, weights: Any = None) -> np.ndarray:
    """Whichever step size made the fewest errors on this very stream."""
    runs = [ours(method, X, y, weights, step_size=step) for step in STEPS]
    return min(runs, key=lambda margins: np.count_nonzero(~(margins * y > 0)))


def write_vw(X: Any, y: np.ndarray, weights: Any, path: Path) -> None:
    """The rows as Vowpal Wabbit's text."""
    rows = sparse.csr_array(X)
    with path.open("w") as file:
        for i in range(rows.shape[0]):
            entries = slice(rows.indptr[i], rows.indptr[i + 1])
            pairs = zip(rows.indices[entries].tolist(), rows.data[entries].tolist(), strict=True)
            importance = "" if weights is None else f"{weights[i]:g} "
            file.write(f"{y[i]:g} {importance}| " + " ".join(map("%d:%.9g".__mod__, pairs)) + "\n")


def vowpal(options: str, X: Any, y: np.ndarray, weights: Any = None) -> np.ndarray:
    """Vowpal Wabbit on its own text, one pass; its progressive margins (as it ships: of the squared loss)."""
    with tempfile.TemporaryDirectory() as folder:
        data, margins = Path(folder) / "data", Path(folder) / "margins"
        write_vw(X, y, weights, data)
        bits = max(18, int(X.shape[1]).bit_length() + 1)
        command = [sys.executable, "-m", "vowpalwabbit", "--quiet", "-b", str(bits)]
        command += [*options.split(), "-d", str(data), "-p", str(margins)]
        subprocess.run(command, check=True, capture_output=True)
        return np.array([float(line.split()[0]) for line in margins.read_text().splitlines()])


LOGISTIC = "--loss_function logistic"

CONTENDERS: dict[str, Contender] = {
    "auto": partial(ours, "auto"),
    "VW": partial(vowpal, ""),
    "VW logistic": partial(vowpal, LOGISTIC),
    "VW --coin": partial(vowpal, f"{LOGISTIC} --coin"),
    "VW --OjaNewton": partial(vowpal, f"{LOGISTIC} --OjaNewton"),
    "adagrad tuned": partial(tuned, "adagrad"),
    "SGD tuned": partial(tuned, "ogd"),
}
PEERS = [name for name in CONTENDERS if name != "auto"]


def offline_logistic(X: Any, y: np.ndarray, X_new: Any) -> np.ndarray:
    """scikit-learn's logistic regression (C = 1) on features of unit deviation: margins of new rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, new = (sparse.csr_matrix(part) if sparse.issparse(part) else part for part in (X, X_new))
    model = make_pipeline(StandardScaler(with_mean=not sparse.issparse(X)), LogisticRegression(max_iter=300))
    return np.asarray(model.fit(rows, y).decision_function(new))


def offline_ridge(X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> np.ndarray:
    """scikit-learn's ridge regression (alpha = 1) with an intercept."""
    from sklearn.linear_model import Ridge

    return np.asarray(Ridge().fit(X, y).predict(X_new))
