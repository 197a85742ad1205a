"""``onsketch train --describe``: describe the columns of a file and their use, without learning."""

from __future__ import annotations

from typing import Any

from onsketch.cli.console import out, print_rows

_SHOWN = 4
"""Values of a column shown."""


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
        values = block.rows.data.size if isinstance(block.rows, Sparse) else block.rows.size
        console.print(
            f"first {len(block):,} rows: {values / len(block):.1f} values a row, {block.rows.shape[1]:,} columns of X",
            soft_wrap=True,
        )
        met = block.y[block.y == block.y]
        if not met.size:
            console.print("labels: none")
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


def _columns(schema: dict[str, Any], sample: list[list[str]]) -> list[tuple[str, str, str, str]]:
    rows = []
    for k, field in enumerate(schema["fields"]):
        values = list(dict.fromkeys(row[k] for row in sample if len(row) > k and row[k]))[:_SHOWN]
        gaps = sum(1 for row in sample if len(row) > k and not row[k])
        why = field["why"] or (f"{gaps / len(sample):.0%} empty" if gaps else "")
        rows.append((field["name"], field["kind"], ", ".join(value[:16] for value in values), why))
    return rows
