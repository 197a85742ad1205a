"""Checkpoints and distributed training: what is resumed or shared out goes on as it was."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

from torch_support import DEVICES, NAMES, make, start, steps, stream

device_of = pytest.mark.parametrize("device", DEVICES)
name_of = pytest.mark.parametrize("name", NAMES)
SHAPES = [(6, 5), (7,)]


@pytest.mark.slow
@device_of
@name_of
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_run_equals_an_uninterrupted_one(name, dtype, device):
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


@pytest.mark.slow
@name_of
def test_ddp_and_distributed_checkpoints(name, tmp_path):
    """DDP in one process; a distributed checkpoint starts states by a step of zero gradient and then fills them."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    def go_on_as_one():
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

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        go_on_as_one()
    finally:
        gc.collect()  # a model that outlives its group ends its threads with the GIL held, for which they may wait
        dist.destroy_process_group()


def test_two_processes_step_as_one_with_the_whole_batch(tmp_path):
    """DDP in two processes, each with half of the batch: the weights agree, and are those of one process."""
    script = f"""
        from torch.nn.parallel import DistributedDataParallel as DDP
        from onsketch import torch as sketched

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
        """
    _run_twice(script, tmp_path)


def test_shards_and_replicas_of_dtensors_step_by_their_parts(tmp_path):
    """Two processes: a replicated DTensor steps as a plain parameter, a sharded one (FSDP2) each part by itself."""
    script = f"""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
        from onsketch import torch as sketched

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
        """
    _run_twice(script, tmp_path)


def test_shards_go_on_bit_for_bit_from_a_distributed_checkpoint(tmp_path):
    """Two processes (FSDP2): what each keeps of its shards is its own, and is saved under a name of its own."""
    script = f"""
        from functools import partial
        import torch.distributed.checkpoint as dcp
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from onsketch.torch import SAdaGrad, Sketchy

        mesh = init_device_mesh("cpu", (2,))

        def train(model, optimizer, seeds):
            for seed in seeds:
                x = torch.randn(3, 5, generator=torch.Generator().manual_seed(seed))
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()

        def parts(model):
            return [p.to_local().detach().clone() for p in model.parameters()]

        for number, method in enumerate((Sketchy, partial(Sketchy, direction="orthogonal"), SAdaGrad)):
            def made():
                torch.manual_seed(0)
                model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 4))
                fully_shard(model, mesh=mesh)
                return model, method(model.parameters(), lr=0.02)

            model, optimizer = made()
            train(model, optimizer, range(5))
            where = f"{tmp_path}/{{number}}"
            kept = {{"model": model.state_dict(), f"optimizer {{rank}}": optimizer.state_dict()}}
            dcp.save(kept, checkpoint_id=where)
            twin, restored = made()
            train(twin, restored, range(1))  # makes the tensors to read into
            held = {{"model": twin.state_dict(), f"optimizer {{rank}}": restored.state_dict()}}
            dcp.load(held, checkpoint_id=where)
            twin.load_state_dict(held["model"])
            restored.load_state_dict(held[f"optimizer {{rank}}"])
            train(model, optimizer, range(5, 12))
            train(twin, restored, range(5, 12))
            for a, b in zip(parts(model), parts(twin), strict=True):
                assert torch.equal(a, b), method
        """
    _run_twice(script, tmp_path)


BEGIN = """
import os
import sys

import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://{folder}/store", rank=rank, world_size=2)
"""
END = """
dist.barrier()  # neither closes its connections while the other still uses them
dist.destroy_process_group()
os._exit(0)  # a thread of gloo that asks for the GIL while the interpreter ends would abort the process
"""


def _run_twice(script, folder):
    """Run the script in two processes of one group, each with its ``rank``; a failure shows what both wrote."""
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    command = [sys.executable, "-c", BEGIN.format(folder=folder) + textwrap.dedent(script) + END]
    with open(folder / "0.log", "w") as first, open(folder / "1.log", "w") as second:
        pair = [subprocess.Popen([*command, str(rank)], stderr=log) for rank, log in enumerate((first, second))]
        codes = [process.wait(timeout=300) for process in pair]
    assert codes == [0, 0], "\n".join((folder / f"{rank}.log").read_text() for rank in range(2))


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # one process
@device_of
@name_of
def test_a_distributed_checkpoint_on_disk_resumes_bit_for_bit(name, device, tmp_path):
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
