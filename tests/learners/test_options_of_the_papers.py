"""What the papers' experiments must have done and their text does not say, or says in passing, against definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_projection_order import agree

import onsketch
from onsketch.errors import OptionError
from streams import sparse_stream

ADAPTED = {"diagonal": True, "diagonal_first": True}


@pytest.mark.parametrize("method", ["oja-son", "fd-son", "rfd-son", "rp-son", "ons", "ada-fd", "ada-full", "ada-ffd"])
def test_diagonal_adaptation_that_takes_the_row_in_first_is_its_definition(method: str) -> None:
    X, y = sparse_stream("logistic")
    size = {} if method in ("ons", "ada-full") else {"sketch_size": 4}
    agree(method, {"loss": "logistic", "clip": 0.5, "ridge": 2.0, "step_size": 1.0, **ADAPTED, **size}, X, y)


def test_the_two_forms_of_diagonal_adaptation_differ_and_survive_saving(tmp_path: Any) -> None:
    X, y = sparse_stream(n=60)
    options = {"sketch_size": 3, "ridge": 1.0, "diagonal": True}
    first = onsketch.learner("oja-son", **options, diagonal_first=True)
    whole = onsketch.learner("oja-son", **options, diagonal_first=True).learn(X, y)
    head = first.learn(X[:25], y[:25])
    first.save(tmp_path / "half")
    tail = onsketch.load(tmp_path / "half").learn(X[25:], y[25:])
    assert np.array_equal(np.concatenate([head, tail]), whole)
    assert np.abs(whole - onsketch.learner("oja-son", **options).learn(X, y)).max() > 0.01


def test_what_does_not_go_with_it_is_refused() -> None:
    for wrong in ({}, {"diagonal": True, "projection": "after"}, {"diagonal": True, "step": "implicit"}):
        with pytest.raises(OptionError, match="diagonal_first"):
            onsketch.learner("oja-son", diagonal_first=True, **wrong)


@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("step", [None, 0.05])
def test_ojas_blocks_and_steps_are_their_definition(block: int, step: float | None) -> None:
    X, y = sparse_stream()
    agree("oja-son", {"sketch_size": 4, "ridge": 2.0, "oja_block": block, "oja_step": step}, X, y)


def test_ojas_blocks_ask_for_a_ridge() -> None:
    with pytest.raises(OptionError, match="ridge"):
        onsketch.learner("oja-son", oja_block=5)


def test_ojas_blocks_have_explicit_steps() -> None:
    with pytest.raises(OptionError, match="explicit"):
        onsketch.learner("oja-son", oja_block=5, ridge=1.0, step="implicit")
    assert onsketch.safe_learner("oja-son", oja_block=5).options.step == "explicit"
