"""What a step of the PyTorch optimizers costs, against Adam(foreach=True) and, where installed, SOAP and Shampoo.

    python benchmarks/torch_step.py                  the papers' CNN on a CPU, sketches on the convolutions, and Sketchy
                                                     on an MLP, a transformer and a ResNet-18
    python benchmarks/torch_step.py --device cuda    also the convolutions of a ResNet-18 (11M numbers), its training
                                                     step at batch 128, and single layers by size and sketch size
    python benchmarks/torch_step.py --only networks training     some of it

Times are medians of repeats in one run, interleaved with Adam's, and given as ratios to it. CPU time on a CPU, wall
time between synchronisations on a CUDA device. Peers come from ``pip install pytorch-optimizer``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import Tensor, nn
from torch_tasks import Transformer, mlp, resnet18

from onsketch import torch as sketched

METHODS = ("AdaFD", "SAdaGrad", "AdaFFD", "FDSON", "RFDSON", "AdaGP", "RadaGrad")
CNN = {"conv": [(32, 1, 3, 3), (32,), (64, 32, 3, 3), (64,)], "rest": [(128, 9216), (128,), (10, 128), (10,)]}


def parameters(shapes: dict[str, list[tuple[int, ...]]], device: str) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Sketched and other parameters, with gradients."""
    torch.manual_seed(0)
    both = []
    for name in ("conv", "rest"):
        params = [nn.Parameter(0.05 * torch.randn(shape, device=device)) for shape in shapes[name]]
        for p in params:
            p.grad = 0.01 * torch.randn_like(p)
        both.append(params)
    return both[0], both[1]


def make(name: str, shapes: dict[str, list[tuple[int, ...]]], device: str, **options: Any) -> torch.optim.Optimizer:
    conv, rest = parameters(shapes, device)
    if name == "Adam":
        return torch.optim.Adam([*conv, *rest], lr=1e-4, foreach=True)
    if name == "Adagrad":
        return torch.optim.Adagrad([*conv, *rest], lr=1e-4, foreach=True)
    if name == "SOAP":
        from pytorch_optimizer import SOAP

        return SOAP([*conv, *rest], lr=1e-4, max_precondition_dim=1024)  # type: ignore[no-any-return]
    if name == "ScalableShampoo":
        from pytorch_optimizer import ScalableShampoo

        return ScalableShampoo([*conv, *rest], lr=1e-4)  # type: ignore[no-any-return]
    if name == "Sketchy":
        return sketched.Sketchy([*conv, *rest], lr=1e-4, **options)
    groups = [{"params": conv, "diagonal_above": None}]
    groups += [{"params": rest, "diagonal_above": 0}] if rest else []
    return getattr(sketched, name).paper(groups, lr=1e-4, ridge=0.1, **options)  # type: ignore[no-any-return]


class Runner:
    """An optimizer and gradients that change from step to step: equal ones would have rank one."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.params = optimizer.param_groups[0]["params"]
        count = 48 if isinstance(optimizer, sketched.SketchedOptimizer) else 10
        self.gradients = [[0.01 * torch.randn_like(p) for p in self.params] for _ in range(count)]
        self.steps = 0

    def step(self) -> None:
        for p, g in zip(self.params, self.gradients[self.steps % len(self.gradients)], strict=True):
            p.grad = g
        self.steps += 1
        self.optimizer.step()


def state_bytes(optimizer: Any) -> int:
    """Bytes of all tensors in the state, each storage once."""
    seen = {}

    def visit(value: Any) -> None:
        if isinstance(value, Tensor):
            seen[value.untyped_storage().data_ptr(), value.device] = value.untyped_storage().nbytes()
        elif isinstance(value, dict):
            for part in value.values():
                visit(part)
        elif isinstance(value, (list, tuple)):
            for part in value:
                visit(part)

    visit(dict(optimizer.state))
    return sum(seen.values())


def clock(device: str) -> Callable[[], float]:
    if device == "cpu":
        return time.process_time

    def now() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return now


def race(
    makers: dict[str, Callable[[], torch.optim.Optimizer]], device: str, steps: int, repeats: int
) -> list[dict[str, Any]]:
    """Milliseconds a step of each, Adam running again before each of the others; bytes of state for each number."""
    now, rows = clock(device), []
    adam = Runner(makers["Adam"]())
    for name, maker in makers.items():
        optimizer = maker()
        runner = Runner(optimizer)
        numbers = sum(p.numel() for group in optimizer.param_groups for p in group["params"])
        for _ in range(45):  # past the first rotation, and through every kernel's first use
            runner.step()
        for _ in range(5):
            adam.step()
        times, base = [], []
        for _ in range(repeats):
            for run, into in ((adam, base), (runner, times)):
                begin = now()
                for _ in range(steps):
                    run.step()
                into.append((now() - begin) / steps * 1e3)
        ratio = statistics.median(a / b for a, b in zip(times, base, strict=True))
        row = {"name": name, "ms": statistics.median(times), "ratio": ratio, "bytes": state_bytes(optimizer) / numbers}
        rows.append(row)
        print(f"{name:<28} {row['ms']:9.3f} ms {ratio:8.2f} × Adam {row['bytes']:9.1f} bytes a number", flush=True)
        del optimizer, runner
    return rows


SETTINGS: dict[str, dict[str, Any]] = {
    "m=10": {"sketch_size": 10},
    "m=20, bfloat16": {"sketch_size": 20, "sketch_dtype": torch.bfloat16},
    "m=10, bfloat16": {"sketch_size": 10, "sketch_dtype": torch.bfloat16},
    "m=20, graft": {"sketch_size": 20, "graft": True, "decay": 0.999},
    "m=20, graft, bfloat16": {"sketch_size": 20, "graft": True, "decay": 0.999, "sketch_dtype": torch.bfloat16},
    "m=20, every other gradient": {"sketch_size": 20, "update_every": 2},
    "m=20, blocks of 65,536": {"sketch_size": 20, "block_size": 65_536},
}
"""What else than the sketch's size a step's time depends on."""


def settings(shapes: dict[str, list[tuple[int, ...]]], device: str) -> dict[str, Callable[[], Any]]:
    made: dict[str, Callable[[], Any]] = {"Adam": lambda: make("Adam", shapes, device)}
    for name in ("SAdaGrad", "FDSON"):
        for words, options in SETTINGS.items():
            made[f"{name} {words}"] = lambda name=name, options=options: make(name, shapes, device, **options)
    return made


def contenders(shapes: dict[str, list[tuple[int, ...]]], device: str, size: int) -> dict[str, Callable[[], Any]]:
    names = ["Adam", "Adagrad"]
    if importlib.util.find_spec("pytorch_optimizer"):
        names += ["SOAP", "ScalableShampoo"]
    made = {name: (lambda name=name: make(name, shapes, device)) for name in names}
    for every in (5, 10):
        made[f"Sketchy refresh_every={every}"] = lambda n=every: make("Sketchy", shapes, device, refresh_every=n)
    for name in METHODS:
        made[f"{name} m={size}"] = lambda name=name: make(name, shapes, device, sketch_size=size)
    return made


def by_layer(device: str, steps: int, repeats: int) -> dict[str, Any]:
    """One layer at a time: its size, the sketch's size."""
    table = {}
    for numbers in (10_000, 100_000, 1_000_000, 4_000_000):
        shapes: dict[str, list[tuple[int, ...]]] = {"conv": [(numbers,)], "rest": []}
        makers: dict[str, Callable[[], Any]] = {"Adam": lambda shapes=shapes: make("Adam", shapes, device)}
        for name in ("SAdaGrad", "FDSON"):
            for size in (5, 10, 20, 40):
                makers[f"{name} m={size}"] = lambda n=name, m=size, s=shapes: make(n, s, device, sketch_size=m)
        print(f"\none layer of {numbers:,} numbers")
        table[str(numbers)] = race(makers, device, steps, repeats)
    return table


Maker = Callable[[nn.Module], torch.optim.Optimizer]
WHOLE: dict[str, Maker] = {
    "Adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True),
    "Adam fused": lambda model: torch.optim.Adam(model.parameters(), lr=1e-4, fused=True),
    "Sketchy refresh_every=5": lambda model: sketched.Sketchy(model.parameters(), lr=1e-4),
    "Sketchy refresh_every=10": lambda model: sketched.Sketchy(model.parameters(), lr=1e-4, refresh_every=10),
    "Sketchy orthogonal": lambda model: sketched.Sketchy.for_model(model, lr=1e-4, direction="orthogonal"),
}
"""Optimizers of a whole network."""


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "MLP": lambda: mlp(torch.empty(1, 784)),
    "transformer": lambda: Transformer(95, 128, 256, 4),
    "ResNet-18": resnet18,
}


def networks(chosen: Sequence[str], device: str, steps: int, repeats: int) -> dict[str, Any]:
    """The networks of torch_training.py, whole, gradients random."""
    table = {}
    for name in chosen:
        model = NETWORKS[name]
        print(f"\n{name}, {sum(p.numel() for p in model().parameters()):,} numbers")
        makers = {
            n: (lambda make=make, model=model: with_gradients(make, model().to(device))) for n, make in WHOLE.items()
        }
        table[name] = race(makers, device, steps, repeats)
    return table


def with_gradients(make: Maker, model: nn.Module) -> torch.optim.Optimizer:
    for p in model.parameters():
        p.grad = 0.01 * torch.randn_like(p)
    return make(model)


def _paper(name: str, **options: Any) -> Maker:
    def made(model: nn.Module) -> torch.optim.Optimizer:
        params = list(model.parameters())
        groups = [{"params": [p for p in params if p.dim() == 4], "diagonal_above": None}]
        groups.append({"params": [p for p in params if p.dim() != 4], "diagonal_above": 0})
        return getattr(sketched, name).paper(groups, lr=1e-4, ridge=0.1, **options)  # type: ignore[no-any-return]

    return made


def training_shares(model: nn.Module, x: Tensor, makers: dict[str, Maker], turns: int) -> dict[str, dict[str, float]]:
    """What of a training step is the optimizer's: one network, one loop, and all take turns in it.

    The rest of a step is the same for all. Events on the device's stream are looked at when all is over: nobody waits
    within the loop. Means of the optimizer, but for the longest in fifty (a refresh counts, a hiccup does not).
    """
    model, x = model.cuda(), x.cuda()
    y = torch.randint(10, (x.shape[0],) if x.dim() == 4 else x.shape, device="cuda").flatten()
    optimizers = {name: make(model) for name, make in makers.items()}
    marks: dict[str, list[list[torch.cuda.Event]]] = {name: [] for name in makers}
    host: dict[str, list[float]] = {name: [] for name in makers}
    for turn in range(20 + turns):
        for name, optimizer in optimizers.items():
            events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
            events[0].record()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x).flatten(0, -2), y).backward()
            events[1].record()
            begin = time.perf_counter()
            optimizer.step()
            spent = time.perf_counter() - begin
            events[2].record()
            if turn >= 20:
                marks[name].append(events)
                host[name].append(1e3 * spent)
    torch.cuda.synchronize()
    rest = statistics.median(a.elapsed_time(b) for events in marks.values() for a, b, _ in events)
    found = {}
    for name, events in marks.items():
        own = mean(b.elapsed_time(c) for _, b, c in events)
        found[name] = {"optimizer": own, "rest": rest, "share": own / (own + rest), "host": mean(host[name])}
        print(
            f"{name:<28} {own:.3f} ms of {own + rest:.2f}: {own / (own + rest):.1%}; host {found[name]['host']:.3f} ms"
        )
    return found


def training(makers: dict[str, Maker]) -> dict[str, Any]:
    torch.manual_seed(0)
    batch, text = torch.randn(128, 3, 32, 32), torch.randint(95, (32, 128))
    return {
        "ResNet-18": training_shares(resnet18(), batch, WHOLE, 100),
        "transformer": training_shares(Transformer(95, 128, 256, 4), text, WHOLE, 100),
        "ResNet-18, papers": training_shares(resnet18(), batch, makers, 50),
    }


def mean(times: Iterable[float]) -> float:
    some = sorted(times)
    return statistics.fmean(some[: -max(1, len(some) // 50)])


PARTS = ("cnn", "networks", "eigh", "resnet18", "settings", "training", "layers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--sketch-size", type=int, default=20)
    parser.add_argument("--steps", type=int, default=42, help="timed at a time; two rotations of a 2m = 40 sketch")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    where = torch.cuda.get_device_name() if args.device == "cuda" else f"CPU, {args.threads} thread(s)"
    print(f"torch {torch.__version__}, {where}")
    found: dict[str, Any] = {"torch": torch.__version__, "device": where}
    much = args.steps, args.repeats
    conv = {"conv": [tuple(p.shape) for p in resnet18().parameters() if p.dim() == 4], "rest": []}
    parts: dict[str, tuple[str, Callable[[], Any]]] = {
        "cnn": ("the papers' CNN", lambda: race(contenders(CNN, args.device, args.sketch_size), args.device, *much)),
        "networks": ("whole networks", lambda: networks(args.networks, args.device, *much)),
    }
    if args.device == "cuda":
        every = WHOLE | {f"{name} m={args.sketch_size}": _paper(name, sketch_size=args.sketch_size) for name in METHODS}
        parts |= {
            "eigh": ("small eigenproblems", small_problems),
            "resnet18": (
                "a ResNet-18's convolutions",
                lambda: race(contenders(conv, "cuda", args.sketch_size), "cuda", *much),
            ),
            "settings": ("the same", lambda: race(settings(conv, "cuda"), "cuda", *much)),
            "training": (
                "a ResNet-18's training step, batch 128 of 3×32×32, and a transformer's",
                lambda: training(every),
            ),
            "layers": ("single layers", lambda: by_layer("cuda", args.steps, 2)),
        }
    for name, (words, measure) in parts.items():
        if name in args.only:
            print(f"\n{words}", flush=True)
            found[name] = measure()
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(found, indent=1))


def small_problems() -> dict[str, float]:
    """Milliseconds of the batched eigendecomposition of 64 matrices, ours and torch.linalg.eigh."""
    from onsketch.torch import spectrum

    now, found = clock("cuda"), {}
    for n in (20, 32, 40, 80):
        rows = torch.randn(64, n, n, dtype=torch.float64, device="cuda")
        matrices = rows @ rows.mT
        for name, function in (("ours", spectrum.eigh), ("torch", torch.linalg.eigh)):
            function(matrices)
            begin = now()
            for _ in range(5):
                function(matrices)
            found[f"{name} n={n}"] = (now() - begin) / 5 * 1e3
            print(f"eigh of 64 matrices, n={n}, {name}: {found[f'{name} n={n}']:.3f} ms")
    return found


if __name__ == "__main__":
    main()
