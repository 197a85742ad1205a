"""Reasons against their definition: weight × value where there are weights, else what is lost without a feature."""

import numpy as np
import pytest

import onsketch
from onsketch.core.errors import InputError
from onsketch.jobs.explaining import LONGEST, Reasons
from onsketch.rows.sparse import Sparse


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(60, 5)) * (np.random.default_rng(1).random((60, 5)) < 0.7)


def test_parts_of_a_linear_model_and_the_intercept_sum_up_to_the_margin(rows):
    learner = onsketch.learner("adagrad", fit_intercept=True)
    learner.learn(rows, np.sign(rows[:, 0] - 0.2))
    margins = learner.predict(rows)
    for margin, reason in zip(margins, Reasons(learner, False).behind(rows, margins, 5), strict=True):
        assert reason.parts.sum() + reason.intercept == pytest.approx(margin)
        assert list(np.abs(reason.parts)) == sorted(np.abs(reason.parts), reverse=True)


def test_without_weights_a_part_is_what_the_margin_loses_when_the_feature_is_left_out(rows):
    learner = onsketch.learner("kons")
    learner.learn(rows, np.sign(rows[:, 0] * rows[:, 1] + 0.1))
    margins = learner.predict(rows)
    for k, reason in enumerate(Reasons(learner, False).behind(rows, margins, 5)):
        assert reason.intercept is None
        for column, part in zip(reason.columns, reason.parts, strict=True):
            without = rows[k].copy()
            without[column] = 0.0
            assert part == pytest.approx(margins[k] - learner.predict(without[None, :])[0])


def test_a_row_too_long_to_leave_out_its_features_is_refused(rows):
    learner = onsketch.learner("kons")
    learner.learn(rows, np.sign(rows[:, 0]))
    n = LONGEST + 1
    row = Sparse(np.ones(n), np.arange(n), np.array([0, n]), (1, n))
    with pytest.raises(InputError, match="2,001 features"):
        list(Reasons(learner, False).behind(row, np.zeros(1), 5))
