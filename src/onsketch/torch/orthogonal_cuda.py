"""Orthogonal directions of Sketchy on a CUDA device: Newton and Schulz's steps of many layers in few batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from onsketch.torch import orthogonal
from onsketch.torch.axes_cuda import WIDE
from onsketch.torch.kernels import THREADS, launch

if TYPE_CHECKING:
    from onsketch.torch.matrix_view_cuda import Plan

TOGETHER = 1 << 22
"""Numbers up to which all layers are one batch: launches cost more than arithmetic."""


class Orthogonal:
    """Batches of the layers that have sketches, their shorter axis first, and what the kernels need to use them."""

    def __init__(self, plan: Plan, dtype: torch.dtype) -> None:
        shapes = padded([(min(view.rows, view.columns), max(view.rows, view.columns)) for view in plan.views])
        self.dtype = dtype
        self.batches: list[tuple[Tensor, Tensor]] = []
        """Matrices, and the sizes that Newton and Schulz's steps find."""
        self.gains = plan._scratch(sum(view.rank * (view.row_blocks + view.column_blocks) for view in plan.views))
        sides: list[list[int]] = []
        spans: list[list[int]] = []
        self.fields: dict[int, list[int]] = {}
        """Fields of a layer in the table, from its place in a batch on."""
        at = self.gains.data_ptr()
        for shape in dict.fromkeys(shapes):
            chosen = [k for k, own in enumerate(shapes) if own == shape]
            batch = torch.zeros(len(chosen), *shape, dtype=dtype, device=plan.device)
            sizes = plan._scratch(len(chosen)).view(-1, 1, 1)
            self.batches.append((batch, sizes))
            for k, X, size in zip(chosen, batch, sizes, strict=True):
                view = plan.views[k]
                right, count = at + 4 * view.row_blocks * view.rank, -(-max(view.rows, view.columns) // WIDE)
                self.fields[k] = [X.data_ptr(), shape[1], size.data_ptr(), at, right, len(spans), count]
                at = right + 4 * view.column_blocks * view.rank
                spans += [[k, strip] for strip in range(count)]
                for side, blocks in enumerate((view.row_blocks, view.column_blocks)):
                    sides += [[k, side, block] for block in range(blocks)]
        self.sides, self.spans = plan.there(sides, torch.int32), plan.there(spans, torch.int32)
        self.lengths = plan._scratch(len(spans), torch.float64)

    def refreshed(self, plan: Plan) -> None:
        """Compute what depends on the sketches alone."""
        launch("gains", len(self.sides), THREADS, [plan.table, self.sides])

    def turn(self, plan: Plan) -> None:
        """Turn the whitened momenta into directions, and add up their squared lengths; see orthogonal.py."""
        chunks, own = len(plan.owners), [plan.table, plan.owners, plan.lengths, int(self.dtype == torch.bfloat16)]
        launch("batch", chunks, THREADS, [*own, 0])
        for batch, sizes in self.batches:
            orthogonal.newton_schulz(batch, sizes)
        launch("batch", chunks, THREADS, [*own, 1])
        plan.whiten(1)
        own = [plan.table, self.spans, plan.bad, plan.numbers, self.lengths, orthogonal.LEAST]
        launch("spans", len(self.spans), THREADS, own)


def padded(shapes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the shapes to which matrices of these shapes are padded with zeros.

    Small networks: all to one. Else those with an equal shorter axis, if the longer one becomes at most 4 times longer.

    >>> padded([(512, 4608), (512, 2304), (512, 512)] * 9)[:3]
    [(512, 4608), (512, 4608), (512, 512)]
    """
    widest = max(p for p, _ in shapes), max(q for _, q in shapes)
    if len(shapes) * widest[0] * widest[1] <= TOGETHER:
        return [widest] * len(shapes)
    longest: dict[int, int] = {}
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for p, q in sorted(shapes, reverse=True):
        if longest.get(p, 4 * q + 1) > 4 * q:
            longest[p] = q
        found[p, q] = p, longest[p]
    return [found[shape] for shape in shapes]
