"""Tell people at a terminal why the first learner of its kind takes a few seconds."""

from __future__ import annotations

import sys
from typing import Any

_listening = False


def announce_compilation() -> None:
    """From now on, say so on an interactive terminal when something is compiled; a cached kernel is silent."""
    global _listening
    if _listening or not sys.stderr.isatty():
        return
    _listening = True
    from numba.core import event

    class Announcer(event.Listener):
        said = False

        def on_start(self, occurrence: Any) -> None:
            if not Announcer.said:
                Announcer.said = True
                print("onsketch: compiling for this machine (once; kept on disk) …", file=sys.stderr)

        def on_end(self, occurrence: Any) -> None:
            pass

    event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
