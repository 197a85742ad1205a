"""Sketchy against its definition: explicit matrices, Adam, the bound of its sketches; and what users do to it."""

from __future__ import annotations

import copy
import io

import pytest

torch = pytest.importorskip("torch")

from onsketch.core.errors import ModelFileError, OptionError
from onsketch.torch import Sketchy, axes
from torch_support import DEVICES, start, steps, stream

device_of = pytest.mark.parametrize("device", DEVICES)
direction_of = pytest.mark.parametrize("direction", ["adam", "orthogonal"])
ALWAYS = {"lr": 0.05, "refresh_every": 1, "sketch_decay": 0.9}


def _root(matrix, power):
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values**power) @ vectors.mT


def _shrunk(matrix, rank):
    """Frequent directions' shrink of a d×d matrix: what stays, and what is taken off."""
    values, vectors = torch.linalg.eigh(matrix)
    rho = values.flip(0)[rank] if rank < len(values) else torch.zeros((), dtype=values.dtype)
    return (vectors * (values - rho).clamp(min=0.0)) @ vectors.mT, rho


def _metric(S, escaped, total, rank, ridge, damping, outside, unit=False):
    """A of the docstring: energies inside and outside of a d×d sketch, and what is added; ``unit``: 1 outside."""
    values, vectors = torch.linalg.eigh(S)
    is_inside = torch.arange(len(S)) >= len(S) - rank
    values = values + escaped
    e = escaped
    if outside == "mean":
        e = ((total - values[is_inside].sum()) / max(1, len(S) - rank)).clamp(min=0.0)
    values = torch.where(is_inside, values.clamp(min=float(e)), e)
    added = ridge * values.max() + damping * total / len(S)
    return (vectors * (values + added) / ((e + added) if unit else 1.0)) @ vectors.mT


def _definition(
    w, gradients, rank, *, lr, sketch_decay, nesterov=True, ridge=0.0, damping=0.1, power=0.375, outside="mean"
):
    """The step as the docstring has it, with d×d matrices."""
    betas, eps = (0.9, 0.999), 1e-16
    w, (first, second) = w.clone(), betas
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    sketches, totals = [(torch.zeros(d, d, dtype=w.dtype), 0.0) for d in w.shape], [0.0, 0.0]
    for t, G in enumerate(gradients, 1):
        m, v = first * m + (1 - first) * G, second * v + (1 - second) * G**2
        ahead = (first * m + (1 - first) * G) / (1 - first ** (t + 1)) if nesterov else m / (1 - first**t)
        D = ahead / ((v / (1 - second**t)).sqrt() + eps)
        keep = sketch_decay * (1 - sketch_decay ** (t - 1)) / (1 - sketch_decay**t)
        roots = []
        for i, (A, (S, escaped)) in enumerate(zip((G, G.mT), sketches, strict=True)):
            S, rho = _shrunk(keep * S + (1 - keep) * A @ A.mT, rank)
            escaped = keep * escaped + rho
            sketches[i] = S, escaped
            totals[i] = keep * totals[i] + (1 - keep) * G.square().sum()
            roots.append(_root(_metric(S, escaped, totals[i], rank, ridge, damping, outside), -power))
        U = roots[0] @ D @ roots[1]
        w = w - lr * D.norm() / U.norm() * U
    return w


@device_of
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize(("shape", "rank"), [((6, 5), 16), ((5, 6), 16), ((7, 7), 4), ((2, 3, 2, 2), 3)])
@pytest.mark.parametrize("form", [{}, {"ridge": 1e-3, "damping": 0.0, "power": 0.25, "outside": "escaped"}])
def test_the_step_is_the_definition(shape, rank, nesterov, form, device):
    """Where 2r columns span an axis, a refresh is frequent directions itself."""
    (w,) = start([shape], device, torch.float64)
    gradients = stream([shape], 12)
    view = [g[0].reshape(shape[0], -1) for g in gradients]
    ours = min(rank, *view[0].shape)
    options = {"lr": 0.05, "sketch_decay": 0.9, "nesterov": nesterov, **form}
    expected = _definition(w.detach().cpu().view(shape[0], -1), view, ours, **options)
    steps(Sketchy([w], rank=rank, refresh_every=1, **options), [w], gradients)
    torch.testing.assert_close(w.detach().cpu().view(shape[0], -1), expected, rtol=1e-7, atol=1e-7)


def _orthogonal_definition(w, gradients, rank, *, lr, sketch_decay, damping=0.1, power=0.25):
    """The step of ``direction="orthogonal"`` as the docstring has it, with d×d matrices."""
    w, first = w.clone(), 0.9
    m, c = torch.zeros_like(w), torch.zeros(max(w.shape), dtype=w.dtype)
    sketches, totals = [(torch.zeros(d, d, dtype=w.dtype), 0.0) for d in w.shape], [0.0, 0.0]
    shorter = 0 if w.shape[0] <= w.shape[1] else 1
    for t, G in enumerate(gradients, 1):
        m = first * m + (1 - first) * G
        keep = sketch_decay * (1 - sketch_decay ** (t - 1)) / (1 - sketch_decay**t)
        metrics = []
        for i, (A, (S, escaped)) in enumerate(zip((G, G.mT), sketches, strict=True)):
            S, rho = _shrunk(keep * S + (1 - keep) * A @ A.mT, rank)
            escaped = keep * escaped + rho
            sketches[i] = S, escaped
            totals[i] = keep * totals[i] + (1 - keep) * G.square().sum()
            metrics.append(_metric(S, escaped, totals[i], rank, 0.0, damping, "mean", unit=True))
        left, right = metrics
        X = _root(left, -power) @ (first * m + (1 - first) * G) @ _root(right, -power)
        X = X / (X @ X.mT).norm().sqrt()
        for _ in range(2):
            A = X @ X.mT
            X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
        Y = _root(left, -power / 2) @ X @ _root(right, -power / 2)
        c = sketch_decay * c + (1 - sketch_decay) * Y.square().mean(shorter)
        Z = Y / c.sqrt().unsqueeze(shorter)
        w = w - lr * 0.2 * w.numel() ** 0.5 * Z / Z.norm()
    return w


@device_of
@pytest.mark.parametrize(("shape", "rank"), [((6, 5), 16), ((5, 6), 16), ((7, 7), 4), ((2, 3, 2, 2), 3)])
def test_an_orthogonal_step_is_the_definition(shape, rank, device):
    (w,) = start([shape], device, torch.float64)
    gradients = stream([shape], 12)
    view = [g[0].reshape(shape[0], -1) for g in gradients]
    options = {"lr": 0.05, "sketch_decay": 0.9}
    expected = _orthogonal_definition(w.detach().cpu().view(shape[0], -1), view, min(rank, *view[0].shape), **options)
    optimizer = Sketchy([w], rank=rank, refresh_every=1, direction="orthogonal", **options)
    steps(optimizer, [w], gradients)
    torch.testing.assert_close(w.detach().cpu().view(shape[0], -1), expected, rtol=1e-6, atol=1e-6)
    assert optimizer.state[w]["exp_avg_sq"].shape == (max(view[0].shape),)


@device_of
def test_an_orthogonal_step_raises_small_singular_values_and_has_the_length_of_adams(device):
    """Of a gradient that spans four orders of magnitude, with a vector in its group, which takes Adam's step."""
    shapes = [(24, 40), (24,)]
    w, v = start(shapes, device, torch.float32)
    before, (bare,) = w.detach().clone(), start(shapes[1:], device, torch.float32, seed=2)
    bare.data.copy_(v)
    turn, other = (torch.linalg.qr(torch.randn(d, 24, generator=torch.Generator().manual_seed(d)))[0] for d in (24, 40))
    g = turn @ torch.diag(torch.logspace(0, -4, 24)) @ other.mT
    steps(Sketchy([w, v], lr=0.01, direction="orthogonal"), [w, v], [[g, torch.ones(24)]])
    steps(Sketchy([bare], lr=0.01), [bare], [[torch.ones(24)]])
    assert torch.equal(v, bare)
    moved = (before - w.detach()).cpu()
    assert float(moved.norm()) == pytest.approx(0.01 * 0.2 * (24 * 40) ** 0.5, rel=1e-2)
    singular = torch.linalg.svdvals(moved)
    assert singular[0] / singular[11] < 4.0  # 10² in the gradient


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_refresh_is_nystroms_approximation_shrunk(blocks):
    torch.manual_seed(0)
    p, q, r, n = 24, 30, 3, 2
    G = torch.randn(n, p, q, dtype=torch.float64) * torch.logspace(0, -2, q, dtype=torch.float64)
    sides = []
    for d in (p, q):
        V = torch.linalg.qr(torch.randn(n, blocks, d // blocks, r, dtype=torch.float64))[0]
        energy = torch.rand(n, blocks, r, dtype=torch.float64).sort(descending=True).values
        sides.append(axes.Axis(0.5 * V, energy, *torch.rand(2, n, blocks, dtype=torch.float64)))
    (new,) = axes.refresh([(G, *sides, 0.7)], axes.Metric(1e-3, 0.1, 0.25, "mean"))
    for axis, other, made, A in ((sides[0], sides[1], new[0], G), (sides[1], sides[0], new[1], G.mT)):
        for i in range(n):
            for b in range(blocks):
                V = 2.0 * axis.directions[i, b]
                piece = A[i].reshape(blocks, -1, A.shape[2])[b]
                C = 0.7 * (V * axis.energy[i, b]) @ V.mT + 0.3 * piece @ piece.mT
                X = torch.cat([V, piece @ (2.0 * other.directions[i].reshape(A.shape[2], r))], 1)
                Y = C @ X
                N = Y @ torch.linalg.pinv(X.mT @ Y, rtol=1e-10, hermitian=True) @ Y.mT
                S, rho = _shrunk((N + N.mT) / 2, r)
                W = made.directions[i, b]
                unit = W / W.norm(dim=0)
                found = (unit * made.energy[i, b]) @ unit.mT
                torch.testing.assert_close(found, S, rtol=1e-8, atol=1e-8 * float(C.norm()))
                escaped = 0.7 * axis.escaped[i, b] + rho
                torch.testing.assert_close(made.escaped[i, b], escaped)
                total = 0.7 * axis.total[i, b] + 0.3 * piece.square().sum()
                torch.testing.assert_close(made.total[i, b], total)
                metric, eye = _metric(S, escaped, total, r, 1e-3, 0.1, "mean"), torch.eye(len(S), dtype=S.dtype)
                root = _root(metric / torch.linalg.eigvalsh(metric)[0], -0.25)  # 1 outside
                torch.testing.assert_close(eye - W @ W.mT, root, rtol=1e-7, atol=1e-7)


def _moment_and_sketch(device, rank, shape=(30, 20), count=60):
    """The average of GGᵀ, its sketch and what has escaped, after many refreshes."""
    gradients = stream([shape], count)
    (w,) = start([shape], device, torch.float64)
    optimizer = Sketchy([w], rank=rank, **ALWAYS)
    steps(optimizer, [w], gradients)
    T, total = 0.0, 1 - 0.9**count
    for (G,) in gradients:
        T = 0.9 * T + 0.1 * G @ G.mT
    state = {name: value.cpu() for name, value in optimizer.state[w].items()}
    W, energy = state["left"][0], state["left_energy"][0]
    V = W / W.norm(dim=0).clamp(min=1e-300)
    return T / total, (V * energy) @ V.mT, float(state["left_escaped"])


@device_of
def test_the_sketch_keeps_the_guarantee_of_frequent_directions(device):
    """``0 ⪯ L − S ⪯ Σρ·I``, and Σρ is at most the tail of L, shared out over the directions kept beyond it."""
    rank = 16  # of 30: 2r columns span the axis
    L, S, escaped = _moment_and_sketch(device, rank)
    gap = torch.linalg.eigvalsh(L - S)
    assert gap[0] > -1e-9
    assert gap[-1] < escaped + 1e-9
    spectrum = torch.linalg.eigvalsh(L).flip(0)
    assert all(escaped <= spectrum[k:].sum() / (rank + 1 - k) + 1e-9 for k in range(rank))


@device_of
def test_a_small_sketch_never_exceeds_the_second_moment(device):
    L, S, escaped = _moment_and_sketch(device, 4, shape=(60, 40))
    gap = torch.linalg.eigvalsh(L - S)
    assert gap[0] > -1e-9
    assert gap[-1] < 1.5 * escaped  # what power iteration has not found yet


@device_of
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_without_a_sketch_it_is_adam(weight_decay, device):
    shapes = [(6, 5), (7,), ()]
    gradients = stream(shapes, 20, dtype=torch.float32)
    for off in ({"rank": 0}, {"diagonal": True}, {"diagonal_above": 2}):
        mine, theirs = start(shapes, device, torch.float32), start(shapes, device, torch.float32)
        options = {"lr": 0.01, "weight_decay": weight_decay, "eps": 1e-8}
        steps(Sketchy(mine, nesterov=False, **options, **off), mine, gradients)
        steps(torch.optim.AdamW(theirs, **options), theirs, gradients)
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b)


@device_of
def test_the_paper_without_a_diagonal(device):
    """``graft="sgd"`` whitens the momentum, keeps its length, and keeps no second moments."""
    (w,) = start([(6, 5)], device, torch.float64)
    before = w.detach().clone()
    optimizer = Sketchy([w], graft="sgd", betas=(0.0, 0.999), nesterov=False, **ALWAYS)
    ((g,),) = stream([(6, 5)], 1)
    steps(optimizer, [w], [[g]])
    moved = before - w.detach()
    assert float(moved.norm()) == pytest.approx(0.05 * float(g.norm()))
    s = torch.linalg.svdvals(g.to(device))
    # one gradient, whitened on both sides: singular values s·(s²)^(-1/2), all one but for the ridge and the shrink
    assert torch.linalg.svdvals(moved)[0] / torch.linalg.svdvals(moved)[3] < float(s[0] / s[3]) ** 0.5
    assert "exp_avg_sq" not in optimizer.state[w]


@device_of
@direction_of
def test_the_loss_may_be_multiplied(direction, device):
    shapes = [(12, 9), (8, 3, 3, 3), (9,)]
    gradients = stream(shapes, 25)
    moved = []
    for factor in (1.0, 1e-3, 1e3, 1e-9):
        params = start(shapes, device, torch.float32)
        optimizer = Sketchy(params, lr=0.01, refresh_every=3, direction=direction)
        steps(optimizer, params, [[factor * g for g in grads] for grads in gradients])
        moved.append(torch.cat([p.detach().flatten() for p in params]))
    for other in moved[1:]:
        torch.testing.assert_close(other, moved[0], rtol=1e-3, atol=1e-4)


@device_of
@direction_of
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("state_dtype", [None, torch.bfloat16])
def test_a_resumed_run_equals_an_uninterrupted_one(dtype, state_dtype, direction, device):
    shapes = [(9, 8), (9, 8), (4, 2, 3), (7,)]
    gradients = stream(shapes, 27)
    options = {"lr": 0.05, "refresh_every": 4, "rank": 3, "weight_decay": 0.1, "state_dtype": state_dtype}
    options["direction"] = direction
    straight = start(shapes, device, dtype)
    steps(Sketchy(straight, **options), straight, gradients)
    first = start(shapes, device, dtype)
    optimizer = Sketchy(first, **options)
    steps(optimizer, first, gradients[:13])
    file = io.BytesIO()
    torch.save({"weights": [p.detach() for p in first], "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second = [p.requires_grad_() for p in saved["weights"]]
    resumed = Sketchy(second, **options)
    resumed.load_state_dict(saved["optimizer"])
    assert resumed.state[second[0]]["exp_avg"].dtype == (state_dtype or torch.float32)
    steps(resumed, second, gradients[13:])
    for a, b in zip(straight, second, strict=True):
        assert torch.equal(a, b)


@device_of
@direction_of
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_parameter_whose_gradient_is_not_finite_skips_the_step(bad, direction, device):
    shapes = [(5, 4), (3,)]
    (w, v) = start(shapes, device, torch.float32)
    optimizer = Sketchy([w, v], lr=0.1, weight_decay=0.5, refresh_every=2, direction=direction)
    steps(optimizer, [w, v], stream(shapes, 5))
    assert optimizer.skipped_steps == 0
    kept, before, other = copy.deepcopy(optimizer.state[w]), w.detach().clone(), v.detach().clone()
    broken = torch.ones(5, 4)
    broken[2, 1] = bad
    with pytest.warns(RuntimeWarning, match="not finite"):
        steps(optimizer, [w, v], [[broken, torch.ones(3)]] * 2)
    assert optimizer.skipped_steps == 2
    steps(optimizer, [w, v], [[broken, torch.ones(3)]])  # warned of once
    assert optimizer.skipped_steps == 3
    assert torch.equal(w, before)
    assert not torch.equal(v, other)
    for name, value in kept.items():
        assert torch.equal(optimizer.state[w][name], value), name
    steps(optimizer, [w, v], stream(shapes, 8, seed=3))
    assert torch.isfinite(w).all()
    strict = Sketchy([w, v], error_if_nonfinite=True)
    before = v.detach().clone()
    with pytest.raises(RuntimeError, match=r"not finite, .*shape \(5, 4\)"):
        steps(strict, [w, v], [[broken, torch.ones(3)]])
    assert torch.equal(v, before)


def test_sparse_gradients_move_the_rows_they_name():
    torch.manual_seed(0)
    weight = torch.randn(6, 4)
    dense, sparse = (torch.nn.Embedding(6, 4, sparse=s, _weight=weight.clone()) for s in (False, True))
    names = torch.tensor([1, 4, 1])
    for table in (dense, sparse):
        optimizer = Sketchy(table.parameters(), lr=0.1, diagonal=True, weight_decay=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            table(names).square().sum().backward()
            optimizer.step()
    touched = torch.tensor([1, 4])
    torch.testing.assert_close(sparse.weight[touched], dense.weight[touched])
    assert torch.equal(sparse.weight[[0, 2, 3, 5]], weight[[0, 2, 3, 5]])


def test_orthogonal_directions_take_neither_sparse_gradients_of_matrices_nor_grafts():
    with pytest.raises(OptionError, match="graft='sgd' does not concern direction='orthogonal'"):
        Sketchy([torch.nn.Parameter(torch.ones(3, 2))], direction="orthogonal", graft="sgd")
    table = torch.nn.Embedding(6, 4, sparse=True)
    before = table.weight.detach().clone()
    optimizer = Sketchy(table.parameters(), direction="orthogonal")
    table(torch.tensor([1, 4])).sum().backward()
    with pytest.raises(RuntimeError, match=r"sparse gradient .* direction='orthogonal'"):
        optimizer.step()
    assert torch.equal(table.weight, before)
    optimizer.param_groups[0]["diagonal"] = True
    optimizer.step()
    assert not torch.equal(table.weight, before)


@direction_of
def test_state_is_at_most_twice_adams(direction):
    """But for the few numbers of each sketch in float64, which count for the smallest layers."""
    for shape in (
        (512, 4608),
        (64, 64),
        (16, 16),
        (10, 512),
        (2, 1000),
        (64, 3, 3, 3),
        (3, 3),
        (2, 2),
        (16, 21),
        (2, 21),
    ):
        w = torch.nn.Parameter(torch.zeros(shape, device="meta"))
        optimizer = Sketchy([w], direction=direction)
        state = optimizer._fresh(w, optimizer.param_groups[0], "meta")
        rank = min(16, shape[0], w.numel() // shape[0])
        kept = sum(value.numel() * value.element_size() for value in state.values())
        if direction == "orthogonal":  # one second moment for each entry of the longer axis
            assert len(state["exp_avg_sq"]) == max(shape[0], w.numel() // shape[0])
            kept += 4 * (w.numel() - len(state["exp_avg_sq"]))
        assert kept <= 16 * w.numel() + 16 * rank + 40, shape
        assert kept <= 16 * w.numel() or max(shape) < 21, shape


@direction_of
def test_the_memory_plan_is_what_is_kept(direction):
    shapes = [(6, 5), (3,), (40, 3)]
    params = start(shapes, "cpu", torch.float32)
    optimizer = Sketchy(params, rank=2, block_size=20, direction=direction)
    plan = optimizer.memory_plan()
    steps(optimizer, params, stream(shapes, 2))
    kept = sum(value.numel() * value.element_size() for state in optimizer.state.values() for value in state.values())
    assert f"{kept:,}" in plan.splitlines()[-1]
    assert "Adam would keep" in plan
    assert "6×5, rank 2" in plan


def test_checkpoints_are_validated_in_full():
    shapes = [(9, 8), (7,)]
    params = start(shapes, "cpu", torch.float32)
    optimizer = Sketchy(params, rank=3, refresh_every=1)
    steps(optimizer, params, stream(shapes, 3))
    kept = copy.deepcopy(optimizer.state_dict())

    def refused(change, message):
        old = copy.deepcopy(kept)
        change(old["state"][0])
        with pytest.raises(ModelFileError, match=message):
            optimizer.load_state_dict(old)

    refused(lambda s: s.pop("left"), "parameter 0 .* has no 'left'")
    refused(lambda s: s.update(left=s["left"][:, :4]), "'left' of shape")
    refused(lambda s: s.update(step=torch.tensor(1.5)), "no whole numbers")
    refused(lambda s: s.update(refreshes=torch.tensor(-1.0)), "below zero")
    refused(lambda s: s["exp_avg"].fill_(torch.nan), "not finite")
    refused(lambda s: s["left_energy"].fill_(-1.0), "'left_energy' below zero")
    refused(lambda s: s.update(exp_avg_sq="none"), "of type str")
    refused(lambda s: s.update(exp_avg=s["exp_avg"].to(torch.complex64)), "complex64")
    # what went through .float() or .half() gets its type back
    old = copy.deepcopy(kept)
    for state in old["state"].values():
        for name in state:
            state[name] = state[name].float()
    optimizer.load_state_dict(old)
    assert optimizer.state[params[0]]["left_energy"].dtype == torch.float64
    old = copy.deepcopy(kept)
    del old["param_groups"][0]["rank"]
    with pytest.raises(ModelFileError, match="rank=5"):  # unknown to the checkpoint, and the constructor's does not fit
        Sketchy(params, rank=5).load_state_dict(old)


def test_options_of_groups_are_pytorchs():
    import numpy as np

    w, v = (torch.nn.Parameter(torch.ones(3, 2)) for _ in range(2))
    with pytest.raises(OptionError, match=r"'weightdecay' is no option of a group. Is 'weight_decay' meant"):
        Sketchy([{"params": [w], "weightdecay": 0.1}])
    optimizer = Sketchy([{"params": [w], "name": "first"}], lr=np.float32(0.1), rank=np.int64(3))
    assert type(optimizer.defaults["rank"]) is int
    optimizer.add_param_group({"params": [v], "betas": (np.float32(0.5), 0.9)})
    with pytest.raises(RuntimeError, match="fused"):
        Sketchy([w], fused=True)
    with pytest.raises(RuntimeError, match="differentiable"):
        Sketchy([w], differentiable=True)
    optimizer = Sketchy([w], lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
    w.grad = torch.ones_like(w)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["betas"][0] != 0.9
    assert optimizer.param_groups[0]["betas"][1] == 0.999


def test_the_groups_of_a_model():
    model = torch.nn.ModuleList([torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3), torch.nn.LayerNorm(3)])
    optimizer = Sketchy.for_model(model, weight_decay=0.1, lr=0.01)
    names = [group["param_names"] for group in optimizer.param_groups]
    assert names == [["1.weight"], ["0.weight"], ["1.bias", "2.weight", "2.bias"]]
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    hidden = torch.nn.Sequential(model, torch.nn.Conv2d(1, 2, 3), torch.nn.Conv2d(2, 3, 3), torch.nn.Linear(3, 2))
    names = Sketchy.for_model(hidden, direction="orthogonal").param_groups[0]["param_names"]
    assert names == ["0.1.weight", "2.weight"]
    assert "left" in optimizer.state[model[1].weight]
    assert "left" not in optimizer.state[model[0].weight]
