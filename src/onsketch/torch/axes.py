"""Frequent directions of a matrix-shaped gradient along its two axes: the sketches of Sketchy.

A gradient G, (p, q), has a second moment along its rows, ``L = E GGᵀ``, and one along its columns, ``R = E GᵀG``
(Shampoo). Of each only r directions V with energies λ are kept, and what the sketch has given up, Σρ. A refresh takes
a gradient in: with ``C = β·V diag(λ) Vᵀ + (1 − β)·GGᵀ`` it

1. makes ``Y = C X`` for 2r columns ``X = [V, G V']``, V' the directions of the other axis: one step of block power
   iteration, started where the last one ended, and two products with G where a decomposition of C would take d³,
2. takes ``N = Y (XᵀY)⁺ Yᵀ``, Nyström's approximation: it never exceeds C, and is C where X spans its range,
3. shrinks as frequent directions do: eigenvalues ``ν − ν_{r+1}``, and ``Σρ ← β·Σρ + ν_{r+1}``.

So the sketch never exceeds the second moment, ``0 ⪯ L − V diag(λ) Vᵀ``, and where N is C, ``⪯ Σρ·I``.

A step needs ``(e·I + V diag(μ − e) Vᵀ)^{-p}``, energies μ inside of the sketch and e outside (see Metric). Up to a
factor that is ``I − WWᵀ``, ``W = V·√(1 − (e/μ)^p)``. W is what is kept of the directions: the step is three products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from onsketch.torch.spectrum import eigh

PARTS = ("", "_energy", "_escaped", "_total")
"""What the parts of an axis are called in a state, behind the axis' name."""


class Metric(NamedTuple):
    """What a step makes of a sketch.

    ``outside="mean"``: what frequent directions took off stays inside, ``μ = λ + Σρ``, and outside is the mean of the
    rest, ``e = (tr C − Σμ)/(d − r)``. ``"escaped"``: ``μ = λ + Σρ`` and ``e = Σρ``, as the paper has it, a bound that
    is far above what is there. Both get a ridge, this share of the largest μ.
    """

    ridge: float
    power: float
    outside: str


class Axis(NamedTuple):
    """The sketch of one axis of n matrices alike, in ``blocks`` of ``width`` along the axis."""

    directions: Tensor
    """W, (n, blocks, width, r)."""
    energy: Tensor
    """λ, float64, (n, blocks, r), descending."""
    escaped: Tensor
    """Σρ, float64, (n, blocks)."""
    total: Tensor
    """tr C, all energy, float64, (n, blocks)."""

    def orthonormal(self) -> Tensor:
        """V, (n, blocks, width, r); a direction without energy is zero."""
        W = self.directions
        length = torch.linalg.vector_norm(W, dim=2, keepdim=True)
        return W / torch.where(length > 0.0, length, 1.0)


def refresh(
    layers: Sequence[tuple[Tensor, Axis, Axis]], decay: float | Tensor, metric: Metric
) -> list[tuple[Axis, Axis]]:
    """Both axes of each (gradients, left, right), with the gradients, (n, p, q), taken in.

    What is not finite leaves its axis as it was. Cost: 12·r·p·q operations, two eigenproblems of 2r rows for each
    block, those of all layers together; everything as small as (d, 2r) is float64.
    """
    sides = [side for G, left, right in layers for side in _sides(G, left, right, decay)]
    halves = []
    cores = [X.mT @ Y for _, _, X, Y in sides]
    scales = [_unit_energy(core) for core in cores]
    cores = [core * scale[:, :, None] * scale[:, None, :] for core, scale in zip(cores, scales, strict=True)]
    solved = _eigh_of_all([(core + core.mT) / 2 for core in cores])
    for (axis, _, _, Y), scale, (values, E) in zip(sides, scales, solved, strict=True):
        least = 32.0 * torch.finfo(axis.directions.dtype).eps
        values = torch.where(values > least, values, torch.inf)
        halves.append((Y * scale[:, None, :]) @ (E * values.rsqrt()[:, None, :]))  # N = FFᵀ
    solved = _eigh_of_all([F.mT @ F for F in halves])
    made = [
        _shrunk(axis, total, F, values.clamp(min=0.0), E, decay, metric)
        for (axis, total, *_), F, (values, E) in zip(sides, halves, solved, strict=True)
    ]
    return list(zip(made[::2], made[1::2], strict=True))


def _eigh_of_all(matrices: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Eigenvalues and eigenvectors of batches of matrices, those of one size together."""
    found: dict[int, tuple[Tensor, Tensor]] = {}
    sizes: dict[int, list[int]] = {}
    for i, batch in enumerate(matrices):
        sizes.setdefault(batch.shape[-1], []).append(i)
    for chosen in sizes.values():
        values, vectors = eigh(torch.cat([matrices[i] for i in chosen]))
        counts = [len(matrices[i]) for i in chosen]
        pairs = zip(torch.split(values, counts), torch.split(vectors, counts), strict=True)
        found.update(zip(chosen, pairs, strict=True))
    return [found[i] for i in range(len(matrices))]


def _sides(grads: Tensor, left: Axis, right: Axis, decay: float | Tensor) -> list[tuple[Axis, Tensor, Tensor, Tensor]]:
    """The energy, X and ``Y = C X`` of both axes."""
    size = torch.linalg.vector_norm(grads, dim=(1, 2))
    largest = grads.abs().amax((1, 2))
    size = torch.where(torch.isfinite(largest * largest), size, torch.nan).double()  # nothing larger is taken in
    # of the gradient divided by its length, so that nothing overflows
    unit = torch.where(size > 0.0, 1.0 / size, 0.0).to(grads.dtype)[:, None, None]
    V, U = left.orthonormal(), right.orthonormal()
    rank = V.shape[3]
    across = grads @ (U.flatten(1, 2) * unit)  # G V' of the left axis
    if V.shape[1] == U.shape[1] == 1:  # half of each axis' products are made for the other one as well
        made = grads.mT @ (torch.cat([V[:, 0], across], 2) * unit)
        of_left = grads @ (made * unit)
        down, shared = made.split(rank, 2)
        of_right = torch.cat([shared, grads.mT @ (of_left[:, :, :rank] * unit)], 2)
    else:
        down = grads.mT @ (V.flatten(1, 2) * unit)
        of_left, of_right = (
            _products(G, torch.cat([own.flatten(1, 2), other], 2), unit, own.shape[1])
            for G, own, other in ((grads, V, across), (grads.mT, U, down))
        )
    found = []
    for axis, own, other, GGX in ((left, V, across, of_left), (right, U, down, of_right)):
        n, blocks, width, _ = own.shape
        own, other, GGX = (x.reshape(n * blocks, width, -1).double() for x in (own, other, GGX))
        X = torch.cat([own, other], 2)
        weight = ((1.0 - decay) * size**2)[:, None].expand(n, blocks).reshape(-1, 1, 1)
        total = decay * axis.total.flatten() + weight.flatten() * _shares(grads, unit, blocks, axis is left)
        old = (own * (decay * axis.energy.flatten(0, 1))[:, None, :]) @ (own.mT @ X)
        found.append((axis, total, X, old + weight * GGX))
    return found


def _shares(grads: Tensor, unit: Tensor, blocks: int, of_rows: bool) -> Tensor | float:
    """How much of its gradient's energy each block of rows, or of columns, has, (n·blocks)."""
    if blocks == 1:
        return 1.0
    pieces: Tensor = (grads if of_rows else grads.mT).reshape(len(grads), blocks, -1) * unit
    return pieces.square().sum(2).double().flatten()


def _products(G: Tensor, X: Tensor, unit: Tensor, blocks: int) -> Tensor:
    """``GGᵀX`` of blocks of rows, each for itself, (n, d, s)."""
    n, d, _ = G.shape
    pieces, columns = (x.reshape(n * blocks, d // blocks, -1) for x in (G, X))
    units = unit.repeat_interleave(blocks, 0)
    return (pieces @ ((pieces.mT @ (columns * units)) * units)).view(n, d, -1)


def _unit_energy(core: Tensor) -> Tensor:
    """What each column is multiplied by so that its energy is 1; 0 where it has none."""
    diagonal = core.diagonal(dim1=1, dim2=2)
    return torch.where(diagonal > 0.0, diagonal.clamp(min=1e-300).rsqrt(), 0.0)


def _shrunk(
    axis: Axis, total: Tensor, F: Tensor, energy: Tensor, E: Tensor, decay: float | Tensor, metric: Metric
) -> Axis:
    """``N = FFᵀ`` shrunk to r directions, given the eigenvalues and eigenvectors of ``FᵀF``."""
    n, blocks, width, rank = axis.directions.shape
    failed = ~torch.isfinite(energy).all(1)
    rho = energy[:, rank] if energy.shape[1] > rank else torch.zeros_like(energy[:, 0])
    kept = (energy[:, :rank] - rho[:, None]).clamp(min=0.0)
    length = torch.where(kept > 0.0, energy[:, :rank].clamp(min=1e-300).rsqrt(), 0.0)
    V = F @ (E[:, :, :rank] * length[:, None, :])
    escaped = decay * axis.escaped.flatten() + rho
    inside = kept + escaped[:, None]
    outside = ((total - inside.sum(1)) / max(1, width - rank)).clamp(min=0.0) if metric.outside == "mean" else escaped
    floor = outside + metric.ridge * torch.maximum(inside[:, 0], outside)
    above = (inside - outside[:, None]).clamp(min=0.0) / torch.where(floor > 0.0, floor, 1.0)[:, None]
    W = (V * (1.0 - (1.0 + above) ** -metric.power).sqrt()[:, None, :]).to(axis.directions.dtype)
    old = torch.where(axis.energy[:, :, None] > 0.0, axis.directions, 0.0).flatten(0, 1)  # none to begin with
    return Axis(
        torch.where(failed[:, None, None], old, W).view(n, blocks, width, rank),
        torch.where(failed[:, None], axis.energy.flatten(0, 1), kept).view(n, blocks, rank),
        torch.where(failed, axis.escaped.flatten(), escaped).view(n, blocks),
        torch.where(failed, axis.total.flatten(), total).view(n, blocks),
    )


def whiten(matrices: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``(I − W_L W_Lᵀ) M (I − W_R W_Rᵀ)`` of n matrices, (n, p, q), in place, given W of both axes.

    With ``A = W_LᵀM`` and ``B = M W_R − W_L(A W_R)`` that is ``M − [W_L, B][A; W_Rᵀ]``: M is read three times.
    """
    if left.shape[1] == right.shape[1] == 1:
        _whiten_whole(matrices, left[:, 0], right[:, 0])
    else:
        for dim, W in ((2, right), (1, left)):
            width = W.shape[2]
            for i in range(W.shape[1]):
                _one_side(matrices.narrow(dim, i * width, width), W[:, i], dim)
    return matrices


def _whiten_whole(matrices: Tensor, left: Tensor, right: Tensor) -> None:
    if len(matrices) == 1:  # what plain products save counts where layers are small
        M, L, R = matrices[0], left[0], right[0]
        A = L.mT @ M
        B = torch.addmm(M @ R, L, A @ R, alpha=-1)
        M.addmm_(torch.cat([L, B], 1), torch.cat([A, R.mT]), alpha=-1)
        return
    A = left.mT @ matrices
    B = torch.baddbmm(matrices @ right, left, A @ right, alpha=-1)
    matrices.baddbmm_(torch.cat([left, B], 2), torch.cat([A, right.mT], 1), alpha=-1)


def _one_side(matrices: Tensor, W: Tensor, dim: int) -> None:
    if dim == 2:
        matrices.baddbmm_(matrices @ W, W.mT, alpha=-1)
    else:
        matrices.baddbmm_(W, W.mT @ matrices, alpha=-1)


def blocks_of(length: int, block_size: int | None) -> int:
    """Into how many equal blocks an axis is cut: the fewest that leave at most ``block_size`` numbers each.

    An axis that has no such divisor, or would be cut into far smaller pieces, stays whole.

    >>> blocks_of(4608, 1024), blocks_of(1000, 1024), blocks_of(1031 * 2, 1024)
    (6, 1, 1)
    """
    if block_size is None or length <= block_size:
        return 1
    for blocks in range(-(-length // block_size), 4 * -(-length // block_size) + 1):
        if length % blocks == 0:
            return blocks
    return 1


def started(W: Tensor, energy: Tensor) -> Tensor:
    """W, (n, blocks, width, r), with directions to start from where there is no energy: from zero, none is ever found.

    Their numbers look random and are the same on every device.
    """
    if not W.is_cuda and bool((energy > 0.0).all()):
        return W
    noise = (
        torch.arange(W[0].numel(), dtype=torch.float64, device=W.device).add_(1.0).mul_(12.9898).sin_().mul_(43758.5453)
    )
    return torch.where(energy[:, :, None] > 0.0, W, (noise.frac_() * 2.0).to(W.dtype).view(W.shape[1:]))
