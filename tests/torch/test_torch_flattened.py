"""The optimizers that flatten a layer, on gradients that are not finite, tiny or huge."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch_support import NAMES, make, start, steps, stream

SKETCHED = [name for name in NAMES if name != "AdaFull"]


@pytest.mark.parametrize("name", SKETCHED)
def test_a_gradient_that_is_not_finite_is_a_step_that_never_was(name):
    gradients = stream([(6, 5)], 30)
    broken = [[g[0].clone()] for g in gradients]
    for t in (4, 11):
        broken[t][0][2, 3] = torch.inf if t == 4 else torch.nan
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 3, "graft": True, "decay": 0.9, "block_size": 15}
    (expected,), (ours,) = start([(6, 5)], "cpu", torch.float64), start([(6, 5)], "cpu", torch.float64)
    steps(make(name, [expected], **options), [expected], [g for t, g in enumerate(gradients) if t not in (4, 11)])
    with pytest.warns(RuntimeWarning, match="not finite"):
        steps(make(name, [ours], **options), [ours], broken)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("size", [1e-150, 1e150])
@pytest.mark.parametrize("name", SKETCHED)
def test_tiny_and_huge_gradients_leave_everything_finite(name, size):
    """In float64 squares of squares of these are no numbers any more; sound is what stays finite."""
    gradients = [[size * g[0]] for g in stream([(6, 5)], 25)] + stream([(6, 5)], 25, seed=2)
    (w,) = start([(6, 5)], "cpu", torch.float64)
    optimizer = make(name, [w], lr=0.1, ridge=0.5, sketch_size=3, decay=0.5)
    steps(optimizer, [w], gradients)
    assert torch.isfinite(w).all()
    assert all(torch.isfinite(value).all() for value in optimizer.state[w].values())


@pytest.mark.parametrize("decay", [1.0, 0.5])
@pytest.mark.parametrize("name", SKETCHED)
def test_a_sketch_that_overflows_its_type_restarts(name, decay):
    huge = [[4e18 * g[0] / g[0].abs().max()] for g in stream([(8, 8)], 20)]
    after = stream([(8, 8)], 100, seed=3)
    (w,) = start([(8, 8)], "cpu", torch.float32)
    optimizer = make(name, [w], lr=0.1, ridge=0.5, sketch_size=3, decay=decay, update_every=2)
    steps(optimizer, [w], huge)
    assert torch.isfinite(w).all()
    w.data.zero_()
    steps(optimizer, [w], after[:-1])
    before = w.detach().clone()
    steps(optimizer, [w], after[-1:])
    assert torch.isfinite(w).all()
    assert not torch.equal(w, before)
    assert all(torch.isfinite(value).all() for value in optimizer.state[w].values())
