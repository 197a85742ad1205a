"""What optimizers do with gradients and decompositions that failed, and with what they cannot take."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from onsketch import torch as sketched
from torch_support import DEVICES, NAMES, make, start, steps, stream

device_of = pytest.mark.parametrize("device", DEVICES)
name_of = pytest.mark.parametrize("name", NAMES)
SHAPES = [(6, 5), (7,)]


@pytest.mark.slow
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
    from onsketch.torch.checked import finite

    grads = [torch.full((40,), 1e19), torch.full((3,), 1e25, dtype=torch.float64), torch.full((3,), 6e4).half()]
    assert finite(grads) == [True, True, True]
    assert finite(grads, torch.float32) == [True, False, True]
    assert finite([grads[0].double() * 10.0], torch.bfloat16) == [False]
    assert finite([torch.zeros(0)]) == [True]


def test_kernels_receive_a_mask_of_skipped_gradients():
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


@pytest.mark.slow
@device_of
@pytest.mark.parametrize("name", [name for name in NAMES if name != "AdaFull"])
@pytest.mark.parametrize("decay", [1.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_sketch_that_overflows_its_type_restarts(name, dtype, decay, device):
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
