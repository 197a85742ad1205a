"""Row groups of a Parquet file, with bounds on the memory of unpacking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onsketch.core.errors import ReadError
from onsketch.data.text import Limits

BOMB = 1000
"""Ratio of unpacked to packed size above which a part of a file is refused as malicious."""


FEW_ROWS = 256
"""Rows per batch where words cannot be read by dictionary: their encoding repeats long prefixes at no cost."""


def open_parquet(found: Any) -> list[Any]:
    """Open a Parquet file, given as a path or a file object, with dictionaries of words and, as a fallback, without.

    With dictionaries, a long word that many rows share is stored once and not once per row.
    """
    from pyarrow import parquet, types

    plain = parquet.ParquetFile(found)
    words = [
        field.name for field in plain.schema_arrow if types.is_string(field.type) or types.is_large_string(field.type)
    ]
    return [parquet.ParquetFile(found, read_dictionary=words, metadata=plain.metadata), plain] if words else [plain]


def row_groups(path: str, files: list[Any], size: int, groups: range, rows: int, limits: Limits) -> Iterator[Any]:
    """Yield the batches of some row groups. An error names the row group, and the damaged column if known.

    A row group with another number of rows than the footer says is refused, since resuming counts rows by the footer.

    We do not read the columns of the footer: pyarrow aborts the process if their description is damaged or encrypted.

    Args:
        path: name of the file for messages.
        files: the result of ``open_parquet``.
        size: bytes of the file.
        groups: numbers of the row groups.
        rows: rows to a batch, at most.
        limits: limits of reading.
    """
    from pyarrow import ArrowException

    file = files[0]
    for group in groups:
        unpacked = file.metadata.row_group(group).total_byte_size
        if unpacked > limits.unpacking and unpacked > BOMB * size:
            reason = (
                f"row group {group}: a file of {size:,} bytes would unpack to {unpacked:,}, "
                f"more than max_unpack_bytes={limits.unpacking:,}"
            )
            raise ReadError(path, None, None, reason, max_unpack_bytes=limits.unpacking)
        counted, done = file.metadata.row_group(group).num_rows, 0
        try:
            try:
                for batch in file.iter_batches(rows, row_groups=[group]):
                    done += batch.num_rows
                    yield batch
            except (ArrowException, OSError):  # damage, or an encoding without dictionaries
                if file is files[-1]:
                    raise
                file, rows, again = files[-1], min(rows, FEW_ROWS), done
                for batch in file.iter_batches(rows, row_groups=[group]):
                    passed = min(again, batch.num_rows)
                    again -= passed
                    done += batch.num_rows - passed
                    yield batch.slice(passed)
        except (ArrowException, OSError) as error:
            for name in file.schema_arrow.names:
                try:
                    for _ in file.iter_batches(rows, row_groups=[group], columns=[name]):
                        pass
                except (ArrowException, OSError) as reason:
                    damage = f"row group {group}, column {name!r} is damaged ({in_a_line(reason)})"
                    if "decrypt" in damage.lower():
                        damage = f"column {name!r} is encrypted, which cannot be read; write it without encryption"
                    raise ReadError(path, None, None, damage) from None
            raise ReadError(path, None, None, f"row group {group} is damaged ({in_a_line(error)})") from None
        if done != counted:
            short = f"row group {group} is damaged ({done:,} rows instead of the {counted:,} in the footer)"
            raise ReadError(path, None, None, short)


def in_a_line(error: Exception) -> str:
    """Return the text of an error of pyarrow without its line ends.

    >>> in_a_line(OSError(f"Corrupt footer:{chr(10)}  too short."))
    'Corrupt footer: too short'
    """
    return " ".join(str(error).split()).rstrip(".")
