"""Sketchy next to AdamW, Muon, NorMuon and SOAP: test loss at equal steps.

    python benchmarks/torch_training.py --data FOLDER --out FOLDER [--device cuda] [--workers 14] [--minutes 9]

Six tasks (torch_tasks.py). Each optimizer runs at four rates with one seed (stage ``search``), and at the best of them
by test loss with three other seeds (``final``). Rates fall linearly to zero over the last 60 % of a run. On a CUDA
device the forward and backward pass are one CUDA graph. Stage ``timing`` measures one optimizer at a time with nothing
beside it: milliseconds of a training step, and of the optimizer in it.

``runs.jsonl`` under ``--out`` has every run; those there are not repeated, so that a study may go on after a stop.
``torch_training_report.py`` makes the tables.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import queue
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import Tensor, nn
from torch_peers import muon, normuon, orthogonal, soap
from torch_runs import Job, read, run_jobs
from torch_step import state_bytes
from torch_tasks import STEPS, TASKS, Batch, Task, task

from onsketch import torch as sketched

RATES = (1e-3, 2e-3, 4e-3, 8e-3)


def _plain(maker: Callable[..., Any], **options: Any) -> Callable[[nn.Module, float], torch.optim.Optimizer]:
    return lambda model, lr: maker(model.parameters(), lr=lr, weight_decay=0.05, **options)


CONTENDERS: dict[str, Callable[[nn.Module, float], Any]] = {
    "AdamW": _plain(torch.optim.AdamW, foreach=True),
    "Muon .95": muon(0.95),
    "Muon .9": muon(0.9),
    "NorMuon .95": normuon(0.95),
    "NorMuon .9": normuon(0.9),
    "SOAP": soap,
    "Sketchy": _plain(sketched.Sketchy),
    "Sketchy, orthogonal": orthogonal(),
    "Sketchy, orthogonal, refresh_every=10": orthogonal(refresh_every=10),
}


def passes(problem: Task, model: nn.Module, example: Batch) -> Callable[[Batch], Tensor]:
    """Return a function that computes the loss of a batch and its gradients; on a CUDA device it is a CUDA graph."""

    def plain(batch: Batch) -> Tensor:
        model.zero_grad()
        loss = problem.loss(model, batch)
        loss.backward()
        return loss.detach()

    if example[0].device.type != "cuda":
        return plain
    inputs = tuple(part.clone() for part in example)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            plain(inputs)
    torch.cuda.current_stream().wait_stream(aside)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = plain(inputs)

    def replayed(batch: Batch) -> Tensor:
        for mine, part in zip(inputs, batch, strict=True):
            mine.copy_(part)
        graph.replay()
        return loss

    return replayed


def train(problem: Task, name: str, lr: float, seed: int, steps: int, deadline: float = math.inf) -> list[list[float]]:
    """(step, mean training loss since the last line, test loss), ten lines."""
    device = problem.held_out[0][0].device
    torch.manual_seed(seed)
    model = problem.model().to(device)
    generator = torch.Generator().manual_seed(seed)
    losses = passes(problem, model, problem.batch(generator))
    optimizer = CONTENDERS[name](model, lr)
    total, curve, last = torch.zeros((), device=device), [], 0
    for t in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (steps - t) / (0.6 * steps))
        total += losses(problem.batch(generator))
        optimizer.step()
        if (t + 1) * 10 // steps > last:
            last += 1
            curve.append([t + 1, float(total) * 10.0 / steps, problem.test_loss(model)])
            total.zero_()
            if not math.isfinite(curve[-1][1]) or time.time() > deadline:
                break
    return curve


def timings(problem: Task, name: str, steps: int) -> dict[str, float]:
    """Milliseconds of a training step and of the optimizer in it; bytes of state a number."""
    device = problem.held_out[0][0].device
    torch.manual_seed(0)
    model = problem.model().to(device)
    generator = torch.Generator().manual_seed(0)
    losses = passes(problem, model, problem.batch(generator))
    optimizer = CONTENDERS[name](model, 1e-4)

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    spent: list[float] = []
    for t in range(steps + 20):
        losses(problem.batch(generator))
        begin = now()
        optimizer.step()
        if t >= 20:
            spent.append(now() - begin)
    begin = now()
    for _ in range(steps):
        losses(problem.batch(generator))
        optimizer.step()
    whole = (now() - begin) / steps * 1e3
    numbers = sum(p.numel() for p in model.parameters())
    mean = statistics.fmean(sorted(spent)[: -max(1, steps // 20)])  # a refresh counts, a hiccup does not
    return {"step_ms": whole, "optimizer_ms": mean * 1e3, "bytes": state_bytes(optimizer) / numbers}


# Many runs ----------------------------------------------------------------------------------------------------------


def key(job: Job) -> str:
    return json.dumps([job[name] for name in ("stage", "task", "name", "lr", "seed", "steps")])


def work(todo: Any, done: Any, args: argparse.Namespace, deadline: float) -> None:
    torch.set_num_threads(1)
    tasks: dict[str, Task] = {}
    while time.time() < deadline:
        try:
            job = todo.get(timeout=1.0)
        except queue.Empty:
            break
        try:
            if job["task"] not in tasks:
                tasks[job["task"]] = task(job["task"], args.data, args.device, args.limit)
            begin = time.time()
            curve = train(tasks[job["task"]], job["name"], job["lr"], job["seed"], job["steps"], deadline)
            if curve[-1][0] == job["steps"] or not math.isfinite(curve[-1][1]):
                seconds = round(time.time() - begin, 1)
                done.put({**job, "seconds": seconds, "curve": [[round(x, 6) for x in line] for line in curve]})
        except Exception:
            traceback.print_exc()
    done.put(None)


def run(jobs: list[Job], args: argparse.Namespace, deadline: float) -> None:
    begin = time.time()
    asked = run_jobs(jobs, args, deadline, key, work)
    if asked:
        print(f"{asked} runs asked for, {time.time() - begin:.0f} s", flush=True)


def last_loss(run: Job) -> float:
    """The test loss at the end."""
    value = run["curve"][-1][2]
    return value if value is not None and math.isfinite(value) else math.inf


def searched(runs: list[Job], problem: str, name: str) -> dict[float, float]:
    """The test loss of each rate of the search."""
    return {
        run["lr"]: last_loss(run)
        for run in runs
        if (run["stage"], run["task"], run["name"]) == ("search", problem, name)
    }


def rates(found: dict[float, float]) -> tuple[float, ...]:
    """The rates to search: four, and one beyond them where the best of the four is the first or the last."""
    if not all(lr in found for lr in RATES):
        return RATES
    best = min(RATES, key=lambda lr: found[lr])
    return RATES + {RATES[0]: (RATES[0] / 2,), RATES[-1]: (2 * RATES[-1],)}.get(best, ())


def best_rate(runs: list[Job], problem: str, name: str) -> float | None:
    """The best rate of the search, or None while runs of it are missing."""
    found = searched(runs, problem, name)
    return min(found, key=lambda lr: found[lr]) if all(lr in found for lr in rates(found)) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--names", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    parser.add_argument("--stages", nargs="+", default=["search", "final", "timing"])
    parser.add_argument("--steps", type=float, default=0.6, help="this many times the steps of a task")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--limit", type=int, help="use this many pictures only")
    args = parser.parse_args()
    deadline = time.time() + 60.0 * args.minutes
    args.out.mkdir(parents=True, exist_ok=True)
    asked = [(problem, name) for problem in reversed(args.tasks) for name in args.names]
    for _ in range(2 if "search" in args.stages else 0):  # once more with the rates beyond the ends
        runs = read(args.out / "runs.jsonl")
        wanted = [(problem, name, lr) for problem, name in asked for lr in rates(searched(runs, problem, name))]
        run([make_job("search", *one, 0, args) for one in wanted], args, deadline)
    if "final" in args.stages:
        runs = read(args.out / "runs.jsonl")
        chosen = [(problem, name, best_rate(runs, problem, name)) for problem, name in asked]
        seeds = range(1, args.seeds + 1)
        run(
            [make_job("final", *one, seed, args) for one in chosen if one[2] is not None for seed in seeds],
            args,
            deadline,
        )
    if "timing" in args.stages:
        path = args.out / "timings.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        found["machine"] = machine(args.device)
        for problem in args.tasks:
            made = task(problem, args.data, args.device, args.limit)
            for name in args.names:
                if time.time() < deadline:
                    steps = 100 if args.device == "cuda" else 20
                    found.setdefault(problem, {})[name] = timings(made, name, steps)
            path.write_text(json.dumps(found, indent=1))


def make_job(stage: str, problem: str, name: str, lr: float, seed: int, args: argparse.Namespace) -> Job:
    steps = int(args.steps * STEPS[problem])
    return {"stage": stage, "task": problem, "name": name, "lr": lr, "seed": seed, "steps": steps}


def machine(device: str) -> dict[str, str]:
    """What the times were measured on."""
    from importlib.metadata import version

    chip = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    return {"device": chip, "torch": torch.__version__, "pytorch_optimizer": version("pytorch_optimizer")}


if __name__ == "__main__":
    main()
