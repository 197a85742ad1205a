"""The fused step of a CUDA device, its kernels run on a CPU, against the step in PyTorch's own operations."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from onsketch.torch import Sketchy, axes_cuda, cosines, draws, folded_cuda, fused, kernels, random_rows
from onsketch.torch.folded import Folded, Stepped
from torch_kernels import Kernels, compiler
from torch_support import NAMES, make, start, steps, stream

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C++ compiler")
SKETCHED = [name for name in NAMES if name != "AdaFull"]


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    return Kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def fuse(on_cpu, monkeypatch):
    """Send every step through the kernels."""

    def launch(*args, **kwargs):
        launched.append(args[0])
        on_cpu.launch(*args, **kwargs)

    launched = []

    def use():
        monkeypatch.setattr(fused, "serves", lambda state: state["rows"].dtype in kernels.STORAGE)
        monkeypatch.setattr(fused, "launch", launch)
        return launched

    return use


def both_ways(name, fuse, shapes, count, dtype, seed=0, gradients=None, **options):
    """The parameters after steps in PyTorch's operations and after steps in kernels."""
    gradients = gradients or stream(shapes, count, seed)
    plain, ours = start(shapes, "cpu", dtype), start(shapes, "cpu", dtype)
    steps(make(name, plain, **options), plain, gradients)
    launched = fuse()
    steps(make(name, ours, **options), ours, gradients)
    assert {"dots", "combine", "rotate", "gram", "respectrum"} < set(launched)
    return plain, ours


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decay": 0.9},
        {"sketch_size": 1},
        {"sketch_size": 20},
        {"block_size": 7},
        {"update_every": 3},
        {"graft": True, "momentum": 0.5, "decay": 0.95, "update_every": 2},
    ],
)
@pytest.mark.parametrize("name", SKETCHED)
def test_the_kernels_take_the_same_steps(name, options, fuse):
    shapes = [(6, 5), (7,), (), (4, 3, 3), (64,)]
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 4, **options}
    plain, ours = both_ways(name, fuse, shapes, 50, torch.float64, **options)
    for a, b in zip(plain, ours, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", SKETCHED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernels_take_the_same_steps_in_less_precision(name, dtype, fuse):
    shapes = [(16, 5), (9,)]
    options = {"lr": 0.1, "ridge": 1.0, "sketch_size": 4, "sketch_dtype": dtype}
    plain, ours = both_ways(name, fuse, shapes, 40, torch.float32, **options)
    for a, b, c in zip(plain, ours, start(shapes, "cpu", torch.float32), strict=True):
        assert (a - b).norm() < (1e-4 if dtype == torch.float32 else 2e-3) * (a - c).norm()


def test_a_dependent_gradient_takes_no_room(fuse):
    """Ada-FFD counts rank, and each block its own: zero and repeated gradients change nothing about the next shrink."""
    independent = stream([(24,)], 40)
    gradients = [g for i, g in enumerate(independent) for g in ([g, g, [0.0 * g[0]]] if i % 3 == 0 else [g])]
    for grads in gradients[::2]:
        grads[0][8:16] = 0.0  # the second block sees half of them
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 3, "block_size": 8}
    plain, ours = both_ways("AdaFFD", fuse, [(24,)], 0, torch.float64, gradients=gradients, **options)
    torch.testing.assert_close(plain, ours, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SKETCHED)
def test_a_gradient_that_is_not_finite_is_a_step_that_never_was(name, fuse):
    gradients = stream([(6, 5)], 30)
    broken = [[g[0].clone()] for g in gradients]
    for t in (4, 11):
        broken[t][0][2, 3] = torch.inf if t == 4 else torch.nan
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 3, "graft": True, "decay": 0.9, "block_size": 15}
    (expected,), (ours,) = start([(6, 5)], "cpu", torch.float64), start([(6, 5)], "cpu", torch.float64)
    fuse()
    steps(make(name, [expected], **options), [expected], [g for t, g in enumerate(gradients) if t not in (4, 11)])
    with pytest.warns(RuntimeWarning, match="not finite"):
        steps(make(name, [ours], **options), [ours], broken)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("name", SKETCHED)
@pytest.mark.parametrize("scale_free", [True, False])
def test_kernels_leave_a_sketch_alone_whose_gradient_is_left_out(name, scale_free, fuse):
    """As on a device, which is told and not asked: its square is not finite, though all its numbers are."""
    (w,) = start([(6, 5)], "cpu", torch.float32)
    optimizer = make(name, [w], sketch_size=3, graft=True, scale_free=scale_free)
    fuse()
    steps(optimizer, [w], stream([(6, 5)], 8))
    before, kept = w.detach().clone(), {key: value.clone() for key, value in optimizer.state[w].items()}
    w.grad = torch.full((6, 5), 1e25)
    with torch.no_grad():
        optimizer._step_some([w], optimizer.param_groups[0], [torch.tensor(False)])
    assert torch.equal(w, before)
    filled = int(kept["counts"].view(-1, 2)[0, 0])
    for key, value in kept.items():
        now = optimizer.state[w][key]
        if key == "rows":  # the others are of no meaning
            now, value = now[:, :filled], value[:, :filled]
        assert torch.equal(now, value) or key == "step", key


@pytest.mark.parametrize("name", SKETCHED)
def test_a_checkpoint_moves_between_devices(name, fuse):
    """A state made by the kernels goes on in PyTorch's operations, and the other way round."""
    gradients = stream([(6, 5), (8,)], 60)
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 3, "block_size": 10}
    shapes = [(6, 5), (8,)]
    whole, moved = start(shapes, "cpu", torch.float64), start(shapes, "cpu", torch.float64)
    steps(make(name, whole, **options), whole, gradients)
    first = make(name, moved, **options)
    steps(first, moved, gradients[:23])
    second = make(name, moved, **options)
    second.load_state_dict(first.state_dict())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "serves", fused.serves)  # back to PyTorch's operations afterwards
        patch.setattr(fused, "launch", fused.launch)
        fuse()
        steps(second, moved, gradients[23:41])
    third = make(name, moved, **options)
    third.load_state_dict(second.state_dict())
    steps(third, moved, gradients[41:])
    for a, b in zip(whole, moved, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["AdaFFD", "RadaGrad"])  # between them, every kernel
def test_two_warps_take_the_steps_of_one_thread(name, fuse, monkeypatch, on_cpu):
    """Threads that meet at barriers, in every kernel of a step: what depends on how the work is shared shows here."""
    shapes = [(5, 7), (64, 66)]  # the second has more than one chunk
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 3, "graft": True, "decay": 0.9}
    alone, together = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    gradients = stream(shapes, 9)
    launched = fuse()
    steps(make(name, alone, **options), alone, gradients)
    assert {"dots", "combine", "graft", "rotate", "gram", "respectrum"} < set(launched)
    monkeypatch.setattr(fused, "launch", on_cpu.in_two_warps.launch)
    steps(make(name, together, **options), together, gradients)
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 2, 63, 64, 4095, 4097, 9000])
def test_the_cosines_of_a_chunk_are_those_of_the_transform(width, dtype, on_cpu):
    """Rows of the transform from tables of angles, in one chunk and in several, the last of them not full."""
    size = min(width, 9)
    state = random_rows.empty(1, width, size, torch.empty(0, dtype=dtype))
    g = torch.randn(1, width, generator=torch.Generator().manual_seed(width), dtype=torch.float64).to(dtype)
    device = torch.device("cpu")
    table = fused.table_of([state], "gram", False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "launch", on_cpu.launch)
        gradients = fused.addresses((g.data_ptr(),), device)
        maps = [draws.fourier_sample(3, size, width, device)]
        partial = fused._project(table, gradients, [state], maps, dtype, 1)
    expected = cosines.project(g, size, 3)
    tolerance = (1e-12 if dtype == torch.float64 else 1e-5) * float(g.norm()) * (width / size) ** 0.5
    torch.testing.assert_close(partial.sum(0, keepdim=True), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("size", [1e-150, 1e150])
@pytest.mark.parametrize("name", SKETCHED)
def test_tiny_and_huge_gradients_take_the_same_steps(name, size, fuse):
    """In float64 squares of squares of these are no numbers any more; sound is what stays finite."""
    gradients = [[size * g[0]] for g in stream([(6, 5)], 25)] + stream([(6, 5)], 25, seed=2)
    (w,) = start([(6, 5)], "cpu", torch.float64)
    optimizer = make(name, [w], lr=0.1, ridge=0.5, sketch_size=3, decay=0.5)
    fuse()
    steps(optimizer, [w], gradients)
    assert torch.isfinite(w).all()
    assert all(torch.isfinite(value).all() for value in optimizer.state[w].values())


@pytest.mark.parametrize("decay", [1.0, 0.5])
@pytest.mark.parametrize("name", SKETCHED)
def test_a_sketch_that_outgrows_its_type_starts_anew(name, decay, fuse):
    huge = [[4e18 * g[0] / g[0].abs().max()] for g in stream([(8, 8)], 20)]
    after = stream([(8, 8)], 100, seed=3)
    (w,) = start([(8, 8)], "cpu", torch.float32)
    optimizer = make(name, [w], lr=0.1, ridge=0.5, sketch_size=3, decay=decay, update_every=2)
    fuse()
    steps(optimizer, [w], huge)
    assert torch.isfinite(w).all()
    w.data.zero_()
    steps(optimizer, [w], after[:-1])
    before = w.detach().clone()
    steps(optimizer, [w], after[-1:])
    assert torch.isfinite(w).all()
    assert not torch.equal(w, before)
    assert all(torch.isfinite(value).all() for value in optimizer.state[w].values())


@pytest.mark.parametrize("kind", ["any", "nothing bordered", "equal values", "of low rank"])
@pytest.mark.parametrize("n", [1, 2, 3, 20, 40])
def test_the_secular_equation_gives_eigenvectors(kind, n, on_cpu):
    """The bordered matrix of a step, degenerate or not, through the kernel that solves it."""
    generator = torch.Generator().manual_seed(n)
    d = torch.rand(n - 1, generator=generator, dtype=torch.float64).sort(descending=True).values
    rows = torch.randn(n - 1, 2 * n, generator=generator, dtype=torch.float64)
    if kind == "equal values" and n > 2:
        d[: n // 2] = d[0]
    if kind == "of low rank":
        d[n // 2 :] = 0.0
    basis = torch.linalg.qr(rows.mT).Q.mT if n > 1 else rows
    S = d.sqrt()[:, None] * basis
    g = torch.randn(2 * n, generator=generator, dtype=torch.float64)
    if kind == "nothing bordered":
        g -= basis.mT @ (basis @ g)
    values, U = on_cpu.arrowhead(d, S @ g, float(g @ g))
    matrix = torch.diag(torch.cat([d, (g @ g)[None]]))
    matrix[-1, :-1] = matrix[:-1, -1] = S @ g
    assert (values.diff() <= 0.0).all()
    torch.testing.assert_close(U.mT @ U, torch.eye(n, dtype=torch.float64), rtol=0, atol=1e-13)
    torch.testing.assert_close((U * values) @ U.mT, matrix, rtol=0, atol=1e-13 * float(matrix.abs().max()))


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
        for module in (folded_cuda, axes_cuda):
            patch.setattr(module, "launch", launch)
        for grads in gradients:
            group["calls"] += 1
            layers = []
            for p, g in zip(params, grads, strict=True):
                state = optimizer.state[p]
                if not state:
                    state.update(optimizer._fresh(p, group, "cpu"))
                layers.append(Stepped(p.detach(), g.clone().contiguous(), state, Folded.of(p, group)))
            folded_cuda.take_steps(layers, group, optimizer._places, skipped, params)


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
        monkeypatch.setattr(folded_cuda.Plan, "_captured", lambda self, i=i: i % 4 < 2)
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


def test_two_warps_take_the_steps_of_sketchy(on_cpu):
    """Threads that meet at barriers, in its kernels."""
    shapes = [(17, 35)]
    gradients = stream(shapes, 2, dtype=torch.float32)
    alone, together = start(shapes, "cpu", torch.float32), start(shapes, "cpu", torch.float32)
    for params, launch in ((alone, on_cpu.launch), (together, on_cpu.in_two_warps.launch)):
        _stepped_there(Sketchy(params, lr=0.01, rank=2, refresh_every=1), params, gradients, launch)
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
