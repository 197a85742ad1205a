"""Timing of several engines: they alternate, so that noise affects all equally, and the best pass of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Engine:
    """Something that can pass over ``rows`` examples; ``run`` returns the CPU seconds of one pass.

    ``prepare``, if given, makes ``run``: it is called once, just before the timing. ``baseline`` names
    an engine whose time per example is subtracted: the overhead around the learning.
    """

    name: str
    dtype: str
    rows: int
    prepare: Callable[[], Callable[[], float]]
    baseline: str | None = None


@dataclass
class Timing:
    """Microseconds of CPU time per example, or the reason why there is no figure."""

    micros: float | None
    why: str = ""


def cpu_seconds(action: Callable[[], Any]) -> float:
    """CPU time, user and system, of all threads of this process while ``action`` runs."""
    start = time.process_time()
    action()
    return time.process_time() - start


def race(engines: Sequence[Engine], repeats: int) -> dict[str, Timing]:
    """Best time of each engine; an engine that raises is reported with its reason and left out."""
    why: dict[str, str] = {}
    runs: dict[str, Callable[[], float]] = {}
    best: dict[str, float] = {}

    def attempt(engine: Engine, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:  # errors of one engine must not stop the others
            why[engine.name] = f"missing ({type(error).__name__}: {error})".splitlines()[0][:70]
            return None

    for engine in engines:
        if run := attempt(engine, engine.prepare):
            runs[engine.name] = run
    for _ in range(repeats):
        for engine in engines:
            if engine.name in runs and engine.name not in why:
                seconds = attempt(engine, runs[engine.name])
                if seconds is not None:
                    best[engine.name] = min(best.get(engine.name, seconds), seconds)
    result = {}
    for engine in engines:
        if engine.name in why:
            result[engine.name] = Timing(None, why[engine.name])
        elif engine.baseline in why:
            result[engine.name] = Timing(None, why[engine.baseline])
        else:
            micros = best[engine.name] / engine.rows * 1e6
            if engine.baseline is not None:
                other = next(e for e in engines if e.name == engine.baseline)
                micros -= best[other.name] / other.rows * 1e6
            result[engine.name] = Timing(micros)
    return result


def ratio(numerator: Timing | None, denominator: Timing | None) -> float | None:
    """Quotient of two timings, None where one is missing."""
    if numerator is None or denominator is None or not numerator.micros or not denominator.micros:
        return None
    return numerator.micros / denominator.micros


class Report:
    """Prints tables as they come and keeps every row for the JSON file."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def table(self, section: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print one table; a row is a sequence of cells, None standing for a missing figure."""
        texts = [[_text(cell) for cell in row] for row in rows]
        widths = [max(len(line[k]) for line in [list(columns), *texts]) for k in range(len(columns))]
        numeric = [any(isinstance(row[k], int | float) for row in rows) for k in range(len(columns))]
        print(f"\n{title}")
        for line in [list(columns), ["-" * w for w in widths], *texts]:
            cells = [c.rjust(w) if n else c.ljust(w) for c, w, n in zip(line, widths, numeric, strict=True)]
            print("  " + "  ".join(cells).rstrip(), flush=True)
        for row in rows:
            self.records.append({"section": section, "table": title, **dict(zip(columns, row, strict=True))})


def limit(value: float | None, bound: float, *, at_least: bool = False) -> str:
    """Return a target with its verdict: ``≤ 3: met`` or ``≥ 10: missed``."""
    sign = "≥" if at_least else "≤"
    if value is None:
        return f"{sign} {bound:g}"
    met = value >= bound if at_least else value <= bound
    return f"{sign} {bound:g}: {'met' if met else 'MISSED'}"


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
