"""The PyTorch optimizers against what they are defined to be: the linear learners, and explicit d×d matrices."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from onsketch import torch as sketched
from torch_support import DEVICES, NAMES, inverse_root, linear_iterates, make, regression, start, steps, stream

GEOMETRY = {
    "AdaFD": "adagrad",
    "AdaFFD": "adagrad",
    "AdaFull": "adagrad",
    "SAdaGrad": "s-adagrad",
    "FDSON": "newton",
    "RFDSON": "newton",
}
device_of = pytest.mark.parametrize("device", DEVICES)


@pytest.mark.slow
@device_of
@pytest.mark.parametrize("size", [1, 2, 5, 8, 30])
@pytest.mark.parametrize("name", NAMES)
def test_a_linear_model_learns_as_the_linear_learner_does(name, size, device):
    pytest.importorskip("numba")
    import onsketch

    if name == "RadaGrad" and size == 30:
        pytest.skip("RadaGrad's Gram matrix squares the spectrum: directions under 1e-6 of it count as outside")
    X, y = regression()
    ridge = 1.0
    options = {"ridge": ridge, "step_size": 0.1, "clip": None, "n_features": X.shape[1]}
    options |= {} if name == "AdaFull" else {"sketch_size": size}
    options |= {"curvature": 1.0} if "SON" in name else {}
    learner = onsketch.learner(NAMES[name], **options)
    iterates = linear_iterates(name, X, y, device, lr=0.1, ridge=ridge, sketch_size=size)
    for t, weights in enumerate(iterates):
        learner.learn(X[t : t + 1], y[t : t + 1])
        np.testing.assert_allclose(weights, learner.weights, atol=1e-8 if name == "RadaGrad" else 1e-10)


def test_rank_is_counted_as_the_linear_learner_counts_it():
    pytest.importorskip("numba")
    import onsketch
    from streams import sparse_stream

    X, y = sparse_stream()  # with a row of zeros and one that comes three times
    learner = onsketch.learner("ada-ffd", sketch_size=3, ridge=0.5, step_size=0.1)
    iterates = linear_iterates("AdaFFD", X, y, "cpu", lr=0.1, ridge=0.5, sketch_size=3)
    for t, weights in enumerate(iterates):
        learner.learn(X[t : t + 1], y[t : t + 1])
        expected = np.pad(learner.weights, (0, X.shape[1] - learner.weights.size))
        np.testing.assert_allclose(weights, expected, atol=1e-10)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("size", [1, 2, 5, 8, 20])
@pytest.mark.parametrize("name", NAMES)
def test_devices_agree(name, size):
    """Step for step, also where 2m is more than the 32 rows that torch.linalg.eigh is fast for."""
    X, y = regression(n=200, d=60)
    options = {"lr": 0.1, "ridge": 1.0, "sketch_size": size, "decay": 1.0}
    ours, theirs = (linear_iterates(name, X, y, device, **options) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(ours, theirs, atol=1e-8)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "AdaFull"])
def test_devices_agree_on_wide_layers(name, dtype):
    """Layers of several chunks, the last of them not full, and of an odd number of columns."""
    shapes = [(90, 100), (33, 257), (4096,)]
    gradients = stream(shapes, 45)
    options = {"lr": 0.1, "ridge": 1.0, "sketch_size": 20, "sketch_dtype": dtype}
    weights = torch.promote_types(dtype, torch.float32)
    moved = {}
    for device in ("cpu", "cuda"):
        params = start(shapes, device, weights)
        steps(make(name, params, **options), params, gradients)
        begun = start(shapes, "cpu", weights)
        moved[device] = [p.detach().cpu() - q.detach() for p, q in zip(params, begun, strict=True)]
    limit = {torch.float64: 1e-8, torch.float32: 1e-3, torch.bfloat16: 1e-2}[dtype]
    for a, b in zip(moved["cpu"], moved["cuda"], strict=True):
        assert (a - b).norm() < limit * a.norm()


@device_of
@pytest.mark.parametrize("name", GEOMETRY)
def test_the_scale_free_form_is_a_diagonal_plus_a_sketch(name, device):
    """By explicit d×d matrices: x = g/√v̂ of squared length about 100, turned, with the length of x, averaged."""
    d, decay, ridge, first, second = 9, 0.9, 1.0, 0.8, 0.95
    gradients = stream([(d,)], 30)
    (w,) = start([(d,)], device, torch.float64)
    expected = w.detach().cpu().clone()
    options = {"lr": 0.3, "ridge": ridge, "sketch_size": 40, "decay": decay, "betas": (first, second)}
    steps(make(name, [w], scale_free=True, **options), [w], gradients)
    v, m, G = torch.zeros(d), torch.zeros(d), torch.zeros(d, d, dtype=torch.float64)
    for t, (g,) in enumerate(gradients, 1):
        v = second * v + (1 - second) * g**2
        x = g / (v / (1 - second**t)).sqrt()
        G = decay * G + (1 - decay) * torch.outer(x, x) * 100.0 / d
        u = inverse_root(G / (1 - decay**t), ridge, GEOMETRY[name]) @ x
        m = first * m + (1 - first) * u * x.norm() / u.norm()
        expected -= 0.3 * m / (1 - first**t)
    torch.testing.assert_close(w.detach().cpu(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@device_of
@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("name", [*NAMES, "Sketchy"])
def test_the_scale_of_the_loss_changes_nothing_but_rounding(name, scale, device):
    shapes = [(6, 5), (7,), (4, 3, 3)]
    gradients = stream(shapes, 30)
    plain, scaled = start(shapes, device, torch.float64), start(shapes, device, torch.float64)
    for params, factor in ((plain, 1.0), (scaled, scale)):
        optimizer = getattr(sketched, name)(params, lr=0.01)
        steps(optimizer, params, [[factor * g for g in grads] for grads in gradients])
    for a, b in zip(plain, scaled, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "Sketchy"])
def test_plain_constructors_train(name):
    """A small network on ten classes, where chance is 2.30: below 0.5 after 200 steps; AdaFull's is smaller still."""
    hidden = 12 if name == "AdaFull" else 64
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 10
    x = torch.randn(10, 20, generator=generator)[labels] + 0.5 * torch.randn(400, 20, generator=generator)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 10))
    optimizer = getattr(sketched, name)(model.parameters())
    for t in range(200):
        batch = torch.arange(40 * t, 40 * t + 40) % 400
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[batch]), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        assert torch.nn.functional.cross_entropy(model(x), labels) < 0.5


@device_of
@pytest.mark.parametrize("decay", [1.0, 0.9])
@pytest.mark.parametrize("name", GEOMETRY)
def test_a_sketch_as_large_as_the_layer_is_the_full_matrix(name, decay, device):
    shapes = [(3, 4), (7,), ()]
    params = start(shapes, device, torch.float64)
    expected = [p.detach().cpu().clone().view(-1) for p in params]
    gradients = stream(shapes, 40)
    steps(make(name, params, lr=0.3, ridge=0.2, sketch_size=45, decay=decay), params, gradients)
    for i, w in enumerate(expected):
        G = torch.zeros(w.numel(), w.numel(), dtype=torch.float64)
        for t, grads in enumerate(gradients, 1):
            g = grads[i].reshape(-1)
            G = G * decay + torch.outer(g, g) * (1.0 if decay == 1.0 else 1 - decay)
            w -= 0.3 * inverse_root(G if decay == 1.0 else G / (1 - decay**t), 0.2, GEOMETRY[name]) @ g
        torch.testing.assert_close(params[i].detach().cpu().view(-1), w, rtol=1e-9, atol=1e-9)


@device_of
@pytest.mark.parametrize("name", NAMES)
def test_blocks_are_separate_parameters(name, device):
    numbers, block = (20, 8) if name != "RadaGrad" else (24, 8)  # the cosine transform sees a block's zero filling
    gradients = stream([(numbers,)], 60)
    (whole,) = start([(numbers,)], device, torch.float64)
    pieces = [piece.clone().requires_grad_() for piece in whole.detach().split(block)]
    options = {"lr": 0.1, "ridge": 0.5, "sketch_size": 3}
    steps(make(name, [whole], block_size=block, **options), [whole], gradients)
    steps(make(name, pieces, **options), pieces, [list(grads[0].split(block)) for grads in gradients])
    torch.testing.assert_close(whole.detach(), torch.cat([p.detach() for p in pieces]), rtol=1e-9, atol=1e-9)


@device_of
@pytest.mark.parametrize("off", [{"sketch_size": 0, "graft": True}, {"diagonal_above": 0}])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "AdaFull"])
def test_with_the_sketch_off_it_is_adagrad(name, off, device):
    shapes = [(5, 4), (4,)]
    mine, theirs = start(shapes, device, torch.float32), start(shapes, device, torch.float32)
    gradients = stream(shapes, 30, dtype=torch.float32)
    options = {"lr": 0.1, "weight_decay": 0.01, "maximize": True}
    steps(make(name, mine, **options, **off), mine, gradients)
    steps(torch.optim.Adagrad(theirs, **options), theirs, gradients)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


@device_of
@pytest.mark.parametrize("name", NAMES)
def test_grafting_takes_the_length_of_the_diagonal_step_and_keeps_the_direction(name, device):
    shapes = [(6, 5)]
    gradients = stream(shapes, 20)
    plain, grafted, diagonal = (start(shapes, device, torch.float64) for _ in range(3))
    options = {"lr": 0.1, "ridge": 0.3, "sketch_size": 4}
    optimizers = [make(name, plain, **options), make(name, grafted, graft=True, **options)]
    optimizers.append(make(name, diagonal, diagonal_above=0, lr=0.1))
    for grads in gradients:
        before = [p[0].detach().clone() for p in (plain, grafted, diagonal)]
        for optimizer, p in zip(optimizers, (plain, grafted, diagonal), strict=True):
            steps(optimizer, p, [grads])
        moved = [(p[0].detach() - b).view(-1) for p, b in zip((plain, grafted, diagonal), before, strict=True)]
        torch.testing.assert_close(moved[1], moved[0] * moved[2].norm() / moved[0].norm())


@device_of
@pytest.mark.parametrize("name", NAMES)
def test_between_updates_the_old_sketch_serves(name, device):
    """With update_every=2 the second step is P g with the sketch of the first gradient alone."""
    shape = (9,)
    first, second = stream([shape], 2)
    (w,) = start([shape], device, torch.float64)
    (probe,) = start([shape], device, torch.float64)
    options = {"lr": 1.0, "ridge": 0.5, "sketch_size": 4}
    lazy = make(name, [w], update_every=2, **options)
    steps(lazy, [w], [first])
    before = w.detach().clone()
    state = {key: value.clone() for key, value in lazy.state[w].items() if key != "step"}
    steps(lazy, [w], [second])
    for key, value in state.items():
        torch.testing.assert_close(lazy.state[w][key], value, rtol=0, atol=0)
    if name in GEOMETRY:
        g1, g2 = first[0].to(device), second[0].to(device)
        P = inverse_root(torch.outer(g1, g1), 0.5, GEOMETRY[name])
        torch.testing.assert_close(w.detach(), before - P @ g2)
    else:  # P is linear: absorbing nothing, it treats the sum of two gradients as their sum
        optimizer = make(name, [probe], update_every=100, **options)
        steps(optimizer, [probe], [first])
        places = [probe.detach().clone()]
        for g in (second[0], 2 * second[0]):
            steps(optimizer, [probe], [[g]])
            places.append(probe.detach().clone())
        torch.testing.assert_close(places[2] - places[1], 2 * (places[1] - places[0]))


@device_of
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("name", GEOMETRY)
def test_an_average_is_freed_of_its_start_by_what_it_has_absorbed(name, every, device):
    """Of a constant gradient the average is that gradient, however few of them were absorbed: all steps are equal."""
    (w,) = start([(6,)], device, torch.float64)
    optimizer = make(name, [w], lr=0.1, ridge=0.5, sketch_size=4, decay=0.99, update_every=every)
    g = torch.arange(1.0, 7.0, dtype=torch.float64)
    places = [w.detach().clone()]
    for _ in range(35):
        steps(optimizer, [w], [[g]])
        places.append(w.detach().clone())
    moved = torch.stack(places).diff(dim=0)
    torch.testing.assert_close(moved, moved[:1].expand_as(moved), rtol=1e-6, atol=1e-9)


@device_of
@pytest.mark.parametrize("name", ["AdaFD", "AdaFFD", "SAdaGrad", "FDSON", "RFDSON"])
def test_the_sketch_keeps_the_guarantee_of_frequent_directions(name, device):
    """0 ⪯ Σ ggᵀ − SᵀS ⪯ Σρ·I and Σρ ≤ ‖A − A_k‖²/(m − k), with S = T R in its eigenbasis."""
    m, d = 6, 40
    gradients = stream([(d,)], 100)
    (w,) = start([(d,)], device, torch.float64)
    optimizer = make(name, [w], lr=0.1, ridge=0.5, sketch_size=m)
    steps(optimizer, [w], gradients)
    state = {key: value.cpu() for key, value in optimizer.state[w].items()}
    filled, held = state["counts"][0].tolist()
    S = state["transform"][0, :held, :filled] @ state["rows"][0, :filled]
    torch.testing.assert_close(S @ S.mT, torch.diag(state["energy"][0, :held]), rtol=1e-9, atol=1e-9)
    A = torch.stack([grads[0] for grads in gradients])
    gap = torch.linalg.eigvalsh(A.mT @ A - S.mT @ S)
    escaped = float(state["escaped"])
    assert gap[0] > -1e-9
    assert gap[-1] < escaped + 1e-9
    spectrum = torch.linalg.eigvalsh(A.mT @ A).flip(0)
    assert all(escaped <= spectrum[k:].sum() / (m - k) + 1e-9 for k in range(m))


@pytest.mark.slow
@device_of
@pytest.mark.parametrize("name", [name for name in NAMES if name != "AdaFull"])  # whose matrix is always float64
def test_a_float32_sketch_stays_near_the_float64_one(name, device):
    shapes = [(16, 16)]
    gradients = stream(shapes, 300)
    options = {"lr": 0.1, "ridge": 1.0, "sketch_size": 5}
    wide, narrow = start(shapes, device, torch.float64), start(shapes, device, torch.float64)
    steps(make(name, wide, **options), wide, gradients)
    steps(make(name, narrow, sketch_dtype=torch.float32, **options), narrow, gradients)
    moved = (wide[0] - start(shapes, device, torch.float64)[0]).norm()
    assert (wide[0] - narrow[0]).norm() < 1e-4 * moved


def test_steps_momentum_and_weight_decay_are_what_they_say():
    g = torch.tensor([3.0, 4.0], dtype=torch.float64)
    w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    optimizer = sketched.AdaFull.paper(
        [w], lr=0.1, ridge=0.5, momentum=0.9, weight_decay=0.2, decoupled_weight_decay=True, maximize=True
    )
    steps(optimizer, [w], [[g], [g]])
    first = g / (0.5 + 5.0)
    second = g / (0.5 + 5.0 * 2**0.5)
    expected = (torch.tensor([1.0, 2.0], dtype=torch.float64) * 0.98 + 0.1 * first) * 0.98 + 0.1 * (
        0.9 * first + second
    )
    torch.testing.assert_close(w.detach(), expected)

    v = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    steps(sketched.AdaFull.paper([v], lr=0.1, ridge=0.5, weight_decay=0.2), [v], [[g]])
    whole = g + 0.2 * torch.tensor([1.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(
        v.detach(), torch.tensor([1.0, 2.0], dtype=torch.float64) - 0.1 * whole / (0.5 + whole.norm())
    )


def test_robust_frequent_directions_at_ridge_zero_steps_within_the_gradients_seen():
    gradients = stream([(30,)], 3)
    w = torch.zeros(30, dtype=torch.float64, requires_grad=True)
    steps(sketched.RFDSON.paper([w], lr=1.0, ridge=0.0, sketch_size=4), [w], gradients)
    span = torch.stack([grads[0] for grads in gradients])
    inside = torch.linalg.lstsq(span.mT, w.detach()[:, None]).solution
    torch.testing.assert_close(span.mT @ inside, w.detach()[:, None])
