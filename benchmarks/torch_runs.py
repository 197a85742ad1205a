"""Runs of networks in processes of their own, kept in a file: what is in it is not run again."""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def read(path: Path) -> list[Job]:
    """The runs of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_jobs(
    jobs: list[Job],
    args: argparse.Namespace,
    deadline: float,
    key: Callable[[Job], str],
    work: Callable[[Any, Any, argparse.Namespace, float], None],
    tell: Callable[[int, int, Job], None] = lambda finished, asked, result: None,
) -> int:
    """Run what is not yet in the file, appending as results come; returns how many were asked for.

    ``work(todo, done, args, deadline)`` is what each process does: it takes jobs, puts results, and at the end None.
    """
    path = args.out / "runs.jsonl"
    known = {key(run) for run in read(path)}
    missing = [job for job in jobs if key(job) not in known]
    if not missing or time.time() > deadline:
        return 0
    context = mp.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for job in missing:
        todo.put(job)
    workers = [context.Process(target=work, args=(todo, done, args, deadline)) for _ in range(args.workers)]
    for worker in workers:
        worker.start()
    finished, alive = 0, len(workers)
    with path.open("a") as file:
        while alive:
            try:
                result = done.get(timeout=5.0)
            except queue.Empty:
                alive = sum(worker.is_alive() for worker in workers)
                continue
            if result is None:
                alive -= 1
                continue
            finished += 1
            file.write(json.dumps(result, separators=(",", ":")) + "\n")
            file.flush()
            tell(finished, len(missing), result)
    todo.cancel_join_thread()
    for worker in workers:
        worker.join(timeout=10.0)
    return len(missing)
