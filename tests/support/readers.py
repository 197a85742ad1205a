"""What the tests of readers share."""

from __future__ import annotations

import io
import lzma
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from checkout import DATA
from onsketch.data import Block, stream

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


def read_libsvm(name: str) -> tuple[csr_array, Any]:
    """A real data set in LIBSVM format, read line by line; the test is skipped where it is missing."""
    path = DATA / f"{name}.xz"
    if not path.exists():
        pytest.skip(f"{path} is missing; set ONSKETCH_DATA to the folder with {name}.xz")
    labels, indices, values, indptr = [], [], [], [0]
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        label, *pairs = line.split()
        labels.append(float(label))
        for pair in pairs:
            feature, value = pair.split(":")
            indices.append(int(feature) - 1)
            values.append(float(value))
        indptr.append(len(indices))
    return csr_array((values, indices, indptr)), np.array(labels)
