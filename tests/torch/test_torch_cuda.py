"""Steps on a CUDA device: streams, graphs, waiting, and what happens without kernels."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")

from onsketch import torch as sketched
from torch_support import NAMES, make, start, steps, stream

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_a_step_in_a_cuda_graph_is_refused():
    w = torch.nn.Parameter(torch.randn(20, device="cuda"))
    optimizer = sketched.AdaFD([w])
    w.grad = torch.ones_like(w)
    optimizer.step()
    before = w.detach().clone()
    torch.cuda.synchronize()
    with pytest.raises(RuntimeError, match="cannot be captured"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        optimizer.step()
    torch.cuda.synchronize()
    assert torch.equal(w, before)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "AdaFull"])
def test_steps_on_another_cuda_stream_are_the_same(name):
    """Also where two optimizers of the same layers use two streams at once, and one of them another thread."""
    shapes = [(40, 130), (7,)]
    gradients = stream(shapes, 25, dtype=torch.float32)
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 4, "graft": True}
    expected = start(shapes, "cuda", torch.float32)
    steps(make(name, expected, **options), expected, gradients)
    results = [start(shapes, "cuda", torch.float32) for _ in range(3)]
    torch.cuda.synchronize()

    def train(params):
        with torch.cuda.stream(torch.cuda.Stream()):
            steps(make(name, params, **options), params, gradients)
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=train, args=(params,)) for params in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for params in results:
        for a, b in zip(params, expected, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "AdaFull"])
def test_without_kernels_a_cuda_device_takes_the_same_steps(name, monkeypatch):
    from onsketch.torch import kernels

    shapes, options = [(6, 5), (7,)], {"lr": 0.1, "ridge": 0.5, "sketch_size": 3, "graft": True, "block_size": 10}
    gradients = stream(shapes, 30)
    ours, theirs = start(shapes, "cuda", torch.float64), start(shapes, "cuda", torch.float64)
    steps(make(name, ours, **options), ours, gradients)
    monkeypatch.setattr(kernels, "available", lambda device: False)
    kernels.ready.cache_clear()
    try:
        steps(make(name, theirs, **options), theirs, gradients)
    finally:
        kernels.ready.cache_clear()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


def test_kernels_that_do_not_compile_are_said_to_be_missing_on_cuda(monkeypatch):
    from torch.utils import cpp_extension

    from onsketch.torch import kernels

    device = torch.device("cuda", torch.cuda.current_device())
    home = cpp_extension.CUDA_HOME
    assert kernels.available(device)
    assert home == cpp_extension.CUDA_HOME
    monkeypatch.setattr(kernels, "source", lambda kernel: "this is no program")
    kernels.compiled.cache_clear()
    kernels.ready.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="could not be compiled") as said:
            assert not kernels.ready(device)
        assert len(said) == 1
        assert "this is no program" in str(said[0].message)  # the reason, and once
    finally:
        monkeypatch.undo()
        kernels.compiled.cache_clear()
        kernels.ready.cache_clear()
    assert kernels.ready(device)


def test_kernels_are_cached_on_disk_and_a_broken_file_is_compiled_again_on_cuda(monkeypatch, tmp_path):
    from onsketch.torch import kernels, nvrtc

    monkeypatch.setenv("ONSKETCH_CUDA_KERNELS", str(tmp_path))
    text, capability = kernels.source("eigh"), torch.cuda.get_device_capability()
    torch.empty(1, device="cuda")
    nvrtc.function(text, "eigh", capability)
    path = nvrtc.kept_at(text, "eigh", capability)
    binary = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "compiler", None)
        nvrtc.function(text, "eigh", capability)
    path.write_bytes(b"not a program")
    nvrtc.function(text, "eigh", capability)
    assert path.read_bytes() == binary


def test_a_learning_rate_with_an_axis_on_cuda():
    lr = torch.tensor([0.1], device="cuda")
    a, b = start([(5,), ()], "cuda", torch.float32), start([(5,), ()], "cuda", torch.float32)
    gradients = stream([(5,), ()], 4, dtype=torch.float32)
    options = {"weight_decay": 0.1, "decoupled_weight_decay": True}
    steps(make("AdaFD", a, lr=lr, **options), a, gradients)
    steps(make("AdaFD", b, lr=0.1, **options), b, gradients)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y)


@contextmanager
def waiting_is_an_error():
    """PyTorch's debug mode for steps that make the host wait; it warns of itself, also when it is switched off."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode(before)


def test_no_step_of_sketchy_waits_for_the_device():
    """Optimizers that flatten a layer do wait: the host asks whether gradients are finite."""
    from onsketch.torch import Sketchy, kernels

    assert kernels.available(torch.device("cuda"))
    shapes = [(16, 3, 3, 3), (16,), (32, 16, 3, 3)]
    params = start(shapes, "cuda", torch.float32)
    optimizer = Sketchy(params, lr=0.01, rank=6)
    gradients = [[g.cuda() for g in grads] for grads in stream(shapes, 40, dtype=torch.float32)]
    steps(optimizer, params, gradients[:20])
    torch.cuda.synchronize()
    with waiting_is_an_error():
        steps(optimizer, params, gradients[20:])
