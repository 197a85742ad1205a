"""Sums of gradients with random weights: the sketch of AdaGP and RadaGrad.

Both keep ``S = Σ r_t g_tᵀ`` and its Gram matrix ``K = SSᵀ``, which a new gradient changes by
``r kᵀ + k rᵀ + |g|² r rᵀ``, ``k = S g``. They differ in r and in what K means:

- AdaGP: r_t Gaussian of variance 1/m, ``SᵀS ≈ Σ ggᵀ``, energies are the eigenvalues μ of K.
- RadaGrad: ``r_t = Πg_t`` with Π a subsampled cosine transform, ``Sᵀ = GΠᵀ`` itself approximates the range of
  ``G = Σ ggᵀ``, so that energies are the *singular* values √μ of S, and outside of them the metric is 1.

With ``K = U diag(μ) Uᵀ`` the step is ``P g = p(0)g + SᵀU diag((p(μ) − p(0))/μ) Uᵀ S g``. No factorisation of
anything of the layer's size is made, as RadaGrad's incremental QR would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from onsketch.torch import draws
from onsketch.torch import rows as large
from onsketch.torch.cosines import project
from onsketch.torch.rows import Round, State
from onsketch.torch.spectrum import eigh, gram_cutoff, ratio


def slots(size: int) -> int:
    """Return the rows of R: m that are summed up, and half as many for gradients that wait to be added."""
    return size + max(4, size // 2)


def empty(blocks: int, width: int, size: int, like: Tensor) -> State:
    """Return the state of a parameter before its first step."""
    small = like.new_empty(0, dtype=torch.float64)
    return {
        "rows": like.new_zeros(blocks, slots(size), width),
        "transform": small.new_zeros(blocks, size, slots(size)),  # T
        "gram": small.new_zeros(blocks, size, size),  # K
        "counts": torch.zeros(blocks, 2, dtype=torch.int64),
    }


def precondition(
    grads: Sequence[Tensor],
    states: Sequence[State],
    *,
    fourier: bool,
    steps: Sequence[int],
    **settings: Any,
) -> list[Tensor]:
    """Return ``P g`` for each gradient, (B, b), by RadaGrad (``fourier``) or AdaGP.

    ``settings``: the fields of ``rows.Round``.

    Cost for d numbers: reading about 1.25·size·d numbers twice, one eigendecomposition of size × size, and for
    RadaGrad 4·size·d operations of its cosines.
    """
    step = partial(_absorb if settings["absorb"] else _apply, fourier)
    return large.lockstep(grads, states, steps, large.counts, Round(**settings), step)


def _weights(fourier: bool, grads: Sequence[Tensor], settings: Round) -> Tensor:
    """Return r, (N, m)."""
    if fourier:
        return torch.cat([project(g, settings.size, settings.seed) for g in grads])
    count = sum(len(g) for g in grads)
    return draws.round_vector(settings.seed, settings.t, settings.size, grads[0].device).expand(count, settings.size)


def _fading(fourier: bool, decay: float) -> tuple[float, float]:
    """Return the factor a moving average applies to S, and the weight of the new term; RadaGrad's S is G itself."""
    if decay == 1.0:
        return 1.0, 1.0
    return (decay, 1.0 - decay) if fourier else (decay**0.5, (1.0 - decay) ** 0.5)


def _absorb(fourier: bool, grads: list[Tensor], states: list[State], settings: Round) -> list[Tensor]:
    filled, _ = large.counts(states[0])
    keep, weight = _fading(fourier, settings.decay)
    large.place(states, filled, grads)
    dots = large.products(states, filled + 1, grads)
    squared, r = dots[:, filled, None], _weights(fourier, grads, settings) * weight
    old_T = large.stack(states, "transform", slice(None), slice(filled)) * keep
    old_K = large.stack(states, "gram") * keep**2
    k = (old_T @ dots[:, :filled, None])[:, :, 0]
    crossed = r[:, :, None] * (k + squared * r / 2)[:, None, :]
    K = old_K + crossed + crossed.mT
    T = torch.cat([old_T, r[:, :, None]], 2)

    noise = gram_cutoff(states[0]["rows"].dtype)
    share, bare, failed = _small_step(K, k + squared * r, noise, fourier, settings)
    coefficients = (share[:, None] @ T)[:, 0]
    coefficients[:, filled] += bare
    updates = large.combinations(states, torch.where(failed, 0.0, coefficients))

    # The sketch for the next step; where the decomposition failed, the old one.
    T = torch.where(failed[:, :, None], torch.nn.functional.pad(old_T, (0, 1)), T)
    K = torch.where(failed[:, :, None], old_K, K)
    filled += 1
    if filled == states[0]["rows"].shape[1]:
        large.rotate(states, T)
        filled = T.shape[1]
        K = large.gram(states, filled)
        T = torch.eye(filled, dtype=T.dtype, device=T.device).expand_as(K)
    large.store(states, "transform", T)
    large.store(states, "gram", K)
    large.set_counts(states, filled, T.shape[1])
    return updates


def _small_step(
    K: Tensor, inside: Tensor, noise: float, fourier: bool, settings: Round
) -> tuple[Tensor, float, Tensor]:
    """Return ``U diag((p(μ) − p(0))/μ) Uᵀ S g``; p(0); and a mask (N, 1) of failed decompositions."""
    values, U = eigh(K)
    failed = ~torch.isfinite(values).all(1, keepdim=True)
    values = torch.where(values > noise * values[:, :1], values, 0.0)
    energy = (values.sqrt() if fourier else values) * settings.freed
    bare = 1.0 if fourier else 1.0 / settings.ridge
    share = ratio(1.0 / (settings.ridge + energy.sqrt()) - bare, values)
    along = share * (U.mT @ inside[:, :, None])[:, :, 0]
    return (U @ along[:, :, None])[:, :, 0], bare, failed


def _apply(fourier: bool, grads: list[Tensor], states: list[State], settings: Round) -> list[Tensor]:
    """Return ``P g`` without absorbing g."""
    filled, _ = large.counts(states[0])
    noise = gram_cutoff(states[0]["rows"].dtype)
    T = large.stack(states, "transform", slice(None), slice(filled))
    inside = (T @ large.products(states, filled, grads)[:, :, None])[:, :, 0]
    share, bare, failed = _small_step(large.stack(states, "gram"), inside, noise, fourier, settings)
    share = torch.where(failed, 0.0, share)
    combined = large.combinations(states, (share[:, None] @ T)[:, 0])
    return [update + bare * g for update, g in zip(combined, grads, strict=True)]
