"""The random numbers: what distribution they have, and that both makers of them agree."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import ndtri

from onsketch.core import draws
from onsketch.core.quantile import quantile
from onsketch.jit.decorators import exact_kernel
from onsketch.torch.draws import round_vectors


def test_the_quantile_is_that_of_the_gaussian() -> None:
    rng = np.random.default_rng(0)
    small = 10.0 ** -rng.uniform(0.0, 16.0, size=5000)
    u = np.concatenate([rng.uniform(size=5000), small, 1.0 - small[small > 1e-15]])
    np.testing.assert_allclose(quantile(u), ndtri(u), rtol=1e-13, atol=1e-15)
    ends = np.array([2.0**-53, 1.0 - 2.0**-53])  # the smallest and the largest uniform number
    assert np.isfinite(quantile(ends)).all()


@exact_kernel
def _compiled_quantiles(bits, out):
    for i in range(bits.size):
        out[i] = draws._quantile(bits[i])


def test_the_compiled_quantile_is_right_to_thirteen_digits() -> None:
    powers = 2 ** np.arange(52, dtype=np.uint64)
    k = np.concatenate(
        [powers, powers - 1, 2**52 - powers, np.random.default_rng(1).integers(2**52, size=20_000, dtype=np.uint64)]
    )
    found = np.empty(k.size)
    _compiled_quantiles(k << np.uint64(12), found)
    tail = np.minimum(k, 2**52 - 1 - k)  # 1 − u would lose the digits of a tail
    expected = np.where(k < 2**51, 1.0, -1.0) * ndtri((tail + 0.5) * 2.0**-52)
    np.testing.assert_allclose(found, expected, rtol=2e-13, atol=1e-15)


def test_draws_are_gaussian_and_independent() -> None:
    x = draws.gaussian(3, draws.ROUND, 7, 100_000)
    assert stats.kstest(x, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(x, draws.gaussian(3, draws.ROUND, 8, 100_000))[0, 1]) < 0.02


def test_optimizers_draw_what_learners_draw() -> None:
    rounds = np.arange(1, 2000)
    expected = np.stack([draws.round_vector(5, int(t), 7) for t in rounds])
    np.testing.assert_allclose(round_vectors(5, rounds, 7), expected, rtol=1e-12, atol=1e-15)
