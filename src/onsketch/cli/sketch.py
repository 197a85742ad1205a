"""``onsketch sketch``: summarise a file by a few directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onsketch.cli.console import errors_in_one_line, out, print_rows
from onsketch.cli.declaring import FILE, command, flag, option, refuse
from onsketch.cli.declaring import files as files_
from onsketch.cli.interrupt import between_blocks, leave
from onsketch.cli.options import reading
from onsketch.cli.outputs import check_outputs, write_page

if TYPE_CHECKING:
    from rich.console import Console


@command(shared=reading())
@files_("Data files; with --merge, saved sketches.")
@option("--kind", default="fast-fd", help="fd, fast-fd, rfd, fast-rfd, cfd, pfd, rp or oja.")
@option("--size", type=click.IntRange(1), default=20, help="Rows of the sketch.")
@option(
    "--n-features", type=click.IntRange(1), show_default="found by reading the file once", help="Width of the rows."
)
@option("--errors", metavar="M,...", help="Compare all kinds at these sizes instead.")
@flag("--merge", help="Merge saved sketches.")
@option("--save", type=FILE, metavar="FILE", help="Write the sketch here.")
@option("--report", type=FILE, metavar="FILE", help="Write a page.")
@option("--cluster", metavar="ADDRESS", help="Every file a shard, on Ray: auto, local or an address.")
@option("--checkpoint", metavar="FILE", help="With --cluster: store unmerged parts next to this file.")
@flag("--resume", help="Go on from the parts that are there.")
def sketch(
    files: list[str], kind: str, size: int, n_features: int | None, errors: str | None, merge: bool, save: Path | None,
    report: Path | None, cluster: str | None, checkpoint: str | None, resume: bool, reading: dict[str, Any],
) -> None:  # fmt: skip
    """Sketch the rows of a file, and show the spectrum captured.

    \b
    Examples:
      onsketch sketch a9a.xz --size 20 --save a9a.sketch
      onsketch sketch --merge day1.sketch day2.sketch --save both.sketch
      onsketch sketch a9a.xz --errors 5,10,20,40 --report errors.html
      onsketch sketch --cluster auto 'shard-*.parquet' --size 50 --save all.sketch
    """  # noqa: D301
    single = errors is None
    refuse((save is not None and not single, "with --errors no single sketch is made to be saved", "--save"))
    check_outputs([] if merge else files, save=save, report=report)
    refuse(
        (cluster is not None and (merge or not single), "it does not go with --merge or --errors", "--cluster"),
        (checkpoint is not None and cluster is None, "it needs --cluster", "--checkpoint"),
        (resume and checkpoint is None, "it needs --checkpoint FILE to resume from", "--resume"),
    )
    console, skipped, interrupted, seen = out(), 0, False, Seen()
    with errors_in_one_line():
        if errors is not None and not merge:
            _compare(console, files, reading, errors, report)
            return
        if merge:
            summary = _merged(files)
        elif cluster is not None:
            keeping = {"cluster": cluster, "checkpoint": checkpoint, "resume": resume}
            summary, skipped = _on_cluster(console, files, reading, kind, size, n_features, keeping)
        else:
            rows = Rows(files, reading)
            summary, interrupted, seen = _sketched(rows, kind, size, n_features, whole=save is not None)
            skipped = rows.skipped
        if skipped:
            console.print(f"{skipped:,} bad lines or rows were skipped", soft_wrap=True)
        if save is not None:
            summary.save(save)
        _show(console, summary, size)
        if save is not None:
            console.print(f"Sketch written to {save}", soft_wrap=True)
        if report is not None:
            from onsketch.report.sketches import sketch_page

            whole = not (merge or cluster is not None or interrupted)
            error = _measured(Rows(files, reading), summary, seen) if whole else None
            page = sketch_page(", ".join(files), summary, seen.names, seen.live, seen.energy, error)
            write_page(console, report, page)
    if interrupted:
        leave(summary.n_rows, "this is the sketch of those")


class Rows:
    """The rows of files that can be sketched, block by block; the others are counted."""

    def __init__(self, files: list[str], reading: dict[str, Any]) -> None:
        self.files, self.reading = files, {"everyday": True, "unlabelled": True, **reading}
        self.skipped = 0
        """Bad lines, and rows too long to be squared."""
        self.names: Mapping[int, str] = {}

    def __iter__(self) -> Iterator[Any]:
        from onsketch.data import stream
        from onsketch.data.usable import usable

        passed_over = 0
        with stream(self.files, **self.reading) as blocks:
            try:
                for block in between_blocks(blocks):
                    kept = usable(block, self.reading.get("on_error") == "skip")
                    passed_over += kept.passed_over
                    yield kept.X
            finally:
                self.skipped, self.names = blocks.skipped + passed_over, dict(blocks.names)


class Seen(NamedTuple):
    """Facts on the rows for a page: their energy, the columns kept (None: all), their width, names of columns."""

    energy: float | None = None
    live: Any = None
    width: int = 0
    names: Mapping[int, str] = {}


MOST_MEASURED = 20_000_000
"""Values of rows that are read once more, to measure the error of a sketch."""


def _measured(rows: Rows, summary: Any, seen: Seen) -> float | None:
    """The error of a sketch, where the rows can be read again and fit into memory."""
    from scipy.sparse import csr_array, vstack

    from onsketch.jobs.plans import rereadable
    from onsketch.sketches.rows import widened
    from onsketch.sketches.study import spectral_error

    if not rereadable(rows.files):
        return None
    parts, held = [], 0
    for X in rows:
        parts.append(csr_array(widened(X, seen.width)))
        held += parts[-1].nnz
        if held > MOST_MEASURED:
            return None
    A = csr_array(vstack(parts))
    return spectral_error(A if seen.live is None else A[:, seen.live], summary)


def _sketched(rows: Rows, kind: str, size: int, n_features: int | None, whole: bool) -> tuple[Any, bool, Seen]:
    """Sketch the rows; return the sketch, True after Ctrl-C, and facts for a page.

    A sketch that is saved has the width of the rows, to be merged with others; else only columns that occur are kept.
    """
    import numpy as np

    from onsketch.core.errors import OptionError
    from onsketch.data.usable import refuse_nothing
    from onsketch.jobs.plans import rereadable
    from onsketch.sketches.named import make
    from onsketch.sketches.rows import widened

    live = None
    if n_features is None:
        if not rereadable(rows.files):
            raise OptionError(
                "standard input and pipes can be read once only; say how wide the rows are: --n-features."
            )
        for X in rows:
            n_features = max(n_features or 0, X.shape[1])
            if not whole and hasattr(X, "indices"):
                live = np.unique(X.indices if live is None else np.concatenate([live, X.indices]))
        if not n_features:
            refuse_nothing(rows.files, rows.skipped, "sketched")
        live = None if live is None or not live.size else live
    summary = make(kind, n_features if live is None else live.size, size)
    interrupted, energy = False, 0.0
    try:
        for X in rows:
            wide = widened(X, n_features)
            energy += float((wide.data**2 if hasattr(wide, "indptr") else wide**2).sum())
            summary.update(wide if live is None else wide.tocsr()[:, live])
    except KeyboardInterrupt:
        interrupted = True
    if not summary.n_rows:
        if interrupted:
            leave(0)
        refuse_nothing(rows.files, rows.skipped, "sketched")
    return summary, interrupted, Seen(energy, live, n_features, rows.names)


def _on_cluster(
    console: Console,
    files: list[str],
    reading: dict[str, Any],
    kind: str,
    size: int,
    width: int | None,
    keeping: dict[str, Any],
) -> tuple[Any, int]:
    """The sketch, and how many lines and rows were skipped."""
    from onsketch.cli.progress import watching
    from onsketch.jobs.cluster import Status
    from onsketch.jobs.cluster import sketch as sketch_on_cluster

    skipped = 0
    with watching(console) as show:

        def watch(status: Status) -> None:
            nonlocal skipped
            skipped = status.skipped
            show(status)

        summary = sketch_on_cluster(files, kind, size, n_features=width, reading=reading, watch=watch, **keeping)
    return summary, skipped


def _merged(files: list[str]) -> Any:
    from onsketch import load
    from onsketch.core.errors import InputError
    from onsketch.sketches import Sketch

    parts = [load(path) for path in files]
    for path, part in zip(files, parts, strict=True):
        if not isinstance(part, Sketch):
            raise InputError(f"{path}: a model, not a sketch.")
    for part in parts[1:]:
        parts[0].merge(part)
    return parts[0]


def _show(console: Console, summary: Any, size: int) -> None:
    from onsketch.cli.inspect import print_spectrum

    console.print(repr(summary), soft_wrap=True)
    if summary.ridge:
        console.print(f"ridge {summary.ridge:g}")
    escaped = getattr(summary, "escaped", None)
    if escaped is not None:
        console.print(f"escaped {escaped:g}: no direction has lost more than this")
    print_spectrum(console, summary, size)


def _compare(console: Console, files: list[str], reading: dict[str, Any], errors: str, report: Path | None) -> None:
    import numpy as np

    from onsketch.data.block import stacked
    from onsketch.data.usable import refuse_nothing
    from onsketch.sketches.study import COMPARED, error_bounds, study

    try:
        sizes = [int(part) for part in errors.split(",")]
    except ValueError:
        raise click.BadParameter(f"expected whole numbers, not {errors!r}", param_hint="--errors") from None
    rows = Rows(files, reading)
    X, _, _ = stacked((part, np.empty(part.shape[0]), None) for part in rows)
    live = np.unique(X.indices)
    width, X = X.shape[1], X[:, live]  # columns that never occur cost time and change nothing
    if not X.shape[0]:
        refuse_nothing(files, rows.skipped, "sketched")
    if rows.skipped:
        console.print(f"{rows.skipped:,} bad lines or rows were skipped", soft_wrap=True)
    about = f"{X.shape[0]:,} rows of {live.size:,} features (of {width:,})"
    console.print(f"‖AᵀA − sketch‖₂ / ‖AᵀA‖₂ over {about}")
    outcomes = []
    with console.status("Sketching") as status:
        for outcome in study(X, sizes):
            outcomes.append(outcome)
            if status is not None:
                status.update(f"Sketched by {outcome.kind}, m = {outcome.size}")
    table = [
        [kind, *(f"{o.relative:.4g}" for o in outcomes if o.kind == kind), ""] for kind in COMPARED
    ]  # the last cell: tables end with text
    print_rows(console, ["sketch", *(f"m = {size}" for size in sizes), ""], table)
    if report is not None:
        from onsketch.report.sketches import errors_page

        write_page(console, report, errors_page(", ".join(files), outcomes, error_bounds(X, sizes), f"{about}."))
