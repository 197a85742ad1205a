"""Available memory, checked before an allocation that would fail, or get the process killed, later on."""

from __future__ import annotations

import os

from onsketch.core.errors import InputError


def refuse_beyond_memory(numbers: int, what: str) -> None:
    """Refuse to make room for so many float64 where the machine has no such memory at all.

    >>> refuse_beyond_memory(1 << 50, "weights")
    Traceback (most recent call last):
    ...
    onsketch.core.errors.InputError: weights: they would take 9,007,199.3 GB, more than this machine has.
    """
    if 8 * numbers > _physical():
        raise InputError(f"{what}: they would take {8e-9 * numbers:,.1f} GB, more than this machine has.")


def _physical() -> int:
    """Bytes of memory; where the system does not tell, as many as no machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 46
