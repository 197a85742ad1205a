"""The folder of a service: snapshots, the log since the last one, and recovery from them.

    lock                               held by the process that writes
    snapshot-NUMBER.model              the model after the first NUMBER records of the log
    snapshot-NUMBER.shadow.model       the second model at the same place, if there is one
    log-NUMBER.rows                    records from NUMBER on
    archive/log-NUMBER.rows            older records, with ``--keep-log``

A snapshot is written to a temporary file and renamed. Only then are older snapshots and segments removed. So the newest
snapshot and all segments after it exist at any moment.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from onsketch.core.errors import OptionError
from onsketch.jobs.serve.batch import Batch
from onsketch.jobs.serve.log import Log, read_log, segments, sync_folder
from onsketch.jobs.serve.model import Model, load_model


class Store:
    """A folder that one process writes."""

    def __init__(self, folder: Path, archive: bool = False) -> None:
        self.folder = folder
        self.archive = folder / "archive" if archive else None
        """Folder to which superseded segments move; None removes them."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise OptionError(f"{folder}: another service is writing this log; each needs its own folder.") from None
        for leftover in folder.glob(".snapshot-*"):
            leftover.unlink(missing_ok=True)

    def newest(self) -> tuple[int, Path] | None:
        """Return the number of records that the newest snapshot covers, and its path; None without a snapshot."""
        found = sorted(self.folder.glob("snapshot-" + "[0-9]" * 16 + ".model"))
        return (int(found[-1].name[9:-6]), found[-1]) if found else None

    def shadow_path(self, number: int) -> Path:
        """Return the path of the second model's snapshot."""
        return self.folder / f"snapshot-{number:016d}.shadow.model"

    def load(self) -> tuple[int, Model, Model | None, dict[str, Any]] | None:
        """The models of the newest snapshot, and its notes; None where the folder is new."""
        newest = self.newest()
        if newest is None:
            if segments(self.folder):
                raise OptionError(f"{self.folder}: has a log but no snapshot; restore the folder from a backup.")
            return None
        number, path = newest
        model, notes = load_model(path)
        shadow = load_model(self.shadow_path(number))[0] if self.shadow_path(number).exists() else None
        return number, model, shadow, notes.get("serve", {})

    def batches(self, number: int, cut_damaged: bool) -> Any:
        """Yield the records since a snapshot as (number of the record, batch), and messages as text."""
        for item in read_log(self.folder, number, cut_damaged):
            yield item if isinstance(item, str) else (item.number, Batch.decode(item.payload))

    def log(self, number: int) -> Log:
        """Return the log, positioned after this record."""
        return Log(self.folder, number)

    def snapshot(self, number: int, model: Model, shadow: Model | None, notes: dict[str, Any]) -> None:
        """Write a snapshot, and remove what it makes superfluous."""
        if shadow is not None:
            shadow.save(self.shadow_path(number), {"serve": {}})
        model.save(self.folder / f"snapshot-{number:016d}.model", {"serve": notes})
        sync_folder(self.folder)
        for path in self.folder.glob("snapshot-*.model"):
            if int(path.name[9:25]) < number:
                path.unlink(missing_ok=True)
        kept = segments(self.folder)
        for (_, path), (following, _) in zip(kept, kept[1:], strict=False):
            if following <= number:
                if self.archive is None:
                    path.unlink(missing_ok=True)
                else:
                    self.archive.mkdir(exist_ok=True)
                    path.rename(self.archive / path.name)

    def close(self) -> None:
        """Let others have the folder."""
        os.close(self._lock)
