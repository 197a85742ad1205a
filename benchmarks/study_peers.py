"""The contenders of the study: each gives the margins it predicts for a set's rows before learning them.

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

Contender = Callable[[Any, np.ndarray], np.ndarray]

STEPS = tuple(10.0**k for k in np.arange(-5, 2.1, 0.5))
"""Step sizes among which adagrad is tuned in hindsight."""


def ours(method: str, X: Any, y: np.ndarray, **options: Any) -> np.ndarray:
    """A learner of this package; from the row on that it refuses, its margins are missing."""
    import onsketch
    from onsketch.errors import UpdateError

    try:
        return onsketch.learner(method, loss="logistic", fit_intercept=True, **options).learn(X, y)
    except UpdateError as error:
        margins = np.full(len(y), np.nan)
        margins[: len(error.predictions)] = error.predictions
        return margins


def tuned_adagrad(X: Any, y: np.ndarray) -> np.ndarray:
    """Adagrad with whichever step size made the fewest errors on this very stream."""
    runs = [ours("adagrad", X, y, step_size=step) for step in STEPS]
    return min(runs, key=lambda margins: np.count_nonzero(~(margins * y > 0)))


def write_vw(X: Any, y: np.ndarray, path: Path) -> None:
    """The rows as Vowpal Wabbit's text."""
    rows = sparse.csr_array(X)
    with path.open("w") as file:
        for i in range(rows.shape[0]):
            entries = slice(rows.indptr[i], rows.indptr[i + 1])
            pairs = zip(rows.indices[entries].tolist(), rows.data[entries].tolist(), strict=True)
            file.write(f"{y[i]:g} | " + " ".join(map("%d:%.9g".__mod__, pairs)) + "\n")


def vowpal(options: str, X: Any, y: np.ndarray) -> np.ndarray:
    """Vowpal Wabbit on its own text, one pass; its progressive margins (as it ships: of the squared loss)."""
    with tempfile.TemporaryDirectory() as folder:
        data, margins = Path(folder) / "data", Path(folder) / "margins"
        write_vw(X, y, data)
        bits = max(18, int(X.shape[1]).bit_length() + 1)
        command = [sys.executable, "-m", "vowpalwabbit", "--quiet", "-b", str(bits)]
        command += [*options.split(), "-d", str(data), "-p", str(margins)]
        subprocess.run(command, check=True, capture_output=True)
        return np.array([float(line.split()[0]) for line in margins.read_text().splitlines()])


def sgd_classifier(X: Any, y: np.ndarray) -> np.ndarray:
    """scikit-learn's SGDClassifier as it comes (hinge loss, "optimal" schedule), a row at a time."""
    from sklearn import config_context
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(random_state=0)
    rows = sparse.csr_matrix(X) if sparse.issparse(X) else X
    margins = np.zeros(len(y))
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for i in range(len(y)):
            row = rows[i : i + 1]
            if i:
                weights = model.coef_[0]
                if sparse.issparse(row):
                    margins[i] = row.data @ weights[row.indices] + model.intercept_[0]
                else:
                    margins[i] = row[0] @ weights + model.intercept_[0]
            model.partial_fit(row, y[i : i + 1], classes=[-1.0, 1.0])
    return margins


LOGISTIC = "--loss_function logistic"

CONTENDERS: dict[str, Contender] = {
    "auto": partial(ours, "auto"),
    "rfd-son": partial(ours, "rfd-son"),
    "oja-son": partial(ours, "oja-son"),
    "ada-ffd": partial(ours, "ada-ffd"),
    "adagrad": partial(ours, "adagrad"),
    "adagrad tuned": tuned_adagrad,
    "VW": partial(vowpal, ""),
    "VW logistic": partial(vowpal, LOGISTIC),
    "VW --coin": partial(vowpal, f"{LOGISTIC} --coin"),
    "VW --OjaNewton": partial(vowpal, f"{LOGISTIC} --OjaNewton"),
    "SGDClassifier": sgd_classifier,
}
