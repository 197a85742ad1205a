"""Frequent directions of a network's gradients: the sketch of AdaFD, AdaFFD, SAdaGrad, FDSON and RFDSON.

The sketch ``S = T R`` is kept in its own eigenbasis, ``SSᵀ = diag(λ)``. A new row g borders that by one row and
column, ``z = T(R g)`` and ``|g|²``, and the eigenvectors U of the bordered matrix

    [ diag(λ)   z  ]
    [   zᵀ    |g|² ]  =  U diag(λ') Uᵀ

give everything: the new eigenbasis ``Uᵀ[S; g]``, what a shrink takes off, and the step. Because g is a row of
``[S; g]``, it is ``[S; g]ᵀe`` with e the last unit vector, and so ``P g = [S; g]ᵀ U p(λ') Uᵀe``, whatever the
geometry p: no pseudo-inverse, no division by a small eigenvalue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from onsketch.torch import rows as large
from onsketch.torch.rows import Round, State
from onsketch.torch.spectrum import Geometry, cutoff, eigh, inverse_metric, ratio


@dataclass(frozen=True)
class Recipe:
    """Parameters of one member of the family."""

    geometry: Geometry
    doubling: bool
    """True to shrink at 2m rows, False to shrink at every row from the m-th on."""
    counts_rank: bool = False
    """True if a linearly dependent row does not use a row of the sketch, and shrinks follow the step (Ada-FFD)."""
    robust: bool = False
    """True to add half of the escaped mass to the ridge (RFD)."""

    def limit(self, size: int) -> int:
        """Return the number of rows at which the sketch shrinks."""
        return 2 * size if self.doubling else size

    def slots(self, size: int) -> int:
        """Return the rows of R: those of the sketch, and some for gradients that wait for the next rotation.

        Twice the size if the sketch has that many rows, else one and a half times: a step reads all filled slots, a
        rotation reads and writes them, and this balances the two.
        """
        return 2 * size if self.doubling else size + max(4, size // 2)

    def empty(self, blocks: int, width: int, size: int, like: Tensor) -> State:
        """Return the state of a parameter before its first step, with the type and device of ``like``."""
        slots, most = self.slots(size), min(self.limit(size), width)
        small = like.new_empty(0, dtype=torch.float64)
        return {
            "rows": like.new_zeros(blocks, slots, width),
            "transform": small.new_zeros(blocks, most, slots),  # T
            "energy": small.new_zeros(blocks, most),  # λ
            "escaped": small.new_zeros(blocks, 1),  # Σρ
            "counts": torch.zeros(blocks, 2, dtype=torch.int64),
        }


def precondition(
    grads: Sequence[Tensor],
    states: Sequence[State],
    recipe: Recipe,
    *,
    steps: Sequence[int],
    **settings: Any,
) -> list[Tensor]:
    """Return ``P g`` for each gradient, (B, b), after the sketch has absorbed it (unless ``absorb=False``).

    ``settings``: the fields of ``rows.Round``.

    Cost for d numbers: reading about 1.5·size·d numbers twice, and one small eigendecomposition.
    """

    def shape(state: State) -> tuple[int, ...]:
        return *large.counts(state), state["transform"].shape[1]

    step = partial(_absorb if settings["absorb"] else _apply, recipe)
    return large.lockstep(grads, states, steps, shape, Round(**settings), step)


def _absorb(recipe: Recipe, grads: list[Tensor], states: list[State], settings: Round) -> list[Tensor]:
    size, decay, weight = settings.size, settings.decay, settings.weight
    filled, held = large.counts(states[0])
    most = states[0]["transform"].shape[1]
    rank = min(held, most)
    noise = cutoff(states[0]["rows"].dtype)

    # 1 project onto the eigenbasis
    large.place(states, filled, grads)
    dots = large.products(states, filled + 1, grads)
    T = large.stack(states, "transform", slice(rank), slice(filled)) * decay**0.5
    energy = large.stack(states, "energy", slice(rank)) * decay
    escaped = large.stack(states, "escaped") * decay
    z = (T @ dots[:, :filled, None])[:, :, 0] * weight**0.5
    values, U = eigh(_bordered(energy, z, dots[:, filled] * weight))
    failed = ~torch.isfinite(values).all(1, keepdim=True)
    values = values.clamp(min=0.0)
    values = torch.where(values > noise * values[:, :1], values, 0.0)
    turned = U.mT @ torch.nn.functional.pad(T, (0, 1, 0, 1))
    turned[:, :, filled] = U[:, rank, :] * weight**0.5  # only the new row has a coefficient at its slot

    # 2 shrink
    shrinks, kept = _shrink_due(values, recipe, size, held, most)
    after = values
    if shrinks is not None:
        rho = values[:, size - 1 : size] * shrinks if rank + 1 >= size else torch.zeros_like(escaped)
        less = values - rho
        less[:, size - 1 :] = torch.where(shrinks, 0.0, less[:, size - 1 :])
        after = torch.where(less > noise * values[:, :1], less, 0.0)
        escaped = escaped + torch.where(failed, 0.0, rho)

    # 3 step, in the metric before the shrink (Ada-FFD) or after it
    p = _metric(recipe, values if recipe.counts_rank else after, escaped, settings)
    along = p * U[:, rank, :] / weight**0.5
    coefficients = (along[:, None, :] @ turned)[:, 0]
    coefficients = torch.where(failed, 0.0, coefficients)
    updates = large.combinations(states, coefficients)

    # 4 store the new sketch; where the decomposition failed, the old one
    kept = min(kept, rank + 1)
    new = turned[:, :kept] * ratio(after, values).sqrt()[:, :kept, None]
    old = torch.nn.functional.pad(T, (0, 1, 0, max(0, kept - rank)))[:, :kept]
    new = torch.where(failed[:, :, None], old, new)
    after = torch.where(failed, torch.nn.functional.pad(energy, (0, 1)), after)[:, :kept]
    held = _held_after(recipe, held, size, shrinks is not None, after)
    kept = min(kept, held)
    new, after = new[:, :kept], after[:, :kept]
    filled += 1
    if filled == states[0]["rows"].shape[1]:
        large.rotate(states, new)
        filled = kept
        after, turn = eigh(large.gram(states, kept)) if kept else (after, new[:, :, :0])
        after = after.clamp(min=0.0)
        new = turn.mT  # the Gram matrix contains the rounding errors of the rows
    large.store(states, "transform", new)
    large.store(states, "energy", after)
    large.store(states, "escaped", escaped)
    large.set_counts(states, filled, held)
    return updates


def _bordered(energy: Tensor, z: Tensor, squared_length: Tensor) -> Tensor:
    matrix = torch.diag_embed(torch.cat([energy, squared_length[:, None]], 1))
    matrix[:, -1, :-1] = z
    matrix[:, :-1, -1] = z
    return matrix


def _shrink_due(values: Tensor, recipe: Recipe, size: int, held: int, most: int) -> tuple[Tensor | None, int]:
    """Return a mask (N, 1) of blocks that shrink now, or None; and the largest number of directions kept."""
    limit = recipe.limit(size)
    if recipe.counts_rank:
        if values.shape[1] < limit:
            return None, most
        full = values[:, limit - 1 : limit] > 0.0
        return (full, size - 1 if bool(full.all()) else limit - 1) if bool(full.any()) else (None, limit - 1)
    if held + 1 < limit:
        return None, most
    return torch.ones_like(values[:, :1], dtype=torch.bool), min(size - 1, most)


def _held_after(recipe: Recipe, held: int, size: int, shrunk: bool, energy: Tensor) -> int:
    if not recipe.counts_rank:
        return size - 1 if shrunk else held + 1
    return int((energy > 0.0).sum(1).max()) if energy.numel() else 0


def _metric(recipe: Recipe, energy: Tensor, escaped: Tensor, settings: Round) -> Tensor:
    """Return p(λ), bias-corrected for a moving average."""
    energy, escaped = energy * settings.freed, escaped * settings.freed
    base = settings.ridge + escaped / 2 if recipe.robust else settings.ridge
    return inverse_metric(recipe.geometry, energy, base, escaped)


def _apply(recipe: Recipe, grads: list[Tensor], states: list[State], settings: Round) -> list[Tensor]:
    """Return ``P g = p(0)g + Sᵀ diag((p(λ) − p(0))/λ) S g`` without absorbing g."""
    filled, held = large.counts(states[0])
    rank = min(held, states[0]["transform"].shape[1])
    T = large.stack(states, "transform", slice(rank), slice(filled))
    energy = torch.nn.functional.pad(large.stack(states, "energy", slice(rank)), (0, 1))
    p = _metric(recipe, energy, large.stack(states, "escaped"), settings)
    bare = p[:, rank:]
    updates = [g * bare_i.to(g.dtype) for g, bare_i in zip(grads, large.split(states, bare), strict=True)]
    if filled and rank:
        inside = (T @ large.products(states, filled, grads)[:, :, None])[:, :, 0]
        share = ratio((p - bare)[:, :rank], energy[:, :rank]) * inside
        for update, more in zip(updates, large.combinations(states, (share[:, None] @ T)[:, 0]), strict=True):
            update += more.to(update.dtype)
    return updates
