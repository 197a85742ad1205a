"""``onsketch data``: the data sets of the papers, listed, described and fetched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onsketch.cli.console import err, errors_in_one_line, out, print_rows
from onsketch.cli.declaring import FOLDER, Command, flag, option

if TYPE_CHECKING:
    from onsketch.data.catalogue import DataSet, File
    from onsketch.data.download import Advance


@click.group()
def data() -> None:
    """The data sets of the papers."""


_folder = option(
    "--data", "folder", type=FOLDER, show_default="$ONSKETCH_DATA, then the cache", help="Folder of local copies."
)


@data.command("list", cls=Command)
@_folder
def _list(folder: Path | None) -> None:
    """Every set: its size, the papers that use it, and whether it is stored locally."""
    from onsketch.data.catalogue import CATALOGUE, is_at_hand

    rows = []
    for name, entry in CATALOGUE.items():
        here = "yes" if is_at_hand(name, folder) else "no"
        rows.append((name, f"{entry.rows:,}", f"{entry.features:,}", here, ", ".join(entry.papers), entry.note))
    print_rows(out(), ("set", "rows", "features", "at hand", "papers", "what to know"), rows)


@data.command("info", cls=Command)
@click.argument("name")
@_folder
def _info(name: str, folder: Path | None) -> None:
    """Print the addresses, checksums and licence of a set, and where its local copy is."""
    with errors_in_one_line():
        from onsketch.data.catalogue import entry, found

        known = entry(name)
        console = out()
        lines = [
            f"{name}: {known.rows:,} rows, {known.features:,} features",
            f"licence: {known.licence}",
            f"papers: {', '.join(known.papers) or 'none'}",
        ]
        if known.note:
            lines.append(f"note: {known.note}")
        if known.positive is not None:
            shown = ", ".join(f"{label:g}" if isinstance(label, float) else label for label in known.positive)
            lines.append(f"labels that become +1: {shown}")
        for file in known.files:
            path = found(file, folder)
            lines += [
                f"file: {file.address}",
                f"  checksum: {file.checksum or 'none published; noted at the first download'}",
            ]
            lines.append(
                f"  at hand: {path}, {path.stat().st_size:,} bytes, {_compared(path, file, known)}"
                if path
                else "  stored locally: no"
            )
        if known.partial:
            lines.append(
                "local copies may be a part of the set: count their rows before you quote results for all of it"
            )
        for line in lines:
            console.print(line, soft_wrap=True)


@data.command("get", cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@option("--to", "folder", type=FOLDER, show_default="the cache", help="Where the files go.")
@flag("--again", help="Fetch even sets that are stored locally.")
def _get(names: tuple[str, ...], folder: Path | None, again: bool) -> None:
    """Download sets, going on where an earlier attempt stopped, and verify them."""
    with errors_in_one_line():
        from onsketch.data.catalogue import cache, entry

        known = [entry(name) for name in names]
        for one in known:
            _fetch(one, folder or cache(), again)


def _fetch(known: DataSet, folder: Path, again: bool) -> None:
    from onsketch.core.errors import OptionError
    from onsketch.data.catalogue import found
    from onsketch.data.download import fetch, record, recorded

    if known.form == "made":
        raise OptionError(f"{known.name} is made from mnist when it is needed: get mnist.")
    for file in known.files:
        path = found(file, folder)
        if path is not None and not again:
            out().print(f"{known.name}: stored locally, {path}", soft_wrap=True)
            continue
        if file.address.endswith(".html"):
            raise OptionError(f"{known.name}: it cannot be fetched by address; see {file.address}")
        with _bar(file.name) as advance:
            noted = file.checksum or recorded(folder / file.name)
            path = fetch(file.address, folder / file.name, noted, advance, file.size)
        if file.checksum is None:
            record(path)
        out().print(f"{known.name}: {path}, {_compared(path, file, known)}", soft_wrap=True)


def _compared(path: Path, file: File, known: DataSet) -> str:
    """Compare a copy with its checksums, in words."""
    from onsketch.core.errors import InputError
    from onsketch.data.download import content_digest, digest, recorded

    if known.digest is not None:
        from onsketch.data.sets import read, rows_digest

        with suppress(InputError, ValueError):
            if rows_digest(*read(known, [path])) == known.digest:
                return "the same rows as the copy known to work"
        return "not the rows of the copy known here: check them"
    if file.content is not None:
        same = content_digest(path) == file.content
        return "the same as the copy known to work" if same else "not the copy known here: check its rows and features"
    if file.checksum is not None:
        same = digest(path, file.checksum.split(":")[0]) == file.checksum
        return "checksum right" if same else "not the published file (recompressed, or another version)"
    noted = recorded(path)
    if noted is not None:
        same = digest(path, "sha256") == noted
        return "as it was first fetched (no checksum is published)" if same else "changed since it was first fetched"
    return "no checksum is known to compare it with"


@contextmanager
def _bar(name: str) -> Iterator[Advance]:
    """A progress bar, as the function that moves it."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=err()) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size)
