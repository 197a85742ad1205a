"""Sketchy and AdamW, SGD, Muon, NorMuon, SOAP: loss by steps, by optimizer time and by wall time.

    python benchmarks/torch_training.py --data FOLDER --out FOLDER [--device cuda] [--workers 6] [--minutes 9]

Six tasks (torch_tasks.py), each optimizer at four rates a factor of two or three apart, one seed; the best rate, by
test loss, again with three seeds (``final``); and once more with as many steps as fit into the wall time that Adam's
run takes (``time``). Rates fall linearly to zero over the last 60 % of a run. Times are measured afterwards, one
optimizer at a time with nothing beside it: milliseconds of a training step, and of the optimizer in it.

``runs.jsonl`` under ``--out`` has every run; those there are not repeated. ``summary.md`` has the tables.
"""

from __future__ import annotations

import argparse
import json
import math
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
from torch import nn
from torch_peers import muon, normuon, recipe, soap
from torch_runs import Job, read, run_jobs
from torch_tasks import STEPS, TASKS, Task, task

from onsketch import torch as sketched

RATES = (1e-3, 2e-3, 4e-3, 8e-3)
SGD_RATES = (0.03, 0.1, 0.3, 1.0)
PAPER: dict[str, Any] = {"ridge": 1e-3, "damping": 0.0, "power": 0.25, "outside": "escaped", "refresh_every": 10}


def _plain(maker: Callable[..., Any], **options: Any) -> Callable[[nn.Module, float], torch.optim.Optimizer]:
    return lambda model, lr: maker(model.parameters(), lr=lr, **options)


CONTENDERS: dict[str, tuple[Callable[[nn.Module, float], Any], tuple[float, ...]]] = {
    "Adam": (_plain(torch.optim.Adam, foreach=True), RATES),
    "AdamW": (_plain(torch.optim.AdamW, weight_decay=0.05, foreach=True), RATES),
    "SGD": (_plain(torch.optim.SGD, momentum=0.9, nesterov=True, foreach=True), SGD_RATES),
    "Muon .95": (muon(0.95), RATES),
    "Muon .9": (muon(0.9), RATES),
    "NorMuon .95": (normuon(0.95), RATES),
    "NorMuon .9": (normuon(0.9), RATES),
    "SOAP": (soap, RATES),
    "recipe A": (recipe(power=0.25, ns_steps=2), RATES),
    "recipe B": (recipe(power=0.125, ns_steps=3, block=128), RATES),
    "Sketchy W": (_plain(sketched.Sketchy, weight_decay=0.05), RATES),
    "Sketchy": (_plain(sketched.Sketchy), RATES),
    "Sketchy 10": (_plain(sketched.Sketchy, refresh_every=10), RATES),
    "Sketchy paper": (_plain(sketched.Sketchy, **PAPER), RATES),
    "Sketchy paper W": (_plain(sketched.Sketchy, weight_decay=0.05, **PAPER), RATES),
    "Sketchy paper 32": (_plain(sketched.Sketchy, rank=32, **PAPER), RATES),
    "FDSON": (_plain(sketched.FDSON), RATES),
    "SAdaGrad": (_plain(sketched.SAdaGrad), RATES),
}


def train(problem: Task, name: str, lr: float, seed: int, steps: int, deadline: float = math.inf) -> list[list[float]]:
    """(step, mean training loss since the last line, test loss), ten lines."""
    device = problem.held_out[0][0].device
    torch.manual_seed(seed)
    model = problem.model().to(device)
    optimizer = CONTENDERS[name][0](model, lr)
    generator = torch.Generator().manual_seed(seed)
    total, curve, last = torch.zeros((), device=device), [], 0
    for t in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (steps - t) / (0.6 * steps))
        optimizer.zero_grad()
        loss = problem.loss(model, problem.batch(generator))
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if (t + 1) * 10 // steps > last:
            last += 1
            curve.append([t + 1, float(total) * 10.0 / steps, problem.test_loss(model)])
            total.zero_()
            if not math.isfinite(curve[-1][1]) or time.time() > deadline:
                break
    return curve


def timings(problem: Task, name: str, steps: int = 60) -> dict[str, float]:
    """Milliseconds of a training step and of the optimizer in it, medians; bytes of state a number."""
    device = problem.held_out[0][0].device
    torch.manual_seed(0)
    model = problem.model().to(device)
    optimizer = CONTENDERS[name][0](model, 1e-4)
    generator = torch.Generator().manual_seed(0)

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    spent: list[float] = []
    for t in range(steps + 20):
        begin = now()
        optimizer.zero_grad()
        problem.loss(model, problem.batch(generator)).backward()
        middle = now()
        optimizer.step()
        end = now()
        if t >= 20:
            spent += [middle - begin, end - middle]
    begin = now()
    for _ in range(steps):
        optimizer.zero_grad()
        problem.loss(model, problem.batch(generator)).backward()
        optimizer.step()
    whole = (now() - begin) / steps * 1e3
    kept = sum(
        value.numel() * value.element_size()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )
    numbers = sum(p.numel() for p in model.parameters())
    mean = statistics.fmean(sorted(spent[1::2])[: -max(1, steps // 20)])  # a refresh counts, a hiccup does not
    return {"step_ms": whole, "optimizer_ms": mean * 1e3, "bytes": kept / numbers}


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
            curve = train(tasks[job["task"]], job["name"], job["lr"], job["seed"], job["steps"], deadline)
            if curve[-1][0] == job["steps"] or not math.isfinite(curve[-1][1]):
                done.put({**job, "curve": [[round(x, 6) for x in line] for line in curve]})
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


def best_rate(runs: list[Job], problem: str, name: str) -> float | None:
    mine = [run for run in runs if run["stage"] == "search" and run["task"] == problem and run["name"] == name]
    return min(mine, key=last_loss)["lr"] if mine else None


def finals(args: argparse.Namespace, stage: str, steps: Callable[[str, str], int | None]) -> list[Job]:
    runs, jobs = read(args.out / "runs.jsonl"), []
    for seed in range(1, args.seeds + 1):
        for problem in args.tasks:
            for name in args.names:
                lr, count = best_rate(runs, problem, name), steps(problem, name)
                if lr is not None and count is not None:
                    jobs.append({"stage": stage, "task": problem, "name": name, "lr": lr, "seed": seed, "steps": count})
    return jobs


def summary(args: argparse.Namespace, found: dict[str, dict[str, dict[str, float]]]) -> str:
    """Tables: the loss at equal steps and at equal time, and what a step costs."""
    runs = read(args.out / "runs.jsonl")
    lines = []
    for problem in args.tasks:
        lines += [f"\n{problem}\n", "| | rate | test loss | training loss | test loss in Adam's time | optimizer ms "
                  "| × Adam | share of a step | bytes a number |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
        for name in args.names:
            cells = [name, f"{best_rate(runs, problem, name) or math.nan:g}"]
            for stage, column in (("final", 2), ("final", 1), ("time", 2)):
                mine = [r for r in runs if (r["stage"], r["task"], r["name"]) == (stage, problem, name)]
                values = [run["curve"][-1][column] for run in mine]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                cells.append(f"{statistics.fmean(values):.4f} ± {spread:.4f}" if values else "–")
            times = found.get(problem, {})
            if name in times and "Adam" in times:
                t, adam = times[name], times["Adam"]
                cells += [f"{t['optimizer_ms']:.2f}", f"{t['optimizer_ms'] / adam['optimizer_ms']:.2f}",
                          f"{t['optimizer_ms'] / t['step_ms']:.0%}", f"{t['bytes']:.1f}"]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--names", nargs="+", default=[n for n in CONTENDERS if n not in ("FDSON", "SAdaGrad")])
    parser.add_argument("--stages", nargs="+", default=["search", "final", "timing", "time"])
    parser.add_argument("--steps", type=float, default=1.0, help="this many times the steps of a task")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--limit", type=int, help="use this many pictures only")
    args = parser.parse_args()
    begin = time.time()
    deadline = begin + 60.0 * args.minutes
    args.out.mkdir(parents=True, exist_ok=True)
    counts = {name: int(args.steps * STEPS[name]) for name in TASKS}
    if "search" in args.stages:
        jobs = [
            {"stage": "search", "task": problem, "name": name, "lr": lr, "seed": 0, "steps": counts[problem]}
            for problem in sorted(args.tasks, key=lambda p: -TASKS.index(p))
            for name in args.names
            for lr in CONTENDERS[name][1]
        ]
        run(jobs, args, deadline)
    if "final" in args.stages:
        run(finals(args, "final", lambda problem, name: counts[problem]), args, deadline)
    path = args.out / "timings.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    if "timing" in args.stages:
        for problem in args.tasks:
            made = task(problem, args.data, args.device, args.limit)
            for name in args.names:
                found.setdefault(problem, {})[name] = timings(made, name, 60 if args.device == "cuda" else 20)
        path.write_text(json.dumps(found, indent=1))
    if "time" in args.stages and found:

        def fitting(problem: str, name: str) -> int | None:
            times = found.get(problem, {})
            if name not in times or "Adam" not in times:
                return None
            return max(10, round(counts[problem] * min(1.0, times["Adam"]["step_ms"] / times[name]["step_ms"])))

        run(finals(args, "time", fitting), args, deadline)
    text = summary(args, found)
    (args.out / "summary.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
