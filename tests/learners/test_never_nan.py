"""Whatever finite rows come, predictions and weights stay finite, or the row is refused and nothing changes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import onsketch
from onsketch.errors import InputError, UpdateError
from onsketch.learners.methods import METHODS as METHODS_BY_NAME
from streams import LOSSES, sparse_stream

METHODS = tuple(onsketch.methods())


def make(method: str, **options: Any) -> Any:
    concerns = METHODS_BY_NAME[method].concerns
    options.setdefault("kernel", "linear")  # kernel methods have weights then
    if method in ("ada-lr", "radagrad"):
        options.setdefault("n_features", None)
    return onsketch.learner(method, **{k: v for k, v in options.items() if k in concerns})


def learn_what_can_be_learned(learner: Any, X: Any, y: Any) -> np.ndarray:
    """Learn row by row; a refused row must leave the weights as they were."""
    predictions = []
    for i in range(len(y)):
        before = learner.weights.copy()
        try:
            predictions.append(learner.learn(X[i : i + 1], y[i : i + 1])[0])
        except UpdateError:
            np.testing.assert_allclose(learner.weights, before, rtol=1e-9)
    return np.array(predictions)


@pytest.mark.parametrize("method", METHODS)
def test_norms_from_1e_60_to_1e60_in_one_stream(method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) * 10.0 ** rng.uniform(-60, 60, size=(80, 1))
    X[40:] = rng.normal(size=(40, 6)) * 10.0 ** rng.uniform(-60, 60, size=(40, 6))
    y = np.sign(rng.normal(size=80))
    for options in ({}, {"ridge": 0.0, "curvature_schedule": "1/t"}, {"diagonal": True}, {"update": "dual"}):
        if options.get("ridge") == 0.0 and method not in ("ons", "rfd-son"):
            continue
        learner = make(method, sketch_size=3, **options)
        predictions = learn_what_can_be_learned(learner, X, y)
        assert np.isfinite(predictions).all()
        assert np.isfinite(learner.weights).all()
        assert np.isfinite(learner.predict(X * 1e-60)).all()


@pytest.mark.parametrize("method", ["auto", "oja-son", "rfd-son", "ada-ffd", "adagrad", "adam"])
def test_a_state_in_float32_stays_finite(method: str) -> None:
    """What cannot be written in float32 is refused: numbers, and squares of gradients where they are summed up."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 6)) * 10.0 ** rng.uniform(-60, 60, size=(120, 6))
    y = np.sign(rng.normal(size=120)) * 10.0 ** rng.uniform(-5, 25, size=120)
    for options in ({}, {"diagonal": True}, {"update": "dual"}, {"average": True}):
        learner = make(method, sketch_size=3, loss="squared", dtype="float32", **options)
        predictions = []
        for i in range(120):
            with suppress(UpdateError):
                predictions.extend(learner.learn(X[i : i + 1], y[i : i + 1]))
        assert 0 < len(predictions) < 120
        assert np.isfinite(predictions).all()
        for name, array in learner._arrays().items():
            assert np.isfinite(array).all(), (name, options)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_degenerate_streams(method: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=5)
    streams = {
        "one row, again and again": np.tile(x, (200, 1)),
        "all zeros": np.zeros((50, 5)),
        "constant features": np.ones((200, 5)),
        "one feature": rng.normal(size=(200, 1)),
        "rank one, huge": 1e8 * np.outer(rng.normal(size=200), x),
        "two rows in turn": np.array([x, -x])[np.arange(200) % 2],
        "unit vectors": np.eye(5)[np.arange(200) % 5],
        "not normalised": rng.normal(size=(200, 5)) * 25.0,
    }
    for name, X in streams.items():
        y = np.sign(rng.normal(size=len(X)))
        for size in (0, 1, 4, 20):
            learner = make(method, sketch_size=size)
            try:
                predictions = learner.learn(X, y)
            except UpdateError as error:
                # gradient steps may diverge, and a random projection loses a ridge 1e-16 of the rows' energy
                if METHODS_BY_NAME[method].geometry == "newton" and method != "rp-son":
                    raise
                predictions = np.asarray(error.predictions)
            assert np.isfinite(predictions).all(), name
            assert np.isfinite(learner.weights).all(), name


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(METHODS),
    st.sampled_from(LOSSES),
    st.integers(0, 8),
    st.floats(-12, 12),
    st.sampled_from([1e-12, 1e-3, 1.0, 1e6]),
)
def test_any_scale_any_ridge(seed: int, method: str, loss: str, size: int, scale: float, ridge: float) -> None:
    if method == "arow" and loss not in ("squared", "squared_hinge"):
        return
    rng = np.random.default_rng(seed)
    X = csr_array(10.0**scale * rng.normal(size=(60, 7)) * (rng.random((60, 7)) < 0.6))
    y = np.sign(rng.normal(size=60))
    if loss == "poisson":
        y = np.abs(y)
    learner = make(method, sketch_size=size, loss=loss, ridge=ridge, curvature_schedule="1/t")
    try:
        predictions = learner.learn(X, y)
    except UpdateError as error:
        predictions = np.asarray(error.predictions)
    assert np.isfinite(predictions).all()
    assert np.isfinite(learner.weights).all()


@pytest.mark.parametrize("method", METHODS)
def test_what_cannot_be_learned_is_named_and_changes_nothing(method: str) -> None:
    X, y = sparse_stream("logistic")
    learner = make(method, sketch_size=3, n_features=X.shape[1])
    learner.learn(X, y)
    before, rounds = learner.weights.copy(), learner.rounds
    bad_rows = X.copy()
    bad_rows[7, 4] = np.nan
    infinite = X.copy()
    infinite[2, 1] = -np.inf
    huge = X.copy()
    huge[3, 2] = 1e200
    cases: list[tuple[Any, Any, str]] = [
        (bad_rows, y, "row 7, column 4 is nan"),
        (csr_array(infinite), y, "row 2, column 1 is -inf"),
        (huge, y, "row 3, column 2 is 1e.200"),
        (X, np.where(np.arange(len(y)) == 5, np.nan, y), "row 5"),
        (X, y[:-1], "shape"),
        (X[0], y, "2 dimensions"),
        (X[:, :-1], y, "features"),
        ([["a", "b"]], [1.0], "numbers"),
        (X, ["yes"] * len(y), "numbers"),
    ]
    for rows, labels, message in cases:
        with pytest.raises(InputError, match=message):
            learner.learn(rows, labels)
        assert (learner.weights == before).all()
        assert learner.rounds == rounds
    with pytest.raises(InputError, match="sample_weight"):
        learner.learn(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(InputError, match="row 7, column 4"):
        learner.predict(bad_rows)


def test_labels_of_classification_losses_are_signs() -> None:
    X, y = sparse_stream("logistic")
    for loss in ("logistic", "hinge", "squared_hinge"):
        learner = make("adagrad", loss=loss)
        with pytest.raises(InputError, match=r"row 3 is 0.*-1 and \+1"):
            learner.learn(X, np.where(np.arange(len(y)) == 3, 0.0, y))
        assert learner.rounds == 0


@pytest.mark.parametrize("method", ["fd-son", "rfd-son", "oja-son", "rp-son"])
def test_a_row_refused_for_what_diagonal_adaptation_keeps_leaves_the_sketch(method: str) -> None:
    """Scaled down by a large D it looks harmless."""
    rng = np.random.default_rng(0)
    learner = make(method, sketch_size=5, loss="logistic", dtype="float32", diagonal=True)
    learner.learn([[1e14, 1.0, 0.0, 0.0]], [1.0])
    X = rng.normal(size=(41, 4)) * [0.0, 1.0, 1.0, 1.0]
    learner.learn(X, np.sign(rng.normal(size=41)))
    before = {name: array.copy() for name, array in learner._arrays().items() if name.startswith("sketch.")}
    for candidate in (learner, learner.fork()):
        with pytest.raises(UpdateError):
            candidate.learn([[3e15, 0.0, 0.0, 0.0]], [-1.0])
        after = candidate._arrays()
        for name, array in before.items():
            assert (after[name] == array).all(), name


def test_what_memory_cannot_hold_has_not_been_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, spared = make("oja-son", sketch_size=3), make("oja-son", sketch_size=3)

    def no_memory(*_: Any) -> None:
        raise MemoryError

    for candidate in (learner, spared):
        candidate.learn(np.ones((1, 3)), [1.0])
    with monkeypatch.context() as patch:
        patch.setattr("onsketch.learners.sketched.learner.roomy", no_memory)
        with pytest.raises(MemoryError):
            learner.learn(np.ones((1, 5000)), [1.0])
    X = np.random.default_rng(0).normal(size=(20, 40))
    assert (learner.learn(X, np.ones(20)) == spared.learn(X, np.ones(20))).all()
    assert (learner.weights == spared.weights).all()


def test_a_refused_row_tells_how_far_learning_got() -> None:
    X = np.ones((5, 1))
    X[3] = 1e140
    learner = make("ogd", step_size=1.0)
    with pytest.raises(UpdateError, match="row 3") as caught:
        learner.learn(X, np.ones(5) * 1e20)
    assert caught.value.row == 3
    assert np.asarray(caught.value.predictions).shape == (3,)
    assert learner.rounds == 3
    learner.learn(np.ones((1, 1)), np.ones(1))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["oja-son", "rp-son", "rfd-son", "cfd-son", "ada-ffd", "ada-fd"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("loss", ["squared", "absolute"])  # the slope of the second one tells nothing of the margin
@pytest.mark.parametrize("variant", [{"update": "mirror"}, {"update": "dual"}, {"diagonal": True}])
def test_a_refused_row_leaves_the_sketch_as_it_was(
    method: str, size: int, dtype: str, loss: str, variant: dict[str, Any]
) -> None:
    """Not as it was some rounds ago; with weights that are near the limits already."""
    rng = np.random.default_rng(size)
    options = {"sketch_size": max(size, 2), "loss": loss, "dtype": dtype, **variant}
    learner = make(method, curvature_schedule="1/t", **options)
    refused = 0
    for _ in range(150):
        x = np.zeros(12)
        places = rng.choice(12, rng.integers(1, 6), replace=False)
        x[places] = rng.normal(size=places.size) * (10.0 ** rng.uniform(-140, 140) if rng.random() < 0.15 else 1.0)
        y = rng.normal() * (10.0 ** rng.uniform(-140, 140) if rng.random() < 0.1 else 1.0)
        before = {name: array.copy() for name, array in learner._arrays().items() if name.startswith("sketch.")}
        try:
            learner.learn(x[None], [y])
        except UpdateError:
            refused += 1
            after = learner._arrays()
            for name, array in before.items():
                assert (after[name] == array).all(), name
        for name, array in learner._arrays().items():
            assert np.isfinite(array).all(), name
    assert refused
