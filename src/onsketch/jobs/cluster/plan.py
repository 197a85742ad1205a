"""The plan of a run on a cluster: the manifest of shards and everything else that decides the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onsketch.core.errors import InputError, OptionError
from onsketch.data.sources import STDIN, expand
from onsketch.jobs.plans import Recipe
from onsketch.learners.methods import METHODS


def manifest(files: Any) -> list[str]:
    """The shards, in order: the files meant by names, patterns and addresses. A shard's number is its place here."""
    shards = expand(files)
    for shard in shards:
        if not isinstance(shard, str) or shard == STDIN:
            raise InputError("a cluster reads files or addresses; standard input and open files stay on one machine.")
    if len(set(shards)) < len(shards):
        twice = next(str(shard) for shard in shards if shards.count(shard) > 1)
        raise InputError(f"{twice}: listed twice; its rows would be counted twice.")
    return [str(shard) for shard in shards]


@dataclass(frozen=True)
class Plan(Recipe):
    """Decides every bit of the outcome. The engine, the pace and the faults decide none."""

    sync: int | None = None
    """Blocks that each shard learns between two merges; None for the whole shard."""
    together: int | None = None
    """Shards that start from the same model: a wave. The next wave starts from what they made. None for all."""

    def check(self) -> None:
        """Refuse what cannot be done, before anything is read."""
        for name in ("passes", "sync", "together"):
            value = getattr(self, name)
            if value is None and name != "passes":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{name}={value!r}: expected a whole number from 1 on.", **{name: value})
        check_reading(self.reading)
        method = METHODS.get(self.method)
        if method is not None and method.kernel:
            raise OptionError(
                f"{self.method} learners cannot be merged, so a cluster cannot train one. Choose a method that can, "
                "such as method='adagrad', or method='rfd-son' with summary='curvature'.",
                method=("adagrad", "rfd-son"),
                summary="curvature",
            )

    @property
    def waves(self) -> list[range]:
        """The numbers of the shards of each wave."""
        size = self.together or len(self.sources)
        return [range(start, min(start + size, len(self.sources))) for start in range(0, len(self.sources), size)]


def check_reading(reading: dict[str, Any]) -> None:
    """Refuse options whose meaning would differ from shard to shard."""
    if reading.get("zero_based") == "auto":
        raise OptionError(
            'zero_based="auto": each shard would decide for itself on a cluster; say True or False.', zero_based="auto"
        )
    if "resume" in reading:
        raise OptionError("reading: resume is kept by the run itself.")
