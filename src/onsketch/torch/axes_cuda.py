"""Refreshes of Sketchy's sketches on a CUDA device, and the memory they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from onsketch.torch.axes import PARTS
from onsketch.torch.kernels import RANKS, SHARED_BYTES, THREADS, launch
from onsketch.torch.matrix_view import MatrixView

if TYPE_CHECKING:
    from onsketch.torch.matrix_view_cuda import Plan

WIDE, TALL, LANES, PIECE = 32, 4, 128, 16
"""Tile sizes of the products, as in cuda/products.cu."""


class Axes:
    """Sketches that the kernels refresh: those of undivided axes, in nine launches for all layers."""

    def __init__(self, plan: Plan, chosen: Sequence[int]) -> None:
        self.most = most_of(plan.views)
        self.Z = plan._scratch(sum(4 * f.rank * (f.rows + f.columns) for f in (plan.views[k] for k in chosen)))
        self.offsets: dict[int, list[int]] = {}
        """Offsets in Z of the rows and of the columns of a layer."""
        sides: list[list[int]] = []
        owners: list[int] = []
        units: dict[str, list[list[int]]] = {"across": [], "down": []}
        at = self.Z.data_ptr()
        for k in chosen:
            view, state, self.offsets[k] = plan.views[k], plan.states[plan.order[k]], []
            for name, length in (("left", view.rows), ("right", view.columns)):
                parts = parts_of(length, view)
                entries = [*(state[name + part].data_ptr() for part in PARTS), state["refreshes"].data_ptr()]
                sides.append([k, length, view.rank, *entries, at, len(owners), parts])
                owners += [len(sides) - 1] * parts
                self.offsets[k].append(at)
                at += 16 * view.rank * length
            units["across"] += [[k, strip] for strip in range(-(-view.rows // TALL))]
            units["down"] += [[k, strip] for strip in range(-(-view.columns // WIDE))]
        self.sides, self.owners = plan.there(sides, torch.int64), plan.there(owners, torch.int32)
        self.units = {name: plan.there(some, torch.int32) for name, some in units.items()}
        self.partial = plan._scratch(16 * self.most**2 * len(owners), torch.float64)
        self.scratch = plan._scratch(44 * self.most**2 * len(sides), torch.float64)
        self.mixes = plan._scratch(4 * self.most**2 * len(sides), torch.float64)
        self.failed = plan.there([0] * len(sides), torch.int32)

    def refresh(self, plan: Plan, wait: Tensor) -> None:
        """Absorb the gradients where ``wait`` is 0; see axes.py and cuda/shrink.cu."""
        if not self.offsets:
            return
        count, most = len(self.sides), self.most
        sums, sizes = plan.wanted, plan._scratch(len(plan.order), torch.float64)
        launch("energies", len(sums), THREADS, [plan.table, plan.owners, plan.gradients, sums, wait])
        launch("normalise", count, THREADS, [plan.table, self.sides, sums, sizes, wait])
        for name, begin, ranks, into in (
            ("across", 0, 1, 1),
            ("down", 0, 2, 1),
            ("across", 1, 2, 2),
            ("down", 2, 1, 3),
        ):
            own = [plan.table, self.units[name], plan.gradients, sizes, begin, ranks, into, wait]
            shared = row_bytes(ranks * most) if name == "across" else 4 * WIDE * ranks * most
            launch(name, len(self.units[name]), LANES if name == "across" else THREADS, own, shared)
        own = [self.sides, self.owners, self.partial, most, wait]
        launch("grams", len(self.owners), THREADS, own, 32 * 1024)
        own = [self.sides, self.partial, sizes, plan.numbers, self.scratch, self.mixes, self.failed, most]
        own += [int(plan.metric.outside == "mean"), 32.0 * torch.finfo(torch.float32).eps, wait]
        launch("shrink", count, THREADS, own, min(64 * most**2, SHARED_BYTES))
        own = [self.sides, self.owners, self.mixes, self.failed, most, wait]
        launch("redirect", len(self.owners), THREADS, own)


def refreshes(view: MatrixView) -> bool:
    """Return True if the kernels refresh the sketches of this layer."""
    return view.is_whole and 0 < view.rank <= RANKS // 2


def most_of(layers: Sequence[MatrixView]) -> int:
    """Return the largest rank that the kernels refresh, which is the size of all small matrices."""
    return max([view.rank for view in layers if refreshes(view)], default=0)


def parts_of(length: int, view: MatrixView) -> int:
    """Return the number of parts in which the Gram matrices of an axis are summed."""
    return -(-length // (1024 // view.rank))


def refresh_bytes(view: MatrixView, most: int) -> int:
    """Return the scratch bytes of a layer's refresh; ``most`` is the largest rank that the kernels refresh.

    Layers that the kernels refresh: Z, the Gram matrices and what is computed from them, for both axes (:class:`Axes`).
    Layers that the kernels only step: the gradient. Layers left to PyTorch: nothing.
    """
    if not refreshes(view):
        return 4 * view.rows * view.columns if 0 < view.rank <= RANKS else 0
    parts = sum(parts_of(length, view) for length in (view.rows, view.columns))
    return 16 * view.rank * (view.rows + view.columns) + 8 * most**2 * (16 * parts + 2 * 44 + 2 * 4)


def row_bytes(columns: int) -> int:
    """Return the shared memory that products of rows with this many columns take; see cuda/products.cu."""
    return 4 * TALL * (PIECE * (LANES + 1) + columns)
