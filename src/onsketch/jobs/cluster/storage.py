"""Storage of a run: the checkpoint and the parts of the current round, which must survive the driver.

    run.ckpt                      the last merged model, an ordinary model file; its notes hold plan and ledger
    run.ckpt.parts/4-1-0.part     round 4, tree node (1, 0): shards 0 and 1 merged, not yet with 2 and 3

Each file is written in one atomic step and names the shards that it holds. So every file found after a crash is valid,
and missing parts are computed again. The address is a local folder or any address that fsspec supports.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onsketch.core.errors import ModelFileError, OptionError
from onsketch.files import model_file
from onsketch.files.model_file import Content
from onsketch.files.records import converted
from onsketch.jobs.cluster.engine import Engine
from onsketch.jobs.cluster.tree import Call, Clock, Gathering, Node
from onsketch.jobs.notes import read_noted
from onsketch.jobs.plans import same_plan

EMPTY = Content("nothing", {}, {}, {})
"""Marker in a file for shards without a row."""


class Storage:
    """Model files under one address."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self.address = os.fspath(address)
        self._fs: Any = None
        self._root = self.address
        if "://" in self.address:
            from onsketch.data.sources import _fsspec

            _fsspec(self.address)  # raises an error that names the missing package
            from fsspec.core import url_to_fs

            self._fs, self._root = url_to_fs(self.address)

    @classmethod
    def at(cls, checkpoint: str | os.PathLike[str] | None, resume: bool) -> Storage | None:
        """Return the storage of a run, None without one; a run that starts anew leaves no parts of earlier ones."""
        if checkpoint is None:
            if resume:
                raise OptionError("resume needs a checkpoint to resume from.")
            return None
        storage = cls(checkpoint)
        if not resume:
            storage.remove(storage.parts())
        return storage

    def exists(self) -> bool:
        """Check if there is a checkpoint."""
        return bool(self._fs.exists(self._root)) if self._fs else os.path.exists(self._root)

    def write(self, taken: Content, notes: Mapping[str, Any], part: str | None = None) -> None:
        """Write the checkpoint, or a part of the round."""
        target = self._path(part)
        if self._fs is None:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            model_file.write(target, taken.kind, taken.header, taken.arrays, notes)
            return
        self._fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, "file")
            model_file.write(local, taken.kind, taken.header, taken.arrays, notes)
            self._fs.put_file(local, target + ".new")
        self._fs.mv(target + ".new", target)

    def read(self, part: str | None = None) -> Content:
        """The checkpoint, or a part of the round."""
        target = self._path(part)
        if self._fs is None:
            return read_noted(target)
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, os.path.basename(target))
            self._fs.get_file(target, local)
            return read_noted(local)

    def parts(self) -> list[str]:
        """Names of the parts that are there."""
        folder = self._root + ".parts"
        if self._fs is None:
            found = os.listdir(folder) if os.path.isdir(folder) else []
        else:
            self._fs.invalidate_cache()
            found = (
                [str(path).rsplit("/", 1)[-1] for path in self._fs.ls(folder, detail=False)]
                if (self._fs.exists(folder))
                else []
            )
        return sorted(name for name in found if name.endswith(".part") and not name.startswith("."))

    def remove(self, parts: list[str]) -> None:
        """Remove parts that a newer part replaces."""
        for part in parts:
            target = self._path(part)
            if self._fs is None:
                Path(target).unlink(missing_ok=True)
            else:
                self._fs.rm(target)
        if self._fs is None and os.path.isdir(self._root + ".parts") and not os.listdir(self._root + ".parts"):
            os.rmdir(self._root + ".parts")

    def _path(self, part: str | None) -> str:
        return self._root if part is None else f"{self._root}.parts/{part}"


class Parts:
    """The finished nodes of one round, kept as they come; at most so often, as each costs a transfer of its state."""

    def __init__(
        self, storage: Storage | None, plan: dict[str, Any], number: int, report: type[Any], seconds: float,
        shards: Sequence[int],
    ) -> None:  # fmt: skip
        self._storage, self._plan, self._round, self._report = storage, plan, number, report
        self._shards = shards
        self._seconds, self._last = seconds, time.monotonic()
        self._kept: set[Node] = set()

    def saved(self) -> dict[Node, tuple[list[Any], Any]]:
        """The largest nodes that an earlier life has left of this round."""
        if self._storage is None:
            return {}
        found: dict[Node, tuple[list[Any], Any]] = {}
        names = [re.fullmatch(rf"{self._round}-(\d+)-(\d+)\.part", name) for name in self._storage.parts()]
        nodes = sorted((Node(*map(int, name.groups())) for name in names if name), reverse=True)
        for node in nodes:  # from the root: the descendants of a stored node are part of it
            if any(above.holds(node) for above in found):
                continue
            content, path = self._storage.read(self._name(node)), self._storage.address
            same_plan(self._plan, converted(content.notes.get("plan"), dict, "notes.plan", path), path)
            reports = converted(content.notes.get("reports"), list[self._report], "notes.reports", path)  # type: ignore[name-defined]
            places = node.shards(len(self._shards))
            if not places or [report.shard for report in reports] != [self._shards[place] for place in places]:
                raise ModelFileError("notes.reports: of other shards than the part's name says", "notes.reports", path)
            found[node] = reports, None if content.kind == EMPTY.kind else content._replace(notes={})
        self._kept = set(found)
        return found

    def gather(
        self, engine: Engine, leaves: Sequence[Call], merge: Call | None, clock: Clock, number: int, rows: int = 0,
        skipped: int = 0,
    ) -> tuple[list[Any], Any]:  # fmt: skip
        """Run a round, and report it after each shard; ``rows`` and ``skipped`` are those of earlier rounds.

        Return the reports of all shards, and the merged state.
        """
        gathering = Gathering(engine, leaves, merge)

        def reported(report: Any) -> None:
            known = gathering.reports.values()
            self._keep(gathering)  # save before reporting
            read, bad = (sum(getattr(report, name) for report in known) for name in ("rows", "skipped"))
            clock.report(number, len(known), len(leaves), rows + read, skipped + bad)

        merged = gathering.run(self.saved(), reported)
        reports = [gathering.reports[place] for place in range(len(leaves))]
        return reports, None if merged is None else engine.state(merged)

    def _keep(self, gathering: Gathering) -> None:
        """Write the finished nodes that are not written yet, if the last time is long enough ago."""
        if self._storage is None or time.monotonic() - self._last < self._seconds:
            return
        n = len(gathering.leaves)
        for node, handle in sorted(gathering.ready.items()):
            if node in self._kept:
                continue
            reports = [gathering.reports[place].state() for place in node.shards(n)]
            state = gathering.engine.state(handle) or EMPTY
            self._storage.write(state, {"plan": self._plan, "reports": reports}, self._name(node))
            below = {old for old in self._kept if node.holds(old)}
            self._storage.remove([self._name(old) for old in below])
            self._kept = (self._kept - below) | {node}
        self._last = time.monotonic()

    def drop(self) -> None:
        """The round is merged and written: its parts, and older ones, are of no more use."""
        if self._storage is not None:
            self._storage.remove(self._storage.parts())

    def _name(self, node: Node) -> str:
        return f"{self._round}-{node.level}-{node.place}.part"
