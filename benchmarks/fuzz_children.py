"""Trials in child processes: a crash, a hang or a flood of memory is a finding and not the end."""

from __future__ import annotations

import os
import resource
import signal
import struct
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

SECONDS = 20
"""Allowed for one case."""
MEMORY = 4 << 30
"""Bytes of address space allowed to a child beyond what it has at its start."""

Trial = Callable[[int], str]
"""Try the case of this number and return its result; raise faults."""


def run(name: str, trial: Trial, cases: range) -> tuple[Counter[str], list[str]]:
    """Try all cases; returns how often each outcome came, and the faults in words."""
    found: Counter[str] = Counter()
    faults: list[str] = []
    start = cases.start
    while start < cases.stop:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _child(trial, range(start, cases.stop), writer)
        os.close(writer)
        done, last = _collect(reader, found, faults, name)
        _, status = os.waitpid(child, 0)
        start = cases.stop if done else max(last, start) + 1
        if not done:
            death = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status}"
            faults.append(f"{name}, case {last}: {death}")
            found[f"FAULT {death}"] += 1
    return found, faults


def _child(trial: Trial, cases: range, writer: int) -> None:
    """Try the cases, telling before and after each; never returns."""
    status = 1
    try:
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        statm = Path("/proc/self/statm")
        if statm.exists():
            held = int(statm.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # kills, even in the middle of a compiled loop
        for case in cases:
            os.write(writer, struct.pack("<qi", case, -1))
            signal.alarm(SECONDS)
            try:
                outcome = trial(case)
            except BaseException as error:
                frames = traceback.extract_tb(error.__traceback__)[-3:]
                where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
                outcome = f"FAULT {type(error).__name__}: {str(error)[:120]} ({where})"
            signal.alarm(0)
            text = outcome.encode(errors="replace")[:400]
            os.write(writer, struct.pack("<qi", case, len(text)) + text)
        os.write(writer, struct.pack("<qi", -1, -2))
        status = 0
    finally:
        os._exit(status)


def _collect(reader: int, found: Counter[str], faults: list[str], name: str) -> tuple[bool, int]:
    """Read the output of a child; return True if it finished, and its last case."""
    last = -1
    with os.fdopen(reader, "rb") as told:
        while True:
            head = told.read(12)
            if len(head) < 12:
                return False, last
            case, length = struct.unpack("<qi", head)
            if length == -2:
                return True, last
            last = case
            if length >= 0:
                outcome = told.read(length).decode(errors="replace")
                fault = outcome.startswith("FAULT")
                found[outcome.split(":")[0] if fault else outcome] += 1
                if fault:
                    faults.append(f"{name}, case {case}: {outcome}")
