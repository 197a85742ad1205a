"""Running the cells of experiments: finished ones are found again, new ones are written as soon as they are done.

With several jobs, cells run in processes of their own and all experiments are under way at once, so that one that waits
for the last cell of its grid leaves no core idle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any

from onsketch.experiments.design import Cell, Conditions, Experiment, Result, Results
from onsketch.experiments.streams import Sources

Advance = Callable[[int, int], None]
"""Called with the number of cells that are done and of those known to be wanted."""


class Bench:
    """Cells of any experiments, each kept as one JSON file under ``folder``.

    A file is written whole or not at all, and named by what was run: programs that share a folder can at worst repeat
    each other's work.

    Args:
        conditions: effort and data.
        folder: where the files are.
        jobs: how many cells run at a time; more than one run in processes.
    """

    def __init__(self, conditions: Conditions, folder: Path, jobs: int = 1) -> None:
        self.conditions = conditions
        self.results = Results()
        self._folder = folder
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        self._under_way: dict[str, Future[None]] = {}
        self._lock = Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, experiment: Experiment, advance: Advance = lambda done, total: None) -> None:
        """Run what is wanting of the experiment, in rounds: the choice of a grid decides what is repeated."""
        with self._processes():
            self._rounds(experiment, advance)

    def run_all(
        self, experiments: Sequence[Experiment], advance: Callable[[Experiment, int, int], None]
    ) -> Iterator[Experiment]:
        """Run several, and give each as it is finished: one after the other, or side by side with several jobs."""

        def rounds(experiment: Experiment) -> None:
            self._rounds(experiment, lambda done, total: advance(experiment, done, total))

        if self._jobs == 1:
            for experiment in experiments:
                rounds(experiment)
                yield experiment
            return
        with self._processes(), ThreadPoolExecutor(max(1, len(experiments))) as threads:
            tasks = {threads.submit(rounds, experiment): experiment for experiment in experiments}
            try:
                for task in as_completed(tasks):
                    task.result()
                    yield tasks[task]
            except BaseException:
                self._abandon()
                raise

    def _rounds(self, experiment: Experiment, advance: Advance) -> None:
        while True:
            wanted = list({cell.key: cell for cell in experiment.cells(self.conditions, self.results)}.values())
            new = [cell for cell in wanted if cell not in self.results]
            missing = [cell for cell in new if not self._found(cell)]
            done = len(wanted) - len(missing)
            advance(done, len(wanted))
            if not new:
                return
            for _ in self._finished(missing):
                done += 1
                advance(done, len(wanted))

    def _finished(self, cells: Sequence[Cell]) -> Iterator[None]:
        """Run the cells; something is given for each that is done."""
        if self._pool is None:
            for cell in cells:
                self._keep(cell, cell.run(self.conditions.sources, **cell.given))
                yield
            return
        tasks = [self._started(self._pool, cell) for cell in cells]
        try:
            for task in as_completed(tasks):
                yield task.result()
        except BaseException:
            self._abandon()
            raise

    def _started(self, pool: ProcessPoolExecutor, cell: Cell) -> Future[None]:
        """The cell's task: one, whichever experiments want it."""
        with self._lock:
            if cell.key not in self._under_way:
                kept: Future[None] = Future()
                self._under_way[cell.key] = kept
                pool.submit(_in_process, cell.run, cell.given).add_done_callback(
                    lambda task: self._settle(cell, task, kept)
                )
            return self._under_way[cell.key]

    def _settle(self, cell: Cell, task: Future[Result], kept: Future[None]) -> None:
        try:
            self._keep(cell, task.result())
        except CancelledError:
            kept.cancel()
        except BaseException as error:
            kept.set_exception(error)
        else:
            kept.set_result(None)

    def _abandon(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def _processes(self) -> Iterator[None]:
        """Processes to run cells in, where several jobs are wanted."""
        if self._jobs == 1:
            yield
            return
        sources = self.conditions.sources
        with ProcessPoolExecutor(
            self._jobs, get_context("spawn"), _begin, (sources.folder, sources.networks)
        ) as self._pool:
            yield
        self._pool = None

    def _path(self, cell: Cell) -> Path:
        return self._folder / f"{cell.key}.json"

    def _found(self, cell: Cell) -> bool:
        try:
            kept = json.loads(self._path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or cut short: run it again
            return False
        self.results.put(cell, kept["result"])
        return True

    def _keep(self, cell: Cell, result: Result) -> None:
        text = json.dumps({"run": cell.run.__name__, "given": cell.given, "result": result})
        path = self._path(cell)
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)  # whole or not at all, whenever the program is stopped
        self.results.put(cell, json.loads(text)["result"])


_sources = Sources()
"""Of this process, where it is one of several."""


def _begin(folder: Path | None, networks: Path) -> None:
    global _sources
    _sources = Sources(folder, networks)


def _in_process(run: Callable[..., Result], given: Mapping[str, Any]) -> Result:
    return run(_sources, **given)


def missing_needs(experiment: Experiment, conditions: Conditions) -> list[str]:
    """The sets it needs and cannot find; empty when it can run (one of several is enough)."""
    if not experiment.needs or conditions.sources.among(*experiment.needs):
        return []
    return list(experiment.needs)
