"""The quantile, Poisson, Huber and ε-insensitive losses: definitions, learning, judging, answers, refusals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import huber
from sklearn import metrics
from sklearn.linear_model import PoissonRegressor, QuantileRegressor

import onsketch
import onsketch.sklearn
from onsketch.core.implicit import implicit_step
from onsketch.core.losses import LOSSES, in_units_of_labels, loss_values, named, slope
from onsketch.data.task import Task
from onsketch.errors import InputError, OptionError
from onsketch.files.records import converted
from onsketch.jit.decorators import kernel
from onsketch.jobs.evaluation import best_fixed_loss
from onsketch.jobs.judging import Counts, Judge
from onsketch.jobs.models import make_learner
from onsketch.jobs.tally import judged
from onsketch.learners.multiclass import OneVersusRest, SharedSketch
from onsketch.learners.multiclass.coupled import COUPLED
from onsketch.learners.options import SAME_LOSSES
from onsketch.sklearn import OnlineRegressor
from program import run


@kernel
def _step(loss, z, y, length):
    return implicit_step(loss, z, y, length)


def counts(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four features, and counts whose rate they say."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, rng.poisson(np.exp(X @ [0.5, -0.3, 0.2, 0.0] + 1.0)).astype(float)


def table(path, X, y) -> str:
    lines = [
        "a,b,c,d,label",
        *(",".join(map(repr, [*row, label])) for row, label in zip(X.tolist(), y.tolist(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


# The formulas -------------------------------------------------------------------------------------------------


@given(st.floats(-20.0, 20.0), st.just(0.0) | st.floats(1e-9, 50.0), st.floats(0.01, 0.99))
def test_values_are_those_of_scikit_learn(z: float, y: float, q: float) -> None:
    pinball = metrics.mean_pinball_loss([y], [z], alpha=q)
    assert loss_values(f"quantile {q!r}", [z], [y])[0] == pytest.approx(pinball, abs=1e-12)
    perfect = y - y * math.log(y) if y > 0.0 else 0.0
    deviance = metrics.mean_poisson_deviance([y], [math.exp(z)])
    assert 2.0 * (loss_values("poisson", [z], [y])[0] - perfect) == pytest.approx(deviance, rel=1e-9, abs=1e-9)


@given(st.floats(-5.0, 5.0), st.floats(0.0, 20.0), st.floats(0.01, 0.99))
def test_slopes_are_those_of_the_values(z: float, y: float, q: float) -> None:
    for key in (f"quantile {q!r}", "poisson"):
        if key != "poisson" and abs(z - y) < 1e-4:
            continue
        low, high = loss_values(key, [z - 1e-5, z + 1e-5], [y, y])
        assert slope.py_func(named(key).form, z, y) == pytest.approx((high - low) / 2e-5, rel=1e-4, abs=1e-4)


def test_half_the_absolute_loss_is_the_median_s() -> None:
    z, y = np.random.default_rng(0).normal(size=(2, 50))
    np.testing.assert_allclose(2.0 * loss_values("quantile 0.5", z, y), loss_values("absolute", z, y))
    assert onsketch.learner("adagrad", loss="quantile", quantile=0.9).loss == "quantile 0.9"
    assert named("quantile 0.9") == named(onsketch.learner("ogd", loss="quantile", quantile=0.9).loss)


@given(st.floats(-30.0, 30.0), st.floats(0.0, 1e4), st.floats(1e-12, 1e12))
def test_an_implicit_poisson_step_ends_where_its_equation_says(z: float, y: float, length: float) -> None:
    end, slope_there, rate = _step(LOSSES["poisson"].form, z, y, length)
    assert rate == pytest.approx(math.exp(end))
    assert end == pytest.approx(z - length * slope_there, rel=1e-7, abs=1e-7)
    unit = 1.0 + abs(z) + length * (y + rate)
    assert abs(end + length * rate - z - length * y) <= 1e-9 * unit


@given(st.floats(-20.0, 20.0), st.floats(-20.0, 20.0), st.floats(1e-3, 50.0))
def test_the_huber_and_the_insensitive_loss_are_their_formulas(z: float, y: float, epsilon: float) -> None:
    assert loss_values(f"huber {epsilon!r}", [z], [y])[0] == pytest.approx(2.0 * huber(epsilon, z - y), abs=1e-12)
    insensitive = max(0.0, abs(z - y) - epsilon)
    assert loss_values(f"epsilon_insensitive {epsilon!r}", [z], [y])[0] == pytest.approx(insensitive, abs=1e-12)


@given(
    st.sampled_from(["huber", "epsilon_insensitive"]), st.floats(-30.0, 30.0), st.floats(-30.0, 30.0),
    st.floats(1e-6, 1e6), st.floats(1e-3, 10.0),
)  # fmt: skip
def test_an_implicit_step_ends_at_the_least_of_loss_and_distance(
    name: str, z: float, y: float, length: float, epsilon: float
) -> None:
    key = f"{name} {epsilon!r}"
    end, slope_there, _ = _step(named(key).form, z, y, length)
    assert end == pytest.approx(z - length * slope_there, rel=1e-9, abs=1e-9)

    def cost(v: float) -> float:
        return float(loss_values(key, [v], [y])[0]) + (v - z) ** 2 / (2.0 * length)

    others = [z, y, y - epsilon, y + epsilon, end + 1e-3, end - 1e-3]
    assert cost(end) <= min(map(cost, others)) + 1e-9 * (1.0 + cost(z))


# Learning -----------------------------------------------------------------------------------------------------


def outliers(n: int = 3000, unit: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three features; one label in ten is far off, always in the same direction."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, 2.0, -1.0] + 5.0 + 0.3 * rng.normal(size=n)
    return X, unit * np.where(rng.random(n) < 0.1, y + 30.0, y)


@pytest.mark.parametrize("method", ["auto", "rfd-son", "adagrad", "ada-fd"])
def test_the_huber_loss_of_a_large_epsilon_is_the_squared_loss_bit_for_bit(method: str) -> None:
    X, y = outliers(300)
    squared, huber = (
        OnlineRegressor(method, random_state=0, **options).fit(X, y).predict(X)
        for options in ({"loss": "squared"}, {"loss": "huber", "epsilon": 1e6})
    )
    np.testing.assert_array_equal(squared, huber)


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive"])
@pytest.mark.parametrize("method", ["auto", "rfd-son", "adagrad", "ogd", "ada-fd", "ftrl"])
def test_the_unit_of_labels_and_epsilon_does_not_matter(method: str, loss: str) -> None:
    X, y = outliers(400)
    one, large = (
        OnlineRegressor(method, loss=loss, epsilon=0.5 * unit, random_state=0).fit(X, unit * y).predict(X) / unit
        for unit in (1.0, 1024.0)
    )
    np.testing.assert_allclose(large, one, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive"])
@pytest.mark.parametrize("method", ["auto", "rfd-son", "adagrad"])
def test_outliers_do_not_matter_to_robust_losses(method: str, loss: str) -> None:
    X, y = outliers()
    truth = X @ [1.0, 2.0, -1.0] + 5.0
    model = OnlineRegressor(method, loss=loss, epsilon=0.5, max_iter=5, random_state=0).fit(X, y)
    usual = OnlineRegressor(method, max_iter=5, random_state=0).fit(X, y)
    assert np.abs(model.predict(X) - truth).mean() < 0.75 < 2.0 < np.abs(usual.predict(X) - truth).mean()


def test_a_scaled_learner_with_an_epsilon_goes_on_bit_for_bit_from_its_file(tmp_path) -> None:
    X, y = outliers(300)
    whole, half = (onsketch.safe_learner("adagrad", loss="huber", epsilon=0.5) for _ in range(2))
    expected = whole.learn(X, y)
    half.learn(X[:130], y[:130])
    half.save(tmp_path / "model")
    np.testing.assert_array_equal(onsketch.load(tmp_path / "model").learn(X[130:], y[130:]), expected[130:])


def test_names_of_scikit_learn_are_accepted_everywhere(tmp_path) -> None:
    for theirs, ours in SAME_LOSSES.items():
        for made in (onsketch.learner, onsketch.safe_learner):
            assert made("adagrad", loss=theirs).loss == ours
        assert onsketch.compose("fd", "adagrad", loss=theirs).loss == ours
    X, y = outliers(60)
    signs = y > 5.0
    OneVersusRest("adagrad", 2, loss="log_loss").learn(X, signs.astype(int))
    SharedSketch("rfd-son", 2, loss="squared_error", sketch_size=2).learn(X, np.column_stack([y, y]))
    assert isinstance(make_learner(Task("multiclass", names=[]), "auto", loss="log_loss"), COUPLED["auto"])
    river = pytest.importorskip("onsketch.river")
    river.OnlineRegressor("adagrad", loss="absolute_error").learn_one({"a": 1.0}, 2.0)
    river.OnlineClassifier("adagrad", loss="log_loss").learn_one({"a": 1.0}, True)
    path = table(tmp_path / "t.csv", np.column_stack([X, X[:, 0]]), y)
    done = run("train", path, "--loss", "absolute_error", "--save", tmp_path / "m")
    assert done.exit_code == 0, done.output
    assert onsketch.load(tmp_path / "m").loss == "absolute"


def test_auto_learns_a_quantile_as_well_as_a_solver() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = 100.0 + 10.0 * (X @ [1.0, 2.0, -1.0]) + rng.exponential(5.0, size=4000)
    model = onsketch.learner("auto", loss="quantile", quantile=0.9)
    model.learn(X[:3000], y[:3000])
    best = QuantileRegressor(quantile=0.9, alpha=0.0).fit(X[:1000], y[:1000])
    said, theirs = model.predict(X[3000:]), best.predict(X[3000:])
    assert loss_values(model.loss, said, y[3000:]).mean() < 1.05 * loss_values(model.loss, theirs, y[3000:]).mean()
    assert 0.86 < np.mean(y[3000:] <= said) < 0.94


@pytest.mark.parametrize("scale", [0.02, 1.0, 100.0])
def test_auto_learns_rates_as_well_as_a_solver(scale: float) -> None:
    X, _ = counts()
    rates = scale * np.exp(X @ [0.5, -0.3, 0.2, 0.0] + 1.0)
    y = np.random.default_rng(1).poisson(rates).astype(float)
    model = onsketch.learner("auto", loss="poisson")
    model.learn(X[:2000], y[:2000])
    best = PoissonRegressor(alpha=0.0).fit(X[:2000], y[:2000])
    mine = metrics.mean_poisson_deviance(y[2000:], in_units_of_labels("poisson", model.predict(X[2000:])))
    assert mine < 1.05 * metrics.mean_poisson_deviance(y[2000:], best.predict(X[2000:]))


def test_learners_of_counts_merge() -> None:
    X, y = counts(2000)
    one, other = (onsketch.learner("auto", loss="poisson") for _ in range(2))
    one.learn(X[:700], y[:700])
    other.learn(X[700:1400], y[700:1400])
    alone = metrics.mean_poisson_deviance(y[1400:], np.exp(one.predict(X[1400:])))
    both = metrics.mean_poisson_deviance(y[1400:], np.exp(one.merge(other).predict(X[1400:])))
    assert both < 1.02 * alone


def test_the_best_fixed_rate_is_solved_for() -> None:
    X, y = counts(400)
    best = PoissonRegressor(alpha=0.0, tol=1e-8, max_iter=1000).fit(X, y)
    z = X @ best.coef_ + best.intercept_
    assert best_fixed_loss("poisson", X, y, np.ones(400)) == pytest.approx(loss_values("poisson", z, y).sum(), rel=1e-6)


@pytest.mark.parametrize("method", ["auto", "rfd-son", "adagrad", "ons", "ada-ffd"])
def test_estimators_give_rates_and_quantiles(method: str) -> None:
    X, y = counts(1500)
    said = OnlineRegressor(method, loss="poisson", random_state=0).fit(X, y).predict(X)
    assert (said > 0.0).all()
    assert metrics.d2_tweedie_score(y, said, power=1) > 0.15
    high = OnlineRegressor(method, loss="quantile", quantile=0.8, random_state=0).fit(X, y).predict(X)
    assert 0.6 < np.mean(y <= high) < 0.95


def test_river_gives_rates() -> None:
    river = pytest.importorskip("onsketch.river")
    X, y = counts(300)
    model, twin = (river.OnlineRegressor(loss="poisson") for _ in range(2))
    for row, label in zip(X, y, strict=True):
        model.learn_one(dict(enumerate(row.tolist())), label)
    x = dict(enumerate(X[0].tolist()))
    assert model.predict_one(x) == pytest.approx(math.exp(model._learner.predict(X[:1])[0]))
    assert twin.predict_one(x) == 0.0


# Refusals -----------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="counts, 0 or more"):
        onsketch.learner("adagrad", loss="poisson").learn([[1.0]], [-1.0])
    with pytest.raises(OptionError, match="level of loss='quantile'"):
        onsketch.learner("adagrad", loss="squared", quantile=0.9)
    for level in (0.0, 1.0):
        with pytest.raises(OptionError, match="quantile"):
            onsketch.learner("adagrad", loss="quantile", quantile=level)
    with pytest.raises(OptionError, match="level of loss='huber' and loss='epsilon_insensitive'"):
        onsketch.learner("adagrad", loss="squared", epsilon=0.9)
    with pytest.raises(OptionError, match="each target would have its own scale"):
        OnlineRegressor("ada-fd", loss="huber").fit(np.eye(3), np.eye(3))
    with pytest.raises(OptionError, match="has no curvature"):
        onsketch.learner("rfd-son", loss="quantile", summary="curvature")
    with pytest.raises(OptionError, match="curvature_schedule"):
        onsketch.learner("rfd-son", loss="quantile", ridge=1.0)
    with pytest.raises(OptionError, match="arow"):
        onsketch.learner("arow", loss="poisson")
    with pytest.raises(OptionError, match="classes need"):
        onsketch.sklearn.OnlineClassifier(loss="poisson").fit([[0.0], [1.0]], [0, 1])


# Judging ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["quantile 0.8", "poisson", "huber 0.5", "epsilon_insensitive 0.5"])
def test_figures_equal_the_definitions_for_any_cut(key: str) -> None:
    X, y = counts(500)
    z, weights = X @ [0.4, -0.3, 0.2, 0.1] + 1.0, np.random.default_rng(2).random(500)
    judges = []
    for cuts in ([], [1, 250, 499]):
        judge = Judge(Task("regression"), key)
        for part in np.split(np.arange(500), cuts):
            judge.add(judged(key, y[part], z[part], False, weights[part]))
            judge = Judge.from_state(judge.task, converted(json.loads(json.dumps(judge.state().state())), Counts))
        judges.append(judge)
    assert judges[0].state() == judges[1].state()
    figures = judges[0].figures()
    if key == "poisson":
        rate, mean = np.exp(z), np.average(y, weights=weights)
        deviance = metrics.mean_poisson_deviance(y, rate, sample_weight=weights)
        assert figures["deviance"] == pytest.approx(deviance)
        explained = metrics.d2_tweedie_score(y, rate, sample_weight=weights, power=1)
        assert figures["deviance_explained"] == pytest.approx(explained)
        assert figures["best_constant_loss"] == pytest.approx(mean - mean * math.log(mean))
        assert figures["rmse"] == pytest.approx(math.sqrt(np.average((rate - y) ** 2, weights=weights)))
    elif key != "quantile 0.8":
        constants = [loss_values(key, np.full(500, q), y).mean() for q in np.linspace(y.min(), y.max(), 2001)]
        assert figures["best_constant_loss"] == pytest.approx(min(constants), rel=1e-3)
    else:
        assert figures["coverage"] == pytest.approx(np.average(y <= z, weights=weights))
        constants = [metrics.mean_pinball_loss(y, np.full(500, q), alpha=0.8) for q in np.unique(y)]
        assert figures["best_constant_loss"] == pytest.approx(min(constants))


# The program --------------------------------------------------------------------------------------------------


def test_the_program_learns_counts_and_says_numbers(tmp_path) -> None:
    X, y = counts(600)
    path, model, out, figures_file = (
        table(tmp_path / "c.csv", X, y),
        tmp_path / "m",
        tmp_path / "p.txt",
        tmp_path / "t.json",
    )
    done = run("train", path, "--loss", "poisson", "--save", model, "--json", figures_file)
    assert done.exit_code == 0, done.output
    assert "deviance" in done.output
    figures = json.loads(figures_file.read_text())
    assert figures["deviance"] < figures["best_constant_deviance"]
    assert run("predict", model, path, "-o", out).exit_code == 0
    said = np.loadtxt(out)
    np.testing.assert_allclose(said, onsketch.load(model).predict(X), rtol=1e-6)
    assert run("predict", model, path, "-o", out, "--kind", "margin").exit_code == 0
    np.testing.assert_allclose(np.exp(np.loadtxt(out)), said, rtol=1e-6)


def test_the_program_learns_a_quantile(tmp_path) -> None:
    X, y = counts(600)
    path, figures_file = table(tmp_path / "c.csv", X, y), tmp_path / "t.json"
    done = run("train", path, "--loss", "quantile", "--quantile", "0.9", "--json", figures_file, "-l", "adagrad")
    assert done.exit_code == 0, done.output
    figures = json.loads(figures_file.read_text())
    assert figures["loss_name"] == "quantile 0.9"
    assert 0.0 < figures["coverage"] < 1.0
    done = run("train", path, "--quantile", "0.9")
    assert done.exit_code != 0
    assert "does nothing without it" in done.output


def test_classes_are_no_counts(tmp_path):
    from program import run

    (tmp_path / "rows.svm").write_text("1 1:1\n0 2:1\n" * 5)
    done = run("train", tmp_path / "rows.svm", "--task", "binary", "--loss", "poisson", "-l", "adagrad")
    assert done.exit_code == 1
    assert "learns counts, not classes" in done.stderr
