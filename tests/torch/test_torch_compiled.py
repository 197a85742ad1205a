"""``torch.compile`` of a step: one node of its graph, which takes the step that is taken outside."""

from __future__ import annotations

import copy
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from onsketch import torch as sketched
from torch_support import NAMES, start, stream

SHAPES = [(6, 5), (7,)]


def _trained(make, compile_step):
    params = start(SHAPES, "cpu", torch.float32)
    optimizer = make(params)
    step = compile_step(optimizer)
    for grads in stream(SHAPES, 6, dtype=torch.float32):
        for p, g in zip(params, grads, strict=True):
            p.grad = g.clone()
        step()
    return params, optimizer


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("name", "options"), [("Sketchy", {}), ("Sketchy", {"direction": "orthogonal"}), ("FDSON", {})]
)
def test_a_compiled_step_has_no_break_and_is_the_same(name, options, backend):
    """With ``aot_eager`` the weights come as copies, and are copied back."""
    made = partial(getattr(sketched, name), **options)

    def compiled(optimizer):
        return torch.compile(optimizer.step, fullgraph=True, backend=backend)

    plain, first = _trained(lambda params: made(params, lr=0.05), lambda optimizer: optimizer.step)
    ours, second = _trained(lambda params: made(params, lr=0.05), compiled)
    for p, q in zip(plain, ours, strict=True):
        assert torch.equal(p, q)
        assert all(torch.equal(value, second.state[q][name]) for name, value in first.state[p].items())


@pytest.mark.parametrize("name", ["Sketchy", *NAMES])
def test_a_step_is_one_graph_as_adams_is(name):
    (w,) = start([(4, 3)], "cpu", torch.float32)
    optimizer = copy.deepcopy(getattr(sketched, name)([w]))
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = torch.ones_like(p)
    torch._dynamo.reset()
    found = torch._dynamo.explain(optimizer.step)()
    assert found.graph_break_count == 0
    assert found.graph_count == 1


@pytest.mark.parametrize("name", ["Sketchy", "FDSON"])
def test_a_step_is_compiled_once_for_changing_numbers(name):
    """Counts, rates and checkpoints are none of the compiler's business; parameters are."""
    torch._dynamo.reset()
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    shapes = [(4, 3), (5,), (2, 2)]
    params, same = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    ours, plain = (getattr(sketched, name)(some[:2], lr=0.05) for some in (params, same))
    step = torch.compile(ours.step, backend=backend, fullgraph=True, dynamic=False)

    def go_on(gradients):
        for t, grads in enumerate(gradients):
            for optimizer, some in ((ours, params), (plain, same)):
                optimizer.param_groups[0]["lr"] = 0.05 / (1 + t)
                for p, g in zip(some, grads, strict=True):
                    p.grad = g.clone()
            step()
            plain.step()
        assert all(torch.equal(p, q) for p, q in zip(params, same, strict=True))

    gradients = stream(shapes, 12, dtype=torch.float32)
    go_on(gradients)
    ours.load_state_dict(ours.state_dict())
    go_on(gradients[:2])
    assert len(compiled) == 1
    for optimizer, some in ((ours, params), (plain, same)):  # another list: stepped at once, compiled at the next
        optimizer.param_groups[0]["params"] = some[1:]
    go_on(gradients[:3])
    assert len(compiled) == 2
