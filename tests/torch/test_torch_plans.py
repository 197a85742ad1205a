"""Sketchy's plans for a device, laid out over tensors of a CPU; and states that do not fit the options."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from onsketch.core.errors import OptionError
from onsketch.torch import Sketchy, axes_cuda, matrix_view_cuda
from onsketch.torch.matrix_view import MatrixView, Stepped
from torch_support import start, steps, stream

SHAPES = [(9, 8), (6, 5), (7,)]


def _layers(optimizer, params):
    group = optimizer.param_groups[0]
    return [
        Stepped(p.detach(), torch.ones_like(p), optimizer._fresh(p, group, "cpu"), MatrixView.of(p, group))
        for p in params
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"rank": 2},
        {"rank": 5},
        {"rank": 0},
        {"block_size": 4},
        {"diagonal": True},
        {"diagonal_above": 6},
        {"graft": "sgd"},
        {"direction": "orthogonal"},
    ],
)
def test_options_that_shape_the_state_do_not_change_between_steps(change):
    """Kernels would read beyond it. Nothing is stepped, not even other groups, and with the old options it goes on."""
    for first, second in ((change, {}), ({}, change)):
        params = start(SHAPES, "cpu", torch.float32)
        optimizer = Sketchy([{"params": params[2:]}, {"params": params[:2], "rank": 3, **first}], lr=0.1)
        steps(optimizer, params, stream(SHAPES, 2))
        group = optimizer.param_groups[1]
        old = {name: group[name] for name in matrix_view_cuda.SHAPING}
        group.update({**optimizer.defaults, "rank": 3, **second, "params": group["params"]})
        before = [p.detach().clone() for p in params]
        with pytest.raises(OptionError, match=r"Sketchy: the state of a parameter of shape \(9, 8\) has .*rank="):
            steps(optimizer, params, stream(SHAPES, 1))
        assert all(torch.equal(p, q) for p, q in zip(params, before, strict=True))
        group.update(old)
        steps(optimizer, params, stream(SHAPES, 1))
        assert not torch.equal(params[0], before[0])


def test_a_parameter_whose_data_has_another_size_is_refused():
    (w,) = start([(9, 8)], "cpu", torch.float32)
    optimizer = Sketchy([w])
    steps(optimizer, [w], stream([(9, 8)], 1))
    w.grad, w.data = None, torch.ones(12, 8)
    with pytest.raises(OptionError, match="is of 72 numbers"):
        steps(optimizer, [w], stream([(12, 8)], 1))


@pytest.mark.parametrize("name", ["step", "refreshes", "exp_avg_sq", "right_energy"])
def test_a_state_elsewhere_than_its_parameter_is_refused(name):
    """Kernels would take an address of the host's for one of the device's."""
    (w,) = start([(9, 8)], "cpu", torch.float32)
    optimizer = Sketchy([w])
    steps(optimizer, [w], stream([(9, 8)], 1))
    before = w.detach().clone()
    optimizer.state[w][name] = optimizer.state[w][name].to("meta")
    with pytest.raises(OptionError, match=f"has '{name}' on meta where it is on cpu itself"):
        steps(optimizer, [w], stream([(9, 8)], 1))
    assert torch.equal(w, before)


def test_a_state_whose_entries_have_other_shapes_is_refused():
    (w,) = start([(9, 8)], "cpu", torch.float32)
    optimizer = Sketchy([w], rank=3)
    steps(optimizer, [w], stream([(9, 8)], 1))
    optimizer.state[w]["left_energy"] = torch.ones(1, 2, dtype=torch.float64)
    with pytest.raises(OptionError, match=r"has 'left_energy' of shape \(1, 2\) where \(1, 3\) is needed"):
        steps(optimizer, [w], stream([(9, 8)], 1))


@pytest.fixture
def taken(monkeypatch):
    """The plans that took a step."""
    plans: list[matrix_view_cuda.Plan] = []
    monkeypatch.setattr(matrix_view_cuda.Plan, "take", lambda self, *_: plans.append(self))
    return plans


def test_numbers_that_change_in_every_step_keep_the_plan(taken):
    params = start(SHAPES, "cpu", torch.float32)
    optimizer = Sketchy(params, lr=0.1)
    (group,), cache, skipped = optimizer.param_groups, optimizer._cache, torch.zeros(1, dtype=torch.int32)
    layers = _layers(optimizer, params)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
    for _ in range(12):
        matrix_view_cuda.take_steps(layers, group, cache, skipped, params)
        optimizer._opt_called = True  # what the scheduler asks for
        before = group["betas"]
        scheduler.step()
        group["weight_decay"] += 0.01
        assert group["betas"] != before
        assert cache.knows(group)
    assert len(set(map(id, taken))) == 1
    group["nesterov"] = False  # another step
    assert not cache.knows(group)
    matrix_view_cuda.take_steps(layers, group, cache, skipped, params)
    assert taken[-1] is not taken[-2]
    assert list(cache.plans.values()) == [taken[-1]]
    assert [known.plan for known in cache.known.values()] == [taken[-1]]


def test_a_plan_reads_the_current_numbers():
    params = start(SHAPES, "cpu", torch.float32)
    optimizer = Sketchy(params, lr=torch.tensor(0.1), betas=(0.8, 0.99), weight_decay=0.01)
    (group,), layers = optimizer.param_groups, _layers(optimizer, params)
    plan = matrix_view_cuda.Plan(layers, group, torch.zeros(1, dtype=torch.int32))
    for _ in range(2):
        plan._tell([layer.g for layer in layers], group)
        wanted = [float(group["lr"]), *group["betas"], *(group[name] for name in matrix_view_cuda.NUMBERS)]
        assert plan.numbers.tolist() == [*wanted, group["power"] or 0.375]
        assert (plan.metric.ridge, plan.metric.power) == (group["ridge"], group["power"] or 0.375)
        group["lr"].fill_(0.2)
        group.update(betas=(0.7, 0.98), weight_decay=0.02, power=0.3, ridge=0.1, sketch_decay=0.9)


def test_a_plan_that_the_user_captured_is_kept(taken):
    """A graph of the user's goes on reading it."""
    params = start(SHAPES, "cpu", torch.float32)
    optimizer = Sketchy(params, lr=0.1)
    (group,), cache, skipped = optimizer.param_groups, optimizer._cache, torch.zeros(1, dtype=torch.int32)
    layers = _layers(optimizer, params)
    matrix_view_cuda.take_steps(layers, group, cache, skipped)
    taken[0].sent.append(torch.zeros(1))
    for nesterov in (False, True):
        group["nesterov"] = nesterov
        matrix_view_cuda.take_steps(layers, group, cache, skipped)
    assert cache.captured == [taken[0]]
    for _ in range(20):  # parameters that come and go
        matrix_view_cuda.take_steps(_layers(optimizer, params), group, cache, skipped)
    assert len(cache.plans) <= 8
    assert cache.captured == [taken[0]]


def test_each_of_many_groups_keeps_its_plan(taken):
    params = start([(9, 8)] * 12, "cpu", torch.float32)
    optimizer = Sketchy([{"params": [p]} for p in params], lr=0.1)
    cache, skipped = optimizer._cache, torch.zeros(1, dtype=torch.int32)
    cache.groups = len(params)
    layers = _layers(optimizer, params)
    for _ in range(3):
        for p, layer, group in zip(params, layers, optimizer.param_groups, strict=True):
            matrix_view_cuda.take_steps([layer], group, cache, skipped, [p])
    assert len(set(map(id, taken))) == len(cache.plans) == len(cache.known) == 12


def test_a_step_is_known_as_long_as_states_stay_with_their_parameters(taken):
    params = start([(9, 8)] * 2, "cpu", torch.float32)
    optimizer = Sketchy(params, lr=0.1)
    (group,), cache, layers = optimizer.param_groups, optimizer._cache, _layers(optimizer, params)
    matrix_view_cuda.take_steps(layers, group, cache, torch.zeros(1, dtype=torch.int32), params)
    for p in params:
        p.grad = torch.ones_like(p)
    kept = [layer.state for layer in layers]
    assert matrix_view_cuda.known_step(params, group, cache, dict(zip(params, kept, strict=True))) is not None
    assert matrix_view_cuda.known_step(params, group, cache, dict(zip(params, kept[::-1], strict=True))) is None
    assert matrix_view_cuda.known_step(params, group, cache, {}) is None


def test_gradients_do_not_outlive_their_step(taken):
    params = start(SHAPES, "cpu", torch.float32)
    optimizer = Sketchy(params, lr=0.1)
    layers = _layers(optimizer, params)
    gradients = [weakref.ref(layer.g) for layer in layers]
    skipped = torch.zeros(1, dtype=torch.int32)
    matrix_view_cuda.take_steps(layers, optimizer.param_groups[0], optimizer._cache, skipped, params)
    del layers
    gc.collect()
    assert not any(g() is not None for g in gradients)


@pytest.mark.parametrize("rank", [3, 32, 40, 2000])
def test_the_memory_plan_counts_what_a_refresh_keeps(rank):
    """Of ranks that kernels refresh; of larger ones a copy of the gradient, and of those left to PyTorch nothing."""
    shapes = [(256, 300), (64, 70), (4, 3), (7,)]
    params = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    optimizer = Sketchy(params, rank=rank)
    plan = matrix_view_cuda.Plan(
        _layers(optimizer, params), optimizer.param_groups[0], torch.zeros(1, dtype=torch.int32)
    )
    own = plan.axes
    kept = sum(x.numel() * x.element_size() for x in (own.Z, own.partial, own.scratch, own.mixes))
    layers = [MatrixView.of(p, optimizer.param_groups[0]) for p in params]
    counted = [axes_cuda.refresh_bytes(view, axes_cuda.most_of(layers)) for view in layers]
    by_kernels = [size for size, view in zip(counted, layers, strict=True) if axes_cuda.refreshes(view)]
    assert sum(by_kernels) == kept
    assert counted[3] == 0
    assert counted[0] == {40: 4 * 256 * 300, 2000: 0}.get(rank, counted[0])
