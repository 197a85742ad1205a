"""The regret bounds of full-matrix AdaGrad and Ada-FD (wan2021, Theorems 1 to 3), random and adversarial streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onsketch
from definitions import LOSSES
from onsketch import sketch
from onsketch.core.losses import loss_values

pytestmark = pytest.mark.learners


def played(method: str, X: Any, y: Any, loss: str, **options: Any) -> tuple[Any, Any, Any]:
    """The iterates before each round, the margins, and the gradients."""
    learner = onsketch.learner(method, loss=loss, n_features=X.shape[1], **options)
    iterates, gradients, margins = [], [], []
    for x, label in zip(X, y, strict=True):
        iterates.append(learner.weights)
        margins.append(learner.learn(x[None], [label])[0])
        gradients.append(LOSSES[loss].slope(margins[-1], label) * x)
    iterates.append(learner.weights)
    return np.array(iterates), np.array(margins), np.array(gradients)


def stream(adversary: bool, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    if adversary:
        X = np.eye(5)[np.arange(40) % 5]
        return X, np.where(np.arange(40) // 5 % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(40, 5)) * [1.0, 0.5, 0.3, 0.2, 0.1]
    return X, np.sign(X @ rng.normal(size=5))


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("method", ["ada-full", "ada-fd"])
@given(
    adversary=st.booleans(),
    seed=st.integers(0, 10_000),
    loss=st.sampled_from(["hinge", "logistic"]),
    eta=st.sampled_from([0.03, 0.3, 1.0]),
    delta=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_the_regret_is_never_above_the_bound(
    method: str, update: str, adversary: bool, seed: int, loss: str, eta: float, delta: float
) -> None:
    X, y = stream(adversary, seed)
    size = 3
    options: dict[str, Any] = {"step_size": eta, "ridge": delta, "update": update}
    if method == "ada-fd":
        options |= {"sketch_size": size, "doubling": False}
    iterates, margins, gradients = played(method, X, y, loss, **options)
    longest = float(np.linalg.norm(gradients, axis=1).max())
    if method == "ada-full" and update == "dual" and delta < longest:
        return  # the theorem asks for δ ≥ max |g|
    shrunk = np.zeros(len(X))
    if method == "ada-fd":
        summary = sketch.FrequentDirections(5, size)
        for t, g in enumerate(gradients):
            before = summary.escaped
            summary.update(g[None])
            shrunk[t] = summary.escaped - before
    trace = float(np.linalg.svd(gradients, compute_uv=False).sum())  # of the root of ΣggT
    lost, roots = float(shrunk.sum()), float(np.sqrt(shrunk).sum())
    for w in (np.linalg.lstsq(X, y, rcond=None)[0], np.zeros(5)):
        regret = loss_values(loss, margins, y).sum() - loss_values(loss, X @ w, y).sum()
        norm = float(w @ w)
        if update == "dual":
            growth = max(1.0, (longest + np.sqrt(lost)) / delta) if method == "ada-fd" else 1.0
            spread = float((iterates[1:] ** 2).sum(axis=1).max())
            bound = (delta + trace) * norm / (2 * eta) + eta * growth * trace + roots * spread / (2 * eta)
        else:
            growth = max(1.0, np.sqrt(lost) / delta) if method == "ada-fd" else 1.0
            spread = float(((iterates[:-1] - w) ** 2).sum(axis=1).max())
            bound = delta * norm / (2 * eta) + (trace + size * roots) * spread / (2 * eta) + eta * growth * trace
        assert regret <= bound + 1e-9
