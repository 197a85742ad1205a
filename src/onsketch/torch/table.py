"""Where the kernels find things: a table of addresses and sizes on the device, sent there when they change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from onsketch.torch.kernels import CHUNK, stream_of
from onsketch.torch.rows import State


class Table(NamedTuple):
    """Where the kernels find things."""

    fields: Tensor
    """(N, FIELDS): one row for each block, in the order of ``Field`` in cuda/common.cu."""
    owners: Tensor
    """Which block each chunk of columns belongs to."""
    sizes: list[int]
    """Room for the update of each layer."""
    total: int
    """Numbers of all updates."""
    slots: int
    """The most rows that a layer has."""
    most: int
    """The most directions that a layer's sketch has."""


@lru_cache(maxsize=1024)  # some kilobytes each: one for each group of each optimizer, however many
def _upload(entries: tuple[tuple[int, ...], ...], spectrum: int, item: int, device: torch.device, stream: int) -> Table:
    """The table of these layers: addresses of their state, and sizes."""
    fields: list[list[int]] = []
    owners: list[int] = []
    sizes: list[int] = []
    at = 0
    for layer, (rows, transform, energy, escaped, counts, sums, summed, blocks, slots, width, most) in enumerate(
        entries
    ):
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
                    at + b * width,
                    slots,
                    most,
                    len(owners) - chunks,
                    chunks,
                    layer,
                    sums + b * width * max(4, item),
                    min(width, summed - b * width),
                ]
            )
        sizes.append(-(-blocks * width // 16) * 16)
        at += sizes[-1]
    return Table(
        # Pageable memory is staged before the call returns, so that the copy needs no waiting for.
        torch.tensor(fields, dtype=torch.int64).to(device, non_blocking=True),
        torch.tensor(owners, dtype=torch.int32).to(device, non_blocking=True),
        sizes,
        at,
        max(entry[8] for entry in entries),
        max(entry[10] for entry in entries),
    )


def addresses(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    """Addresses on the device."""
    return _addresses(numbers, device, stream_of(device))


@lru_cache(maxsize=4096)
def _addresses(numbers: tuple[int, ...], device: torch.device, stream: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64).to(device, non_blocking=True)


def table_of(states: Sequence[State], spectrum: str, graft: bool) -> Table:
    """The table of these states, which ``spectrum`` names the small matrix of; ``graft`` shows the sums as well."""
    entries = []
    for state in states:
        rows, transform = state["rows"], state["transform"]
        entries.append(
            (
                rows.data_ptr(),
                transform.data_ptr(),
                state[spectrum].data_ptr(),
                state["escaped"].data_ptr() if "escaped" in state else 0,
                _counts_on_device(state).data_ptr(),
                state["sum"].data_ptr() if graft else 0,
                state["sum"].numel() if graft else 0,
                *rows.shape,
                transform.shape[1],
            )
        )
    rows = states[0]["rows"]
    stream = stream_of(rows.device)
    return _upload(tuple(entries), states[0][spectrum].dim() - 1, rows.element_size(), rows.device, stream)


def _counts_on_device(state: State) -> Tensor:
    """Filled slots and counted rows of each block, (B, 2)."""
    counts: Tensor = state["counts"]
    rows = state["rows"]
    if counts.device != rows.device or counts.shape != (rows.shape[0], 2) or not counts.is_contiguous():
        counts = counts.view(-1, 2).expand(rows.shape[0], 2).contiguous().to(rows.device, non_blocking=True)
        state["counts"] = counts
    return counts
