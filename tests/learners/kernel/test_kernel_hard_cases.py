"""Kernel learners where it is difficult: the paper's adversary, repeated points, bad input; and their diagnostics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import onsketch
from onsketch.errors import InputError, OptionError, UpdateError
from onsketch.kernel import Kernel, effective_dimension, kernel_ridge, online_effective_dimension, regret, study
from onsketch.learners.kernel.study import best_function

NEWTON = ("kons", "sketched-kons", "pros-n-kons")
METHODS = (*NEWTON, "kernel-ogd", "budget-kernel-ogd")


def alternating_regret(method: str, T: int, **options: Any) -> tuple[float, Any]:
    """One point, losses ±w·x in turn (a hinge that is never satisfied), against the best fixed w, which is 0."""
    learner = onsketch.learner(method, loss="hinge", curvature=1.0, ridge=1.0, clip=1.0, **options)
    y = np.where(np.arange(T) % 2 == 0, 1.0, -1.0)
    margins = learner.learn(np.ones((T, 1)), y)
    return float(-(y * margins).sum()), learner


@pytest.mark.slow
def test_the_papers_adversary_makes_dictionaries_pay_and_not_frequent_directions() -> None:
    T = 2000
    kernel: dict[str, Any] = {"kernel": "rbf", "gamma": 1.0}
    exact, kons = alternating_regret("kons", T, **kernel)
    assert exact <= math.log(T)  # Σ 1/t, half of it won back in the rounds between
    assert kons.diagnostics()["rows_in_matrix"] == T  # and every copy of the one point is kept
    projected, pros = alternating_regret("pros-n-kons", T, **kernel)
    assert abs(projected - exact) < 1e-6  # the span of one point is all there is
    assert pros.diagnostics()["subspace_dimension"] == 1
    assert pros.diagnostics()["dictionary_size"] < 4 * math.log(T)
    fd, son = alternating_regret("fd-son", T, sketch_size=2)
    assert abs(fd - exact) < 1e-6
    assert son.state_bytes()["total"] < 8 * T  # not even a number for each round
    sketched, few = alternating_regret("sketched-kons", T, **kernel)
    rows = few.diagnostics()["rows_in_matrix"]
    assert rows < 8 * math.log(T)
    assert sketched > T / (4 * rows)  # steps of 1/rows that never shrink: linear regret
    half, _ = alternating_regret("sketched-kons", T, floor=0.5, **kernel)
    assert exact <= half < 4 * exact  # the floor buys it back, at a quarter of the cost


@pytest.mark.slow
@pytest.mark.parametrize("jitter", [0.0, 1e-15, 1e-9, 1e-6])
@pytest.mark.parametrize("ridge", [1e-10, 1e-3, 1.0])
def test_repeated_points_never_break_the_factor(jitter: float, ridge: float) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3, 4))
    X = points[rng.integers(0, 3, size=300)] + jitter * rng.normal(size=(300, 4))
    y = np.sign(rng.normal(size=300))
    for method in NEWTON:
        for kernel in ("rbf", "laplacian", "polynomial", "linear"):
            learner = onsketch.learner(method, kernel=kernel, ridge=ridge, loss="logistic")
            predictions = learner.learn(X, y)
            assert np.isfinite(predictions).all()
            assert (np.abs(predictions) <= 1.0).all()
            assert np.isfinite(learner.predict(X)).all()
            assert (learner.leverage(X) >= 0.0).all()


def test_on_repeated_points_the_kernel_learners_are_ons_on_so_many_features() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(3, 4))
    which = rng.integers(0, 3, size=200)
    coordinates = np.linalg.cholesky(Kernel("rbf", gamma=0.5).between(points, points))
    y = np.sign(rng.normal(size=200))
    options: dict[str, Any] = {"ridge": 0.5, "loss": "logistic"}
    expected = onsketch.learner("ons", **options).learn(coordinates[which], y)
    for method in ("kons", "pros-n-kons"):
        extra = {"budget": 1e6} if method == "pros-n-kons" else {}
        learner = onsketch.learner(method, gamma=0.5, **extra, **options)
        np.testing.assert_allclose(learner.learn(points[which], y), expected, atol=1e-8)


def negative(A: Any, B: Any) -> Any:
    return -(A @ B.T)


def distance(A: Any, B: Any) -> Any:
    return np.sqrt(((A[:, None] - B[None]) ** 2).sum(axis=2))


def indefinite(A: Any, B: Any) -> Any:
    return np.outer(A[:, 0], B[:, 0]) - 0.5 * np.outer(A[:, 1], B[:, 1]) + 0.5


def one_sided(A: Any, B: Any) -> Any:
    return np.exp(-((A[:, None] - 1.1 * B[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_kernel_is_found_out(method: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(60, 2)), np.sign(rng.normal(size=60))
    for kernel in (negative, distance, indefinite):
        learner = onsketch.learner(method, kernel=kernel)
        with pytest.raises(OptionError, match=f"{kernel.__name__}.*not positive semi-definite"):
            learner.learn(X, y)
        assert learner.rounds == 0
        assert (learner.predict(X) == 0.0).all()
    with pytest.raises(OptionError, match=r"one_sided.*not symmetric"):
        onsketch.learner(method, kernel=one_sided).learn(X, y)
    for kernel in (negative, indefinite):  # row by row there is less to see, but it comes to light
        learner = onsketch.learner(method, kernel=kernel)

        def row_by_row(learner: Any = learner) -> None:
            for i in range(60):
                learner.learn(X[i : i + 1], y[i : i + 1])

        with pytest.raises(OptionError, match="not positive semi-definite"):
            row_by_row()
        assert np.isfinite(learner.predict(X)).all()  # what was learned before stays


@pytest.mark.parametrize("method", METHODS)
def test_functions_that_return_nonsense_are_named(method: str) -> None:
    X, y = np.ones((4, 2)), np.ones(4)
    for kernel, message in (
        (lambda A, B: np.ones(len(A)), "must return one of shape"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "not finite"),
    ):
        with pytest.raises(InputError, match=message):
            onsketch.learner(method, kernel=kernel).learn(X, y)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("kons", {"kernel": "sigmoid"}, "kernel='sigmoid'.*'laplacian'"),
        ("kons", {"gamma": 0.0}, "gamma"),
        ("kons", {"gamma": -1.0}, "gamma"),
        ("kons", {"ridge": 0.0}, "ridge=0"),
        ("kons", {"degree": 0}, "degree"),
        ("kons", {"coef0": -1.0}, "coef0"),
        ("kons", {"budget": 2.0}, "budget.*does not concern"),
        ("kons", {"dtype": "float32"}, "dtype.*does not concern"),
        ("sketched-kons", {"accuracy": 0.0}, "accuracy"),
        ("sketched-kons", {"accuracy": 1.0}, "accuracy"),
        ("sketched-kons", {"budget": 0.0}, "budget"),
        ("sketched-kons", {"floor": 1.5}, "floor"),
        ("sketched-kons", {"floor": -0.1}, "floor"),
        ("sketched-kons", {"max_points": 10}, "max_points.*does not concern"),
        ("pros-n-kons", {"max_points": 0}, "max_points"),
        ("pros-n-kons", {"restart": "yes"}, "restart"),
        ("pros-n-kons", {"loss": "hinge"}, "curvature 0"),
        ("kernel-ogd", {"ridge": 1.0}, "ridge.*does not concern"),
        ("rfd-son", {"kernel": "linear"}, "kernel.*does not concern"),
    ],
)
def test_options_that_cannot_be(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        onsketch.learner(method, **options)


@pytest.mark.parametrize("method", METHODS)
def test_the_rest_of_the_contract(method: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), np.sign(rng.normal(size=80))
    learner = onsketch.learner(method, n_features=3)
    with pytest.raises(InputError, match="n_features=3"):
        learner.learn(X[:, :2], y)
    assert (learner.predict(X) == 0.0).all()
    learner.learn(X, y)
    assert learner.rounds == 80
    assert learner.n_features == 3
    assert method in repr(learner)
    with pytest.raises(OptionError, match=r"expansion\(\)"):
        _ = learner.weights
    rows, a = learner.expansion()
    clipped = np.clip(Kernel("rbf", gamma=1 / 3).between(X, rows) @ a, -learner._setup.clip, learner._setup.clip)
    np.testing.assert_allclose(learner.predict(X), clipped, atol=1e-10)
    twin = onsketch.learner(method, n_features=3)
    with pytest.raises(OptionError, match="do not merge"):
        twin.merge(learner)
    own = onsketch.learner(method, kernel=lambda A, B: A @ B.T)
    own.learn(X, y)
    assert (own.fork().learn(X, y) == own.learn(X, y)).all()
    assert all(f"{value:g}" for value in learner.diagnostics().values())
    with pytest.raises(OptionError, match="a file cannot hold"):
        own.save(tmp_path / "model")
    if method in NEWTON:
        energies = learner.spectrum()
        assert (np.diff(energies) <= 0.0).all()
        assert energies[0] > 0.0
        assert (learner.leverage(X) >= 0.0).all()
    else:
        with pytest.raises(OptionError, match="leverage"):
            learner.leverage(X)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
@pytest.mark.parametrize("method", METHODS)
def test_blocks_and_saving_bit_for_bit_with_every_kernel(method: str, kernel: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(150, 5)), np.sign(rng.normal(size=150))
    wide = np.zeros((150, 600))
    wide[:, ::120] = X
    for rows in (X, wide):
        whole, parts = (onsketch.learner(method, kernel=kernel, loss="logistic") for _ in range(2))
        expected = whole.learn(rows, y)
        pieces = [parts.learn(rows[i : i + 1], y[i : i + 1]) for i in range(70)]
        parts.save(tmp_path / "model")
        again = onsketch.load(tmp_path / "model")
        pieces.append(again.learn(rows[70:], y[70:]))
        assert (np.concatenate(pieces) == expected).all()
        assert (again.predict(rows) == whole.predict(rows)).all()
        assert again.diagnostics()["rows_kept"] == whole.diagnostics()["rows_kept"]
        assert again.kernel == whole.kernel


def test_forged_files_are_refused(tmp_path: Any) -> None:
    from onsketch.files import model_file

    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 3)), np.sign(rng.normal(size=30))
    for method in METHODS:
        learner = onsketch.learner(method)
        learner.learn(X, y)
        learner.save(tmp_path / "model")
        content = model_file.read(tmp_path / "model")
        for name, array in content.arrays.items():
            if array.size == 0:  # of another option
                continue
            forged = {**content.arrays, name: array[:-1] if array.ndim else -1.0 - array}
            model_file.write(tmp_path / "forged", content.kind, content.header, forged)
            with pytest.raises(onsketch.core.errors.ModelFileError, match="damaged"):
                onsketch.load(tmp_path / "forged")


def test_diagnostics_are_what_they_say() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=120)
    learner = onsketch.learner("kons", gamma=0.5, ridge=0.3)
    predictions = learner.learn(X, y)
    scale = np.sqrt(1 / 8) * 2 * (predictions - y)  # ρ = √σ·ℓ'
    K = Kernel("rbf", gamma=0.5).between(X, X) * np.outer(scale, scale)
    found = learner.diagnostics()
    np.testing.assert_allclose(found["effective_dimension"], effective_dimension(K, 0.3), rtol=1e-6)
    np.testing.assert_allclose(found["online_effective_dimension"], online_effective_dimension(K, 0.3), rtol=1e-6)
    assert found["p_min"] == 1.0
    np.testing.assert_allclose(learner.spectrum()[:20], np.linalg.eigvalsh(K)[::-1][:20], atol=1e-6)
    sketched = onsketch.learner("sketched-kons", gamma=0.5, ridge=0.3, floor=0.2)
    sketched.learn(X, y)
    assert 0.2 <= sketched.diagnostics()["p_min"] < 1.0
    assert 0.2 * 120 * 0.5 < sketched.diagnostics()["rows_in_matrix"] < 120
    projected = onsketch.learner("pros-n-kons", gamma=0.5, ridge=0.3, max_points=15)
    projected.learn(X, y)
    assert projected.diagnostics()["dictionary_size"] == 15


def test_regret_against_kernel_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(400, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=400)
    K = Kernel("rbf", gamma=1.0).between(X, X)
    fitted = kernel_ridge(K, y, 0.5)
    a = np.linalg.solve(K + 0.5 * np.eye(400), y)
    np.testing.assert_allclose(fitted, K @ a, atol=1e-8)
    curves = {}
    for method, options in (
        ("kons", {"summary": "curvature"}),
        ("pros-n-kons", {"summary": "curvature"}),
        ("kernel-ogd", {}),
    ):
        learner = onsketch.learner(method, gamma=1.0, clip=None, **options)
        predictions = learner.learn(X, y)
        curves[method] = regret(predictions, X, y, learner.kernel, ridge=0.5)
        np.testing.assert_allclose(curves[method][-1], ((predictions - y) ** 2).sum() - ((fitted - y) ** 2).sum())
    for method in ("kons", "pros-n-kons"):
        assert curves[method][-1] < 0.5 * curves["kernel-ogd"][-1]
        assert curves[method][-1] - curves[method][200] < 0.25 * curves[method][200]  # logarithmic, not linear
    with pytest.raises(InputError, match="do not match"):
        regret([0.0], X, y, Kernel("rbf"))
    with pytest.raises(InputError, match="square"):
        effective_dimension(np.ones((2, 3)), 1.0)
    with pytest.raises(OptionError, match="ridge"):
        kernel_ridge(K, y, 0.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_a_refused_row_leaves_no_trace(method: str, form: Any) -> None:
    """Neither the width, nor γ, nor the features of wide rows are decided by a row that was not learned."""

    def state(learner: Any) -> Any:
        arrays = {name: array.tolist() for name, array in learner._arrays().items()}
        return arrays, learner.n_features, learner.kernel, learner._kept.features_known

    for narrow, wide in ((3, 5), (600, 700)):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(20, narrow)), np.sign(rng.normal(size=20))
        wild = np.full((1, wide), 1e140)
        learner = onsketch.learner(method, kernel="polynomial", loss="logistic")
        with pytest.raises(UpdateError):  # k(x, x) is beyond what float64 can square
            learner.learn(form(wild), [1.0])
        assert state(learner) == state(onsketch.learner(method, kernel="polynomial", loss="logistic"))
        learner.learn(form(X), y)
        assert learner.kernel.gamma == 1.0 / narrow
        before = state(learner)
        with pytest.raises(UpdateError):
            learner.learn(form(wild), [1.0])
        assert state(learner) == before
        again = learner.fork()
        assert (again.learn(form(X), y) == learner.learn(form(X), y)).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_kernel_that_raises_leaves_what_was_learned_before(method: str) -> None:
    def failing(A: Any, B: Any) -> Any:
        if len(A) == 1 and A[0, 0] == 7.0:
            raise RuntimeError("out of luck")
        return np.exp(-((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.sign(rng.normal(size=20))
    learner, twin = (onsketch.learner(method, kernel=failing, loss="logistic") for _ in range(2))
    unfit = np.vstack([X[:5], np.full((1, 3), 7.0)])
    with pytest.raises(RuntimeError, match="out of luck"):
        learner.learn(unfit[5:], [1.0])
    assert (learner.n_features, learner.rounds) == (0, 0)
    with pytest.raises(RuntimeError, match="out of luck"):
        learner.learn(unfit, np.append(y[:5], 1.0))
    twin.learn(X[:5], y[:5])
    assert learner.rounds == 5
    assert (learner.learn(X[5:], y[5:]) == twin.learn(X[5:], y[5:])).all()


@pytest.mark.parametrize("method", METHODS)
def test_history_is_what_diagnostics_said_then(method: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = np.sign(X[:, 0] * X[:, 1])
    learner = onsketch.learner(method, loss="logistic")
    assert all(len(column) == 0 for column in learner.history().values())
    said = {}
    for t in range(1, 101):
        learner.learn(X[t - 1 : t], y[t - 1 : t])
        said[t] = learner.diagnostics()
    history = learner.history()
    assert history["rounds"].tolist() == [1, 2, 4, 8, 16, 32, 64, 100]
    assert ("p_min" in history) == (method in NEWTON)
    for name, column in history.items():
        if name != "rounds":
            assert column.tolist() == [said[int(t)][name] for t in history["rounds"]]
    learner.save(tmp_path / "model")
    again = onsketch.load(tmp_path / "model")
    assert {k: v.tolist() for k, v in again.history().items()} == {k: v.tolist() for k, v in history.items()}


def test_a_study_is_regret_against_the_best_function() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=300)
    learner = onsketch.learner("pros-n-kons", gamma=1.0, ridge=0.5, clip=None)
    found = study(learner, X, y)
    wide = csr_array((X[:, 0], np.full(300, 100_000), np.arange(301)))
    np.testing.assert_allclose(study(learner, wide, y).regret, found.regret)  # columns of zeros cost nothing
    assert learner.rounds == 0  # it was not touched
    predictions = learner.fork().learn(X, y)
    np.testing.assert_allclose(found.regret, regret(predictions, X, y, found.learner.kernel, 0.5))
    K = Kernel("rbf", gamma=1.0).between(X, X)
    assert found.effective_dimension == effective_dimension(K, 0.5)
    signs = np.sign(y)
    for loss, slope in (
        ("logistic", lambda f: -signs / (1.0 + np.exp(signs * f))),
        ("squared_hinge", lambda f: -2.0 * signs * np.maximum(0.0, 1.0 - signs * f)),
    ):
        f = best_function(K, signs, 0.5, loss)
        a = -slope(f) / (2 * 0.5)  # at the minimum of Σℓ(f) + α|f|² the coefficients are −ℓ'/(2α)
        np.testing.assert_allclose(K @ a, f, atol=2e-3)
        assert np.isfinite(study(onsketch.learner("kons", loss=loss), X, signs).regret).all()
    with pytest.raises(OptionError, match="smooth losses"):
        study(onsketch.learner("kernel-ogd", loss="hinge"), X, signs)
    with pytest.raises(OptionError, match="has no kernel"):
        study(onsketch.learner("ons"), X, y)
    with pytest.raises(InputError, match="offline solution"):
        study(learner, np.zeros((4000, 1)), np.zeros(4000))


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_distances_take_any_layout_and_refuse_other_widths(name):
    kernel, rng = Kernel(name, gamma=0.1), np.random.default_rng(0)
    X, Y = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    wanted = kernel.between(X, Y)
    np.testing.assert_array_equal(kernel.between(np.asfortranarray(X), np.asfortranarray(Y)), wanted)
    with pytest.raises(ValueError, match=r"features|mismatch|broadcast"):
        kernel.between(X, Y[:, :2])
    with pytest.raises(ValueError, match=r"features|mismatch|broadcast"):
        kernel.of_row(X[0], Y[:, :2])


@pytest.mark.parametrize("sparse", [False, True])
def test_gamma_scale_does_not_depend_on_the_unit_of_the_rows(sparse: bool) -> None:
    """γ is 1/(features·variance), zeros included, and decided once."""
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 1.0, size=(60, 4)) * (rng.random((60, 4)) < 0.6)
    y = np.where(X[:, 0] > 2.0, 1.0, -1.0)
    margins = []
    for unit in (1.0, 1e4):
        learner = onsketch.safe_learner("pros-n-kons", loss="logistic", scaling="none")
        margins.append(learner.learn(csr_array(unit * X) if sparse else unit * X, y))
        assert learner.kernel.gamma == pytest.approx(1.0 / (4 * np.var(unit * X)))
        kept = f"{learner.diagnostics()['rows_kept']} rows kept"
        assert kept in repr(learner)
    np.testing.assert_allclose(margins[0], margins[1], rtol=1e-6, atol=1e-9)


def test_gamma_scale_of_rows_that_are_all_the_same_is_one_over_the_features() -> None:
    learner = onsketch.learner("kons", gamma="scale")
    learner.learn(np.ones((3, 5)), [1.0, 0.0, 1.0])
    assert learner.kernel.gamma == pytest.approx(0.2)


def test_a_study_of_a_learner_with_scales_does_not_depend_on_the_unit_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    X, regrets = rng.uniform(-2, 2, size=(300, 2)), []
    y = np.sin(2 * X[:, 0])
    for unit in (1.0, 1e4):
        learner = onsketch.learner("pros-n-kons", defaults="recommended")
        learner.learn(unit * X, y)
        regrets.append(study(learner, unit * X, y).regret)
    np.testing.assert_allclose(regrets[0], regrets[1], rtol=1e-6)
    assert np.isfinite(regrets[0]).all()
    assert regrets[0][-1] < 0.5 * len(y)
