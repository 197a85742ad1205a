"""What the tests of readers share."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onsketch.data import Block, stream

DATA = Path(os.environ.get("ONSKETCH_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

needs_data = pytest.mark.skipif(not (DATA / "MANIFEST.json").exists(), reason="the real data sets are not here")


def blocks(source: Any, **options: Any) -> list[Block]:
    """All blocks of some bytes or a file."""
    return list(stream(io.BytesIO(source) if isinstance(source, bytes) else source, **options))


def together(parts: list[Block]) -> tuple[np.ndarray, np.ndarray]:
    """All rows, dense, and all labels."""
    width = max(part.X.shape[1] for part in parts)
    rows = []
    for part in parts:
        dense = part.X if isinstance(part.X, np.ndarray) else part.X.toarray()
        rows.append(np.pad(dense, ((0, 0), (0, width - dense.shape[1]))))
    return np.vstack(rows), np.concatenate([part.y for part in parts])
