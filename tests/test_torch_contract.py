"""What users of PyTorch do to an optimizer beyond stepping: checkpoints, mixed precision, distributed training."""

from __future__ import annotations

import io
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
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_run_goes_on_bit_for_bit(name, dtype, device):
    gradients = stream(SHAPES, 31)
    options = {"lr": 0.05, "ridge": 0.1, "sketch_size": 3, "momentum": 0.5, "graft": True, "decay": 0.95}
    straight = start(SHAPES, device, dtype)
    steps(make(name, straight, **options), straight, gradients)

    first = start(SHAPES, device, dtype)
    optimizer = make(name, first, **options)
    steps(optimizer, first, gradients[:17])
    file = io.BytesIO()
    torch.save({"weights": [p.detach() for p in first], "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second = [p.requires_grad_() for p in saved["weights"]]
    resumed = make(name, second, **options)
    resumed.load_state_dict(saved["optimizer"])
    large = resumed.state[second[0]].get("rows", resumed.state[second[0]].get("matrix"))
    assert large.dtype == (torch.float64 if name == "AdaFull" else torch.float32)
    steps(resumed, second, gradients[17:])
    for a, b in zip(straight, second, strict=True):
        assert torch.equal(a, b)


@device_of
@name_of
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("scale_free", [True, False])
def test_a_gradient_that_is_not_finite_leaves_the_parameter_alone(name, bad, scale_free, device):
    (w, v) = start([(5, 4), (3,)], device, torch.float32)
    decay = {"decay": 0.9, "weight_decay": 0.1, "decoupled_weight_decay": True, "momentum": 0.5, "graft": True}
    optimizer = make(name, [w, v], lr=0.1, ridge=0.5, sketch_size=3, scale_free=scale_free, **decay)
    steps(optimizer, [w, v], stream([(5, 4), (3,)], 5))
    before, other = w.detach().clone(), v.detach().clone()
    kept = {key: value.clone() for key, value in optimizer.state[w].items()}
    broken = torch.ones(5, 4)
    broken[2, 1] = bad
    with pytest.warns(RuntimeWarning, match="not finite"):  # noqa: PT031 - on a device it comes a step late
        steps(optimizer, [w, v], [[broken, torch.ones(3)]])
        assert optimizer.skipped_steps == 1  # waits for the device
        assert torch.equal(w, before)
        filled = int(kept["counts"][0, 0]) if "counts" in kept else 0
        for key, value in kept.items():
            now = optimizer.state[w][key]
            if key == "rows":  # the others are of no meaning
                now, value = now[:, :filled], value[:, :filled]
            assert torch.equal(now, value) or (key == "step" and device == "cuda"), key
        assert not torch.equal(v, other)
        steps(optimizer, [w, v], stream([(5, 4), (3,)], 20, seed=3))
    assert all(torch.isfinite(value).all() for state in optimizer.state.values() for value in state.values())
    assert torch.isfinite(w).all()
    before = v.detach().clone()
    with pytest.raises(RuntimeError, match="not finite"):
        steps(make(name, [w, v], error_if_nonfinite=True), [w, v], [[broken, torch.ones(3)]])
    assert torch.equal(v, before)


@device_of
@pytest.mark.parametrize("name", [*NAMES, "Sketchy"])
def test_a_gradient_whose_square_is_not_finite_is_skipped(name, device):
    """It would make the average of squares infinite, and stop the parameter for ever."""
    (w,) = start([(5, 4)], device, torch.float32)
    optimizer = getattr(sketched, name)([w], lr=0.1)
    steps(optimizer, [w], stream([(5, 4)], 3))
    before = w.detach().clone()
    with pytest.warns(RuntimeWarning, match="not finite"):  # noqa: PT031 - on a device it comes a step late
        steps(optimizer, [w], [[torch.full((5, 4), 1e25)]])
        assert optimizer.skipped_steps == 1
        assert torch.equal(w, before)
        steps(optimizer, [w], stream([(5, 4)], 3, seed=1))
    assert optimizer.skipped_steps == 1
    assert (w != before).all()
    assert all(torch.isfinite(value).all() for value in optimizer.state[w].values())


def test_what_can_be_squared_depends_on_what_the_squares_are_kept_in():
    from onsketch.torch.careful import finite

    grads = [torch.full((40,), 1e19), torch.full((3,), 1e25, dtype=torch.float64), torch.full((3,), 6e4).half()]
    assert finite(grads) == [True, True, True]
    assert finite(grads, torch.float32) == [True, False, True]
    assert finite([grads[0].double() * 10.0], torch.bfloat16) == [False]
    assert finite([torch.zeros(0)]) == [True]


def test_kernels_are_told_of_a_gradient_that_is_left_out():
    """Where nobody waits to know: what reaches a sketch is NaN, and the average of squares stays as it was."""
    from onsketch.torch import diagonal

    grads, states = [torch.ones(3), torch.full((3,), 1e25)], [{"sum": torch.ones(3)} for _ in range(2)]
    fine = [torch.tensor(True), torch.tensor(False)]
    group = {"betas": (0.9, 0.5), "eps": 1e-16}
    good, left_out = diagonal.normalised(grads, states, [2, 2], group, fine)
    assert torch.equal(good, diagonal.normalised(grads[:1], [{"sum": torch.ones(3)}], [2], group, None)[0])
    assert torch.isnan(left_out).all()
    assert torch.equal(states[1]["sum"], torch.ones(3))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "AdaFull"])
def test_a_failed_eigendecomposition_keeps_the_old_sketch(name, monkeypatch):
    from onsketch.torch import spectrum

    gradients = stream([(6, 5)], 9)
    (w,) = start([(6, 5)], "cpu", torch.float64)
    (twin,) = start([(6, 5)], "cpu", torch.float64)
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 20}
    optimizer, reference = make(name, [w], **options), make(name, [twin], **options)
    steps(optimizer, [w], gradients[:4])
    steps(reference, [twin], gradients[:4])

    def fail(matrices):
        raise torch.linalg.LinAlgError("it did not converge")

    before = w.detach().clone()
    with monkeypatch.context() as patch:
        patch.setattr(torch.linalg, "eigh", fail)
        values, vectors = spectrum.eigh(torch.eye(3, dtype=torch.float64)[None])
        assert torch.isnan(values).all()
        assert torch.isnan(vectors).all()
        steps(optimizer, [w], gradients[4:5])
    assert torch.equal(w, before)
    # the step that failed was one of zero gradient
    steps(reference, [twin], [[torch.zeros(6, 5)]])
    steps(optimizer, [w], gradients[5:])
    steps(reference, [twin], gradients[5:])
    if name not in ("AdaGP", "RadaGrad"):  # these skip the round's draw, but not its slot
        torch.testing.assert_close(w, twin)
    assert torch.isfinite(w).all()


def test_one_failed_eigendecomposition_of_a_batch_is_one(monkeypatch):
    from onsketch.torch import spectrum

    matrices = torch.diag_embed(torch.tensor([[1.0, 2.0], [3.0, 4.0], [6.0, 5.0]], dtype=torch.float64))
    solve = torch.linalg.eigh

    def fail(given):
        if (given == 4.0).any():
            raise torch.linalg.LinAlgError("it did not converge")
        return solve(given)

    monkeypatch.setattr(torch.linalg, "eigh", fail)
    values, vectors = spectrum.eigh(matrices)
    expected = torch.tensor([[2.0, 1.0], [torch.nan, torch.nan], [6.0, 5.0]], dtype=torch.float64)
    torch.testing.assert_close(values, expected, equal_nan=True)
    torch.testing.assert_close(
        (vectors * values[:, None]) @ vectors.mT, matrices.where(expected[:, None] > 0, torch.nan), equal_nan=True
    )


@device_of
@pytest.mark.parametrize("name", [name for name in NAMES if name != "AdaFull"])
@pytest.mark.parametrize("decay", [1.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_sketch_that_outgrows_its_type_starts_anew(name, dtype, decay, device):
    """Gradients so large that products of rows overflow: the steps after them are finite, and go on."""
    (w,) = start([(8, 8)], device, torch.float32)
    optimizer = make(name, [w], lr=0.1, ridge=0.5, sketch_size=3, sketch_dtype=dtype, decay=decay)
    size = 4e18 if dtype == torch.float32 else 3e4
    huge = [[size * g[0] / g[0].abs().max()] for g in stream([(8, 8)], 20)]
    steps(optimizer, [w], stream([(8, 8)], 5))
    steps(optimizer, [w], huge)
    assert torch.isfinite(w).all()
    w.data.zero_()
    for grads in stream([(8, 8)], 100, seed=3):
        before = w.detach().clone()
        steps(optimizer, [w], [grads])
    assert torch.isfinite(w).all()
    assert not torch.equal(w, before)
    assert all(torch.isfinite(value).all() for value in optimizer.state[w].values())


@name_of
def test_what_is_refused_is_refused_before_anything_is_stepped(name):
    dense, sparse = torch.nn.Linear(3, 2), torch.nn.Embedding(4, 2, sparse=True)
    optimizer = make(name, [{"params": dense.parameters()}, {"params": sparse.parameters()}])
    (dense(torch.ones(1, 3)) + sparse(torch.tensor([1]))).sum().backward()
    before = dense.weight.detach().clone()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()
    assert torch.equal(dense.weight, before)
    assert not optimizer.state


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@name_of
def test_sparse_gradients_move_the_rows_they_name(name):
    """Of a diagonal layer, as a dense gradient of the same numbers would, and leave the other rows alone."""
    weight = torch.randn(6, 3)
    params = [torch.nn.Parameter(weight.clone()) for _ in range(2)]
    made = [getattr(sketched, name)([p], diagonal_above=0, lr=0.1, maximize=True) for p in params]
    rows = torch.tensor([[4, 1, 4]])
    for _ in range(3):
        values = torch.randn(3, 3)
        params[0].grad = torch.sparse_coo_tensor(rows, values, (6, 3))
        params[1].grad = params[0].grad.to_dense()
        for optimizer in made:
            optimizer.step()
    torch.testing.assert_close(params[0], params[1])
    assert torch.equal(params[0][[0, 2, 3, 5]], weight[[0, 2, 3, 5]])


@name_of
def test_sparse_gradients_are_refused_by_name(name):
    model = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = make(name, model.parameters())
    model(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=f"{name} does not take sparse gradients.*SparseAdam"):
        optimizer.step()


@device_of
@name_of
def test_parameters_may_miss_steps(name, device):
    """A parameter without a gradient is untouched, and later goes on as if the steps it missed had not been."""
    shapes = [(4, 3), (5,)]
    both, alone = start(shapes, device, torch.float64), start(shapes, device, torch.float64)
    gradients = stream(shapes, 30)
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 2}
    optimizer = make(name, both, **options)
    for t, grads in enumerate(gradients):
        both[0].grad = grads[0].to(device)
        both[1].grad = grads[1].to(device) if t % 3 else None
        optimizer.step()
    for i, chosen in enumerate((gradients, [g for t, g in enumerate(gradients) if t % 3])):
        steps(make(name, alone[i : i + 1], **options), alone[i : i + 1], [[g[i]] for g in chosen])
        torch.testing.assert_close(both[i], alone[i])


@device_of
@name_of
def test_grad_scaler(name, device):
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 4).to(device)
    optimizer = make(name, model.parameters(), lr=0.05, ridge=0.5)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**10)
    x, losses = torch.randn(32, 6, device=device), []
    for step in range(20):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        if step == 10:
            model.weight.grad[0, 0] = float("inf")
            kept = model.weight.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        if step == 10:
            assert torch.equal(model.weight, kept)
        losses.append(loss.item())
    assert losses[-1] < losses[0]


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


@device_of
def test_a_sum_that_starts_late_has_the_precision_of_its_sketch(device):
    """The checkpoint is of float64 weights, whose sketch stays so under float32 ones."""
    gradients = stream([(30,)], 12)
    (wide,), (narrow,) = start([(30,)], device, torch.float64), start([(30,)], device, torch.float32)
    optimizer = make("AdaFD", [wide], sketch_size=4)
    steps(optimizer, [wide], gradients[:6])
    other = make("AdaFD", [narrow], sketch_size=4)
    other.load_state_dict(optimizer.state_dict())
    other.param_groups[0]["graft"] = True
    steps(other, [narrow], gradients[6:])
    assert other.state[narrow]["rows"].dtype == other.state[narrow]["sum"].dtype == torch.float64
    assert torch.isfinite(narrow).all()


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
def test_ddp_and_distributed_checkpoints(name, tmp_path):
    """DDP in one process; a distributed checkpoint starts states by a step of zero gradient and then fills them."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 3))
        optimizer = make(name, model.parameters(), lr=0.05, ridge=0.5, sketch_size=3)
        x = torch.randn(8, 5)

        def train(network, its_optimizer, count):
            for _ in range(count):
                its_optimizer.zero_grad()
                network(x).square().mean().backward()
                its_optimizer.step()

        train(model, optimizer, 7)
        saved = get_optimizer_state_dict(model, optimizer)
        twin = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 3))
        twin.load_state_dict(model.state_dict())
        restored = make(name, twin.parameters(), lr=0.05, ridge=0.5, sketch_size=3)
        set_optimizer_state_dict(twin, restored, optim_state_dict=saved)
        train(model, optimizer, 7)
        train(twin, restored, 7)
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            assert torch.isfinite(a).all()
            assert torch.equal(a, b)
    finally:
        dist.destroy_process_group()


def test_two_processes_step_as_one_with_the_whole_batch(tmp_path):
    """DDP in two processes, each with half of the batch: the weights agree, and are those of one process."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    script = f"""
        import sys

        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP
        from onsketch import torch as sketched

        torch.set_num_threads(1)
        rank = int(sys.argv[1])
        dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=rank, world_size=2)
        for name in {list(NAMES)}:
            torch.manual_seed(0)
            alone, model = torch.nn.Linear(5, 3).double(), torch.nn.Linear(5, 3).double()
            model.load_state_dict(alone.state_dict())
            model, x = DDP(model), torch.randn(8, 5).double()
            for network, inputs in ((alone, x), (model, x[4 * rank : 4 * rank + 4])):
                optimizer = getattr(sketched, name)(network.parameters(), lr=0.05, ridge=0.5)
                for _ in range(12):
                    optimizer.zero_grad()
                    network(inputs).square().mean().backward()
                    optimizer.step()
            for a, b in zip(alone.parameters(), model.parameters(), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
                both = [torch.empty_like(b) for _ in range(2)]
                dist.all_gather(both, b.detach())
                assert torch.equal(*both), name
        dist.destroy_process_group()
        """
    _run_twice(script)


def test_shards_and_replicas_of_dtensors_step_by_their_parts(tmp_path):
    """Two processes: a replicated DTensor steps as a plain parameter, a sharded one (FSDP2) each part by itself."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    script = f"""
        import sys

        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
        from onsketch import torch as sketched

        torch.set_num_threads(1)
        rank = int(sys.argv[1])
        dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=rank, world_size=2)
        mesh = init_device_mesh("cpu", (2,))
        for name in {[*NAMES, "Sketchy"]}:
            def train(params, optimizer, wrap):
                generator = torch.Generator().manual_seed(0)
                for _ in range(6):
                    for p in params:
                        p.grad = wrap(torch.randn(p.shape, generator=generator))
                    optimizer.step()

            def replicated(x):
                return distribute_tensor(x, mesh, [Replicate()])

            plain = torch.nn.Parameter(torch.ones(6, 4))
            copy = torch.nn.Parameter(replicated(torch.ones(6, 4)))
            train([plain], getattr(sketched, name)([plain]), lambda x: x)
            train([copy], getattr(sketched, name)([copy]), replicated)
            assert torch.equal(copy.to_local(), plain), name

            def partial(x):  # each process has its share, which is not the other's
                return DTensor.from_local(x * (0.25 + 0.5 * rank), mesh, [Partial()])

            summed = torch.nn.Parameter(replicated(torch.ones(6, 4)))
            train([summed], getattr(sketched, name)([summed]), partial)
            assert torch.equal(summed.to_local(), plain), name

            row = torch.nn.Parameter(distribute_tensor(torch.ones(1, 4), mesh, [Shard(0)]))
            of_one = getattr(sketched, name)([row])
            train([row], of_one, lambda x: distribute_tensor(x, mesh, [Shard(0)]))
            assert (row in of_one.state) == (rank == 0), name  # the other has no numbers of it
            assert (row.to_local() != 1.0).all(), name

            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
            fully_shard(model, mesh=mesh)
            optimizer = getattr(sketched, name)(model.parameters(), lr=0.02)
            losses = []
            for _ in range(30):
                loss = model(torch.ones(3, 5)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            assert losses[-1] < 0.1 * losses[0], (name, losses)
            state = optimizer.state[next(model.parameters())]
            assert all(torch.isfinite(value).all() for value in state.values())
        dist.destroy_process_group()
        """
    _run_twice(script)


def _run_twice(script):
    command = [sys.executable, "-c", textwrap.dedent(script)]
    pair = [subprocess.Popen([*command, str(rank)], stderr=subprocess.PIPE, text=True) for rank in range(2)]
    for process in pair:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said


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


@name_of
def test_the_form_is_not_switched_between_steps(name):
    (w,) = start([(3, 2)], "cpu", torch.float32)
    optimizer = getattr(sketched, name)([w])
    optimizer.param_groups[0]["scale_free"] = False
    optimizer.param_groups[0]["scale_free"] = True  # before the first step anything goes
    steps(optimizer, [w], stream([(3, 2)], 2))
    loaded = getattr(sketched, name)([w])
    loaded.load_state_dict(optimizer.state_dict())
    for made in (optimizer, loaded):
        made.param_groups[0]["scale_free"] = False
        with pytest.raises(ValueError, match=f"{name}: scale_free=False.*other form"):
            made.step()


@device_of
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_training_step_leaves_the_optimizer_as_it_is(device):
    """torch.compile breaks its graph at the step, whose kernels and tables it could not know."""
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


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # one process
@device_of
@name_of
def test_a_distributed_checkpoint_on_disk_goes_on_bit_for_bit(name, device, tmp_path):
    """It is read into the tensors that are there, so that no two may share their memory."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    import torch.distributed.checkpoint as dcp

    shapes = [(6, 5), (7,), (30,)]
    gradients = stream(shapes, 24)
    options = {"lr": 0.05, "ridge": 0.5, "sketch_size": 4, "block_size": 10}

    def train(params, optimizer, begin, end):
        for t in range(begin, end):
            for i, (p, g) in enumerate(zip(params, gradients[t], strict=True)):
                p.grad = g.to(p.device, p.dtype) if t % (i + 1) == 0 else None  # the layers are not in step
            optimizer.step()

    params = start(shapes, device, torch.float32)
    optimizer = make(name, params, **options)
    train(params, optimizer, 0, 11)
    dcp.save({"optimizer": optimizer.state_dict()}, checkpoint_id=tmp_path, no_dist=True)

    twins = [p.detach().clone().requires_grad_() for p in params]
    restored = make(name, twins, **options)
    for p in twins:
        p.grad = torch.zeros_like(p)
    restored.param_groups[0]["lr"] = 0.0
    restored.step()  # makes the tensors to read into
    held = {"optimizer": restored.state_dict()}
    dcp.load(held, checkpoint_id=tmp_path, no_dist=True)
    restored.load_state_dict(held["optimizer"])
    train(params, optimizer, 11, 24)
    train(twins, restored, 11, 24)
    for a, b in zip(params, twins, strict=True):
        assert torch.equal(a, b)


def test_imports_with_pytorch_and_numpy_alone():
    script = """
        import sys

        refused = ["numba", "scipy", "typer", "rich", "ray", "river", "pyarrow", "pandas", "sklearn", "safetensors"]
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
