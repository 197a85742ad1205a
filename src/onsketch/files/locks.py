"""Locks of files: one writer for each; the kernel releases a lock when its process dies."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from onsketch.core.errors import InputError


@contextmanager
def held(*paths: str | os.PathLike[str] | None) -> Iterator[None]:
    """Hold the locks of these files, and remove temporary files that a killed run left.

    Raises:
        InputError: another run holds one of them.
    """
    with ExitStack() as all_of_them:
        for target in sorted({Path(path).resolve() for path in paths if path is not None}):
            all_of_them.enter_context(_held(target))
            remove_leftovers(target)
        yield


@contextmanager
def _held(target: Path) -> Iterator[None]:
    lock = target.with_name(f".{target.name}.lock")
    descriptor = _locked(lock)
    if descriptor is None:
        raise InputError(f"{target}: another run is writing it. Wait for that one to end, or give another file.")
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path) -> int | None:
    """Descriptor of the locked file, or None if another process has it."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        if not lock_now(descriptor):
            os.close(descriptor)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                return descriptor
        os.close(descriptor)  # the previous holder has just removed it


def lock_now(descriptor: int) -> bool:
    """Lock an open file unless another process has; systems without such locks allow everyone."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_leftovers(target: Path) -> None:
    """Remove files that a killed run was writing to put them in the place of ``target``; live ones are locked."""
    name = re.compile(re.escape(f".{target.name}.") + "[a-z0-9_]{8}")
    for entry in list(os.scandir(target.parent)):
        if not name.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
            continue
        with suppress(OSError):
            descriptor = os.open(entry.path, os.O_RDWR)
            try:
                if lock_now(descriptor):
                    os.unlink(entry.path)
            finally:
                os.close(descriptor)
