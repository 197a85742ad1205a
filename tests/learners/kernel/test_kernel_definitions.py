"""The kernel learners against their plain definitions: primal ONS, explicit matrices, and each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import onsketch
from onsketch.core import losses
from onsketch.errors import InputError, OptionError
from onsketch.kernel import Kernel, RandomFourierFeatures
from streams import SMOOTH, labels_for, level, sparse_stream

NEWTON = ("kons", "sketched-kons", "pros-n-kons")
Array = Any

CONCAVE = [loss for loss in SMOOTH if loss != "huber"]  # Newton methods without a schedule need a σ above 0


def streamed(loss: str, n: int = 250, d: int = 6, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.3, 2.0, d)
    y = X @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    return X, y if loss == "squared" else np.where(y > 0, 1.0, -1.0)


def plain_kons(K: Array, y: Array, loss: str, ridge: float, clip: float, enters: Array | None = None) -> Array:
    """Algorithm 1 (and 3, given who enters A) by explicit solves in a feature map of the whole kernel matrix."""
    values, vectors = np.linalg.eigh(K)
    Phi = vectors * np.sqrt(np.maximum(values, 0.0))  # rows φ_t with φ_s·φ_t = K_st
    sigma = losses.LOSSES[loss].exp_concavity(None if math.isinf(clip) else clip)
    A, u, predictions = ridge * np.eye(len(K)), np.zeros(len(K)), []
    for t, phi in enumerate(Phi):
        margin = phi @ u
        w = u
        if abs(margin) > clip:
            direction = np.linalg.solve(A, phi)
            w = u - (margin - math.copysign(clip, margin)) / (phi @ direction) * direction
        z = phi @ w
        slope = losses.slope.py_func(losses.LOSSES[loss].form, z, y[t])
        if enters is None or enters[t]:
            A = A + sigma * slope**2 * np.outer(phi, phi)
        u = w - np.linalg.solve(A, slope * phi)
        predictions.append(z)
    return np.array(predictions)


@pytest.mark.slow
@pytest.mark.parametrize("clip", [None, 1.0, 0.3])
@pytest.mark.parametrize("loss", CONCAVE)
def test_with_the_linear_kernel_all_three_are_the_online_newton_step(loss: str, clip: float | None) -> None:
    X, y = streamed(loss)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, size=len(y))
    for extra in (
        {},
        {"fit_intercept": True},
        {"summary": "curvature"},
        {"curvature_schedule": "1/sqrt(t)"},
        {"step_size": 0.5},
    ):
        options: dict[str, Any] = {"loss": loss, "clip": clip, "ridge": 0.7, **extra}
        primal = onsketch.learner("ons", **options)
        expected = primal.learn(X, y, weights)
        for method in NEWTON:  # at floor 1 every row enters
            floor = {} if method == "kons" else {"floor": 1.0}
            learner = onsketch.learner(method, kernel="linear", **floor, **options)
            np.testing.assert_allclose(learner.learn(X, y, weights), expected, atol=1e-10)
            np.testing.assert_allclose(learner.weights, primal.weights, atol=1e-10)
            np.testing.assert_allclose(learner.intercept, primal.intercept, atol=1e-10)
            np.testing.assert_allclose(learner.predict(X), primal.predict(X), atol=1e-10)
            np.testing.assert_allclose(learner.leverage(X), primal.leverage(X), atol=1e-9)


@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(CONCAVE),
    st.sampled_from(["rbf", "laplacian", "polynomial"]),
    st.sampled_from([0.2, 1.0, math.inf]),
    st.sampled_from([0.1, 1.0, 10.0]),
)
def test_kons_is_its_definition(seed: int, loss: str, kernel: str, clip: float, ridge: float) -> None:
    X, y = streamed(loss, n=40, d=3, seed=seed)
    K = Kernel(kernel, gamma=0.4, degree=2).between(X, X)
    expected = plain_kons(K, y, loss, ridge, clip)
    options: dict[str, Any] = {"loss": loss, "ridge": ridge, "clip": None if math.isinf(clip) else clip}
    learner = onsketch.learner("kons", kernel=kernel, gamma=0.4, degree=2, **options)
    np.testing.assert_allclose(learner.learn(X, y), expected, atol=1e-7)
    carried = onsketch.learner("pros-n-kons", kernel=kernel, gamma=0.4, degree=2, floor=1.0, **options)
    np.testing.assert_allclose(carried.learn(X, y), expected, atol=1e-6)
    bounded = onsketch.learner("kons", kernel=kernel, gamma=0.4, degree=2, max_points=40, **options)
    np.testing.assert_allclose(bounded.learn(X, y), expected, atol=1e-6)


def test_kons_with_a_bound_keeps_only_rows_that_add_a_dimension() -> None:
    X, y = streamed("squared", n=30, d=3)
    rows = np.repeat(np.arange(30), 10)  # each row ten times
    exact, bounded = onsketch.learner("kons"), onsketch.learner("kons", max_points=30)
    np.testing.assert_allclose(bounded.learn(X[rows], y[rows]), exact.learn(X[rows], y[rows]), atol=1e-6)
    assert bounded.diagnostics()["rows_kept"] == 30
    bounded.learn(2.0 * X, y)
    assert bounded.diagnostics()["rows_kept"] == 30


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
def test_pros_n_kons_with_the_whole_stream_is_kons_and_sketched_kons_at_floor_1_too(kernel: str) -> None:
    X, y = streamed("logistic", n=400, d=4)
    options: dict[str, Any] = {"kernel": kernel, "gamma": 0.3, "loss": "logistic", "ridge": 0.5}
    exact = onsketch.learner("kons", **options)
    expected = exact.learn(X, y)
    sketched = onsketch.learner("sketched-kons", floor=1.0, **options)
    assert (sketched.learn(X, y) == expected).all()
    for everything in ({"floor": 1.0}, {"budget": 1e9}):
        carried = onsketch.learner("pros-n-kons", **everything, **options)
        np.testing.assert_allclose(carried.learn(X, y), expected, atol=1e-6)
        np.testing.assert_allclose(carried.predict(X), exact.predict(X), atol=1e-6)
        np.testing.assert_allclose(carried.leverage(X), exact.leverage(X), atol=1e-6)
    anew = onsketch.learner("pros-n-kons", floor=1.0, restart=True, **options)
    assert np.abs(anew.learn(X, y) - expected).max() > 0.01  # the paper's way forgets
    assert anew.diagnostics()["restarts"] == anew.diagnostics()["subspace_dimension"]


def test_sketched_kons_is_its_definition_given_its_coins() -> None:
    X, y = streamed("squared", n=60, d=3)
    learner = onsketch.learner("sketched-kons", gamma=0.4, floor=0.3, budget=0.3, ridge=0.5)
    predictions = learner.learn(X, y)
    kept = learner._inside[: learner.diagnostics()["rows_in_matrix"]]
    assert 10 < len(kept) < 50
    enters = np.isin(np.arange(60), kept)  # with the squared loss every row is kept, so that places are rounds
    expected = plain_kons(Kernel("rbf", gamma=0.4).between(X, X), y, "squared", 0.5, 1.0, enters)
    np.testing.assert_allclose(predictions, expected, atol=1e-8)


def test_curvature_rows_of_the_squared_loss_are_kernel_ridge_regression() -> None:
    X, y = streamed("squared", n=150, d=3)
    K = Kernel("rbf", gamma=0.5).between(X, X)
    fitted = K @ np.linalg.solve(2 * K + 0.7 * np.eye(150), 2 * y)
    for method, extra in (("kons", {}), ("pros-n-kons", {"floor": 1.0})):
        learner = onsketch.learner(method, gamma=0.5, ridge=0.7, clip=None, summary="curvature", **extra)
        learner.learn(X, y)
        np.testing.assert_allclose(learner.predict(X), fitted, atol=1e-7)


@pytest.mark.parametrize("method", [*NEWTON, "kernel-ogd", "budget-kernel-ogd"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "polynomial"])
def test_wide_sparse_rows_are_the_same_rows(method: str, kernel: str) -> None:
    """Kept dense up to 512 features, and sparse beyond; a stream may grow from one to the other."""
    X, y = sparse_stream("logistic", n=90)
    spread = np.sort(np.random.default_rng(0).choice(10**9, size=X.shape[1], replace=False))
    small = csr_array(X)
    wide = csr_array((small.data, spread[small.indices], small.indptr), shape=(len(y), 10**9))
    options: dict[str, Any] = {"kernel": kernel, "gamma": 0.3, "loss": "logistic"}
    if method == "budget-kernel-ogd":
        options["max_points"] = 20
    dense, sparse, far, grown = (onsketch.learner(method, **options) for _ in range(4))
    expected = dense.learn(X, y)
    np.testing.assert_allclose(sparse.learn(small, y), expected, atol=1e-9)
    np.testing.assert_allclose(far.learn(wide, y), expected, atol=1e-9)
    assert far.state_bytes()["total"] < 10**6
    later = csr_array(np.pad(X[40:], ((0, 0), (0, 2000))))
    parts = [grown.learn(X[:40], y[:40]), grown.learn(later, y[40:])]
    np.testing.assert_allclose(np.concatenate(parts), expected, atol=1e-9)
    for learner, rows in ((sparse, X), (far, wide), (grown, small), (dense, later[:0]), (dense, small)):
        np.testing.assert_allclose(learner.predict(rows), dense.predict(X)[: rows.shape[0]], atol=1e-9)
    np.testing.assert_allclose(dense.predict(later), dense.predict(X[40:]), atol=1e-9)


@pytest.mark.parametrize("width", [20, 10**9])
def test_an_unseen_feature_counts_in_distances(width: int) -> None:
    X, y = sparse_stream("logistic", n=50, d=9)
    learner = onsketch.learner("pros-n-kons", gamma=0.3, loss="logistic")
    learner.learn(csr_array((csr_array(X).data, csr_array(X).indices, csr_array(X).indptr), shape=(50, width)), y)
    unseen = csr_array(([2.0], ([0], [width - 1])), shape=(1, width))
    rows, a = learner.expansion()
    lengths = np.asarray((rows.power(2) if width > 512 else rows**2).sum(axis=1)).ravel()
    np.testing.assert_allclose(learner.predict(unseen), np.exp(-0.3 * (lengths + 4.0)) @ a, atol=1e-12)


def rbf_by_hand(X: Array, Y: Array) -> Array:
    return np.exp(-0.3 * ((X[:, None] - Y[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("method", [*NEWTON, "kernel-ogd", "budget-kernel-ogd"])
def test_a_function_of_ones_own(method: str) -> None:
    X, y = streamed("squared", n=120, d=3)
    own = onsketch.learner(method, kernel=rbf_by_hand)
    named = onsketch.learner(method, kernel="rbf", gamma=0.3)
    np.testing.assert_allclose(own.learn(X, y), named.learn(X, y), atol=1e-8)
    np.testing.assert_allclose(own.predict(csr_array(X)), named.predict(X), atol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "polynomial"])
def test_named_kernels_are_their_formulas(kernel: str) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(7, 5)) + 1e4, rng.normal(size=(4, 5)) + 1e4
    if kernel in ("linear", "polynomial"):
        X, Y = X - 1e4, Y - 1e4
    k = Kernel(kernel, gamma=0.3, degree=3, coef0=0.5, constant=1.0)
    formula = {
        "linear": lambda x, y: x @ y,
        "rbf": lambda x, y: math.exp(-0.3 * ((x - y) ** 2).sum()),
        "laplacian": lambda x, y: math.exp(-0.3 * np.abs(x - y).sum()),
        "polynomial": lambda x, y: (0.3 * x @ y + 0.5) ** 3,
    }[kernel]
    expected = np.array([[formula(x, y) + 1.0 for y in Y] for x in X])
    np.testing.assert_allclose(k.between(X, Y), expected, atol=1e-10)
    np.testing.assert_allclose([k.of_row(x, Y) for x in X], expected, atol=1e-12)
    np.testing.assert_allclose(k.diagonal(X), [formula(x, x) + 1.0 for x in X], atol=1e-10)


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "absolute", "quantile", "poisson"])
@pytest.mark.parametrize("clip", [None, 0.4])
def test_functional_gradient_descent_with_the_linear_kernel_is_ogd(loss: str, clip: float | None) -> None:
    X, y = streamed("squared", n=150)
    y = labels_for(loss, y)
    options: dict[str, Any] = {
        "loss": loss,
        **level(loss),
        "clip": clip,
        "step_size": 0.05,
        "l2": 0.3,
        "fit_intercept": True,
    }
    primal = onsketch.learner("ogd", **options)
    expected = primal.learn(X, y)
    for method, extra in (("kernel-ogd", {}), ("budget-kernel-ogd", {"max_points": 1000})):
        learner = onsketch.learner(method, kernel="linear", **extra, **options)
        np.testing.assert_allclose(learner.learn(X, y), expected, atol=1e-10)
        np.testing.assert_allclose(learner.weights, primal.weights, atol=1e-10)


def test_a_budget_drops_the_row_that_changes_least() -> None:
    X, y = streamed("squared", n=60, d=3)
    options: dict[str, Any] = {"gamma": 0.4, "step_size": 0.3, "l2": 0.1}
    learner = onsketch.learner("budget-kernel-ogd", max_points=10, **options)
    predictions = learner.learn(X, y)
    rows: list[Array] = []
    a: list[float] = []
    k = Kernel("rbf", gamma=0.4)
    for t, (x, label) in enumerate(zip(X, y, strict=True), start=1):
        z = float(np.dot(a, k.of_row(x, np.array(rows)))) if rows else 0.0
        assert abs(predictions[t - 1] - z) < 1e-10
        eta = 0.3 / math.sqrt(t)
        a = [value / (1 + eta * 0.1) for value in [*a, -eta * 2 * (z - label)]]
        rows.append(x)
        if len(rows) > 10:
            least = int(np.argmin(np.abs(a)))
            del rows[least], a[least]
    kept, coefficients = learner.expansion()
    np.testing.assert_allclose(kept, rows)
    np.testing.assert_allclose(coefficients, a, atol=1e-12)
    assert learner.diagnostics()["rows_dropped"] == 50


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_random_fourier_features_approach_the_kernel_and_do_not_depend_on_form_or_cut(kernel: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.6)
    errors = []
    for m in (50, 5000):
        features = RandomFourierFeatures(m, gamma=0.4, kernel=kernel)
        Z = features.transform(X)
        assert Z.shape == (40, features.n_features)
        errors.append(np.abs(Z @ Z.T - Kernel(kernel, gamma=0.4).between(X, X)).max())
        np.testing.assert_allclose(features.transform(csr_array(X)), Z, atol=1e-11)
        np.testing.assert_allclose(features.transform(np.pad(X, ((0, 0), (0, 3))))[7:9], Z[7:9], atol=1e-11)
    assert errors[1] < 4.5 / math.sqrt(5000)
    assert errors[1] < errors[0]
    with pytest.raises(OptionError, match="rbf"):
        RandomFourierFeatures(kernel="linear")
    with pytest.raises(InputError, match="row 0, column 0"):
        RandomFourierFeatures().transform([[np.nan]])
