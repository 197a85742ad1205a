"""Refreshes of Sketchy's sketches that find nothing or fail."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from onsketch.torch import Sketchy
from torch_support import DEVICES, start, steps, stream

device_of = pytest.mark.parametrize("device", DEVICES)


@device_of
@pytest.mark.parametrize("direction", ["adam", "orthogonal"])
def test_a_layer_whose_first_gradient_is_zero_finds_its_directions_later(direction, device):
    """As behind a layer that starts at zero."""
    shapes = [(9, 8), (9, 8)]
    params = start(shapes, device, torch.float32)
    optimizer = Sketchy(params, lr=0.01, rank=3, refresh_every=2, direction=direction)
    gradients = stream(shapes, 7)
    gradients[0] = [torch.zeros(9, 8), gradients[0][1]]
    steps(optimizer, params, gradients)
    for p in params:
        for side in ("left", "right"):
            assert (optimizer.state[p][f"{side}_energy"] > 0.0).all(), side
            assert (optimizer.state[p][side].norm(dim=1) > 0.0).all(), side
        assert torch.isfinite(p).all()


def _fails(matrices):
    raise torch.linalg.LinAlgError("linalg.eigh: the algorithm failed to converge")


def test_a_refresh_whose_decomposition_fails_leaves_the_sketch_as_it_was(monkeypatch):
    """The step is taken with the previous sketch, and the next refresh goes on from there."""
    shapes = [(9, 8)]
    gradients = stream(shapes, 8, dtype=torch.float32)
    (w,) = start(shapes, "cpu", torch.float32)
    optimizer = Sketchy([w], lr=0.01, rank=3, refresh_every=1)
    steps(optimizer, [w], gradients[:4])
    (other,) = start(shapes, "cpu", torch.float32)
    other.data.copy_(w)
    unrefreshed = Sketchy([other], lr=0.01, rank=3, refresh_every=1)
    unrefreshed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    unrefreshed.param_groups[0]["refresh_every"] = 1000
    kept = {name: value.clone() for name, value in optimizer.state[w].items() if name.startswith(("left", "right"))}
    with monkeypatch.context() as patch:
        patch.setattr(torch.linalg, "eigh", _fails)
        steps(optimizer, [w], gradients[4:5])
    assert all(torch.equal(optimizer.state[w][name], value) for name, value in kept.items())
    steps(unrefreshed, [other], gradients[4:5])
    assert torch.equal(w, other)
    steps(optimizer, [w], gradients[5:])
    assert not torch.equal(optimizer.state[w]["left_energy"], kept["left_energy"])
    assert torch.isfinite(w).all()


def test_where_the_first_refresh_fails_it_is_adam_until_one_does_not(monkeypatch):
    shapes = [(9, 8)]
    gradients = stream(shapes, 4, dtype=torch.float32)
    (w,), (adams,) = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    optimizer = Sketchy([w], lr=0.01, rank=3, refresh_every=1)
    with monkeypatch.context() as patch:
        patch.setattr(torch.linalg, "eigh", _fails)
        steps(optimizer, [w], gradients[:2])
    steps(Sketchy([adams], lr=0.01, rank=0), [adams], gradients[:2])
    torch.testing.assert_close(w, adams)
    steps(optimizer, [w], gradients[2:])
    assert (optimizer.state[w]["left_energy"] > 0.0).all()
    assert (optimizer.state[w]["left"].norm(dim=1) > 0.0).all()
