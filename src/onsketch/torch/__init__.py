"""PyTorch optimizers by matrix sketching: full-matrix AdaGrad and online Newton for the layers of a network.

Same names and same mathematics as the linear learners; one pure function for each method (``ada_fd`` and so on)
under a thin ``torch.optim.Optimizer``. Needs PyTorch and NumPy, nothing else.

>>> import torch
>>> from onsketch.torch import SAdaGrad
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
>>> optimizer = SAdaGrad(model.parameters(), lr=0.1)
>>> model(torch.ones(2, 4)).square().mean().backward()
>>> optimizer.step()
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("onsketch.torch needs PyTorch: pip install 'onsketch[torch]'") from error

from onsketch.torch.ada_fd import AdaFD, AdaFFD, SAdaGrad, ada_fd, ada_ffd, s_adagrad
from onsketch.torch.ada_full import AdaFull, ada_full
from onsketch.torch.ada_gp import AdaGP, RadaGrad, ada_gp, radagrad
from onsketch.torch.base import SketchedOptimizer
from onsketch.torch.sketchy import Sketchy
from onsketch.torch.son import FDSON, RFDSON, fd_son, rfd_son

__all__ = [
    "FDSON",
    "RFDSON",
    "AdaFD",
    "AdaFFD",
    "AdaFull",
    "AdaGP",
    "RadaGrad",
    "SAdaGrad",
    "SketchedOptimizer",
    "Sketchy",
    "ada_fd",
    "ada_ffd",
    "ada_full",
    "ada_gp",
    "fd_son",
    "radagrad",
    "rfd_son",
    "s_adagrad",
]
