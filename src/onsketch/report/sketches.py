"""Page of a sketch: its spectrum, the energy captured, the features of its directions, and its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onsketch.report.page import Page, imprint
from onsketch.report.plots import Curve, curves, spectrum
from onsketch.report.training import made_of
from onsketch.sketches.spectral import row_spectrum

if TYPE_CHECKING:
    from onsketch.sketches.study import Outcome

_DUST = 1e-12


def sketch_page(title: str, summary: Any, names: Mapping[int, str], live: Any = None, energy: float | None = None,
                error: float | None = None) -> str:  # fmt: skip
    """Return the page of one sketch as HTML.

    Args:
        title: name of the sketched data.
        summary: the sketch.
        names: names of columns, as far as they are known.
        live: the columns that the sketch keeps; default: all.
        energy: ‖A‖²_F of the rows, if known.
        error: ‖AᵀA − sketch‖₂, if known.
    """
    page = Page(f"Sketch of {title}").note(imprint())
    matrix = summary.matrix
    values, vectors = row_spectrum(matrix)
    kept = values > _DUST * values.max(initial=0.0)
    values = values[kept]
    directions = (vectors[:, kept].T @ matrix) / np.sqrt(values)[:, None]
    features = np.arange(matrix.shape[1]) if live is None else live
    escaped = getattr(summary, "escaped", None)
    facts = [["sketch", repr(summary)], ["rows absorbed", f"{summary.n_rows:,}"]]
    if energy:
        facts.append(["energy captured", f"{values.sum() / energy:.2%} of ‖A‖² = {energy:.5g}"])
    if summary.ridge:
        facts.append(["ridge", f"{summary.ridge:.5g}"])
    if escaped is not None:
        facts.append(["escaped (Σρ)", f"{escaped:.5g}: no direction has lost more than this"])
    if error is not None:
        facts.append(["error ‖AᵀA − sketch‖₂, measured", f"{error:.5g}"])
    page.table(["", ""], facts)
    if values.size:
        page.heading("Spectrum")
        marks = [(level, name) for level, name in ((summary.ridge, "ridge"), (escaped, "escaped")) if level]
        page.chart(spectrum(values.tolist(), "eigenvalue", marks), "spectrum of the sketch")
        if energy:
            page.heading("Energy captured")
            share = (np.cumsum(values) / energy).tolist()
            line = Curve("first directions together", list(range(1, len(share) + 1)), share)
            page.chart(curves([line], "directions", "share of ‖A‖²", y_range=(0.0, 1.0)), "energy captured")
        page.heading("Directions")
        page.table(*made_of(values, features, directions, names, energy or float(values.sum())))
        numbers = [[str(k), f"{value:.6g}"] for k, value in enumerate(values.tolist(), start=1)]
        page.folded("The numbers", ["direction", "eigenvalue"], numbers)
    return page.html()


def errors_page(title: str, outcomes: Sequence[Outcome], bounds: Mapping[int, float], about: str) -> str:
    """Return the page of several sketches at several sizes: error and its bound against size, and energy captured.

    ``bounds`` maps sizes to the bound of frequent directions on ‖AᵀA − BᵀB‖₂, as a share of ‖AᵀA‖₂.
    """
    kinds, sizes = list(dict.fromkeys(o.kind for o in outcomes)), sorted({o.size for o in outcomes})
    by = {(o.kind, o.size): o for o in outcomes}
    page = Page(f"Sketches of {title}").text(about).note(imprint())
    page.text("The error ‖AᵀA − (BᵀB + ridge·I)‖₂ as a share of ‖AᵀA‖₂, against the size m of the sketch.")
    lines = [Curve(kind, sizes, [max(by[kind, m].relative, 1e-16) for m in sizes]) for kind in kinds]
    if bounds:
        lines.append(Curve("bound of FD", sizes, [bounds[m] for m in sizes], reference=True))
    page.chart(curves(lines, "sketch size m", "relative error", log_y=True), "error against sketch size")
    page.note("The bound of FD: ‖A − A_k‖²_F/(m − k) for the best k < m; robust frequent directions keep half of it.")
    table = [[kind, *(f"{by[kind, m].relative:.4g}" for m in sizes)] for kind in kinds]
    if bounds:
        table.append(["bound of FD", *(f"{bounds[m]:.4g}" for m in sizes)])
    page.table(["sketch", *(f"m = {m}" for m in sizes)], table)
    page.heading("Energy captured")
    lines = [Curve(kind, sizes, [by[kind, m].captured for m in sizes]) for kind in kinds]
    page.chart(curves(lines, "sketch size m", "share of ‖A‖²"), "energy captured against sketch size")
    cells = [[kind, *(f"{by[kind, m].captured:.2%}" for m in sizes)] for kind in kinds]
    page.folded("The numbers", ["sketch", *(f"m = {m}" for m in sizes)], cells)
    return page.html()
