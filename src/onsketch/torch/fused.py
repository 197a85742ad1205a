"""A step on a CUDA device in a handful of launches, whatever the number of layers.

Each layer keeps its own state; a table of addresses and sizes tells the kernels where it lies. The step is

1. ``dots``: the gradient becomes a row of R, and ``R g`` is summed up by chunks,
2. ``directions`` or ``projections``: everything small, one thread block for each block of a layer,
3. ``combine``: ``Rᵀa``, the step itself,
4. ``rotate``, ``gram``, ``respectrum``: for blocks whose R has no free row left, ``R ← T R``.

How many rows are filled and how many the sketch counts is known on the device, for each block on its own: the host
need not know, so that it never waits, and blocks behave as parameters of their own also where rank is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from onsketch.torch import kernels
from onsketch.torch.kernels import CHUNK, LARGEST, SHARED_BYTES, STORAGE, THREADS, launch
from onsketch.torch.rows import State


def serves(state: State) -> bool:
    """Whether the kernels can take this state."""
    rows: Tensor = state["rows"]
    return (
        rows.is_cuda
        and rows.dtype in STORAGE
        and 0 < rows.shape[1] <= LARGEST
        and rows.is_contiguous()
        and rows.data_ptr() % 16 == 0
        and kernels.available(rows.device)
    )


class _Table(NamedTuple):
    """Where the kernels find things."""

    fields: Tensor
    """(N, FIELDS): one row for each block, in the order of ``Field`` in cuda/common.cu."""
    owners: Tensor
    """Which block each chunk of columns belongs to."""
    places: list[int]
    """Where the update of each layer starts."""
    total: int
    """Numbers of all updates."""
    slots: int
    """The most rows that a layer has."""
    most: int
    """The most directions that a layer's sketch has."""


@lru_cache(maxsize=64)
def _upload(entries: tuple[tuple[int, ...], ...], item: int, spectrum: int, device: torch.device) -> _Table:
    """The table of these layers: addresses of their state, sizes, and where their gradients lie."""
    fields, owners, places, at = [], [], [], 0
    for rows, transform, energy, escaped, counts, gradient, blocks, slots, most, width in entries:
        places.append(at)
        chunks = -(-width // CHUNK)
        for b in range(blocks):
            owners += [len(fields)] * chunks
            fields.append(
                [
                    rows + b * slots * width * item,
                    transform + b * most * slots * 8,
                    energy + b * most * (most if spectrum == 2 else 1) * 8,
                    escaped + b * 8,
                    counts + b * 16,
                    width,
                    gradient + b * width,
                    at + b * width,
                    slots,
                    most,
                    len(owners) - chunks,
                    chunks,
                ]
            )
        at += -(-blocks * width // 16) * 16
    return _Table(
        # Pageable memory is staged before the call returns, so that the copy needs no waiting for.
        torch.tensor(fields, dtype=torch.int64).to(device, non_blocking=True),
        torch.tensor(owners, dtype=torch.int32).to(device, non_blocking=True),
        places,
        at,
        max(entry[7] for entry in entries),
        max(entry[8] for entry in entries),
    )


def _table(grads: Sequence[Tensor], states: Sequence[State], spectrum: str) -> _Table:
    base, item = grads[0].data_ptr(), grads[0].element_size()
    entries = []
    for g, state in zip(grads, states, strict=True):
        rows, transform, escaped = state["rows"], state["transform"], state.get("escaped")
        counts = _counts_on_device(state)
        entries.append(
            (
                rows.data_ptr(),
                transform.data_ptr(),
                state[spectrum].data_ptr(),
                0 if escaped is None else escaped.data_ptr(),
                counts.data_ptr(),
                (g.data_ptr() - base) // item,
                *rows.shape[:2],
                transform.shape[1],
                rows.shape[2],
            )
        )
    return _upload(tuple(entries), item, states[0][spectrum].dim() - 1, states[0]["rows"].device)


def _counts_on_device(state: State) -> Tensor:
    """Filled slots and counted rows of each block, (B, 2)."""
    counts: Tensor = state["counts"]
    rows = state["rows"]
    if counts.device != rows.device or counts.shape[0] != rows.shape[0] or not counts.is_contiguous():
        counts = counts.view(-1, 2).expand(rows.shape[0], 2).contiguous().to(rows.device, non_blocking=True)
        state["counts"] = counts
    return counts


def step(
    grads: Sequence[Tensor], states: Sequence[State], spectrum: str, small: str, arguments: list[Any], absorb: bool
) -> list[Tensor]:
    """``P g`` for each gradient, (B, b); ``small`` names the kernel of the method, and ``arguments`` are its own."""
    dtype = states[0]["rows"].dtype
    grads = [g.to(dtype).contiguous() for g in grads]
    table = _table(grads, states, spectrum)
    device, blocks, chunks = table.fields.device, len(table.fields), len(table.owners)
    stride = table.slots + 1
    work = torch.empty(chunks + blocks * (1 + 2 * stride), stride, dtype=torch.float64, device=device)
    partial, coefficients, matrices = work.split_with_sizes([chunks, blocks, 2 * blocks * stride])
    used, due = torch.empty(2, blocks, dtype=torch.int32, device=device).unbind()
    updates = torch.empty(table.total, dtype=torch.promote_types(dtype, torch.float32), device=device)

    launch("dots", dtype, chunks, THREADS, [table.fields, table.owners, grads[0], partial, stride, int(absorb)])
    shared = min(16 * table.most**2, SHARED_BYTES) if small == "projections" else 0
    own = [table.fields, partial, matrices, coefficients, used, due, stride, *arguments]
    launch(small, dtype, blocks, THREADS, own, shared)
    own = [table.fields, table.owners, grads[0], used, coefficients, updates, stride]
    launch("combine", dtype, chunks, THREADS, own)
    if absorb:
        _rotate(table, dtype, due, matrices, stride, small == "directions")
    return [
        updates.narrow(0, place, g.numel()).view(g.shape) for place, g in zip(table.places, grads, strict=True)
    ]


def _rotate(table: _Table, dtype: torch.dtype, due: Tensor, matrices: Tensor, stride: int, turn: bool) -> None:
    size = 8 if dtype == torch.float64 else 4
    columns = 256
    while table.slots * (columns + 1) * size > SHARED_BYTES:
        columns //= 2
    chunks, pairs = len(table.owners), table.most * (table.most + 1) // 2
    room = table.slots * (columns + 1) * size
    launch("rotate", dtype, chunks, columns // 2, [table.fields, table.owners, due, columns], room)
    partial = torch.empty(chunks, max(1, pairs), dtype=torch.float64, device=due.device)
    own = [table.fields, table.owners, due, partial, max(1, pairs), columns]
    launch("gram", dtype, chunks, THREADS, own, room)
    own = [table.fields, partial, matrices, due, max(1, pairs), stride, int(turn)]
    launch("respectrum", dtype, len(table.fields), THREADS, own, min(16 * table.most**2, SHARED_BYTES))
