"""The step of Sketchy on a CUDA device, its kernels run on a CPU, against the step in PyTorch's own operations."""

from __future__ import annotations

import copy
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from onsketch.torch import Sketchy, axes_cuda, kernels, matrix_view_cuda, orthogonal_cuda
from onsketch.torch.matrix_view import MatrixView, Stepped
from torch_kernels import Kernels, compiler
from torch_support import start, steps, stream

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    return Kernels(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 20, 33, 40])
def test_the_jacobi_kernel_gives_eigenvectors(n, on_cpu, monkeypatch):
    generator = torch.Generator().manual_seed(n)
    rows = torch.randn(3, n, n, generator=generator, dtype=torch.float64)
    matrices = rows @ rows.mT
    monkeypatch.setattr(kernels, "launch", on_cpu.launch)
    values, U = kernels.eigh(matrices)
    assert (values.diff(dim=1) <= 0.0).all()
    size = matrices.abs().amax((1, 2), keepdim=True)
    torch.testing.assert_close(U.mT @ U, torch.eye(n).double().expand_as(U), rtol=0, atol=1e-12)
    torch.testing.assert_close((U * values[:, None]) @ U.mT / size, matrices / size, rtol=0, atol=1e-12)


def _stepped_there(optimizer, params, gradients, launch, skipped=None):
    """Steps of Sketchy as on a device, its kernels run here."""
    group = optimizer.param_groups[0]
    skipped = torch.zeros(1, dtype=torch.int32) if skipped is None else skipped
    with pytest.MonkeyPatch.context() as patch:
        for module in (matrix_view_cuda, axes_cuda, orthogonal_cuda):
            patch.setattr(module, "launch", launch)
        for grads in gradients:
            group["calls"] += 1
            layers = []
            for p, g in zip(params, grads, strict=True):
                state = optimizer.state[p]
                if not state:
                    state.update(optimizer._fresh(p, group, "cpu"))
                layers.append(Stepped(p.detach(), g.clone().contiguous(), state, MatrixView.of(p, group)))
            matrix_view_cuda.take_steps(layers, group, optimizer._cache, skipped, params)


@pytest.mark.slow
def test_sketchys_kernels_take_the_same_steps(on_cpu):
    """Layers of one shape and of several chunks, vectors, a gradient that is not finite, and what is skipped for it."""
    shapes = [(6, 5), (6, 5), (90, 70), (7,), (), (4, 3, 3), (5000,)]
    options = {"lr": 0.01, "weight_decay": 0.1, "refresh_every": 1, "rank": 4}
    gradients = stream(shapes, 9, dtype=torch.float32)
    gradients[5][1] = gradients[5][1] * torch.nan
    gradients[5][3][2] = torch.inf
    gradients[6][1] = gradients[6][1] * 1e25  # its square is not finite
    for more in ({}, {"nesterov": False, "maximize": True}, {"lr": torch.tensor(0.01)}, {"block_size": 30}):
        plain, ours = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
        reference, optimizer = (Sketchy(params, **{**options, **more}) for params in (plain, ours))
        with pytest.warns(RuntimeWarning, match="not finite"):
            steps(reference, plain, gradients)
        skipped = torch.zeros(1, dtype=torch.int32)
        _stepped_there(optimizer, ours, gradients, on_cpu.launch, skipped)
        assert int(skipped) == reference.skipped_steps == 3
        for p, q in zip(plain, ours, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
            for count in {"step", "refreshes"} & optimizer.state[q].keys():
                assert optimizer.state[q][count] == reference.state[p][count]
            torch.testing.assert_close(optimizer.state[q]["exp_avg_sq"], reference.state[p]["exp_avg_sq"])


@pytest.mark.parametrize(
    ("rank", "options"),
    [
        (3, {"outside": "escaped", "power": 0.25, "ridge": 1e-3, "damping": 0.0}),
        (17, {"ridge": 1e-2}),
        (40, {}),  # more than the kernels refresh
    ],
)
def test_sketchys_kernels_keep_the_same_sketches(rank, options, on_cpu):
    """Of layers of several ranks, and of one whose first gradients are zero: its directions are drawn."""
    shapes = [(12, 9), (45, 140), (45, 140), (8, 3, 3, 3), (50, 41)]
    gradients = stream(shapes, 5, dtype=torch.float32)
    for grads in gradients[:2]:
        grads[2] = torch.zeros(shapes[2])
    plain, ours = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    reference, optimizer = (Sketchy(p, lr=0.01, rank=rank, refresh_every=1, **options) for p in (plain, ours))
    steps(reference, plain, gradients)
    _stepped_there(optimizer, ours, gradients, on_cpu.launch)
    for p, q in zip(plain, ours, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)
        for side in ("left", "right"):
            mine, theirs = ({k: v.squeeze(0) for k, v in o.state[w].items() if side in k} for o, w in
                            ((optimizer, q), (reference, p)))  # fmt: skip
            for part in ("_energy", "_escaped", "_total"):
                torch.testing.assert_close(mine[side + part], theirs[side + part], rtol=1e-3, atol=1e-5)
            torch.testing.assert_close(mine[side] @ mine[side].mT, theirs[side] @ theirs[side].mT, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("rank", [3, 40])
def test_layers_refreshed_unequally_often_are_refreshed_together(rank, on_cpu):
    """As those of a checkpoint from a CPU, where layers of different shapes are refreshed at different steps."""
    shapes = [(45, 50), (45, 50), (41, 60)]
    gradients = stream(shapes, 6, dtype=torch.float32)
    plain, ours = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    reference, optimizer = (Sketchy(p, lr=0.01, rank=rank, refresh_every=2) for p in (plain, ours))
    steps(reference, plain, gradients[:3])
    reference.state[plain[1]]["refreshes"] += 4.0
    assert len({float(state["refreshes"]) for state in reference.state.values()}) > 1
    for p, q in zip(plain, ours, strict=True):
        q.data.copy_(p)
    optimizer.load_state_dict(copy.deepcopy(reference.state_dict()))
    for some in (reference, optimizer):
        some.param_groups[0]["refresh_every"] = 1
    steps(reference, plain, gradients[3:])
    _stepped_there(optimizer, ours, gradients[3:], on_cpu.launch)
    for p, q in zip(plain, ours, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)
        assert optimizer.state[q]["refreshes"] == reference.state[p]["refreshes"]
        torch.testing.assert_close(optimizer.state[q]["left_total"], reference.state[p]["left_total"])


def test_a_step_in_a_graph_of_the_users_refreshes_when_that_is_due(on_cpu, monkeypatch):
    """A graph does the same at each replay: here its work is done again and again, which counts on its own alone."""
    shapes = [(12, 9), (7,)]
    gradients = stream(shapes, 11, dtype=torch.float32)
    plain, ours = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    reference, optimizer = (Sketchy(p, lr=0.01, rank=3, refresh_every=3, capturable=True) for p in (plain, ours))
    _stepped_there(reference, plain, gradients, on_cpu.launch)
    _stepped_there(optimizer, ours, gradients[:1], on_cpu.launch)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    for i, grads in enumerate(gradients[1:]):  # some between replays, of which the host does not know
        monkeypatch.setattr(matrix_view_cuda.Plan, "_captured", lambda self, i=i: i % 4 < 2)
        optimizer.param_groups[0]["calls"] = 0
        _stepped_there(optimizer, ours, [grads], on_cpu.launch)
    for p, q in zip(plain, ours, strict=True):
        assert torch.equal(p, q)
        assert all(torch.equal(optimizer.state[q][name], value) for name, value in reference.state[p].items())
    assert optimizer.state[ours[0]]["refreshes"] == 4
    assert optimizer.state_dict()["param_groups"][0]["calls"] == 11


@pytest.mark.parametrize("options", [{"rank": 40}, {"rank": 4, "block_size": 35}, {"rank": 4}])
@pytest.mark.parametrize("bad", [0, 1])
def test_a_refresh_by_a_gradient_that_is_not_finite_is_not_counted(options, bad, on_cpu):
    """As on a CPU, where its layer skips the whole step; the other one of its shape is refreshed."""
    shapes = [(70, 45), (70, 45)]
    gradients = stream(shapes, 4, dtype=torch.float32)
    gradients[bad][0][3, 2] = torch.nan
    plain, ours = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    reference, optimizer = (Sketchy(p, lr=0.01, refresh_every=1, **options) for p in (plain, ours))
    with pytest.warns(RuntimeWarning, match="not finite"):
        steps(reference, plain, gradients)
    _stepped_there(optimizer, ours, gradients, on_cpu.launch)
    assert [float(optimizer.state[q]["refreshes"]) for q in ours] == [3.0, 4.0]
    for p, q in zip(plain, ours, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)
        assert reference.state[p]["refreshes"] == optimizer.state[q]["refreshes"]
        totals = optimizer.state[q]["left_total"], reference.state[p]["left_total"]
        torch.testing.assert_close(*totals, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("together", [0, 1 << 22])
@pytest.mark.parametrize("options", [{}, {"nesterov": False, "maximize": True}, {"block_size": 35}, {"rank": 40}])
def test_orthogonal_steps_by_the_kernels_are_the_same(options, together, on_cpu, monkeypatch):
    """Wide and tall layers, of one shape or another in a batch, vectors, and a gradient that is not finite."""
    shapes = [(70, 45), (45, 70), (7,), (8, 3, 3, 3), (70, 45), (33, 33)]
    options = {"lr": 0.01, "weight_decay": 0.1, "rank": 4, "refresh_every": 1, "direction": "orthogonal"} | options
    gradients = stream(shapes, 7, dtype=torch.float32)
    gradients[4][1][3, 2] = torch.nan
    monkeypatch.setattr(orthogonal_cuda, "TOGETHER", together)
    plain, ours = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    reference, optimizer = (Sketchy(params, **options) for params in (plain, ours))
    with pytest.warns(RuntimeWarning, match="not finite"):
        steps(reference, plain, gradients)
    _stepped_there(optimizer, ours, gradients, on_cpu.launch)
    for p, q in zip(plain, ours, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)
        squares = optimizer.state[q]["exp_avg_sq"], reference.state[p]["exp_avg_sq"]
        torch.testing.assert_close(*squares, rtol=1e-3, atol=1e-6)
    (plan,) = optimizer._cache.plans.values()
    assert len(plan.orthogonal.batches) == (1 if together else 3)


def test_orthogonal_steps_in_bfloat16_differ_by_its_rounding(on_cpu, monkeypatch):
    shapes = [(70, 45), (8, 3, 3, 3), (45, 70)]
    gradients = stream(shapes, 5, dtype=torch.float32)
    made = []
    for dtype in (torch.float32, torch.bfloat16):
        batches = partial(lambda plan, _, dtype: orthogonal_cuda.Orthogonal(plan, dtype), dtype=dtype)
        monkeypatch.setattr(matrix_view_cuda, "Orthogonal", batches)
        params = start(shapes, "cpu", torch.float32)
        before = [p.detach().clone() for p in params]
        optimizer = Sketchy(params, lr=0.01, rank=4, refresh_every=1, direction="orthogonal")
        _stepped_there(optimizer, params, gradients, on_cpu.launch)
        made.append([p.detach() - w for p, w in zip(params, before, strict=True)])
    for wide, narrow in zip(*made, strict=True):
        assert not torch.equal(wide, narrow)
        assert (wide - narrow).norm() < 0.05 * wide.norm()


def test_a_resumed_orthogonal_run_takes_the_same_steps(on_cpu):
    """Also before its next refresh: what follows from the sketches is computed anew."""
    shapes = [(20, 30), (30, 12)]
    gradients = stream(shapes, 7, dtype=torch.float32)
    options = {"lr": 0.01, "rank": 4, "refresh_every": 5, "direction": "orthogonal"}
    plain, ours = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    straight, first, second = (Sketchy(params, **options) for params in (plain, ours, ours))
    _stepped_there(straight, plain, gradients, on_cpu.launch)
    _stepped_there(first, ours, gradients[:3], on_cpu.launch)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    _stepped_there(second, ours, gradients[3:], on_cpu.launch)
    assert all(torch.equal(p, q) for p, q in zip(plain, ours, strict=True))


@pytest.mark.slow
def test_two_warps_take_the_steps_of_sketchy(on_cpu):
    """Threads that meet at barriers, in its kernels."""
    shapes = [(17, 35)]
    gradients = stream(shapes, 2, dtype=torch.float32)
    alone, together = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    for params, launch in ((alone, on_cpu.launch), (together, on_cpu.in_two_warps.launch)):
        _stepped_there(Sketchy(params, lr=0.01, rank=2, refresh_every=1), params, gradients, launch)
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
