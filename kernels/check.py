"""Whether the library computes what it did when it was built: every step of the walk, bit for bit.

    python kernels/check.py [STEP ...]

The numbers of each step, as the compiler's machine code came to them, are in the library's list, as a digest. What
NumPy and the C library compute must be the same, too.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable

import numpy as np
import walk

from onsketch.jit.library import opened


def digest(found: Iterable[object]) -> str:
    """The digest of these numbers."""
    numbers = hashlib.sha256()
    for part in found:
        numbers.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return numbers.hexdigest()[:16]


def main(names: list[str]) -> None:
    """Go the walk, and compare."""
    library, steps = opened(), walk.steps()
    if library is None:
        raise SystemExit("kernels: there is no library for this machine.")
    wrong = [name for name in names or steps if digest(steps[name]()) != library.digests[name]]
    if {"numba", "llvmlite"} & sys.modules.keys():
        raise SystemExit("kernels: the library does not have all that the walk needs.")
    if wrong:
        raise SystemExit(f"kernels: other numbers than when the library was built: {', '.join(wrong)}.")
    print(f"kernels: the same bits as when the library was built, in {len(names or steps)} steps")


if __name__ == "__main__":
    main(sys.argv[1:])
