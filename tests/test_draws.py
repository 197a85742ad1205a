"""The random numbers: what distribution they have, and that both makers of them agree."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import ndtri

from onsketch import draws
from onsketch.quantile import quantile
from onsketch.torch.draws import round_vectors


def test_the_quantile_is_that_of_the_gaussian() -> None:
    rng = np.random.default_rng(0)
    small = 10.0 ** -rng.uniform(0.0, 16.0, size=5000)
    u = np.concatenate([rng.uniform(size=5000), small, 1.0 - small[small > 1e-15]])
    np.testing.assert_allclose(quantile(u), ndtri(u), rtol=1e-13, atol=1e-15)
    ends = np.array([2.0**-53, 1.0 - 2.0**-53])  # the smallest and the largest uniform number
    assert np.isfinite(quantile(ends)).all()


def test_draws_are_gaussian_and_independent() -> None:
    x = draws.gaussian(3, draws.ROUND, 7, 100_000)
    assert stats.kstest(x, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(x, draws.gaussian(3, draws.ROUND, 8, 100_000))[0, 1]) < 0.02


def test_optimizers_draw_what_learners_draw() -> None:
    rounds = np.arange(1, 2000)
    expected = np.stack([draws.round_vector(5, int(t), 7) for t in rounds])
    np.testing.assert_allclose(round_vectors(5, rounds, 7), expected, rtol=1e-12, atol=1e-15)
