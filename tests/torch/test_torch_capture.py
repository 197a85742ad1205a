"""Sketchy on a CUDA device: in CUDA graphs of the user's, with nobody waiting, with numbers that change."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from test_torch_cuda import waiting_is_an_error

from onsketch.torch import Sketchy, orthogonal_cuda
from torch_support import start, steps, stream

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SHAPES = [(16, 3, 3, 3), (16,), (32, 16, 3, 3), (70, 45), (32, 16, 3, 3)]


def there(count, seed=0):
    return [[g.cuda() for g in grads] for grads in stream(SHAPES, count, seed, torch.float32)]


def captured(optimizer, params):
    """A graph of a step, and where it finds its gradients."""
    for p in params:
        p.grad = torch.zeros_like(p)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    return graph, [p.grad for p in params]


def replayed(graph, buffers, gradients):
    for grads in gradients:
        torch._foreach_copy_(buffers, grads)
        graph.replay()


@pytest.mark.parametrize(
    "options",
    [
        {},  # refreshed every five steps
        {"refresh_every": 1, "weight_decay": 0.1},
        {"refresh_every": 1, "rank": 40},  # by PyTorch's operations
        {"refresh_every": 1, "block_size": 35},
        {"refresh_every": 2, "rank": 20, "nesterov": False, "state_dtype": torch.float32},
        {"diagonal": True},
        {"direction": "orthogonal"},
        {"direction": "orthogonal", "refresh_every": 1, "rank": 40},
    ],
)
def test_replays_of_a_captured_step_are_steps(options):
    gradients = there(23)
    eager, ours = start(SHAPES, "cuda", torch.float32), start(SHAPES, "cuda", torch.float32)
    reference, optimizer = (Sketchy(p, lr=0.01, capturable=True, **options) for p in (eager, ours))
    steps(reference, eager, gradients)
    steps(optimizer, ours, gradients[:3])
    graph = captured(optimizer, ours)
    replayed(*graph, gradients[3:])
    for p, q in zip(eager, ours, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
        for name, value in reference.state[p].items():
            if name not in ("left", "right"):
                torch.testing.assert_close(value, optimizer.state[q][name], rtol=1e-3, atol=1e-6)
        assert optimizer.state[q]["step"] == 23
    # steps outside of the graph go on from there, and replays from them
    more = there(8, seed=5)
    steps(reference, eager, more)
    for i, grads in enumerate(more):
        if i % 3 == 1:
            steps(optimizer, ours, [grads])
        else:
            replayed(*graph, [grads])
    for p, q in zip(eager, ours, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def test_a_rate_on_the_device_is_read_at_each_replay():
    gradients = there(12)
    rates = torch.linspace(0.1, 0.01, 12, device="cuda")
    eager, ours = start(SHAPES, "cuda", torch.float32), start(SHAPES, "cuda", torch.float32)
    reference = Sketchy(eager, capturable=True)
    for lr, grads in zip(rates.tolist(), gradients, strict=True):
        reference.param_groups[0]["lr"] = lr
        steps(reference, eager, [grads])
    lr = rates[0].clone()
    optimizer = Sketchy(ours, lr=lr, capturable=True)
    steps(optimizer, ours, gradients[:1])
    graph = captured(optimizer, ours)
    for rate, grads in zip(rates[1:], gradients[1:], strict=True):
        lr.copy_(rate)
        replayed(*graph, [grads])
    for p, q in zip(eager, ours, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_a_captured_step_skips_what_is_not_finite():
    (gradients,) = there(1)
    params = start(SHAPES, "cuda", torch.float32)
    optimizer = Sketchy(params, lr=0.01, capturable=True)
    steps(optimizer, params, [gradients])
    graph = captured(optimizer, params)
    before = [p.detach().clone() for p in params]
    replayed(*graph, [[gradients[0] * torch.nan, *gradients[1:]]])
    assert optimizer.skipped_steps == 1
    assert torch.equal(params[0], before[0])
    assert not torch.equal(params[1], before[1])


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, 1),
        ({"capturable": True}, 0),
        ({"capturable": True, "error_if_nonfinite": True}, 1),
        ({"capturable": True, "graft": "rmsprop"}, 1),
        ({"capturable": True, "rank": 40}, 1),  # refreshed every five steps, and not by kernels
    ],
)
def test_what_cannot_be_captured_is_refused(options, first):
    params = start([(60, 50)], "cuda", torch.float32)
    optimizer = Sketchy(params, **options)
    steps(optimizer, params, stream([(60, 50)], first))
    before = params[0].detach().clone()
    with pytest.raises(RuntimeError, match="in a CUDA graph"):
        captured(optimizer, params)
    torch.cuda.synchronize()
    assert torch.equal(params[0], before)
    steps(optimizer, params, stream([(60, 50)], 1))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rank": 40},
        {"block_size": 35},
        {"capturable": True, "refresh_every": 2},
        {"direction": "orthogonal"},
    ],
)
def test_no_step_of_sketchy_waits_for_the_device(options):
    """Neither do refreshes, their graphs being made, or numbers that change in every step."""
    params = start(SHAPES, "cuda", torch.float32)
    optimizer = Sketchy(params, lr=0.01, **options)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=60)
    gradients = there(40)
    steps(optimizer, params, gradients[:1])
    torch.cuda.synchronize()
    with waiting_is_an_error():
        for grads in gradients[1:]:
            steps(optimizer, params, [grads])
            scheduler.step()


@pytest.mark.parametrize("together", [0, 1 << 22])
def test_orthogonal_steps_are_those_of_a_cpu(together, monkeypatch):
    """But for the products in bfloat16, which a float64 copy of the weights does without."""
    monkeypatch.setattr(orthogonal_cuda, "TOGETHER", together)
    gradients = there(12)
    made = []
    for device, dtype in (("cpu", torch.float32), ("cuda", torch.float32), ("cuda", torch.float64)):
        params = start(SHAPES, device, dtype)
        before = [p.detach().cpu().float().clone() for p in params]
        steps(Sketchy(params, lr=0.01, refresh_every=1, direction="orthogonal"), params, gradients)
        made.append([p.detach().cpu().float() - w for p, w in zip(params, before, strict=True)])
    for moved, ours, exact in zip(*made, strict=True):
        assert (exact - moved).norm() < 0.01 * moved.norm()
        assert (ours - moved).norm() < 0.1 * moved.norm()


def test_numbers_that_change_in_every_step_take_the_steps_of_a_cpu():
    """As OneCycleLR's betas; the plan and its graphs stay."""
    gradients = there(30)
    made = []
    for device in ("cpu", "cuda"):
        params = start(SHAPES, device, torch.float32)
        optimizer = Sketchy(params, lr=0.01, refresh_every=1, weight_decay=0.01)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=40)
        for t, grads in enumerate(gradients):
            steps(optimizer, params, [grads])
            scheduler.step()
            optimizer.param_groups[0].update(damping=0.1 + 0.01 * t, sketch_decay=0.95 - 0.001 * t)
        made.append([p.detach().cpu() for p in params])
    for p, q in zip(*made, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)
    (plan,) = optimizer._cache.plans.values()
    assert plan.graphs.keys() == {"step", "refresh"}
