"""Frequent directions of a matrix-shaped gradient along its two axes: the sketches of Sketchy.

A gradient G, (p, q), has a second moment along its rows, ``L = E GGᵀ``, and one along its columns, ``R = E GᵀG``
(Shampoo). Of each we keep only r directions V with energies λ, and the mass Σρ removed by shrinks. A refresh absorbs
a gradient: with ``C = β·V diag(λ) Vᵀ + (1 − β)·GGᵀ`` it

1. makes ``Y = C X`` for 2r columns ``X = [V, G V']``, V' the directions of the other axis: one step of block power
   iteration, started where the last one ended, and two products with G where a decomposition of C would take d³,
2. takes ``N = Y (XᵀY)⁺ Yᵀ``, Nyström's approximation: it never exceeds C, and is C where X spans its range,
3. shrinks as frequent directions do: eigenvalues ``ν − ν_{r+1}``, and ``Σρ ← β·Σρ + ν_{r+1}``.

So the sketch never exceeds the second moment, ``0 ⪯ L − V diag(λ) Vᵀ``. If N is C, this is ``⪯ Σρ·I``.

A step needs ``(e·I + V diag(μ − e) Vᵀ)^{-p}``, energies μ inside of the sketch and e outside (see Metric). Up to a
factor that is ``I − WWᵀ``, ``W = V·√(1 − (e/μ)^p)``. We store W instead of V: the step is three products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from onsketch.torch.spectrum import eigh

PARTS = ("", "_energy", "_escaped", "_total")
"""Suffixes of an axis' entries in a state, after the axis' name."""


class Metric(NamedTuple):
    """Energies that a step assigns to the directions inside and outside of a sketch.

    ``outside="mean"``: inside, ``μ = λ + Σρ`` restores the mass removed by shrinks. Outside, e is the mean of the rest,
    ``e = (tr C − Σμ)/(d − r)``. ``"escaped"``: ``μ = λ + Σρ`` and ``e = Σρ``, as in the paper. This bound is far above
    the true energy. Both add ``ridge`` times the largest μ, and ``damping`` times the mean energy, tr C/d.
    """

    ridge: float | Tensor
    damping: float | Tensor
    power: float | Tensor
    outside: str


class Axis(NamedTuple):
    """Sketch of one axis of n matrices of equal shape, in ``blocks`` of ``width`` along the axis."""

    directions: Tensor
    """W, (n, blocks, width, r)."""
    energy: Tensor
    """λ, float64, (n, blocks, r), descending."""
    escaped: Tensor
    """Σρ, float64, (n, blocks)."""
    total: Tensor
    """tr C, all energy, float64, (n, blocks)."""


def refresh(layers: Sequence[tuple[Tensor, Axis, Axis, float | Tensor]], metric: Metric) -> list[tuple[Axis, Axis]]:
    """Absorb the gradients, (n, p, q), of each (gradients, left, right, decay); return both new axes of each.

    There are n decays, or one. A gradient that is not finite leaves its axis unchanged. Cost: 12·r·p·q operations, and
    two eigenproblems of 2r rows for each block, batched over layers. Arrays of size (d, 2r) and smaller are float64.
    They are batched over both axes, the shorter one padded with zeros: their time is that of the launches.
    """
    sides = [_sides(*layer) for layer in layers]
    halves = []
    cores = [X.mT @ Y for *_, X, Y in sides]
    scales = [_unit_energy(core) for core in cores]
    cores = [core * scale[:, :, None] * scale[:, None, :] for core, scale in zip(cores, scales, strict=True)]
    solved = _eigh_of_all([(core + core.mT) / 2 for core in cores])
    for (old, *_, Y), scale, (values, E) in zip(sides, scales, solved, strict=True):
        least = 32.0 * torch.finfo(old.directions.dtype).eps
        factor = scale[:, :, None] * E * torch.where(values > least, values, torch.inf).rsqrt()[:, None, :]
        halves.append(Y @ factor)  # N = FFᵀ
    solved = _eigh_of_all([F.mT @ F for F in halves])
    return [
        _shrunk(old, faded, F, values.clamp(min=0.0), E, metric, (left, right))
        for (_, left, right, _), (old, faded, *_), F, (values, E) in zip(layers, sides, halves, solved, strict=True)
    ]


def _eigh_of_all(matrices: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return eigenvalues and eigenvectors of batches of matrices; matrices of one size are decomposed together."""
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


def _together(left: Tensor, right: Tensor) -> Tensor:
    """Return the (n, d, k) arrays of both axes as one batch, (n₁ + n₂, d, k), the shorter one padded with zeros."""
    longest = max(left.shape[1], right.shape[1])
    both = [
        torch.nn.functional.pad(x, (0, 0, 0, longest - x.shape[1])) if x.shape[1] < longest else x
        for x in (left, right)
    ]
    return torch.cat(both)


def _sides(grads: Tensor, left: Axis, right: Axis, decay: float | Tensor) -> tuple[Axis, Axis, Tensor, Tensor]:
    """Return, per block of both axes: the old axis, the decayed axis (with its new total energy), X and ``Y = C X``."""
    flat = grads.flatten(1)
    largest, size = flat.abs().amax(1), torch.linalg.vector_norm(flat, dim=1)
    size = torch.where(torch.isfinite(largest * largest), size, torch.nan).double()  # larger gradients are not absorbed
    # for the gradient divided by its length, which avoids overflow
    unit = torch.where(size > 0.0, 1.0 / size, 0.0).to(grads.dtype)[:, None, None]
    W = _together(left.directions.flatten(0, 1), right.directions.flatten(0, 1))
    own = W / torch.linalg.vector_norm(W, dim=1, keepdim=True).clamp(min=1e-30)
    n, p, q = grads.shape
    blocks, rank = (left.directions.shape[1], right.directions.shape[1]), W.shape[2]
    V = own[: n * blocks[0], : p // blocks[0]].reshape(n, p, rank)
    U = own[n * blocks[0] :, : q // blocks[1]].reshape(n, q, rank)
    across = _times(grads, U * unit)  # G V' of the left axis
    if blocks == (1, 1):  # half of each axis' products also serve the other axis
        made = _times(grads.mT, torch.cat([V, across], 2) * unit)
        of_left = _times(grads, made * unit)
        down, shared = made[:, :, :rank], made[:, :, rank:]
        of_right = torch.cat([shared, _times(grads.mT, of_left[:, :, :rank] * unit)], 2)
    else:
        down = grads.mT @ (V * unit)
        of_left = _products(grads, torch.cat([V, across], 2), unit, blocks[0])
        of_right = _products(grads.mT, torch.cat([U, down], 2), unit, blocks[1])
    across, of_left = (x.reshape(n * blocks[0], p // blocks[0], -1) for x in (across, of_left))
    down, of_right = (x.reshape(n * blocks[1], q // blocks[1], -1) for x in (down, of_right))
    X = torch.cat([own, _together(across, down)], 2).double()
    energy, *rest = (torch.cat([a.flatten(0, 1), b.flatten(0, 1)]) for a, b in zip(left[1:], right[1:], strict=True))
    old = Axis(W, energy, *rest)
    weight = torch.cat([((1.0 - decay) * size**2).repeat_interleave(k) for k in blocks])
    first = X[:, :, :rank]
    fade = torch.cat([decay.repeat_interleave(k) for k in blocks]) if isinstance(decay, Tensor) else decay
    faded = Axis(W, (energy.mT * fade).mT, fade * old.escaped, fade * old.total + weight * _shares(grads, unit, blocks))
    Y = (first * faded.energy[:, None, :]) @ (first.mT @ X)
    Y += weight[:, None, None] * _together(of_left, of_right).double()
    return old, faded, X, Y


def _times(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A B`` of n pairs; for one pair on a CPU a plain product takes half the time of a batch."""
    return torch.mm(A[0], B[0])[None] if len(A) == 1 and A.is_cpu else A @ B


def _shares(grads: Tensor, unit: Tensor, blocks: tuple[int, int]) -> Tensor | float:
    """Return the share of its gradient's energy in each block of rows, and of columns."""
    if blocks == (1, 1):
        return 1.0
    pieces = [(G.reshape(len(G), k, -1) * unit).square() for G, k in zip((grads, grads.mT), blocks, strict=True)]
    return torch.cat([x.sum(2).double().flatten() for x in pieces])


def _products(G: Tensor, X: Tensor, unit: Tensor, blocks: int) -> Tensor:
    """Return ``GGᵀX`` of each block of rows separately, (n, d, s)."""
    n, d, _ = G.shape
    pieces, columns = (x.reshape(n * blocks, d // blocks, -1) for x in (G, X))
    units = unit.repeat_interleave(blocks, 0)
    return (pieces @ ((pieces.mT @ (columns * units)) * units)).view(n, d, -1)


def _unit_energy(core: Tensor) -> Tensor:
    """Return the factor that scales each column to energy 1; 0 for a column without energy."""
    diagonal = core.diagonal(dim1=1, dim2=2)
    return torch.where(diagonal > 0.0, diagonal.clamp(min=1e-300).rsqrt(), 0.0)


def _shrunk(
    old: Axis, faded: Axis, F: Tensor, energy: Tensor, E: Tensor, metric: Metric, own: Sequence[Axis]
) -> tuple[Axis, Axis]:
    """Shrink ``N = FFᵀ`` to r directions, given the eigenvalues and eigenvectors of ``FᵀF``; return the two axes."""
    rank = old.directions.shape[2]
    failed = ~torch.isfinite(energy).all(1)
    rho = energy[:, rank] if energy.shape[1] > rank else torch.zeros_like(energy[:, 0])
    kept = (energy[:, :rank] - rho[:, None]).clamp(min=0.0)
    length = torch.where(kept > 0.0, energy[:, :rank].clamp(min=1e-300).rsqrt(), 0.0)
    escaped, total = faded.escaped + rho, faded.total
    inside = kept + escaped[:, None]
    outside = escaped
    if metric.outside == "mean":
        outside = ((total - inside.sum(1)) / _of_each(own, rank)).clamp(min=0.0)
    mean = total / _of_each(own, 0)
    floor = outside + metric.ridge * torch.maximum(inside[:, 0], outside) + metric.damping * mean
    floor = floor.clamp(min=1e-300)
    above = (inside - outside[:, None]).clamp(min=0.0) / floor[:, None]
    share = (1.0 - (1.0 + above) ** -metric.power).clamp(min=1e-12).sqrt()  # W must not lose a direction
    W = (F @ (E[:, :, :rank] * (length * share)[:, None, :])).to(old.directions.dtype)
    before = torch.where(old.energy[:, None, :] > 0.0, old.directions, 0.0)  # initially none
    made = (
        torch.where(failed[:, None, None], before, W),
        torch.where(failed[:, None], old.energy, kept),
        torch.where(failed, old.escaped, escaped),
        torch.where(failed, old.total, total),
    )
    count, width = own[0].escaped.numel(), [axis.directions.shape[2] for axis in own]
    left = made[0][:count, : width[0]], *(x[:count] for x in made[1:])
    right = made[0][count:, : width[1]], *(x[count:] for x in made[1:])
    return _shaped(left, own[0]), _shaped(right, own[1])


def _of_each(axes: Sequence[Axis], but: int) -> Tensor:
    """Return the rank of each block minus ``but``, at least 1."""
    lengths = [max(1, axis.directions.shape[2] - but) for axis in axes]
    return torch.cat([axis.escaped.new_full((axis.escaped.numel(),), n) for axis, n in zip(axes, lengths, strict=True)])


def _shaped(parts: Sequence[Tensor], like: Axis) -> Axis:
    return Axis(*(part.reshape(was.shape) for part, was in zip(parts, like, strict=True)))


def whiten(matrices: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return ``(I − W_L W_Lᵀ) M (I − W_R W_Rᵀ)`` of n matrices, (n, p, q), computed in place, given W of both axes.

    With ``A = W_LᵀM`` and ``B = M W_R − W_L(A W_R)`` that is ``M − [W_L, B][A; W_Rᵀ]``: M is read three times.
    """
    if left.shape[1] == right.shape[1] == 1:
        _whiten_whole(matrices, left[:, 0], right[:, 0])
    else:
        for M, W in ((matrices.mT, right), (matrices, left)):
            for i, piece in enumerate(torch.split(M, W.shape[2], 1)):
                piece.baddbmm_(W[:, i], W[:, i].mT @ piece, alpha=-1)
    return matrices


def rooted(W: Tensor) -> Tensor:
    """Return W' with ``I − W'W'ᵀ = (I − WWᵀ)^{1/2}``, given W, (…, width, r), whose columns are orthogonal.

    A step by W' is preconditioned with half the power of one by W.
    """
    remains = (1.0 - W.square().sum(-2, keepdim=True)).clamp(min=0.0)
    return W * (1.0 + remains.sqrt()).rsqrt()


def _whiten_whole(matrices: Tensor, left: Tensor, right: Tensor) -> None:
    if len(matrices) == 1:  # for small layers the overhead of batched products matters
        M, L, R = matrices[0], left[0], right[0]
        A = L.mT @ M
        B = torch.addmm(M @ R, L, A @ R, alpha=-1)
        M.addmm_(torch.cat([L, B], 1), torch.cat([A, R.mT]), alpha=-1)
        return
    A = left.mT @ matrices
    B = torch.baddbmm(matrices @ right, left, A @ right, alpha=-1)
    matrices.baddbmm_(torch.cat([left, B], 2), torch.cat([A, right.mT], 1), alpha=-1)


def blocks_of(length: int, block_size: int | None) -> int:
    """Return the number of equal blocks of an axis: the fewest that leave at most ``block_size`` numbers each.

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
    """Return W, (n, blocks, width, r), with start directions where there is no energy: power iteration fails from zero.

    Their numbers look random and are the same on every device.
    """
    if not W.is_cuda and bool((energy > 0.0).all()):
        return W
    noise = (
        torch.arange(W[0].numel(), dtype=torch.float64, device=W.device).add_(1.0).mul_(12.9898).sin_().mul_(43758.5453)
    )
    return torch.where(energy[:, :, None] > 0.0, W, (noise.frac_() * 2.0).to(W.dtype).view(W.shape[1:]))
