"""The gradients of many layers in one buffer, those that are not finite counted as zero.

A launch costs a device as much time as reading a megabyte. So that checking and cleaning do not cost one for each
layer, the gradients lie in one buffer, each from the start of a stretch of `STRETCH` numbers on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from onsketch.torch import kernels
from onsketch.torch.plan import Layer

STRETCH = 1024


@lru_cache(maxsize=64)
def _owners(stretches: tuple[int, ...], device: torch.device, stream: int) -> Tensor:
    """Which gradient each stretch of the buffer belongs to."""
    counts = torch.tensor(stretches)
    return torch.repeat_interleave(torch.arange(len(stretches)), counts).to(device, non_blocking=True)


def gather(grads: Sequence[Tensor], layers: Sequence[Layer], as_they_are: Sequence[bool]) -> list[Tensor]:
    """Each gradient in its blocks, (B, b), and in the type of its sketch; zero throughout if it is not finite.

    Some may stay as they are, in their own shape, where they need no filling: the kernels see to the rest themselves.
    """
    blocks: list[Tensor] = [*grads]
    rest = []
    for i, (layer, stays) in enumerate(zip(layers, as_they_are, strict=True)):
        if not (stays and layer.numbers == layer.blocks * layer.width):
            rest.append(i)
    found: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for i in rest:
        found.setdefault((grads[i].device, layers[i].dtype), []).append(i)
    for (device, dtype), chosen in found.items():
        stretches = tuple(-(-layers[i].blocks * layers[i].width // STRETCH) for i in chosen)
        buffer = torch.zeros(sum(stretches) * STRETCH, dtype=dtype, device=device)
        places = torch.split_with_sizes(buffer, [STRETCH * count for count in stretches])
        parts = [place.narrow(0, 0, layers[i].numbers) for place, i in zip(places, chosen, strict=True)]
        torch._foreach_copy_(parts, [grads[i].reshape(-1) for i in chosen])
        fine = torch.isfinite(torch.stack(torch._foreach_norm(parts)))
        _clean(buffer, fine, _owners(stretches, device, kernels.stream_of(device)))
        for place, part, i in zip(places, parts, chosen, strict=True):
            count, width = layers[i].blocks, layers[i].width
            whole = part if count == 1 else place.narrow(0, 0, count * width)
            blocks[i] = whole.view(count, width)
    return blocks


def _clean(buffer: Tensor, fine: Tensor, owners: Tensor) -> None:
    """Make zero what belongs to a gradient that is not fine."""
    if buffer.is_cuda and kernels.ready("clean", buffer.dtype, buffer.device):
        args = [owners, fine, buffer, STRETCH]
        kernels.launch("clean", buffer.dtype, len(owners), 128, args)
    else:
        buffer.nan_to_num_(0.0, 0.0, 0.0).view(-1, STRETCH).mul_(fine.to(buffer.dtype)[owners].unsqueeze(1))
