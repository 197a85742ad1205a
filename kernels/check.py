"""What the walk's numbers come to, step by step: ``python kernels/check.py FILE`` writes a digest of each to a file.

Where the file is there already, the digests must be the same: a library and the compiler compute the same bits if both
are for the same processor. Says where the machine code came from.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import walk

from onsketch.jit.library import opened
from onsketch.jit.machine_code import chosen


def digest(found: list[object]) -> str:
    """The digest of these numbers."""
    numbers = hashlib.sha256()
    for part in found:
        numbers.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return numbers.hexdigest()[:16]


def main(file: Path, names: list[str]) -> None:
    """Go the walk, and compare."""
    steps = walk.steps()
    digests = {name: digest(steps[name]()) for name in names or steps}
    library = opened() if chosen() != "jit" else None
    compiler = "numba" in sys.modules or "llvmlite" in sys.modules
    where = f"a library of {len(library)} kernels" if library else "no library"
    print(f"{len(digests)} steps with {where}; the compiler was {'' if compiler else 'not '}needed")
    if not file.exists():
        file.write_text(json.dumps(digests, indent=0))
        return
    kept = json.loads(file.read_text())
    wrong = [name for name in digests if digests[name] != kept.get(name, digests[name])]
    if wrong:
        raise SystemExit(f"other numbers than before: {', '.join(wrong)}")
    print("the same bits as before")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
