"""Running the cells of experiments: finished ones are found again, new ones are written as soon as they are done.

With several jobs, cells run in processes of their own, those of all experiments side by side.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from onsketch.experiments.design import Cell, Conditions, Experiment, Result, Results
from onsketch.experiments.streams import Sources

Advance = Callable[[int, int], None]
"""Called with the number of cells that are done and of those known to be wanted."""

Run = Callable[[Sequence[Cell]], Iterator[tuple[Cell, Result]]]
"""Runs cells, and gives each with its result when it is done."""


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
        self.results: Results = {}
        self._folder = folder
        self._jobs = jobs
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, experiment: Experiment, advance: Advance = lambda done, total: None) -> None:
        """Run the missing cells of an experiment, in rounds: the choice of a grid decides what is repeated."""
        for _ in self.run_all([experiment], lambda _, done, total: advance(done, total)):
            pass

    def run_all(
        self, experiments: Sequence[Experiment], advance: Callable[[Experiment, int, int], None]
    ) -> Iterator[Experiment]:
        """Run several, and give each when it is finished: one after the other, or together with several jobs."""
        with self._running() as run:
            for group in [[one] for one in experiments] if self._jobs == 1 else [experiments]:
                yield from self._together(group, run, advance)

    def _together(
        self, experiments: Sequence[Experiment], run: Run, advance: Callable[[Experiment, int, int], None]
    ) -> Iterator[Experiment]:
        waiting = list(experiments)
        while waiting:
            rounds: list[tuple[Experiment, dict[Cell, None], int]] = []
            for experiment in waiting:
                wanted = dict.fromkeys(experiment.cells(self.conditions, self.results))
                new = [cell for cell in wanted if cell not in self.results]
                lacking = dict.fromkeys(cell for cell in new if not self._found(cell))
                advance(experiment, len(wanted) - len(lacking), len(wanted))
                if not new:
                    yield experiment
                    continue
                rounds.append((experiment, lacking, len(wanted)))
            for cell, result in run(list(dict.fromkeys(cell for _, lacking, _ in rounds for cell in lacking))):
                self._keep(cell, result)
                for experiment, lacking, total in rounds:
                    if cell in lacking:
                        del lacking[cell]
                        advance(experiment, total - len(lacking), total)
            waiting = [experiment for experiment, _, _ in rounds]

    @contextmanager
    def _running(self) -> Iterator[Run]:
        """Give what runs cells: here, or in as many processes as there are jobs."""
        sources = self.conditions.sources
        if self._jobs == 1:
            yield lambda cells: ((cell, cell.run(sources, **cell.given)) for cell in cells)
            return
        with ProcessPoolExecutor(self._jobs, get_context("spawn")) as pool:

            def run(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
                where = sources.folder, sources.networks
                tasks = {pool.submit(_in_process, *where, cell): cell for cell in cells}
                for task in as_completed(tasks):
                    yield tasks[task], task.result()

            try:
                yield run
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _path(self, cell: Cell) -> Path:
        return self._folder / f"{cell.key}.json"

    def _found(self, cell: Cell) -> bool:
        try:
            kept = json.loads(self._path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or cut short: run it again
            return False
        self.results[cell] = kept["result"]
        return True

    def _keep(self, cell: Cell, result: Result) -> None:
        text = json.dumps({"run": cell.run.__name__, "given": cell.given, "result": result})
        path = self._path(cell)
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)  # whole or not at all, whenever the program is stopped
        self.results[cell] = json.loads(text)["result"]


@cache
def _sources(folder: Path | None, networks: Path) -> Sources:
    """Return the sources of this process, which keep what they have read."""
    return Sources(folder, networks)


def _in_process(folder: Path | None, networks: Path, cell: Cell) -> Result:
    return cell.run(_sources(folder, networks), **cell.given)
