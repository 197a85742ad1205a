"""The fused step of a CUDA device, its kernels run on a CPU, against the step in PyTorch's own operations."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from onsketch.torch import fused, gather, kernels
from torch_kernels import Kernels, compiler
from torch_support import NAMES, make, start, steps, stream

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C++ compiler")
SKETCHED = [name for name in NAMES if name != "AdaFull"]


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    return Kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def fuse(on_cpu, monkeypatch):
    """Send every step through the kernels."""

    def launch(*args, **kwargs):
        launched.append(args[0])
        on_cpu.launch(*args, **kwargs)

    launched = []

    def use():
        monkeypatch.setattr(fused, "serves", lambda state: state["rows"].dtype in kernels.STORAGE)
        monkeypatch.setattr(fused, "launch", launch)
        return launched

    return use


def both_ways(name, fuse, shapes, count, dtype, seed=0, gradients=None, **options):
    """The parameters after steps in PyTorch's operations and after steps in kernels."""
    gradients = gradients or stream(shapes, count, seed)
    plain, ours = start(shapes, "cpu", dtype), start(shapes, "cpu", dtype)
    steps(make(name, plain, **options), plain, gradients)
    launched = fuse()
    steps(make(name, ours, **options), ours, gradients)
    assert {"dots", "combine", "rotate", "gram", "respectrum"} < set(launched)
    return plain, ours


@pytest.mark.parametrize("options", [
    {}, {"decay": 0.9}, {"sketch_size": 1}, {"sketch_size": 20}, {"block_size": 7}, {"update_every": 3},
    {"graft": True, "momentum": 0.5, "decay": 0.95, "update_every": 2},
])
@pytest.mark.parametrize("name", SKETCHED)
def test_the_kernels_take_the_same_steps(name, options, fuse):
    shapes = [(6, 5), (7,), (), (4, 3, 3), (64,)]
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 4, **options}
    plain, ours = both_ways(name, fuse, shapes, 70, torch.float64, **options)
    for a, b in zip(plain, ours, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", SKETCHED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernels_take_the_same_steps_in_less_precision(name, dtype, fuse):
    shapes = [(16, 5), (9,)]
    options = {"lr": 0.1, "ridge": 1.0, "sketch_size": 4, "sketch_dtype": dtype}
    plain, ours = both_ways(name, fuse, shapes, 40, torch.float32, **options)
    for a, b, c in zip(plain, ours, start(shapes, "cpu", torch.float32), strict=True):
        assert (a - b).norm() < (1e-4 if dtype == torch.float32 else 0.05) * (a - c).norm()
