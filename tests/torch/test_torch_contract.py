"""What users of PyTorch do to an optimizer beyond stepping: memory, schedules, flags, torch.compile."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

from onsketch import torch as sketched
from onsketch.torch import frequent_directions, random_rows
from torch_support import DEVICES, NAMES, make, start, steps, stream

device_of = pytest.mark.parametrize("device", DEVICES)
name_of = pytest.mark.parametrize("name", NAMES)
SHAPES = [(6, 5), (7,)]


@device_of
@name_of
def test_the_memory_plan_is_what_is_kept(name, device):
    params = [torch.nn.Parameter(torch.randn(s, device=device)) for s in ((6, 5), (3,), (40, 3))]
    optimizer = make(name, params, diagonal_above=100, block_size=20, momentum=0.9)
    plan = optimizer.memory_plan()
    steps(optimizer, params, stream([(6, 5), (3,), (40, 3)], 2))
    kept = sum(value.numel() * value.element_size() for state in optimizer.state.values() for value in state.values())
    assert f"{kept:,}" in plan.splitlines()[-1]
    assert "diagonal" in plan
    assert "2×20" in plan


def test_the_working_memory_of_small_types_is_that_of_their_sketch():
    w = torch.nn.Parameter(torch.randn(50, dtype=torch.bfloat16))
    optimizer = sketched.AdaFD([w], sketch_dtype=torch.bfloat16, sketch_size=4)
    steps(optimizer, [w], stream([(50,)], 30))
    assert optimizer.state[w]["rows"].dtype == torch.bfloat16
    assert optimizer.state[w]["transform"].dtype == torch.float64
    assert torch.isfinite(w).all()


def test_functions_are_pure_of_the_optimizer():
    """One function for each method: gradients and state in, steps out."""
    g = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    state = sketched.AdaFD([torch.nn.Parameter(g[0])]).recipe.empty(1, 2, 5, g)
    (step,) = sketched.ada_fd([g], [state], size=5, ridge=1.0, decay=1.0, steps=[1], absorb=True)
    torch.testing.assert_close(step, g / 6.0)
    options = {"size": 5, "ridge": 1.0, "decay": 1.0, "steps": [1], "absorb": True}
    for function, recipe in (
        (sketched.ada_ffd, frequent_directions.Recipe("adagrad", doubling=True)),
        (sketched.fd_son, frequent_directions.Recipe("newton", doubling=True)),
        (sketched.rfd_son, frequent_directions.Recipe("newton", doubling=True)),
    ):
        (step,) = function([g], [recipe.empty(1, 2, 5, g)], **options)
        torch.testing.assert_close(step, g / (26.0 if "son" in function.__name__ else 6.0))
    (step,) = sketched.ada_gp([g], [random_rows.empty(1, 2, 5, g)], seed=0, **options)
    assert torch.isfinite(step).all()


@name_of
def test_one_cycle_cycles_momentum_alone(name):
    """β₁ of the scale-free form; in the papers' form, which has no momentum unless asked, nothing."""
    for made in (getattr(sketched, name), getattr(sketched, name).paper):
        w = torch.nn.Parameter(torch.ones(3))
        optimizer = made([w], lr=0.1)
        group = optimizer.param_groups[0]
        kept = {key: group[key] for key in ("momentum", "decay")} | {"second": group["betas"][1]}
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
        for _ in range(4):
            w.grad = torch.ones(3)
            optimizer.step()
            schedule.step()
        assert {key: group[key] for key in ("momentum", "decay")} | {"second": group["betas"][1]} == kept
        assert group["betas"][0] != 0.9
        assert ("momentum_buffer" in optimizer.state[w]) == group["scale_free"]


@pytest.mark.parametrize("name", [*NAMES, "Sketchy"])
def test_flags_of_torch_optim_are_accepted_or_refused(name):
    import numpy as np

    made, w = getattr(sketched, name), [torch.nn.Parameter(torch.ones(3))]
    made(w, np.float32(0.1), (np.float64(0.9), 0.99), 1e-8, np.float64(0.1), foreach=True, fused=False, maximize=True)
    for flag in ("fused", "differentiable", *(() if name == "Sketchy" else ("capturable",))):
        with pytest.raises(RuntimeError, match=f"{name}: `{flag}` is not supported"):
            made(w, **{flag: True})
    with pytest.raises(ValueError, match="Is 'weight_decay' meant"):
        made([{"params": w, "weight_decya": 0.1}])
    elsewhere = torch.nn.Parameter(torch.ones(3, device="meta"))
    elsewhere.grad = torch.ones(3, device="meta")
    optimizer = made([elsewhere])
    with pytest.raises(RuntimeError, match=f"{name}: a parameter of shape .* 'meta'.*MPS"):
        optimizer.step()


@pytest.mark.parametrize("name", [*NAMES, "Sketchy"])
@pytest.mark.parametrize("eps", [0.0, 1e-50])
def test_an_eps_of_nothing_is_refused(name, eps):
    with pytest.raises(ValueError, match=f"{name}: eps={eps}"):
        getattr(sketched, name)([torch.nn.Parameter(torch.ones(3))], eps=eps)


@device_of
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_training_step_leaves_the_optimizer_as_it_is(device):
    """For torch.compile a step is one operation, whose kernels and tables it does not look into."""
    gradients = stream(SHAPES, 12)
    plain, compiled = start(SHAPES, device, torch.float64), start(SHAPES, device, torch.float64)
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 3, "graft": True}
    steps(make("AdaFFD", plain, **options), plain, gradients)
    optimizer = make("AdaFFD", compiled, **options)
    step = torch.compile(optimizer.step, backend="eager")
    for grads in gradients:
        for p, g in zip(compiled, grads, strict=True):
            p.grad = g.to(device)
        step()
    for a, b in zip(plain, compiled, strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_imports_with_pytorch_and_numpy_alone():
    script = """
        import sys

        refused = ["numba", "scipy", "click", "rich", "ray", "river", "pyarrow", "pandas", "sklearn", "safetensors"]
        sys.modules.update(dict.fromkeys(refused))  # as if they were not installed
        import torch
        from onsketch.torch import AdaFD, AdaFFD, AdaFull, AdaGP, FDSON, RadaGrad, RFDSON, SAdaGrad

        for optimizer in (AdaFD, AdaFFD, AdaFull, AdaGP, FDSON, RadaGrad, RFDSON, SAdaGrad):
            w = torch.ones(4, requires_grad=True)
            made = optimizer([w], lr=0.1)
            w.sum().backward()
            made.step()
            assert torch.isfinite(w).all() and (w < 1.0).all(), optimizer
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_a_missing_pytorch_is_named():
    script = "import sys; sys.modules['torch'] = None; import onsketch.torch"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'onsketch[torch]'" in result.stderr
