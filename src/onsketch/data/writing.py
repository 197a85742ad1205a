"""Writing of rows to files that ``stream`` reads back exactly: numbers keep all digits they need."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.data.sniff import by_name

_SPECIAL = set(" \t\n\v\f\r:|")


def write(
    path: str | os.PathLike[str],
    X: Any,
    y: Any,
    *,
    format: str | None = None,
    sample_weight: Any = None,
    tags: Iterable[str] | None = None,
    names: Iterable[str] | None = None,
) -> None:
    """Write rows with their labels; the name determines format and compression (gz, xz, bz2), as for reading.

    Zeros of X are left out of LIBSVM and VW files. A VW file has one unnamed namespace. Tables get a header: ``label``,
    then ``weight`` and ``tag`` where given, then the features, ``x0``, ``x1``, ... unless named. Written row by row
    in Python: for examples, tests and small files.

    Args:
        path: the file, which is replaced.
        X: (rows, features), an array or a SciPy sparse matrix.
        y: labels, one per row.
        format: libsvm, vw, csv, parquet or arrow; default: by the name.
        sample_weight: one per row (not LIBSVM).
        tags: names of rows (not LIBSVM).
        names: names of the features (not LIBSVM).
    """
    name = os.fspath(path)
    form = format or by_name(name)
    if form not in _WRITERS:
        raise OptionError(f"write: cannot detect the format of {name!r}; give format= one of {', '.join(_WRITERS)}.")
    if form == "libsvm" and not (sample_weight is None and tags is None and names is None):
        raise OptionError("write: LIBSVM files have no place for weights, tags or names.")
    sparse = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
    rows, width = sparse.shape
    columns = [f"x{k}" for k in range(width)] if names is None else list(names)
    heads = [np.asarray(y, dtype=np.float64)]
    if sample_weight is not None:
        heads.append(np.asarray(sample_weight, dtype=np.float64))
    words = None if tags is None else list(tags)
    if (
        any(head.shape != (rows,) for head in heads)
        or (words is not None and len(words) != rows)
        or len(columns) != width
    ):
        raise InputError("write: X, y, sample_weight, tags and names do not fit together.")
    _WRITERS[form](name, sparse, heads, words, columns if names is not None or form not in ("libsvm", "vw") else None)


def _open_text(name: str) -> TextIO:
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    opener = openers.get(os.path.splitext(name)[1], open)
    return cast(TextIO, opener(name, "wt", encoding="utf-8", newline=""))


def _entries(X: Any) -> Iterator[list[tuple[int, float]]]:
    """Yield the non-zeros of each row."""
    for k in range(X.shape[0]):
        if isinstance(X, np.ndarray):
            columns = np.flatnonzero(X[k])
            values = X[k, columns]
        else:
            part = slice(X.indptr[k], X.indptr[k + 1])
            columns, values = X.indices[part], X.data[part]
            columns, values = columns[values != 0], values[values != 0]
        yield list(zip(columns.tolist(), values.tolist(), strict=True))


def _write_libsvm(name: str, X: Any, heads: list[Any], tags: Any, columns: Any) -> None:
    with _open_text(name) as file:
        for label, entries in zip(heads[0].tolist(), _entries(X), strict=True):
            file.write(" ".join([_shortest(label), *(f"{k}:{_shortest(v)}" for k, v in entries)]) + "\n")


def _write_vw(name: str, X: Any, heads: list[Any], tags: list[str] | None, columns: list[str] | None) -> None:
    for word in [*(tags or ()), *(columns or ())]:
        if _SPECIAL & set(word) or not word.isprintable():
            raise InputError(f"write: {word!r} cannot be a name or tag in a VW file: it has a space, colon or bar.")
    with _open_text(name) as file:
        for k, entries in enumerate(_entries(X)):
            head = " ".join(_shortest(float(column[k])) for column in heads)
            tag = f" '{tags[k]}" if tags is not None and tags[k] else " "
            features = "".join(f" {j if columns is None else columns[j]}:{_shortest(v)}" for j, v in entries)
            file.write(f"{head}{tag}|{features}\n")


def _table(X: Any, heads: list[Any], tags: list[str] | None, columns: list[str] | None) -> dict[str, Any]:
    dense: NDArray[np.float64] = X if isinstance(X, np.ndarray) else X.toarray()
    table: dict[str, Any] = dict(zip(("label", "weight"), heads, strict=False))
    if tags is not None:
        table["tag"] = tags
    for k, column in enumerate(columns or ()):
        if column in table:
            raise InputError(f"write: two columns are named {column!r}.")
        table[column] = np.ascontiguousarray(dense[:, k])
    return table


def _write_csv(name: str, X: Any, heads: list[Any], tags: Any, columns: Any) -> None:
    import csv

    table = _table(X, heads, tags, columns)
    with _open_text(name) as file:
        writer = csv.writer(file, delimiter="\t" if ".tsv" in os.path.basename(name) else ",", lineterminator="\n")
        writer.writerow(table)
        parts = [part if isinstance(part, list) else map(_shortest, part.tolist()) for part in table.values()]
        writer.writerows(zip(*parts, strict=True))


def _write_arrow(name: str, X: Any, heads: list[Any], tags: Any, columns: Any) -> None:
    from onsketch.rows.arrays import import_pyarrow

    pyarrow = import_pyarrow()
    table = pyarrow.table(_table(X, heads, tags, columns))
    with pyarrow.OSFile(name, "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _write_parquet(name: str, X: Any, heads: list[Any], tags: Any, columns: Any) -> None:
    from onsketch.rows.arrays import import_pyarrow

    pyarrow = import_pyarrow()
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(_table(X, heads, tags, columns)), name)


def _shortest(value: float) -> str:
    """Return the shortest text that reads back as this number."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


_WRITERS: dict[str, Any] = {
    "libsvm": _write_libsvm,
    "vw": _write_vw,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}
