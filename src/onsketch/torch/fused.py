"""A step on a CUDA device in a handful of launches, whatever the number of layers.

Each layer keeps its own state; a table of addresses and sizes tells the kernels where it lies (table.py). The step is

1. ``dots``: the gradient becomes a row of R, and ``R g`` is summed up by chunks,
2. ``directions`` or ``projections``: everything small, one thread block for each block of a layer,
3. ``combine``: ``Rᵀa``, the step itself,
4. ``rotate``, ``gram``, ``respectrum``: for blocks whose R has no free row left, ``R ← T R``.

How many rows are filled and how many the sketch counts is known on the device, for each block on its own: the host
need not know, so that it never waits, and blocks behave as parameters of their own also where rank is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onsketch.torch import kernels
from onsketch.torch.kernels import LARGEST, ROOM_FOR_U, SHARED_BYTES, THREADS, launch
from onsketch.torch.rows import Round, State
from onsketch.torch.table import Table, addresses, table_of


def serves(state: State) -> bool:
    """Whether the kernels can take this state."""
    rows: Tensor | None = state.get("rows")
    return (
        rows is not None
        and rows.is_cuda
        and rows.shape[1] <= LARGEST
        and rows.shape[2] < 1 << 29  # the phases of RadaGrad's cosines are counted in 32 bits
        and rows.is_contiguous()
        and rows.data_ptr() % 16 == 0
        and kernels.ready("directions" if "energy" in state else "projections", rows.dtype, rows.device)
    )


def _contiguous(grads: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """The gradients in this type and contiguous; those that are not are copied, all in one go."""
    made = list(grads)
    others = [i for i, g in enumerate(grads) if g.dtype != dtype or not g.is_contiguous()]
    for i in others:
        made[i] = torch.empty(grads[i].shape, dtype=dtype, device=grads[i].device)
    if others:
        torch._foreach_copy_([made[i] for i in others], [grads[i] for i in others])
    return made


def step(
    grads: Sequence[Tensor],
    states: Sequence[State],
    spectrum: str,
    small: str,
    arguments: list[Any],
    told: Round,
    fourier: Sequence[tuple[Tensor, Tensor]] | None = None,
) -> list[Tensor]:
    """``P g`` for each gradient; ``small`` names the kernel of the method, and ``arguments`` are its own.

    A gradient may have any shape of B·b numbers. One that is not finite counts as zero. ``fourier`` are the rows and
    signs of RadaGrad's map.
    """
    absorb, graft = told.absorb, told.graft_on_device
    dtype = states[0]["rows"].dtype
    computed = torch.promote_types(dtype, torch.float32)
    wide = int(dtype == computed or not any(g.dtype == dtype for g in grads))
    grads = _contiguous(grads, computed if wide else dtype)
    table = table_of(states, spectrum, graft)
    fields, owners, device = table.fields, table.owners, table.fields.device
    blocks, chunks, stride = len(fields), len(owners), table.slots + 1
    starts: list[int] = []
    for g, state in zip(grads, states, strict=True):
        count, _, width = state["rows"].shape
        stride_of_blocks = width * g.element_size()
        starts += [g.data_ptr()] if count == 1 else [g.data_ptr() + b * stride_of_blocks for b in range(count)]
    gradients = addresses(tuple(starts), device)

    work = torch.empty(chunks + blocks * (1 + 2 * stride), stride, dtype=torch.float64, device=device)
    partial, coefficients, matrices = work.split_with_sizes([chunks, blocks, 2 * blocks * stride])
    used, due, bad = torch.zeros(3, blocks, dtype=torch.int32, device=device).unbind()
    updates = torch.empty(table.total, dtype=computed, device=device)
    lengths = work if not graft else torch.empty(2 * chunks, dtype=torch.float64, device=device)

    launch("dots", dtype, chunks, THREADS, [fields, owners, gradients, partial, bad, stride, int(absorb), wide])
    if fourier is not None:
        arguments = [_project(table, gradients, states, fourier, dtype, wide), *arguments[1:]]
    shared = min(8 * stride**2, ROOM_FOR_U) if small == "directions" else min(16 * table.most**2, SHARED_BYTES)
    own = [fields, partial, matrices, coefficients, used, due, bad, stride, *arguments]
    launch(small, dtype, blocks, THREADS, own, shared)
    own = [fields, owners, gradients, used, coefficients, updates, lengths, stride, int(absorb), wide]
    launch("combine", dtype, chunks, THREADS, [*own, *_diagonal(told)])
    if graft:
        launch("graft", dtype, chunks, THREADS, [fields, owners, lengths, updates])
    if absorb:
        _rotate(table, dtype, due, matrices, stride, small == "directions")
    pieces = updates.split_with_sizes(table.sizes)
    return [
        (piece if size == g.numel() else piece[: g.numel()]).view(g.shape)
        for piece, size, g in zip(pieces, table.sizes, grads, strict=True)
    ]


def _diagonal(told: Round) -> list[int | float]:
    """Whether to graft; what the sums keep, what a square adds to them, and what frees them of their start."""
    if not told.graft_on_device or told.decay == 1.0:
        return [int(told.graft_on_device), 1.0, 1.0, 1.0]
    return [1, told.decay, told.weight, 1.0 / (1.0 - told.decay**told.t)]


def _project(
    table: Table,
    gradients: Tensor,
    states: Sequence[State],
    maps: Sequence[tuple[Tensor, Tensor]],
    dtype: torch.dtype,
    wide: int,
) -> Tensor:
    """RadaGrad's ``Πg`` of all blocks, summed over each chunk."""
    where = [
        number
        for state, (rows, signs) in zip(states, maps, strict=True)
        for number in (rows.data_ptr(), signs.data_ptr(), len(rows)) * state["rows"].shape[0]
    ]
    partial = torch.empty(len(table.owners), table.most, dtype=torch.float64, device=gradients.device)
    args = [table.fields, table.owners, gradients, addresses(tuple(where), gradients.device), partial, table.most, wide]
    launch("cosines", dtype, len(table.owners), THREADS, args)
    return partial


def _columns(rows: int, size: int, gap: int, bytes_elsewhere: int) -> int:
    """How many columns of so many rows fit into the shared memory of a thread block, at most 256."""
    columns = 256
    while rows * (columns + gap) * size + bytes_elsewhere > 47 * 1024:
        columns //= 2
    return columns


def _rotate(table: Table, dtype: torch.dtype, due: Tensor, matrices: Tensor, stride: int, turn: bool) -> None:
    size = 8 if dtype == torch.float64 else 4
    chunks, pairs = len(table.owners), max(1, table.most * (table.most + 1) // 2)
    columns = _columns(table.slots, size, 0, 8 * (LARGEST + 2) * size)
    own = [table.fields, table.owners, due, columns]
    launch("rotate", dtype, chunks, columns // 4, own, table.slots * columns * size)
    partial = torch.empty(chunks, pairs, dtype=torch.float64, device=due.device)
    columns = min(128, _columns(table.slots + 3, size, 1, 8 * THREADS))
    own = [table.fields, table.owners, due, partial, pairs, columns]
    launch("gram", dtype, chunks, THREADS, own, (table.slots + 3) * (columns + 1) * size)
    own = [table.fields, partial, matrices, due, pairs, stride, int(turn)]
    launch("respectrum", dtype, len(table.fields), THREADS, own, min(16 * table.most**2, SHARED_BYTES))
