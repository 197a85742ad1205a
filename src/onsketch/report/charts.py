"""Charts as SVG that takes its ink from the page around it, so that one file reads well in light and dark.

Every method has one colour wherever it appears. Lines are labelled at their ends.
"""

from __future__ import annotations

import io
import math
import re
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

_INK = "#010203"
"""Drawn in this colour, then replaced by the page's own."""

_PALETTE = (
    "#3b82c4", "#e07b39", "#3c9d63", "#c9504f", "#8a6fc0", "#9a7b4f", "#d277ad", "#7f8a94", "#b0a52c", "#2fa5ad",
)  # fmt: skip

_OWN = {
    "rfd-son": "#3b82c4", "adagrad": "#e07b39", "oja-son": "#3c9d63", "ogd": "#c9504f", "fd-son": "#8a6fc0",
    "ada-ffd": "#9a7b4f", "auto": "#d277ad", "adam": "#7f8a94", "ada-fd": "#b0a52c", "rp-son": "#2fa5ad",
    "radagrad": "#d6568f", "ada-full": "#5b6ee1", "ada-lr": "#6aa84f", "ada-gp": "#12806a", "ada-dp": "#b5651d",
    "pfd-son": "#c23fc2", "cfd-son": "#a3a02b", "ons": "#8c3b3b", "s-adagrad": "#4d9bd6", "kons": "#3b82c4",
    "kernel-ogd": "#c9504f", "sketched-kons": "#e07b39", "pros-n-kons": "#3c9d63",
    "rfd": "#3b82c4", "fd": "#8a6fc0", "cfd": "#a3a02b", "pfd": "#c23fc2", "oja": "#3c9d63",
}  # fmt: skip
"""Methods that are seen together have colours of their own; a sketch has that of its learner."""


_DASHES = ("-", "--", ":", "-.")
"""Lines of the same colour in one picture differ by these."""


class Line(NamedTuple):
    """One curve: its name, where it goes, and half-widths of its uncertainty if known."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None


def colour(name: str) -> str:
    """The colour of a method, the same in every picture; what follows a comma is a variant of it.

    >>> colour("rfd-son") == colour("rfd-son, m = 5") != colour("adagrad")
    True
    """
    name = name.split(",", maxsplit=1)[0]
    return _OWN.get(name) or _PALETTE[sum(name.encode()) % len(_PALETTE)]


def pyplot() -> Any:
    """Matplotlib without a screen, or a message that says how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("pictures need Matplotlib: pip install 'onsketch[plot]'") from None
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "onsketch", "font.family": "sans-serif", "font.size": 10,
        "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": _INK, "axes.labelcolor": _INK,
        "text.color": _INK, "xtick.color": _INK, "ytick.color": _INK, "axes.titlesize": 11, "legend.frameon": False,
    })  # fmt: skip
    return plt


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, *, log_x: bool = False, log_y: bool = False) -> str:
    """Curves over a common axis, labelled at their right ends."""
    figure, axes = pyplot().subplots(figsize=(7.2, 4.0), layout="constrained")
    styles = _styles(lines)
    for line, dashes in zip(lines, styles, strict=True):
        ink = colour(line.name)
        marker = "o" if len(line.x) == 1 else None
        axes.plot(line.x, line.y, color=ink, linewidth=1.6, linestyle=dashes, marker=marker)
        if line.spread is not None:
            low = [y - s for y, s in zip(line.y, line.spread, strict=True)]
            high = [y + s for y, s in zip(line.y, line.spread, strict=True)]
            axes.fill_between(line.x, low, high, color=ink, alpha=0.2, linewidth=0)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    _zoom(axes, lines, log_y)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.15, color=_INK)
    _name_ends(axes, lines, styles)
    return _svg(figure)


def point_chart(lines: Sequence[Line], x_label: str, y_label: str) -> str:
    """Named points of two errors against each other; below the diagonal the second is the smaller."""
    figure, axes = pyplot().subplots(figsize=(7.2, 6.0), layout="constrained")
    for number, line in enumerate(sorted(lines, key=lambda line: line.x[0])):
        ink = colour(line.name)
        axes.plot(line.x, line.y, "o", color=ink, markersize=5)
        place = {"xytext": (6, -9), "ha": "left"} if number % 2 else {"xytext": (-6, 5), "ha": "right"}
        axes.annotate(line.name, xy=(line.x[0], line.y[0]), textcoords="offset points", color=ink, fontsize=8, **place)
    most = max((value for line in lines for value in (*line.x, *line.y)), default=1.0)
    axes.plot([0.0, 1.1 * most], [0.0, 1.1 * most], color=_INK, linewidth=0.8, linestyle="--")
    axes.set_xlim(-0.08 * most, 1.1 * most)
    axes.set_ylim(-0.02 * most, 1.1 * most)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.15, color=_INK)
    return _svg(figure)


def standalone(svg: str) -> str:
    """The chart as a file of its own, whose ink follows the reader's light or dark setting."""
    style = "svg { color: #1d2329 } @media (prefers-color-scheme: dark) { svg { color: #e4e7ea } }"
    return svg.replace(">", f"><style>{style}</style>", 1) + "\n"


def _styles(lines: Sequence[Line]) -> list[str]:
    """Dashes that tell lines of the same colour apart."""
    inks = [colour(line.name) for line in lines]
    return [_DASHES[inks[:k].count(ink) % len(_DASHES)] for k, ink in enumerate(inks)]


def _zoom(axes: Any, lines: Sequence[Line], log_y: bool) -> None:
    """Show the course after the first few points, which are noise many times as high."""
    settled = [value for line in lines for value in list(line.y)[len(line.y) // 20 :] if math.isfinite(value)]
    if not settled:
        return
    low, high = min(settled), max(settled)
    if log_y:
        axes.set_ylim(low / 1.1 if low > 0 else None, high * 1.1)
    else:
        pad = 0.06 * (high - low) or 0.05 * abs(high) or 0.05
        axes.set_ylim(low - pad, high + pad)


def _name_ends(axes: Any, lines: Sequence[Line], styles: Sequence[str]) -> None:
    """Names beside the last points, moved apart where they would overlap; dashed lines with a sample of the dashes."""
    shown = [k for k, line in enumerate(lines) if len(line.y) and math.isfinite(line.y[-1])]
    ends = [(lines[k], lines[k].y[-1]) for k in shown]
    dashes = [styles[k] for k in shown]
    axes.figure.canvas.draw()
    height = axes.bbox.height
    places = [(axes.transData.transform((line.x[-1], y))[1] - axes.bbox.y0) / height for line, y in ends]
    gap = 13.0 / height * axes.figure.dpi / 72.0
    upward = sorted(range(len(ends)), key=places.__getitem__)
    least = -math.inf
    for k in upward:
        places[k] = max(places[k], least)
        least = places[k] + gap
    most = 1.0
    for k in reversed(upward):
        places[k] = min(places[k], most)
        most = places[k] - gap
    for (line, _), place, style in zip(ends, places, dashes, strict=True):
        ink, left = colour(line.name), 1.01
        if len(set(dashes)) > 1:
            sample = {"color": ink, "linestyle": style, "linewidth": 1.6, "transform": axes.transAxes}
            axes.plot([left, left + 0.035], [place, place], clip_on=False, scalex=False, scaley=False, **sample)
            left += 0.045
        axes.annotate(
            line.name, xy=(left, place), xycoords="axes fraction", va="center", color=ink, fontsize=9,
            annotation_clip=False,
        )  # fmt: skip


def _svg(figure: Any) -> str:
    """The figure as an SVG element whose ink is ``currentColor``."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    pyplot().close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # ids must be unique within a page of several charts
    salt = f"c{zlib.crc32(text.encode())}"
    text = re.sub(r'(id="|url\(#|href="#)([\w.-]+)', rf"\g<1>{salt}-\g<2>", text)
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'class="chart"', text, count=1)
