"""Available memory, checked before an allocation that would fail, or get the process killed, later on."""

from __future__ import annotations

import os

from onsketch.core.errors import InputError


def refuse_beyond_memory(numbers: int, what: str) -> None:
    """Refuse an allocation of so many float64 that exceeds the memory of the machine.

    >>> refuse_beyond_memory(1 << 50, "weights")
    Traceback (most recent call last):
    ...
    onsketch.core.errors.InputError: weights: they would take 9,007,199.3 GB, more than this machine has.
    """
    if 8 * numbers > _physical():
        raise InputError(f"{what}: they would take {8e-9 * numbers:,.1f} GB, more than this machine has.")


def _physical() -> int:
    """Return the bytes of memory; a huge number if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 46
