"""Descriptions of all optimizers for PyTorch's own checks (torch.testing._internal.common_optimizers)."""

from __future__ import annotations

import warnings

import pytest
import torch

from onsketch import torch as sketched
from torch_support import DEVICES, NAMES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_optimizers import (
        ErrorOptimizerInput,
        OptimizerErrorEnum,
        OptimizerInfo,
        OptimizerInput,
        get_error_inputs_for_all_optims,
        optim_db,
    )

__all__ = ["OptimizerErrorEnum", "closure_of", "devices", "flattened", "infos", "problem", "same", "stepped_once"]


def _inputs(name):
    def inputs(device, dtype=None):
        options = [
            {}, {"lr": 0.02}, {"lr": torch.tensor(0.02)}, {"weight_decay": 0.1}, {"maximize": True},
            {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"weight_decay": 0.1, "maximize": True},
            {"momentum": 0.9}, {"decay": 0.9}, {"graft": True}, {"graft": True, "decay": 0.99}, {"block_size": 4},
            {"update_every": 3}, {"diagonal_above": 5}, {"sketch_dtype": torch.float64}, {"betas": (0.0, 0.9)},
            {"graft": False}, {"foreach": True}, {"scale_free": False, "ridge": 0.1, "decay": 1.0, "graft": False},
            {"scale_free": False, "ridge": 0.1, "momentum": 0.9, "decay": 0.99},
        ]  # fmt: skip
        if name != "AdaFull":
            options += [{"sketch_size": 3}, {"sketch_size": 0, "graft": True}]
        options = [{"lr": 0.01, **kwargs} for kwargs in options]
        return [OptimizerInput(params=None, kwargs=kwargs, desc=str(kwargs)) for kwargs in options]

    return inputs


def _errors(device, dtype):
    wrong = {
        "lr": -0.1, "ridge": -1.0, "decay": 1.5, "momentum": 1.0, "weight_decay": -1.0, "update_every": 0,
        "block_size": 0, "graft": "adagrad", "sketch_dtype": torch.int8, "diagonal_above": 0.5,
        "betas": (1.0, 0.9), "eps": -1.0, "scale_free": None,
    }  # fmt: skip
    return get_error_inputs_for_all_optims(device, dtype) + [
        ErrorOptimizerInput(
            OptimizerInput(params=None, kwargs={name: value}, desc=name), error_type=ValueError, error_regex=f"{name}="
        )
        for name, value in wrong.items()
    ]


SCHEDULERS = next(info for info in optim_db if info.optim_cls is torch.optim.Adam).scheduler_inputs
DB = [
    OptimizerInfo(
        getattr(sketched, name),
        optim_inputs_func=_inputs(name),
        optim_error_inputs_func=_errors,
        scheduler_inputs=SCHEDULERS,
        supported_impls=(),
        not_og_supported_flags=(),
    )
    for name in NAMES
]


def _sketchy_inputs(device, dtype=None):
    options = [
        {}, {"lr": 0.02}, {"lr": torch.tensor(0.02)}, {"weight_decay": 0.1}, {"maximize": True}, {"rank": 0},
        {"weight_decay": 0.1, "maximize": True}, {"betas": (0.0, 0.9)}, {"betas": (0.8, 0.9), "nesterov": False},
        {"rank": 2}, {"refresh_every": 1}, {"refresh_every": 3, "sketch_decay": 0.0}, {"block_size": 5},
        {"graft": "rmsprop"}, {"graft": "sgd", "lr": 0.002}, {"diagonal": True}, {"diagonal_above": 5}, {"eps": 1e-3},
        {"state_dtype": torch.bfloat16}, {"state_dtype": torch.float64}, {"foreach": True},
        {"power": 0.25, "outside": "escaped"}, {"direction": "orthogonal"},
    ]  # fmt: skip
    options = [{"lr": 0.01, **kwargs} for kwargs in options]
    return [OptimizerInput(params=None, kwargs=kwargs, desc=str(kwargs)) for kwargs in options]


def _sketchy_errors(device, dtype):
    wrong = {
        "lr": -0.1, "ridge": -1.0, "betas": (1.0, 0.9), "eps": -1.0, "weight_decay": -1.0, "refresh_every": 0,
        "block_size": 0, "graft": "adagrad", "state_dtype": torch.int8, "diagonal_above": 0.5, "rank": -1,
        "sketch_decay": 1.0, "nesterov": 1, "power": 0.0, "outside": None, "capturable": None, "direction": "up",
    }  # fmt: skip
    return get_error_inputs_for_all_optims(device, dtype) + [
        ErrorOptimizerInput(
            OptimizerInput(params=None, kwargs={name: value}, desc=name), error_type=ValueError, error_regex=f"{name}="
        )
        for name, value in wrong.items()
    ]


FLATTENED = list(DB)
DB.append(
    OptimizerInfo(
        sketched.Sketchy,
        optim_inputs_func=_sketchy_inputs,
        optim_error_inputs_func=_sketchy_errors,
        scheduler_inputs=SCHEDULERS,
        supported_impls=(),
        not_og_supported_flags=(),
    )
)
infos = pytest.mark.parametrize("info", DB, ids=[info.name for info in DB])
flattened = pytest.mark.parametrize("info", FLATTENED, ids=[info.name for info in FLATTENED])
devices = pytest.mark.parametrize("device", DEVICES)


def problem(device, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    weight = torch.nn.Parameter(torch.randn(10, 5, device=device, dtype=dtype))
    bias = torch.nn.Parameter(torch.randn(10, device=device, dtype=dtype))
    x = torch.randn(5, device=device, dtype=dtype)
    return weight, bias, x


def closure_of(optimizer, weight, bias, x):
    def closure():
        optimizer.zero_grad()
        loss = (weight.mv(x) + bias).pow(2).sum()
        loss.backward()
        return loss

    return closure


def stepped_once(info):
    """An optimizer of the problem that has a checkpoint to give, and the problem."""
    weight, bias, x = problem("cpu")
    optimizer = info.optim_cls.paper([weight, bias], ridge=0.1)
    optimizer.step(closure_of(optimizer, weight, bias, x))
    return optimizer, weight, bias, x


def same(a, b):
    """State dicts are equal, bit for bit."""
    assert a["param_groups"] == b["param_groups"]
    assert a["state"].keys() == b["state"].keys()
    for number, state in a["state"].items():
        assert state.keys() == b["state"][number].keys()
        for name, value in state.items():
            other = b["state"][number][name]
            assert value.dtype == other.dtype, name
            torch.testing.assert_close(value, other, rtol=0, atol=0, msg=name)
