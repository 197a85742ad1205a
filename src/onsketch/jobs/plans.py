"""Plans of jobs, and the check that two jobs are the same."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from onsketch.core.errors import InputError, OptionError


@dataclass(frozen=True)
class Recipe:
    """The streams, the learner and the passes of any job."""

    sources: list[str]
    """Files, globs, addresses, or ``-`` for standard input; on a cluster the manifest of shards."""
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    """Of the learner; without a loss it is chosen by the task."""
    reading: dict[str, Any] = field(default_factory=dict)
    """Options of :func:`onsketch.data.stream`."""
    task: str | None = None
    passes: int = 1

    def state(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Plan(Recipe):
    """The plan of a job: it decides every byte of the outcome."""

    holdout: int = 0
    """Hold out one row in this many: it is predicted at the end of its block and never learned; 0 for none."""
    patience: int = 0
    """Stop after this many passes without a lower held-out loss, and keep the best model; 0 never stops."""
    start: str | None = None
    """A model to continue from."""

    def check(self) -> None:
        """Refuse what cannot be done, before anything is read."""
        if self.passes < 1:
            raise OptionError(f"passes={self.passes!r}: expected at least 1.", passes=self.passes)
        if self.passes > 1 and not rereadable(self.sources):
            raise OptionError("standard input and pipes can be read once only; --passes needs a file.")
        if self.holdout < 0 or self.holdout == 1:
            raise OptionError(
                f"holdout={self.holdout!r}: one row in this many is held out: give 0 (none), or 2 or more.",
                holdout=self.holdout,
            )
        if self.patience and not (self.holdout and self.passes > 1):
            raise OptionError("--early-stop looks at the held-out loss of each pass: it needs --holdout and --passes.")


NAMED_VALUES = ("csv", "json", "parquet", "arrow")
"""Formats whose rows are named values; the others name their features themselves."""


def check_format(known: str | None, found: str, path: str) -> None:
    """Refuse rows whose features have other columns than those of a model's training.

    A word of a table is the feature ``column=word``; a feature of VW or LIBSVM text has the name in the text.
    """
    if known is not None and (known in NAMED_VALUES) != (found in NAMED_VALUES):
        raise InputError(
            f"{path}: the model was trained on {known} rows, whose features have other columns than those of {found} "
            "rows. Give rows of the same kind, or train a model on these."
        )


def rereadable(sources: list[str]) -> bool:
    """Return True if all sources can be read a second time."""
    from onsketch.data.sources import can_be_read_again, expand

    return all(can_be_read_again(source) for source in expand(sources))


def same_plan(now: dict[str, Any], then: dict[str, Any], path: str) -> None:
    """Refuse a checkpoint of another job, naming what differs."""
    for name, value in json.loads(json.dumps(now)).items():  # which has lists where plans may have tuples
        if then.get(name) != value:
            raise OptionError(
                f"{path} is a checkpoint of another job ({name}: {then.get(name)!r} then, {value!r} now). "
                "Resume with the same command or arguments, or start again without resume."
            )
