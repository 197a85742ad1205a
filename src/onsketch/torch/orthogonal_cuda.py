"""Orthogonal directions of Sketchy on a CUDA device: in batches of all layers, or of those of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from onsketch.torch import orthogonal
from onsketch.torch.axes_cuda import WIDE
from onsketch.torch.kernels import THREADS, launch

if TYPE_CHECKING:
    from onsketch.torch.matrix_view_cuda import Plan

TOGETHER = 1 << 22
"""Numbers up to which all layers are one batch, padded with zeros: launches cost more than arithmetic."""


class Orthogonal:
    """Batches of the layers that have sketches, their shorter axis first, and what the kernels need to use them."""

    def __init__(self, plan: Plan) -> None:
        shapes = [tuple(sorted((view.rows, view.columns))) for view in plan.views]
        widest = max(p for p, _ in shapes), max(q for _, q in shapes)
        if len(shapes) * widest[0] * widest[1] <= TOGETHER:
            shapes = [widest] * len(shapes)
        gains = plan._scratch(sum(view.rank * (view.row_blocks + view.column_blocks) for view in plan.views))
        self.gains, self.batches = gains, []
        units: list[list[int]] = []
        spans: list[list[int]] = []
        self.fields: dict[int, list[int]] = {}
        """Fields of a layer in the table, from its place in a batch on."""
        at = gains.data_ptr()
        for shape in dict.fromkeys(shapes):
            chosen = [k for k, own in enumerate(shapes) if own == shape]
            batch = torch.zeros(len(chosen), *shape, device=plan.device)  # kernels write what is not padding
            self.batches.append(batch)
            for k, X in zip(chosen, batch, strict=True):
                view = plan.views[k]
                right, count = at + 4 * view.row_blocks * view.rank, -(-max(view.rows, view.columns) // WIDE)
                self.fields[k] = [X.data_ptr(), shape[1], at, right, len(spans), count]
                at = right + 4 * view.column_blocks * view.rank
                spans += [[k, strip] for strip in range(count)]
                for side, blocks in enumerate((view.row_blocks, view.column_blocks)):
                    units += [[k, side, block] for block in range(blocks)]
        self.units, self.spans = plan.there(units, torch.int32), plan.there(spans, torch.int32)
        self.lengths = plan._scratch(len(spans), torch.float64)

    def turn(self, plan: Plan) -> None:
        """Turn the whitened momenta into directions, and add up their squared lengths; see orthogonal.py."""
        every = len(plan.owners)
        launch("batch", every, THREADS, [plan.table, plan.owners, 0])
        for batch in self.batches:
            orthogonal.newton_schulz(batch)
        launch("batch", every, THREADS, [plan.table, plan.owners, 1])
        launch("gains", len(self.units), THREADS, [plan.table, self.units])
        plan.whiten(1)
        own = [plan.table, self.spans, plan.bad, plan.numbers, self.lengths, orthogonal.LEAST]
        launch("spans", len(self.spans), THREADS, own)
