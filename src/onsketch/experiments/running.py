"""Running the cells of experiments: finished ones are found again, new ones are written as soon as they are done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from onsketch.experiments.design import Cell, Conditions, Experiment, Results

Advance = Callable[[int, int], None]
"""Called with the number of cells that are done and of those known to be wanted."""


class Bench:
    """Cells of any experiments, each kept as one JSON file under ``folder``.

    Args:
        conditions: effort and data.
        folder: where the files are.
        jobs: how many cells run at a time, in threads (the compiled loops hold no lock).
    """

    def __init__(self, conditions: Conditions, folder: Path, jobs: int = 1) -> None:
        self.conditions = conditions
        self._folder = folder
        self._jobs = jobs
        self.results = Results()
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, experiment: Experiment, advance: Advance = lambda done, total: None) -> None:
        """Run what is wanting of the experiment, in rounds: the choice of a grid decides what is repeated."""
        while True:
            wanted = list({cell.key: cell for cell in experiment.cells(self.conditions, self.results)}.values())
            new = [cell for cell in wanted if cell not in self.results]
            missing = [cell for cell in new if not self._found(cell)]
            done = len(wanted) - len(missing)
            advance(done, len(wanted))
            if not new:
                return
            with ThreadPoolExecutor(self._jobs) as pool:
                jobs = [pool.submit(self._work, cell) for cell in missing]
                try:
                    for job in as_completed(jobs):
                        job.result()
                        done += 1
                        advance(done, len(wanted))
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise

    def _path(self, cell: Cell) -> Path:
        return self._folder / f"{cell.key}.json"

    def _found(self, cell: Cell) -> bool:
        path = self._path(cell)
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or cut short: run it again
            return False
        self.results.put(cell, kept["result"])
        return True

    def _work(self, cell: Cell) -> None:
        result = cell.run(self.conditions.sources, **cell.given)
        text = json.dumps({"run": cell.run.__name__, "given": cell.given, "result": result})
        path = self._path(cell)
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)  # whole or not at all, whenever the program is stopped
        self.results.put(cell, json.loads(text)["result"])


def missing_needs(experiment: Experiment, conditions: Conditions) -> list[str]:
    """The sets it needs and cannot find; empty when it can run (one of several is enough)."""
    if not experiment.needs or conditions.sources.among(*experiment.needs):
        return []
    return list(experiment.needs)
