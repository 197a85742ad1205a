"""PyTorch's own optimizer checks of checkpoints and copies (see test_torch_checks.py)."""

from __future__ import annotations

import copy
import io
import pickle
import re

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch.testing._internal needs it")


from onsketch.core.errors import ModelFileError, OptionError
from torch_infos import closure_of, devices, flattened, infos, problem, same, stepped_once


@infos
@pytest.mark.parametrize("named_first", [True, False])
def test_can_load_from_and_to_named_state_dict(info, named_first):
    weight, bias, x = problem("cpu")
    named, unnamed = [("weight", weight), ("bias", bias)], [weight, bias]
    given = (named, unnamed) if named_first else (unnamed, named)
    first, second = (info.optim_cls(params, ridge=0.5) for params in given)
    for _ in range(5):
        first.step(closure_of(first, weight, bias, x))
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["param_names"] == ["weight", "bias"]  # the saved ones, or its own
    second.step(closure_of(second, weight, bias, x))
    assert second.state[weight]["step"].item() == 6.0


@pytest.mark.slow
@infos
@devices
def test_state_dict_deterministic(info, device):
    """A second optimizer given the state of the first goes on as the first does, and the given state is not changed."""
    for given in info.optim_inputs_func(device):
        weight, bias, x = problem(device)
        optimizer = info.optim_cls([weight, bias], **given.kwargs)
        for _ in range(9):
            optimizer.step(closure_of(optimizer, weight, bias, x))
        weight_c, bias_c = (torch.nn.Parameter(p.detach().clone()) for p in (weight, bias))
        optimizer_c = info.optim_cls([weight_c, bias_c], **given.kwargs)
        saved = copy.deepcopy(optimizer.state_dict())
        kept = copy.deepcopy(saved)
        optimizer_c.load_state_dict(saved)
        for _ in range(9):
            optimizer.step(closure_of(optimizer, weight, bias, x))
            optimizer_c.step(closure_of(optimizer_c, weight_c, bias_c, x))
            assert torch.equal(weight, weight_c), given.desc
        assert torch.equal(bias, bias_c)
        same(saved, kept)
        same(optimizer.state_dict(), optimizer_c.state_dict())


@flattened
def test_can_load_older_state_dict(info):
    """Checkpoints from before an option existed, and with plain numbers as steps."""
    optimizer, weight, bias, x = stepped_once(info)
    old = copy.deepcopy(optimizer.state_dict())
    for group in old["param_groups"]:
        for name in ("maximize", "update_every", "graft", "decay", "sketch_dtype", "scale_free", "betas"):
            del group[name]
    for state in old["state"].values():
        state["step"] = state["step"].item()
    optimizer.load_state_dict(old)
    optimizer.step(closure_of(optimizer, weight, bias, x))
    assert optimizer.param_groups[0]["decay"] == 1.0
    assert optimizer.state[weight]["step"].item() == 2.0


@flattened
@devices
@pytest.mark.parametrize("decay", [1.0, 0.99])
def test_an_older_checkpoint_without_newer_entries_resumes(info, decay, device):
    """Written before there were grafting and momentum, and loaded where both are asked for: neither has a state yet."""
    (weight, _, _), (bias, _, _) = problem(device), problem(device, seed=1)
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
    optimizer, weight, bias, x = stepped_once(info)
    kept = copy.deepcopy(optimizer.state_dict())
    entry = "matrix" if info.name == "AdaFull" else "rows"
    shape = tuple(kept["state"][0][entry].shape)

    def refused(change, message):
        old = copy.deepcopy(kept)
        change(old)
        with pytest.raises(ModelFileError, match=message):
            optimizer.load_state_dict(old)
        same(optimizer.state_dict(), kept)

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
    adam.step(closure_of(adam, weight, bias, x))
    with pytest.raises(ModelFileError, match="another optimizer"):
        optimizer.load_state_dict(adam.state_dict())
    old = copy.deepcopy(kept)
    old["param_groups"][0]["decay"] = 7.0
    with pytest.raises(ValueError, match="decay=7"):
        optimizer.load_state_dict(old)
    same(optimizer.state_dict(), kept)


@flattened
@devices
def test_options_may_change_between_steps_or_are_refused(info, device):
    weight, bias, x = problem(device)
    optimizer = info.optim_cls([weight, bias], ridge=0.5, lr=0.01)
    for options in ({}, {"momentum": 0.5}, {"graft": True}, {"decay": 0.9, "ridge": 1.0, "update_every": 2}):
        optimizer.param_groups[0].update(options)
        for _ in range(3):
            optimizer.step(closure_of(optimizer, weight, bias, x))
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
    weight, bias, x = problem(device)
    optimizer = info.optim_cls([weight, bias], ridge=0.1, momentum=0.5, graft=True)
    for _ in range(5):
        optimizer.step(closure_of(optimizer, weight, bias, x))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    same(optimizer.state_dict(), torch.load(file, weights_only=True))


@infos
def test_state_dict_with_cuda_params(info):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    weight, bias, x = problem("cpu", torch.float64)
    optimizer = info.optim_cls([weight, bias], ridge=0.1)
    for _ in range(5):
        optimizer.step(closure_of(optimizer, weight, bias, x))
    there = [torch.nn.Parameter(p.detach().cuda()) for p in (weight, bias)]
    moved = info.optim_cls(there, ridge=0.1)
    moved.load_state_dict(optimizer.state_dict())
    if info.name != "Sketchy":  # which counts there
        assert all(state["step"].device.type == "cpu" for state in moved.state.values())
    for _ in range(5):
        optimizer.step(closure_of(optimizer, weight, bias, x))
        moved.step(closure_of(moved, *there, x.cuda()))
        torch.testing.assert_close(weight.detach(), there[0].detach().cpu())


@infos
def test_step_all_hooks(info):
    order = []
    weight, bias, x = problem("cpu")
    optimizer = info.optim_cls([weight, bias])
    optimizer.register_step_pre_hook(lambda *_: order.append("before"))
    optimizer.register_step_post_hook(lambda *_: order.append("after"))
    optimizer.register_state_dict_pre_hook(lambda *_: order.append("saving"))
    optimizer.register_state_dict_post_hook(lambda *_: order.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: order.append("loading"))
    optimizer.register_load_state_dict_post_hook(lambda *_: order.append("loaded"))
    optimizer.step(closure_of(optimizer, weight, bias, x))
    optimizer.load_state_dict(optimizer.state_dict())
    assert order == ["before", "after", "saving", "saved", "loading", "loaded"]


@infos
def test_load_state_dict_pre_hook_may_change_what_is_loaded(info):
    weight, bias, x = problem("cpu")
    optimizer = info.optim_cls([weight, bias])
    optimizer.step(closure_of(optimizer, weight, bias, x))

    def reset(_, state_dict):
        changed = copy.deepcopy(state_dict)
        changed["state"][0]["step"] += 6
        return changed

    optimizer.register_load_state_dict_pre_hook(reset)
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[weight]["step"].item() == 7.0


@infos
def test_deepcopy_and_pickle_copy_everything(info):
    weight, bias, x = problem("cpu")
    optimizer = info.optim_cls([weight, bias])
    optimizer.step(closure_of(optimizer, weight, bias, x))
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        public = {name for name in vars(optimizer) if not name.startswith("_")}
        assert public == {name for name in vars(twin) if not name.startswith("_")}
        same(optimizer.state_dict(), {**twin.state_dict()})
        twin.step()
