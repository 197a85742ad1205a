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

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch.testing._internal needs it")

from torch.optim.lr_scheduler import ReduceLROnPlateau

from onsketch import torch as sketched
from torch_infos import OptimizerErrorEnum, closure_of, devices, flattened, infos, problem
from torch_support import NAMES, make


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


@pytest.mark.slow
@infos
@devices
@pytest.mark.parametrize("contiguous", [True, False])
def test_forloop_goes_right_direction(info, device, contiguous):
    for given in info.optim_inputs_func(device):
        weight, bias, x = problem(device)
        if not contiguous:
            weight = torch.nn.Parameter(torch.randn(10, 5, 2, device=device)[..., 0])
            bias = torch.nn.Parameter(torch.randn(10, 2, device=device)[..., 0])
        optimizer = info.optim_cls([weight, bias], **given.kwargs)
        closure = closure_of(optimizer, weight, bias, x)
        before = closure().item()
        for _ in range(12):
            optimizer.step(closure)
        after = closure().item()
        assert after > before if given.kwargs.get("maximize") else after < before, given.desc


@pytest.mark.slow
@infos
def test_forloop_goes_right_direction_with_lrsched(info):
    for schedulers in info.scheduler_inputs:
        weight, bias, x = problem("cpu")
        optimizer = info.optim_cls([weight, bias], lr=0.01, ridge=1.0)
        closure = closure_of(optimizer, weight, bias, x)
        made = [make_scheduler(optimizer) for make_scheduler in schedulers]
        before = closure().item()
        for _ in range(20):
            loss = optimizer.step(closure)
            for scheduler in made:
                scheduler.step(loss.detach()) if isinstance(scheduler, ReduceLROnPlateau) else scheduler.step()
        assert closure().item() < before


@infos
def test_param_groups_lr(info):
    weight, bias, x = problem("cpu")
    frozen = torch.nn.Parameter(torch.ones(3))
    optimizer = info.optim_cls(
        [{"params": [weight]}, {"params": [bias], "lr": 0.03, "ridge": 2.0}, {"params": [frozen], "lr": 0.0}],
        lr=0.01,
        ridge=1.0,
    )
    closure = closure_of(optimizer, weight, bias, x)
    before = closure().item()
    for _ in range(20):
        closure()
        frozen.grad = torch.ones(3)
        optimizer.step()
    assert closure().item() < before
    assert torch.equal(frozen.detach(), torch.ones(3))


@infos
def test_param_groups_weight_decay(info):
    weight, bias, x = problem("cpu")
    optimizer = info.optim_cls([{"params": [weight]}, {"params": [bias], "weight_decay": 0.1}], ridge=1.0)
    closure = closure_of(optimizer, weight, bias, x)
    before = closure().item()
    for _ in range(20):
        optimizer.step(closure)
    assert closure().item() < before


@flattened
@devices
def test_tensor_lr(info, device):
    for place in {"cpu", device}:
        lr = torch.tensor(0.03, device=place)
        results = []
        for rate in (lr, 0.03):
            weight, bias, x = problem(device)
            optimizer = info.optim_cls(
                [weight, bias], lr=rate, ridge=0.1, weight_decay=0.1, decoupled_weight_decay=True
            )
            for _ in range(10):
                optimizer.step(closure_of(optimizer, weight, bias, x))
            results.append(weight.detach())
        torch.testing.assert_close(*results)
        assert lr.item() == pytest.approx(0.03)
        assert optimizer.param_groups[0]["lr"] == 0.03


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@infos
def test_grads_are_never_inplaced_into(info):
    for given in info.optim_inputs_func("cpu"):
        weight, bias, _ = problem("cpu")
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
