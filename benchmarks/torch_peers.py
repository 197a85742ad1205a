"""Peers of benchmarks/torch_training.py in their real implementations: torch.optim.Muon, and NorMuon and SOAP of the
package pytorch_optimizer (``pip install 'onsketch[bench]'``).

Muon, NorMuon and Sketchy's orthogonal direction step hidden matrices. Muon's authors give embeddings, heads and vectors
to AdamW, and so does ``split``. Lengths of steps are matched to Adam's, so that one list of rates serves all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from onsketch.torch import Sketchy


class Both:
    """Two optimizers of one network, stepped together."""

    def __init__(self, *parts: Any) -> None:
        self.parts = [part for part in parts if part.param_groups]
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        return {key: value for part in self.parts for key, value in part.state.items()}

    def step(self) -> None:
        for part in self.parts:
            part.step()


class Flattened:
    """An optimizer of the matrices that parameters are, rows against the rest."""

    def __init__(self, params: list[Tensor], maker: Callable[..., torch.optim.Optimizer], **options: Any) -> None:
        self.params = params
        self.matrices = [nn.Parameter(p.detach().view(len(p), -1)) for p in params]
        self.inner = maker(self.matrices, **options)
        self.param_groups, self.state = self.inner.param_groups, self.inner.state

    def step(self) -> None:
        for p, matrix in zip(self.params, self.matrices, strict=True):
            matrix.grad = None if p.grad is None else p.grad.view_as(matrix)
        self.inner.step()


def split(model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The hidden matrices of a network, and all its other parameters.

    Hidden are the weights of linear layers but the last one, and those of convolutions but the first one.
    """
    linear = [layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)][:-1]
    hidden = linear + [layer.weight for layer in model.modules() if isinstance(layer, nn.Conv2d)][1:]
    chosen = {id(p) for p in hidden}
    return hidden, [p for p in model.parameters() if id(p) not in chosen]


def _adamw(params: list[Tensor], lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=lr, weight_decay=0.05, foreach=True)


def muon(momentum: float) -> Callable[[nn.Module, float], Any]:
    """``torch.optim.Muon``, on convolutions, too: it takes matrices alone, and so gets views of their filters."""

    def make(model: nn.Module, lr: float) -> Both:
        hidden, rest = split(model)
        options = {"momentum": momentum, "weight_decay": 0.05, "adjust_lr_fn": "match_rms_adamw"}
        return Both(Flattened(hidden, torch.optim.Muon, lr=lr, **options), _adamw(rest, lr))

    return make


def normuon(momentum: float) -> Callable[[nn.Module, float], Any]:
    """NorMuon of pytorch_optimizer, on convolutions, too."""

    def make(model: nn.Module, lr: float) -> Any:
        from pytorch_optimizer import NorMuon

        hidden, rest = split(model)
        options = {"lr": lr, "weight_decay": 0.05}
        groups = [
            {"params": hidden, "use_muon": True, "momentum": momentum, "update_scale": "match_rms", **options},
            {"params": rest, "use_muon": False, "betas": (0.9, 0.999), "eps": 1e-8, **options},
        ]
        return NorMuon([group for group in groups if group["params"]])

    return make


def soap(model: nn.Module, lr: float) -> Any:
    """SOAP of pytorch_optimizer."""
    from pytorch_optimizer import SOAP

    return SOAP(model.parameters(), lr=lr, weight_decay=0.05)


def orthogonal(**options: Any) -> Callable[[nn.Module, float], Any]:
    """Sketchy with orthogonal steps of hidden matrices, and Adam's of the rest."""

    def make(model: nn.Module, lr: float) -> Sketchy:
        hidden, rest = split(model)
        groups = [{"params": hidden, "direction": "orthogonal"}, {"params": rest, "diagonal": True}]
        return Sketchy(groups, lr=lr, weight_decay=0.05, **options)

    return make
