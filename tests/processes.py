"""Processes that end with the block that started them, also when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def started(command: Any, **options: Any) -> Iterator[subprocess.Popen]:
    """Start a process. At the end of the block it is killed if it still runs, waited for, and its pipes are closed."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
