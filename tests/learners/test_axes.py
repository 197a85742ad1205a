"""Sketches, geometries and losses are tables: what comes from outside runs everywhere or is refused with a reason."""

import math

import numpy as np
import pytest

import definitions.algorithm
import definitions.geometry
import onsketch
from onsketch.core.errors import OptionError, UpdateError
from onsketch.core.geometry import GEOMETRIES, OUTSIDE, Geometry, geometry_of, register
from onsketch.core.losses import LOSSES, Form, curvature, slope, value
from onsketch.core.spectral_step import inverse_metric, inverse_metrics
from onsketch.jit.decorators import kernel
from onsketch.jit.vectors import load, store
from onsketch.learners.first_order.learner import LOOPS
from onsketch.learners.methods import METHODS
from onsketch.learners.options import DECLARED, LEVELS, LOSS_NAMES, Options
from onsketch.learners.rule_table import RULES, rule_of
from onsketch.learners.setup import make_setup
from onsketch.learners.sketch_table import SKETCHES, SketchKind, sketch_of
from onsketch.learners.sketch_table import register as register_sketch
from onsketch.sketches.named import make
from outside_geometry import QUARTIC
from outside_sketch import DENSE, LAST
from streams import sparse_stream

NAME = QUARTIC.name


class LastRowsDefined(definitions.Sketch):
    """``SᵀS = Σ g gᵀ`` over the last m rounds."""

    def __init__(self, d, size, ridge):
        super().__init__(d, ridge)
        self.m, self.last = size, []

    def absorb(self, row, t):
        self.last = [*self.last, np.outer(row, row)][-self.m :]
        self.rows = sum(self.last)


@pytest.fixture(autouse=True)
def defined(monkeypatch):
    """The made-up geometry and the made-up sketch in the d×d definitions."""
    known, made = definitions.spectral_function, definitions.make_sketch

    def with_last_rows(d, o):
        return LastRowsDefined(d, o.sketch_size, o.ridge) if o.sketch in (LAST.name, DENSE.name) else made(d, o)

    def with_quartic(name, sketch, t):
        if name != NAME:
            return known(name, sketch, t)
        _, clean, vectors = sketch.eigenpairs()
        return sketch.ridge + clean**0.25, vectors

    monkeypatch.setattr(definitions.geometry, "spectral_function", with_quartic)
    monkeypatch.setattr(definitions.algorithm, "make_sketch", with_last_rows)


def agrees(sketch, geometry=NAME, **options):
    """As its definition says; a fourth root makes much of what the cutoff leaves."""
    X, y = sparse_stream(n=50)
    options = {"sketch_size": 3, "ridge": 2.0, "step_size": 0.3, **options}
    if sketch in ("diagonal", "exact"):
        del options["sketch_size"]
    learner = onsketch.compose(sketch, geometry, **options)
    wanted = definitions.compose_definition(
        X, y, sketch=sketch, geometry=geometry, **{"clip": None, "doubling": False, **options}
    )
    np.testing.assert_allclose(learner.learn(X, y), wanted.predictions, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(learner.weights, wanted.weights, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("sketch", ["fd", "rfd", "pfd", "cfd", "greedy", "ffd", "rp", "oja", "exact", "diagonal"])
def test_a_geometry_from_outside_runs_under_every_sketch(sketch, update):
    agrees(sketch, update=update, clip=0.5)


@pytest.mark.parametrize("sketch", ["fd", "oja", "exact", "diagonal"])
def test_a_geometry_from_outside_takes_composite_terms(sketch):
    agrees(sketch, l1=0.01, l2=0.1)


def test_a_registered_geometry_averages_absent_features():
    agrees("diagonal", average=True)


@pytest.mark.parametrize(
    ("sketch", "reason"), [("low-rank", "adagrad"), ("rada", "adagrad"), ("none", "gradient"), ("nothing", "expected")]
)
def test_impossible_pairs_are_refused_with_the_reason(sketch, reason):
    with pytest.raises(OptionError, match=reason):
        onsketch.compose(sketch, NAME)


def test_a_saved_learner_of_a_registered_geometry_resumes(tmp_path):
    X, y = sparse_stream()
    whole = onsketch.compose("fd", NAME, sketch_size=3)
    split = onsketch.compose("fd", NAME, sketch_size=3)
    split.learn(X[:30], y[:30])
    split.save(tmp_path / "model")
    loaded = onsketch.load(tmp_path / "model")
    loaded.learn(X[30:], y[30:])
    whole.learn(X, y)
    np.testing.assert_array_equal(loaded.weights, whole.weights)


def test_merging_learners_of_a_geometry_from_outside_agrees_with_its_metric():
    X, y = sparse_stream()
    one, two = (onsketch.compose("fd", NAME, sketch_size=9) for _ in range(2))
    one.learn(X, y)
    weights = one.weights
    one.merge(two)  # one that has learned nothing
    np.testing.assert_allclose(one.weights, weights, rtol=1e-8, atol=1e-10)


EVERY_STEP = pytest.mark.parametrize("geometry", ["newton", "adagrad", "s-adagrad", NAME])


@EVERY_STEP
@pytest.mark.parametrize("update", ["mirror", "dual"])
@pytest.mark.parametrize("sketch", [LAST.name, DENSE.name])
def test_a_sketch_from_outside_runs_under_every_geometry(sketch, update, geometry):
    agrees(sketch, geometry, update=update, clip=0.5)


@pytest.mark.parametrize("options", [{"average": True}, {"diagonal": True, "summary": "curvature"}, {"sketch_size": 1}])
def test_a_sketch_from_outside_takes_the_options_of_all(options):
    agrees(LAST.name, "newton", clip=0.5, **options)


def test_a_sketch_from_outside_takes_composite_terms():
    agrees(LAST.name, "adagrad", l1=0.01, l2=0.1)


@pytest.mark.parametrize("sketch", [LAST.name, DENSE.name])
def test_a_saved_learner_of_a_registered_sketch_resumes(tmp_path, sketch):
    X, y = sparse_stream()
    whole, split = (onsketch.compose(sketch, "newton", sketch_size=3, ridge=1.0) for _ in range(2))
    split.learn(X[:30], y[:30])
    split.save(tmp_path / "model")
    loaded = onsketch.load(tmp_path / "model")
    loaded.learn(X[30:], y[30:])
    whole.learn(X, y)
    np.testing.assert_array_equal(loaded.weights, whole.weights)


def test_a_sketch_from_outside_is_made_by_name_and_comes_back_from_a_file(tmp_path):
    rows = np.arange(12.0).reshape(4, 3)
    summary = make(LAST.name, 3, 2).update(rows)
    summary.save(tmp_path / "sketch")
    np.testing.assert_array_equal(onsketch.load(tmp_path / "sketch").matrix, rows[2:])
    np.testing.assert_array_equal(make(LAST.name, 3, 3).update(rows[:1]).merge(make(LAST.name, 3, 3)).matrix, rows[:1])


def test_what_a_sketch_from_outside_cannot_do_is_refused_with_the_reason():
    X, y = sparse_stream()
    for options, reason in (
        ({"ridge": 0.0}, "needs a ridge"),
        ({"sketch_size": "auto"}, "is for frequent directions"),
        ({"doubling": False}, "does not concern"),
        ({"forget": 0.9}, "does not concern"),
    ):
        with pytest.raises(OptionError, match=reason):
            onsketch.compose(LAST.name, "newton", **options)
    with pytest.raises(OptionError, match="plain gradient steps"):
        onsketch.compose(LAST.name, "gradient")
    one, two = (onsketch.compose(LAST.name, "newton", sketch_size=3, ridge=1.0) for _ in range(2))
    one.learn(X, y)
    with pytest.raises(OptionError, match="no rule for adding"):
        one.merge(two)


def test_a_sketch_has_one_record_and_an_unknown_one_is_an_error_that_lists_all():
    for name in ("lost", "row dictionary"):
        with pytest.raises(OptionError, match="expected one of none, diagonal, fd"):
            onsketch.compose(name, "newton")
    with pytest.raises(OptionError, match="expected one of none, diagonal, fd"):
        sketch_of("lost")
    with pytest.raises(OptionError, match="already"):
        register_sketch(LAST)
    with pytest.raises(OptionError, match="what makes"):
        register_sketch(SketchKind("other", "nothing", "O(1)"))
    assert {method.sketch for method in METHODS.values()} <= set(SKETCHES)


def test_every_method_has_an_update_rule_and_an_unknown_one_is_an_error_that_lists_all():
    assert {method.rule for method in METHODS.values()} == set(RULES)
    assert set(LOOPS) == {name for name, rule in RULES.items() if rule.family == "features"}
    with pytest.raises(OptionError, match="expected one of step, adam"):
        rule_of("newtonian")


def test_an_unknown_geometry_is_an_error_that_lists_all():
    with pytest.raises(OptionError, match="newton, adagrad"):
        geometry_of("newtonian")
    with pytest.raises(OptionError, match="newton, adagrad"):
        onsketch.compose("fd", "newtonian")


def test_a_name_is_given_once_and_codes_stay_inside():
    with pytest.raises(OptionError, match="already"):
        register(Geometry(NAME, QUARTIC.metric, "again"))
    with pytest.raises(OptionError, match="metric"):
        register(Geometry("other", None, "no metric"))
    own = [geometry.code for geometry in GEOMETRIES.values() if geometry.code != OUTSIDE]
    assert sorted(own) == list(range(OUTSIDE))


@pytest.mark.parametrize("method", ["ada-fd", "ada-gp", "adagrad"])
def test_a_code_that_is_no_geometry_or_no_loss_is_refused(method):
    X, y = sparse_stream()
    for field in ("geometry", "loss") if METHODS[method].sketched else ("loss",):
        learner = onsketch.learner(method)
        learner._setup = learner._setup._replace(**{field: Form(99) if field == "loss" else 99})
        with pytest.raises(UpdateError):
            learner.learn(X, y)


@kernel
def _four(setup, energies, ridge, escaped, out):
    store(out, 0, inverse_metrics(setup, load(energies, 0, 4), ridge, escaped))


@kernel
def _each(setup, energies, ridge, escaped, out):
    for i in range(4):
        out[i] = inverse_metric(setup, energies[i], ridge, escaped)


@pytest.mark.parametrize("name", [name for name, geometry in GEOMETRIES.items() if geometry.spectral])
def test_every_form_of_a_geometry_is_the_same_function(name):
    geometry = GEOMETRIES[name]
    options = Options(ridge=0.5, step_size=1.0, curvature=1.0 if geometry.newton else None)
    setup = make_setup(onsketch.compose("fd", name).method, options)
    energies = np.array([0.0, 1e-8, 3.7, 1e6])
    four, each = np.empty(4), np.empty(4)
    _four(setup, energies, 0.5, 0.25, four)
    _each(setup, energies, 0.5, 0.25, each)
    wanted = np.array(geometry.inverses(energies, 0.5, 0.25))
    np.testing.assert_allclose(four, wanted, rtol=1e-15)
    np.testing.assert_allclose(each, wanted, rtol=1e-15)
    if geometry.coefficients:
        flat, unit, root, inside = geometry.coefficients(0.5)
        formed = [flat + unit * energy + root * math.sqrt(inside + energy) for energy in energies]
        np.testing.assert_allclose(formed, geometry.metrics(energies, 0.5), rtol=1e-15)


def test_every_loss_has_one_entry_with_one_code():
    assert tuple(LOSSES) == LOSS_NAMES
    assert {(loss.option, name) for name, loss in LOSSES.items() if loss.option} == {
        (level, name) for level, names in LEVELS.items() for name in names
    }
    assert all(LOSSES[name].level == DECLARED[level].default for level, names in LEVELS.items() for name in names)
    assert sorted(loss.code for loss in LOSSES.values()) == list(range(len(LOSSES)))
    for function in (value, slope, curvature):
        assert math.isnan(function.py_func(Form(len(LOSSES)), 0.3, 1.0))


def test_composite_terms_say_what_they_cost_before_a_sketched_learner_grows_large(tmp_path):
    wide = np.zeros((1, 2_001))
    wide[0, -1] = 1.0
    grown = onsketch.learner("ada-fd", l1=1e-9, sketch_size=2)
    grown.learn(wide[:, :2_000], [1.0])
    with pytest.raises(OptionError, match=r"n_features=2001.*adagrad and ftrl"):
        grown.learn(wide, [1.0])
    assert grown.n_features == 2_000
    asked = onsketch.learner("ada-fd", l1=1e-9, sketch_size=2, n_features=2_001)
    asked.learn(wide, [1.0])
    asked.save(tmp_path / "model")
    assert onsketch.load(tmp_path / "model").rounds == 1
    onsketch.learner("adagrad", l1=1e-9).learn(wide, [1.0])
