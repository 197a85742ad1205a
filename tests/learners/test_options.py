"""Options are declared once: whatever takes them agrees with the declaration."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
from types import ModuleType
from typing import Any

import pytest

import onsketch
from checkout import ROOT
from onsketch import river, sklearn
from onsketch.cli.options import learner_options, learning
from onsketch.core.errors import OptionError
from onsketch.learners.methods import METHODS
from onsketch.learners.options import DECLARED, OF_THE_LEARNER_ALONE, Options, resolve

ESTIMATORS = (sklearn.OnlineClassifier, sklearn.OnlineRegressor, river.OnlineClassifier, river.OnlineRegressor)


def _tool(name: str) -> ModuleType:
    path = ROOT / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"tool_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_keywords_for_editors_are_as_declared() -> None:
    tool = _tool("keywords")
    assert tool.TARGET.read_text(encoding="utf-8") == tool.text(), "run: python tools/keywords.py"


@pytest.mark.parametrize("name", DECLARED)
def test_every_default_passes_its_own_check_and_concerns_some_method(name: str) -> None:
    option = DECLARED[name]
    if option.default is not None:
        assert option.check(name, option.default) == option.default
    assert any(option.concerns(method) for method in METHODS.values())
    assert option.sentence.endswith(".")
    assert option.shown


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_takes_every_option_and_refuses_others(kind: Any) -> None:
    shown = inspect.signature(kind).parameters
    assert set(DECLARED) - {"n_features", "seed"} <= set(shown)
    estimator = kind(sketch_size=7)
    for name in DECLARED:
        if name not in OF_THE_LEARNER_ALONE:
            assert getattr(estimator, name) == (7 if name == "sketch_size" else shown[name].default)
    with pytest.raises(TypeError, match="no parameter 'sketchsize'"):
        kind(sketchsize=7)


def test_the_program_takes_every_option() -> None:
    assert {option.name for option in learning()} == {*DECLARED, "plain"}


def test_what_is_typed_becomes_none_a_number_or_a_word() -> None:
    typed = {"clip": "none", "kernel": "rbf", "loss": "squared"}
    assert learner_options(typed) == {"clip": None, "kernel": "rbf", "loss": "squared"}
    assert learner_options({"clip": "2.5", "ridge": None}) == {"clip": 2.5}


@pytest.mark.parametrize("name", METHODS)
def test_none_leaves_an_option_to_the_method_but_for_the_clip(name: str) -> None:
    method = METHODS[name]
    usual = resolve(name, method.concerns, method.defaults, {})
    nothing = dict.fromkeys(DECLARED)
    del nothing["clip"]
    assert resolve(name, method.concerns, method.defaults, nothing) == usual
    unbounded = resolve(name, method.concerns, method.defaults, {"clip": None})
    assert unbounded == dataclasses.replace(usual, clip=None)
    assert resolve(name, method.concerns, method.defaults, {"clip": "default"}) == usual


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("sketch_size", 2.5, "a whole number"),
        ("sketch_size", True, "a whole number"),
        ("ridge", -1.0, r"\[0, inf\]"),
        ("ridge", "much", "a number"),
        ("step_size", 0.0, r"\(0, inf\]"),
        ("forget", 0.0, r"\(0, 1\]"),
        ("summary", "rows", "'gradient', 'data', 'curvature'"),
        ("doubling", "yes", "True or False"),
        ("dtype", "float16", "float64"),
    ],
)
def test_a_wrong_value_names_the_option_and_what_was_expected(name: str, value: Any, expected: str) -> None:
    with pytest.raises(OptionError, match=f"{name}=.*expected.*{expected}"):
        onsketch.learner("rfd-son", **{name: value})


def test_pairs_are_ordered_and_within_bounds() -> None:
    for box in (1.0, (1.0, 0.0), (float("nan"), 1.0)):
        with pytest.raises(OptionError, match="box="):
            onsketch.learner("adagrad", box=box)
    for betas in (0.9, (0.9, 1.0), (-0.1, 0.9)):
        with pytest.raises(OptionError, match="betas="):
            onsketch.learner("adam", betas=betas)


def test_an_option_that_does_not_concern_a_method_is_an_error_naming_both() -> None:
    with pytest.raises(OptionError, match=r"adagrad: the option sketch_size \(given as 5\)"):
        onsketch.learner("adagrad", sketch_size=5)
    with pytest.raises(OptionError, match="there is no option 'sketchsize'"):
        onsketch.learner("adagrad", sketchsize=5)  # type: ignore[call-arg]


def test_options_are_plain_values() -> None:
    assert Options().sketch_size == 20
    assert {field.name for field in dataclasses.fields(Options)} == set(DECLARED)


def test_an_excluded_end_of_a_range_is_reported_as_such():
    for level in (1.0, 0.0):
        with pytest.raises(OptionError, match=r"expected a number in \(0, 1\)"):
            onsketch.learner("adagrad", loss="quantile", quantile=level)
    with pytest.raises(OptionError, match=r"in \(0, 1\]"):
        onsketch.learner("adagrad", forget=2.0)


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (lambda: onsketch.learner("rdf-son"), "rfd-son"),
        (lambda: onsketch.learner("adagrad", step_sise=1.0), "step_size"),
        (lambda: onsketch.safe_learner("rfdson"), "rfd-son"),
        (lambda: onsketch.compose(sketch="rfd", sketchsize=3), "sketch_size"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(make, meant):
    with pytest.raises(onsketch.errors.OptionError, match=f"Did you mean '{meant}'"):
        make()


def test_a_misspelt_parameter_of_an_estimator_gets_a_suggestion():
    sklearn = pytest.importorskip("onsketch.sklearn")
    with pytest.raises(TypeError, match="Did you mean 'sketch_size'"):
        sklearn.OnlineClassifier(sketchsize=3)
    with pytest.raises(onsketch.errors.OptionError, match="Did you mean 'rfd-son'"):
        sklearn.OnlineClassifier("rdf-son").fit([[1.0], [2.0]], [0, 1])
