"""The theorems of the sketched Newton learners, over random and adversarial streams: no regret above its bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onsketch
from onsketch.errors import InputError, OptionError

CASES = [
    ("ons", {}),
    ("fd-son", {}),
    ("fd-son", {"doubling": False}),
    ("pfd-son", {}),
    ("rfd-son", {}),
    ("rfd-son", {"doubling": False}),
]


def comparators(X: Any, y: Any, clip: float) -> list[Any]:
    """The best weights in hindsight, brought within the clip on every row, and zero."""
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    return [best * min(1.0, clip / max(np.abs(X @ best).max(), 1e-300)), np.zeros(X.shape[1])]


def streams(kind: str, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    if kind == "random":
        X = rng.normal(size=(60, 7)) * np.logspace(0, -1.5, 7)
        return X, np.sign(X @ rng.normal(size=7))
    if kind == "noise":  # nothing to learn
        return rng.normal(size=(60, 7)), rng.choice([-1.0, 1.0], 60)
    X = np.eye(7)[np.arange(60) % 7] * rng.uniform(0.5, 2.0)  # an adversary turns every label against what was learned
    return X, np.where(np.arange(60) // 7 % 2 == 0, 1.0, -1.0)


@pytest.mark.parametrize(("method", "options"), CASES)
@given(
    kind=st.sampled_from(["random", "noise", "adversary"]),
    seed=st.integers(0, 10_000),
    ridge=st.sampled_from([0.1, 1.0, 10.0]),
    schedule=st.sampled_from(["none", "1/t", "1/sqrt(t)"]),
    loss=st.sampled_from(["squared", "logistic"]),
)
def test_the_regret_is_never_above_the_bound(
    method: str, options: dict[str, Any], kind: str, seed: int, ridge: float, schedule: str, loss: str
) -> None:
    X, y = streams(kind, seed)
    size = {} if method == "ons" else {"sketch_size": 3}
    learner = onsketch.learner(method, loss=loss, ridge=ridge, curvature_schedule=schedule, **size, **options)
    margins = learner.learn(X, y)
    for w in comparators(X, y, 1.0):
        proof = learner.certificate(w, X, y, margins)
        assert proof.broken == ()
        assert proof.regret is not None
        assert proof.regret_bound is not None
        assert proof.regret <= proof.regret_bound + 1e-9


@pytest.mark.parametrize("method", ["fd-son", "rfd-son", "pfd-son", "cfd-son"])
def test_the_sketch_is_within_its_error(method: str) -> None:
    """Of the rows absorbed; with data rows they are the stream itself."""
    X, y = streams("random", 3)
    learner = onsketch.learner(method, sketch_size=3, ridge=1.0, summary="data")
    learner.learn(X, y)
    proof = learner.certificate()
    assert proof.sketch_error is not None
    error = np.linalg.norm(X.T @ X - (np.linalg.inv(inverse(learner)) - np.eye(7)), 2)
    assert error <= proof.sketch_error * (1 + 1e-9) + 1e-9
    assert 0.0 < proof.escaped_share < 1.0


def inverse(learner: Any) -> Any:
    """A⁻¹, from leverages of unit vectors and their sums."""
    units = np.eye(learner.n_features)
    single = learner.leverage(units)
    pairs = [[learner.leverage((a + b)[None])[0] for b in units] for a in units]
    return 0.5 * (np.array(pairs) - single[:, None] - single[None, :])


@pytest.mark.parametrize(
    ("method", "options", "reason"),
    [
        ("oja-son", {}, "no theorem"),
        ("adagrad", {}, "no theorem"),
        ("rfd-son", {"clip": None, "ridge": 1.0}, "without a clip"),
        ("rfd-son", {"ridge": 0.0}, "ridge above 0"),
        ("fd-son", {"summary": "curvature", "ridge": 1.0}, "gradient rows"),
        ("fd-son", {"projection": "after", "ridge": 1.0}, "projection"),
    ],
)
def test_what_is_not_proven_is_said(method: str, options: dict[str, Any], reason: str) -> None:
    X, y = streams("random", 0)
    learner = onsketch.learner(method, **options)
    learner.learn(X, y)
    proof = learner.certificate()
    assert proof.regret_bound is None
    assert any(reason in broken for broken in proof.broken)
    assert "no bound of the regret" in str(proof)


def test_a_comparator_that_does_not_fit_is_refused() -> None:
    X, y = streams("random", 0)
    learner = onsketch.learner("fd-son", ridge=1.0)
    margins = learner.learn(X, y)
    with pytest.raises(InputError, match="comparator"):
        learner.certificate(np.ones(3))
    with pytest.raises(OptionError, match="margins"):
        learner.certificate(np.ones(7), X, y)
    assert learner.certificate(np.zeros(7), X, y, margins).regret is not None
