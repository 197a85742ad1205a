"""PyTorch's own optimizer checks, on all optimizers of onsketch.

``torch.testing._internal.common_optimizers`` describes an optimizer to PyTorch's test suite: constructor inputs, inputs
that must be refused, schedulers, what it supports. Each optimizer is described so here, and the checks of that suite
run over the descriptions. What is left out, and why:

- foreach, fused, differentiable, capturable: these flags choose between implementations, and there is one here:
  foreach is accepted, fused and differentiable are refused, capturable is Sketchy's. Each has a test of its own, as has
  that no step waits for a device.
- sparse gradients: those of embeddings move rows of diagonal layers, which has a test of its own; others are refused.
- "complex_2d" (a complex parameter steps as its real and imaginary parts would, each a parameter of its own): true of
  diagonal methods only. The parts of one parameter share a sketch, and their correlation counts. Equality with the
  *joint* real view is checked instead.
- "loading a checkpoint casts floating state to the parameter's type": the opposite is wanted of a sketch, and checked.
"""

from __future__ import annotations

import copy
import io
import pickle
import re
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch.testing._internal needs it")

from torch.optim.lr_scheduler import ReduceLROnPlateau

from torch_support import DEVICES, NAMES, make

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_optimizers import (
        ErrorOptimizerInput,
        OptimizerErrorEnum,
        OptimizerInfo,
        OptimizerInput,
        get_error_inputs_for_all_optims,
        optim_db,
    )

from onsketch import torch as sketched
from onsketch.core.errors import ModelFileError, OptionError


def _inputs(name):
    def inputs(device, dtype=None):
        options = [
            {}, {"lr": 0.02}, {"lr": torch.tensor(0.02)}, {"weight_decay": 0.1}, {"maximize": True},
            {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"weight_decay": 0.1, "maximize": True},
            {"momentum": 0.9}, {"decay": 0.9}, {"graft": True}, {"graft": True, "decay": 0.99}, {"block_size": 4},
            {"update_every": 3}, {"diagonal_above": 5}, {"sketch_dtype": torch.float64}, {"betas": (0.0, 0.9)},
            {"graft": False}, {"foreach": True}, {"scale_free": False, "ridge": 0.1, "decay": 1.0, "graft": False},
            {"scale_free": False, "ridge": 0.1, "momentum": 0.9, "decay": 0.99},
        ]  # fmt: skip
        if name != "AdaFull":
            options += [{"sketch_size": 3}, {"sketch_size": 0, "graft": True}]
        options = [{"lr": 0.01, **kwargs} for kwargs in options]
        return [OptimizerInput(params=None, kwargs=kwargs, desc=str(kwargs)) for kwargs in options]

    return inputs


def _errors(device, dtype):
    wrong = {
        "lr": -0.1, "ridge": -1.0, "decay": 1.5, "momentum": 1.0, "weight_decay": -1.0, "update_every": 0,
        "block_size": 0, "graft": "adagrad", "sketch_dtype": torch.int8, "diagonal_above": 0.5,
        "betas": (1.0, 0.9), "eps": -1.0, "scale_free": None,
    }  # fmt: skip
    return get_error_inputs_for_all_optims(device, dtype) + [
        ErrorOptimizerInput(
            OptimizerInput(params=None, kwargs={name: value}, desc=name), error_type=ValueError, error_regex=f"{name}="
        )
        for name, value in wrong.items()
    ]


SCHEDULERS = next(info for info in optim_db if info.optim_cls is torch.optim.Adam).scheduler_inputs
DB = [
    OptimizerInfo(
        getattr(sketched, name),
        optim_inputs_func=_inputs(name),
        optim_error_inputs_func=_errors,
        scheduler_inputs=SCHEDULERS,
        supported_impls=(),
        not_og_supported_flags=(),
    )
    for name in NAMES
]


def _sketchy_inputs(device, dtype=None):
    options = [
        {}, {"lr": 0.02}, {"lr": torch.tensor(0.02)}, {"weight_decay": 0.1}, {"maximize": True}, {"rank": 0},
        {"weight_decay": 0.1, "maximize": True}, {"betas": (0.0, 0.9)}, {"betas": (0.8, 0.9), "nesterov": False},
        {"rank": 2}, {"refresh_every": 1}, {"refresh_every": 3, "sketch_decay": 0.0}, {"block_size": 5},
        {"graft": "rmsprop"}, {"graft": "sgd", "lr": 0.002}, {"diagonal": True}, {"diagonal_above": 5}, {"eps": 1e-3},
        {"state_dtype": torch.bfloat16}, {"state_dtype": torch.float64}, {"foreach": True},
    ]  # fmt: skip
    options = [{"lr": 0.01, **kwargs} for kwargs in options]
    return [OptimizerInput(params=None, kwargs=kwargs, desc=str(kwargs)) for kwargs in options]


def _sketchy_errors(device, dtype):
    wrong = {
        "lr": -0.1, "ridge": -1.0, "betas": (1.0, 0.9), "eps": -1.0, "weight_decay": -1.0, "refresh_every": 0,
        "block_size": 0, "graft": "adagrad", "state_dtype": torch.int8, "diagonal_above": 0.5, "rank": -1,
        "sketch_decay": 1.0, "nesterov": 1, "capturable": None,
    }  # fmt: skip
    return get_error_inputs_for_all_optims(device, dtype) + [
        ErrorOptimizerInput(
            OptimizerInput(params=None, kwargs={name: value}, desc=name), error_type=ValueError, error_regex=f"{name}="
        )
        for name, value in wrong.items()
    ]


FLATTENED = list(DB)
DB.append(
    OptimizerInfo(
        sketched.Sketchy,
        optim_inputs_func=_sketchy_inputs,
        optim_error_inputs_func=_sketchy_errors,
        scheduler_inputs=SCHEDULERS,
        supported_impls=(),
        not_og_supported_flags=(),
    )
)
infos = pytest.mark.parametrize("info", DB, ids=[info.name for info in DB])
flattened = pytest.mark.parametrize("info", FLATTENED, ids=[info.name for info in FLATTENED])
devices = pytest.mark.parametrize("device", DEVICES)


def _problem(device, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    weight = torch.nn.Parameter(torch.randn(10, 5, device=device, dtype=dtype))
    bias = torch.nn.Parameter(torch.randn(10, device=device, dtype=dtype))
    x = torch.randn(5, device=device, dtype=dtype)
    return weight, bias, x


def _closure(optimizer, weight, bias, x):
    def closure():
        optimizer.zero_grad()
        loss = (weight.mv(x) + bias).pow(2).sum()
        loss.backward()
        return loss

    return closure


def _stepped_once(info):
    """An optimizer of the problem that has a checkpoint to give, and the problem."""
    weight, bias, x = _problem("cpu")
    optimizer = info.optim_cls.paper([weight, bias], ridge=0.1)
    optimizer.step(_closure(optimizer, weight, bias, x))
    return optimizer, weight, bias, x


def _same(a, b):
    """State dicts are equal, bit for bit."""
    assert a["param_groups"] == b["param_groups"]
    assert a["state"].keys() == b["state"].keys()
    for number, state in a["state"].items():
        assert state.keys() == b["state"][number].keys()
        for name, value in state.items():
            other = b["state"][number][name]
            assert value.dtype == other.dtype, name
            torch.testing.assert_close(value, other, rtol=0, atol=0, msg=name)


@infos
def test_optim_infos_do_not_specify_global_cliquey_kwargs(info):
    for given in info.optim_inputs_func("cpu"):
        assert not {"fused", "differentiable"} & given.kwargs.keys()


@infos
def test_errors(info):
    for wrong in info.optim_error_inputs_func("cpu", torch.float32):
        given = wrong.optimizer_error_input
        params = given.params if given.params is not None else [torch.nn.Parameter(torch.randn(2, 2))]
        if wrong.error_type is UserWarning:
            with pytest.warns(UserWarning, match=wrong.error_regex):
                info.optim_cls(params, **given.kwargs)
        else:
            assert wrong.error_on == OptimizerErrorEnum.CONSTRUCTION_ERROR
            with pytest.raises(wrong.error_type, match=wrong.error_regex):
                info.optim_cls(params, **given.kwargs)


@infos
@devices
@pytest.mark.parametrize("contiguous", [True, False])
def test_forloop_goes_right_direction(info, device, contiguous):
    for given in info.optim_inputs_func(device):
        weight, bias, x = _problem(device)
        if not contiguous:
            weight = torch.nn.Parameter(torch.randn(10, 5, 2, device=device)[..., 0])
            bias = torch.nn.Parameter(torch.randn(10, 2, device=device)[..., 0])
        optimizer = info.optim_cls([weight, bias], **given.kwargs)
        closure = _closure(optimizer, weight, bias, x)
        before = closure().item()
        for _ in range(12):
            optimizer.step(closure)
        after = closure().item()
        assert after > before if given.kwargs.get("maximize") else after < before, given.desc


@infos
def test_forloop_goes_right_direction_with_lrsched(info):
    for schedulers in info.scheduler_inputs:
        weight, bias, x = _problem("cpu")
        optimizer = info.optim_cls([weight, bias], lr=0.01, ridge=1.0)
        closure = _closure(optimizer, weight, bias, x)
        made = [make_scheduler(optimizer) for make_scheduler in schedulers]
        before = closure().item()
        for _ in range(20):
            loss = optimizer.step(closure)
            for scheduler in made:
                scheduler.step(loss.detach()) if isinstance(scheduler, ReduceLROnPlateau) else scheduler.step()
        assert closure().item() < before


@infos
def test_param_groups_lr(info):
    weight, bias, x = _problem("cpu")
    frozen = torch.nn.Parameter(torch.ones(3))
    optimizer = info.optim_cls(
        [{"params": [weight]}, {"params": [bias], "lr": 0.03, "ridge": 2.0}, {"params": [frozen], "lr": 0.0}],
        lr=0.01,
        ridge=1.0,
    )
    closure = _closure(optimizer, weight, bias, x)
    before = closure().item()
    for _ in range(20):
        closure()
        frozen.grad = torch.ones(3)
        optimizer.step()
    assert closure().item() < before
    assert torch.equal(frozen.detach(), torch.ones(3))


@infos
def test_param_groups_weight_decay(info):
    weight, bias, x = _problem("cpu")
    optimizer = info.optim_cls([{"params": [weight]}, {"params": [bias], "weight_decay": 0.1}], ridge=1.0)
    closure = _closure(optimizer, weight, bias, x)
    before = closure().item()
    for _ in range(20):
        optimizer.step(closure)
    assert closure().item() < before


@infos
@pytest.mark.parametrize("named_first", [True, False])
def test_can_load_from_and_to_named_state_dict(info, named_first):
    weight, bias, x = _problem("cpu")
    named, unnamed = [("weight", weight), ("bias", bias)], [weight, bias]
    given = (named, unnamed) if named_first else (unnamed, named)
    first, second = (info.optim_cls(params, ridge=0.5) for params in given)
    for _ in range(5):
        first.step(_closure(first, weight, bias, x))
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["param_names"] == ["weight", "bias"]  # the saved ones, or its own
    second.step(_closure(second, weight, bias, x))
    assert second.state[weight]["step"].item() == 6.0


@flattened
@devices
def test_tensor_lr(info, device):
    for place in {"cpu", device}:
        lr = torch.tensor(0.03, device=place)
        results = []
        for rate in (lr, 0.03):
            weight, bias, x = _problem(device)
            optimizer = info.optim_cls(
                [weight, bias], lr=rate, ridge=0.1, weight_decay=0.1, decoupled_weight_decay=True
            )
            for _ in range(10):
                optimizer.step(_closure(optimizer, weight, bias, x))
            results.append(weight.detach())
        torch.testing.assert_close(*results)
        assert lr.item() == pytest.approx(0.03)
        assert optimizer.param_groups[0]["lr"] == 0.03


@infos
@devices
def test_complex(info, device):
    """A complex parameter steps as its real view does."""
    torch.manual_seed(0)
    whole = torch.randn(5, 5, dtype=torch.complex64, device=device, requires_grad=True)
    view = torch.view_as_real(whole).detach().clone().requires_grad_()
    for given in info.optim_inputs_func(device):
        optimizers = [info.optim_cls([p], **given.kwargs) for p in (whole, view)]
        for _ in range(3):
            whole.grad = torch.randn_like(whole)
            view.grad = torch.view_as_real(whole.grad).clone()
            whole.grad = whole.grad.conj().resolve_conj().conj()  # as autograd may leave it: conjugated when read
            for optimizer in optimizers:
                optimizer.step()
            torch.testing.assert_close(torch.view_as_real(whole.detach()), view.detach())


@infos
@devices
def test_step_is_noop_when_params_have_no_grad(info, device):
    params = [torch.randn(2, 3, device=device, requires_grad=True) for _ in range(2)]
    before = [p.detach().clone() for p in params]
    optimizer = info.optim_cls(params)
    optimizer.step()
    assert all(torch.equal(p, b) for p, b in zip(params, before, strict=True))
    assert not optimizer.state


@infos
@devices
def test_step_is_noop_for_zero_grads(info, device):
    for given in info.optim_inputs_func(device):
        if "weight_decay" in given.kwargs:
            continue
        p = torch.randn(5, 1, device=device, requires_grad=True)
        before = p.detach().clone()
        p.grad = torch.zeros_like(p)
        optimizer = info.optim_cls([p], **given.kwargs)
        for _ in range(50):
            optimizer.step()
        assert torch.equal(p, before)


@infos
@devices
def test_empty_grad(info, device):
    model = torch.nn.Embedding(5, 1, padding_idx=0).to(device)
    empty = torch.nn.Parameter(torch.empty(0, 3, device=device))
    empty.grad = torch.empty_like(empty)
    optimizer = info.optim_cls([*model.parameters(), empty])
    optimizer.zero_grad(set_to_none=False)
    model(torch.tensor([0, 0], device=device)).sum().backward()
    before = model.weight.detach().clone()
    optimizer.step()
    assert torch.equal(model.weight, before)


@infos
@devices
def test_state_dict_deterministic(info, device):
    """A second optimizer given the state of the first goes on as the first does, and the given state is not changed."""
    for given in info.optim_inputs_func(device):
        weight, bias, x = _problem(device)
        optimizer = info.optim_cls([weight, bias], **given.kwargs)
        for _ in range(9):
            optimizer.step(_closure(optimizer, weight, bias, x))
        weight_c, bias_c = (torch.nn.Parameter(p.detach().clone()) for p in (weight, bias))
        optimizer_c = info.optim_cls([weight_c, bias_c], **given.kwargs)
        saved = copy.deepcopy(optimizer.state_dict())
        kept = copy.deepcopy(saved)
        optimizer_c.load_state_dict(saved)
        for _ in range(9):
            optimizer.step(_closure(optimizer, weight, bias, x))
            optimizer_c.step(_closure(optimizer_c, weight_c, bias_c, x))
            assert torch.equal(weight, weight_c), given.desc
        assert torch.equal(bias, bias_c)
        _same(saved, kept)
        _same(optimizer.state_dict(), optimizer_c.state_dict())


@flattened
def test_can_load_older_state_dict(info):
    """Checkpoints of before an option existed, and with plain numbers as steps."""
    optimizer, weight, bias, x = _stepped_once(info)
    old = copy.deepcopy(optimizer.state_dict())
    for group in old["param_groups"]:
        for name in ("maximize", "update_every", "graft", "decay", "sketch_dtype", "scale_free", "betas"):
            del group[name]
    for state in old["state"].values():
        state["step"] = state["step"].item()
    optimizer.load_state_dict(old)
    optimizer.step(_closure(optimizer, weight, bias, x))
    assert optimizer.param_groups[0]["decay"] == 1.0
    assert optimizer.state[weight]["step"].item() == 2.0


@flattened
@devices
@pytest.mark.parametrize("decay", [1.0, 0.99])
def test_an_older_checkpoint_without_newer_entries_goes_on(info, decay, device):
    """Written before there were grafting and momentum, and loaded where both are asked for: neither has a state yet."""
    (weight, _, _), (bias, _, _) = _problem(device), _problem(device, seed=1)
    before = info.optim_cls.paper([weight, bias], ridge=0.1, lr=0.0)
    generator = torch.Generator().manual_seed(0)

    def give():
        for p in (weight, bias):
            p.grad = torch.randn(p.shape, generator=generator).to(device)

    for _ in range(30):
        give()
        before.step()
    old = copy.deepcopy(before.state_dict())
    for group in old["param_groups"]:
        for name in ("graft", "momentum", "decay", "seed", "update_every", "decoupled_weight_decay"):
            del group[name]
    newer = info.optim_cls.paper([weight, bias], lr=0.1, ridge=0.1, graft=True, decay=decay, momentum=0.5)
    newer.load_state_dict(old)
    newer.param_groups[0]["lr"] = 0.1
    assert newer.param_groups[0]["graft"]
    assert newer.param_groups[0]["momentum"] == 0.5
    places = [weight.detach().clone()]
    for _ in range(3):
        give()
        newer.step()
        places.append(weight.detach().clone())
    # The first step is as long as if all gradients had been of this size; the others are of that order.
    count = 31 if decay == 1.0 else 1
    expected = 0.1 * (weight.numel() / count) ** 0.5
    assert (places[1] - places[0]).norm().item() == pytest.approx(expected, rel=1e-3)
    for a, b in zip(places[1:], places[2:], strict=False):
        assert 0.1 * expected < (b - a).norm() < 10 * expected
    assert newer.state[weight].keys() > {"sum", "momentum_buffer"}


@flattened
def test_a_checkpoint_that_cannot_be_gone_on_from_is_refused(info):
    optimizer, weight, bias, x = _stepped_once(info)
    kept = copy.deepcopy(optimizer.state_dict())
    entry = "matrix" if info.name == "AdaFull" else "rows"
    shape = tuple(kept["state"][0][entry].shape)

    def refused(change, message):
        old = copy.deepcopy(kept)
        change(old)
        with pytest.raises(ModelFileError, match=message):
            optimizer.load_state_dict(old)
        _same(optimizer.state_dict(), kept)

    name = info.optim_cls.__name__
    refused(lambda old: old["state"][0].pop(entry), rf"{name}: .*parameter 0 \(shape \(10, 5\)\) has no '{entry}'")
    refused(lambda old: old["state"][1].pop("step"), "parameter 1 .* has no 'step'")
    refused(lambda old: old["param_groups"][0].update(block_size=7), f"{entry}.*{re.escape(str(shape))}.*block_size=7")
    refused(lambda old: old["param_groups"][0].update(diagonal_above=5), "has no 'sum'.*diagonal_above=5")
    if info.name != "AdaFull":
        # the option is unknown to the checkpoint, and the constructor's does not fit its sketch
        other = info.optim_cls.paper([weight, bias], ridge=0.1, sketch_size=7)
        old = copy.deepcopy(kept)
        del old["param_groups"][0]["sketch_size"]
        with pytest.raises(ModelFileError, match=r"'rows' of shape .*sketch_size=7.*Use the options it was made with"):
            other.load_state_dict(old)
        assert not other.state
    adam = torch.optim.Adam([weight, bias])
    adam.step(_closure(adam, weight, bias, x))
    with pytest.raises(ModelFileError, match="another optimizer"):
        optimizer.load_state_dict(adam.state_dict())
    old = copy.deepcopy(kept)
    old["param_groups"][0]["decay"] = 7.0
    with pytest.raises(ValueError, match="decay=7"):
        optimizer.load_state_dict(old)
    _same(optimizer.state_dict(), kept)


@flattened
@devices
def test_options_may_change_on_the_way_or_say_that_they_may_not(info, device):
    weight, bias, x = _problem(device)
    optimizer = info.optim_cls([weight, bias], ridge=0.5, lr=0.01)
    for options in ({}, {"momentum": 0.5}, {"graft": True}, {"decay": 0.9, "ridge": 1.0, "update_every": 2}):
        optimizer.param_groups[0].update(options)
        for _ in range(3):
            optimizer.step(_closure(optimizer, weight, bias, x))
    assert torch.isfinite(weight).all()
    before = weight.detach().clone()
    for options in ({"block_size": 7}, {"sketch_size": 5}) if info.name != "AdaFull" else ({"block_size": 7},):
        kept = {name: optimizer.param_groups[0][name] for name in options}
        optimizer.param_groups[0].update(options, weight_decay=0.1, decoupled_weight_decay=True)
        with pytest.raises(OptionError, match=f"state of a parameter of shape .*{next(iter(options))}="):
            optimizer.step()
        optimizer.param_groups[0].update(kept)
    assert torch.equal(weight, before)


@flattened
@devices
def test_save_load_equality_with_weights_only(info, device):
    weight, bias, x = _problem(device)
    optimizer = info.optim_cls([weight, bias], ridge=0.1, momentum=0.5, graft=True)
    for _ in range(5):
        optimizer.step(_closure(optimizer, weight, bias, x))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    _same(optimizer.state_dict(), torch.load(file, weights_only=True))


@infos
def test_state_dict_with_cuda_params(info):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    weight, bias, x = _problem("cpu", torch.float64)
    optimizer = info.optim_cls([weight, bias], ridge=0.1)
    for _ in range(5):
        optimizer.step(_closure(optimizer, weight, bias, x))
    there = [torch.nn.Parameter(p.detach().cuda()) for p in (weight, bias)]
    moved = info.optim_cls(there, ridge=0.1)
    moved.load_state_dict(optimizer.state_dict())
    if info.name != "Sketchy":  # which counts there
        assert all(state["step"].device.type == "cpu" for state in moved.state.values())
    for _ in range(5):
        optimizer.step(_closure(optimizer, weight, bias, x))
        moved.step(_closure(moved, *there, x.cuda()))
        torch.testing.assert_close(weight.detach(), there[0].detach().cpu())


@infos
def test_mixed_device_dtype(info):
    """Parameters of several types in one optimizer; on several devices where there are."""
    torch.manual_seed(0)
    kinds = [("cpu", torch.float32), ("cpu", torch.float64), ("cpu", torch.bfloat16), ("cpu", torch.float16)]
    kinds += [("cuda", torch.float32), ("cuda", torch.bfloat16)] if torch.cuda.is_available() else []
    for given in info.optim_inputs_func("cpu"):
        params = [torch.randn(4, 3).to(device, dtype).requires_grad_() for device, dtype in kinds]
        alone = [p.detach().clone().requires_grad_() for p in params]
        together = info.optim_cls(params, **given.kwargs)
        separate = [info.optim_cls([p], **given.kwargs) for p in alone]
        for _ in range(7):
            for p, q, optimizer in zip(params, alone, separate, strict=True):
                p.grad = torch.randn(4, 3).to(p.device, p.dtype)
                q.grad = p.grad.clone()
                optimizer.step()
            together.step()
        for p, q in zip(params, alone, strict=True):
            torch.testing.assert_close(p, q)


@infos
def test_step_all_hooks(info):
    order = []
    weight, bias, x = _problem("cpu")
    optimizer = info.optim_cls([weight, bias])
    optimizer.register_step_pre_hook(lambda *_: order.append("before"))
    optimizer.register_step_post_hook(lambda *_: order.append("after"))
    optimizer.register_state_dict_pre_hook(lambda *_: order.append("saving"))
    optimizer.register_state_dict_post_hook(lambda *_: order.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: order.append("loading"))
    optimizer.register_load_state_dict_post_hook(lambda *_: order.append("loaded"))
    optimizer.step(_closure(optimizer, weight, bias, x))
    optimizer.load_state_dict(optimizer.state_dict())
    assert order == ["before", "after", "saving", "saved", "loading", "loaded"]


@infos
def test_load_state_dict_pre_hook_may_change_what_is_loaded(info):
    weight, bias, x = _problem("cpu")
    optimizer = info.optim_cls([weight, bias])
    optimizer.step(_closure(optimizer, weight, bias, x))

    def reset(_, state_dict):
        changed = copy.deepcopy(state_dict)
        changed["state"][0]["step"] += 6
        return changed

    optimizer.register_load_state_dict_pre_hook(reset)
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[weight]["step"].item() == 7.0


@infos
def test_deepcopy_and_pickle_copy_everything(info):
    weight, bias, x = _problem("cpu")
    optimizer = info.optim_cls([weight, bias])
    optimizer.step(_closure(optimizer, weight, bias, x))
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        public = {name for name in vars(optimizer) if not name.startswith("_")}
        assert public == {name for name in vars(twin) if not name.startswith("_")}
        _same(optimizer.state_dict(), {**twin.state_dict()})
        twin.step()


@infos
def test_grads_are_never_inplaced_into(info):
    for given in info.optim_inputs_func("cpu"):
        weight, bias, _ = _problem("cpu")
        optimizer = info.optim_cls([weight, bias], **given.kwargs)
        for p in (weight, bias):
            p.grad = torch.rand_like(p)
        versions = [p.grad._version for p in (weight, bias)]
        for _ in range(3):
            optimizer.step()
        assert versions == [p.grad._version for p in (weight, bias)]


@infos
def test_non_empty_state_and_named_parameters(info):
    model = torch.nn.Linear(3, 2)
    optimizer = info.optim_cls(model.named_parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert all(optimizer.state[p] for p in model.parameters())
    assert "weight" in optimizer.memory_plan()


@pytest.mark.parametrize("name", NAMES)
def test_an_option_that_does_not_concern_a_method_is_refused(name):
    w = [torch.nn.Parameter(torch.zeros(2))]
    if name not in ("AdaGP", "RadaGrad"):
        with pytest.raises(ValueError, match=f"{name}: seed"):
            make(name, w, seed=1)
    if name != "RFDSON":
        with pytest.raises(ValueError, match="ridge=0"):
            make(name, w, ridge=0.0)
    with pytest.raises(ValueError, match="sketch_size"):
        sketched.AdaFull(w, sketch_size=3)
