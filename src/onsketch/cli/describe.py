"""``onsketch train --describe``: describe the columns of a file and their use, without learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onsketch.cli.console import out, print_rows

_SHOWN, _LONGEST = 4, 16
"""Values of a column shown, and characters of each."""


def describe(files: list[str], reading: dict[str, Any], task: str | None) -> None:
    """Say how the first rows are understood: format, columns, labels."""
    from onsketch.data import stream
    from onsketch.data.task import find_task, name_of
    from onsketch.data.usable import refuse_nothing
    from onsketch.rows.sparse import Sparse

    console = out()
    with stream(files, **{"everyday": True, "unlabelled": True, **reading}) as blocks:
        block = next(blocks, None)
        if block is None:
            refuse_nothing(files, blocks.skipped, "described")
        schema = blocks.schema
        console.print(f"{', '.join(files)}: {blocks.format}", soft_wrap=True)
        if schema is not None:
            if blocks.format == "csv":
                marks = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar", " ": "blank"}
                header = "names in the first line" if schema["header"] else "no line of names"
                delimiter = marks.get(schema["delimiter"], schema["delimiter"])
                console.print(f"{header}, delimiter {delimiter}, decimal mark {schema['decimal']}", soft_wrap=True)
            console.print("")
            print_rows(console, ("column", "taken for", "first values", "why"), _columns(schema, blocks.sample))
            console.print("")
            console.print("another kind: --numeric, --categorical, --text, --dates or --ignore COLUMN", soft_wrap=True)
        values = block.rows.data.size if isinstance(block.rows, Sparse) else block.rows.size
        console.print(
            f"first {len(block):,} rows: {values / len(block):.1f} features a row that are not 0", soft_wrap=True
        )
        met = block.y[block.y == block.y]
        if not met.size:
            console.print("labels: none; --label names their column")
            return
        meaning = find_task(met, task, reading.get("positive"), blocks.classes)
        console.print(f"labels: {meaning}", soft_wrap=True)
        if meaning.kind == "regression":
            console.print(f"from {met.min():g} to {met.max():g}, mean {met.mean():g}")
        else:
            import numpy as np

            found, counts = np.unique(met, return_counts=True)
            order = counts.argsort()[::-1][:8]
            named = reading.get("positive")
            names = [("other", str(named))[int(v > 0)] if named else name_of(v, blocks.classes) for v in found]
            shown = ", ".join(f"{names[k]} {counts[k] / met.size:.1%}" for k in order)
            console.print(f"shares: {shown}{', …' if found.size > 8 else ''}", soft_wrap=True)


def _columns(schema: dict[str, Any], sample: Mapping[str, Sequence[Any]]) -> list[tuple[str, str, str, str]]:
    """Return a line for each column: name, kind, first values, and why it is of this kind."""
    from onsketch.rows.schema import is_gap, missing_words

    rows, gaps = [], missing_words(schema["na_values"])
    for field in schema["fields"]:
        cells = sample.get(field["name"], ())
        met = [cell for cell in cells if not is_gap(cell, gaps)]
        there = [f"{cell:g}" if isinstance(cell, float) else " ".join(str(cell).split()) for cell in met]
        empty = f"{1 - len(there) / len(cells):.0%} missing" if len(there) < len(cells) else ""
        values = ", ".join(value[:_LONGEST] for value in list(dict.fromkeys(there))[:_SHOWN])
        rows.append((field["name"], field["kind"], values, ", ".join(filter(None, (field["why"], empty)))))
    return rows
