"""On raw real sets the tuning-free learner is ahead of AdaGrad tuned in hindsight, nearly whatever the units."""

from __future__ import annotations

import lzma

import numpy as np
import pytest
from scipy.sparse import csr_array, diags_array

import onsketch
from checkout import DATA
from onsketch.errors import UpdateError


def read(name: str) -> tuple[csr_array, np.ndarray]:
    path = DATA / f"{name}.xz"
    if not path.exists():
        pytest.skip(f"{path.name} is not there; set ONSKETCH_DATA to the folder of data sets")
    labels, indices, values, indptr = [], [], [], [0]
    for line in lzma.decompress(path.read_bytes()).decode().splitlines()[:20_000]:
        label, *words = line.split()
        labels.append(float(label))
        pairs = [word.split(":") for word in words]
        indices += [int(key) - 1 for key, _ in pairs]
        values += [float(value) for _, value in pairs]
        indptr.append(len(indices))
    order = np.random.default_rng(0).permutation(len(labels))
    y = np.where(np.array(labels) == max(labels), 1.0, -1.0)
    return csr_array((values, indices, indptr))[order], y[order]


def error(margins: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(~(margins * y > 0)))


def adagrad(X: csr_array, y: np.ndarray, step: float) -> float:
    try:
        return error(onsketch.learner("adagrad", loss="logistic", step_size=step, fit_intercept=True).learn(X, y), y)
    except UpdateError:
        return 1.0


@pytest.mark.parametrize(
    ("name", "ratio"), [("svmguide1", 0.6), ("australian", 0.8), ("cod-rna.30k", 0.95), ("phishing.8404", 1.02)]
)
def test_ahead_of_adagrad_tuned_in_hindsight(name: str, ratio: float) -> None:
    X, y = read(name)
    best = min(adagrad(X, y, 10.0**k) for k in np.arange(-5, 2.1))
    assert error(onsketch.learner("auto", loss="logistic").learn(X, y), y) <= ratio * best


@pytest.mark.parametrize("name", ["svmguide1", "german.numer", "hiva"])
def test_units_matter_little(name: str) -> None:
    X, y = read(name)
    factors = 10.0 ** np.random.default_rng(1).uniform(-6, 6, X.shape[1])
    plain, scaled = (onsketch.learner("auto", loss="logistic").learn(rows, y) for rows in (X, X @ diags_array(factors)))
    assert error(scaled, y) == pytest.approx(error(plain, y), rel=0.1)
