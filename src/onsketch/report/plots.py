"""Charts as SVG, without a drawing library: in the colours of the page around them, with values on hover.

Every method has one colour in all charts. Pages show the numbers of a chart in a table that can be opened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 340, 66, 14, 30, 40
INKS = ("#3b82c4", "#e07b39", "#3c9d63", "#c9504f", "#8a6fc0", "#9a7b4f", "#d277ad", "#7f8a94", "#b0a52c", "#2fa5ad")
_OWN = {
    "rfd-son": "#3b82c4", "adagrad": "#e07b39", "oja-son": "#3c9d63", "ogd": "#c9504f", "fd-son": "#8a6fc0",
    "ada-ffd": "#9a7b4f", "auto": "#d277ad", "adam": "#7f8a94", "ada-fd": "#b0a52c", "rp-son": "#2fa5ad",
    "radagrad": "#d6568f", "ada-full": "#5b6ee1", "ada-lr": "#6aa84f", "ada-gp": "#12806a", "ada-dp": "#b5651d",
    "pfd-son": "#c23fc2", "cfd-son": "#a3a02b", "ons": "#8c3b3b", "s-adagrad": "#4d9bd6", "kons": "#3b82c4",
    "kernel-ogd": "#c9504f", "sketched-kons": "#e07b39", "pros-n-kons": "#3c9d63",
    "rfd": "#3b82c4", "fd": "#8a6fc0", "cfd": "#a3a02b", "pfd": "#c23fc2", "oja": "#3c9d63",
}  # fmt: skip
"""Colours of methods that are compared often; a sketch has the colour of its learner."""
_DASHES = ("", "8 4", "2 3", "8 3 2 3")
"""Dash patterns of curves of the same colour in one chart."""
_HOVERED = 60
"""Points of a curve that show their values on hover."""
_STEEP = 20.0
"""Ratio of the largest to the smallest loss above which the scale is logarithmic."""

STYLE = """
svg.plot text { font: 12px system-ui, sans-serif; fill: currentColor; } svg.plot .soft { fill: var(--soft); }
svg.plot .axis, svg.plot .mark { stroke: var(--soft); stroke-width: 1; } svg.plot .mark { stroke-dasharray: 2 3; }
svg.plot .grid { stroke: var(--line); stroke-width: .7; }
svg.plot .hover { opacity: 0; } svg.plot .hover:hover { opacity: 1; }
"""


_ABREAST = 3
"""Names in a row of a legend."""


class Curve(NamedTuple):
    """Curve: its name, its points, half-widths of its uncertainty if known; references are dashed."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    reference: bool = False
    spread: Sequence[float] | None = None


def colour(name: str) -> str | None:
    """Return the colour of a method, None for other names; what follows a comma is a variant of it.

    >>> colour("rfd-son") == colour("rfd-son, m = 5") != colour("adagrad")
    True
    """
    return _OWN.get(name.split(",", maxsplit=1)[0])


def steep(lines: Sequence[Curve]) -> bool:
    """True if the values are positive and too far apart for a linear scale.

    >>> steep([Curve("loss", [1, 2], [0.5, 80.0])]), steep([Curve("error", [1, 2], [0.0, 1.0])])
    (True, False)
    """
    values = [v for line in lines for v in line.y if math.isfinite(v)]
    return bool(values) and min(values) > 0.0 and max(values) > _STEEP * min(values)


def curves(
    lines: Sequence[Curve],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Draw curves over common axes that hold all their points, with a legend; ``marks`` are named vertical lines.

    >>> curves([Curve("loss", [1, 10], [0.5, 0.25])], "rows", "loss", log_x=True).count("<polyline")
    1
    """
    across = x_range or _range([v for line in lines for v in line.x], log_x)
    bands = [_band(line) for line in lines]
    if log_y:
        lines = [line._replace(y=_logs(line.y)) for line in lines]
        bands = [(_logs(low), _logs(high)) for low, high in bands]
    values = [v for line, band in zip(lines, bands, strict=True) for part in (line.y, *band) for v in part]
    upward = y_range or _range(values, False, pad=0.05)
    if log_y:
        upward = math.floor(upward[0]), math.ceil(upward[1])

    def place(x: float, y: float) -> tuple[float, float]:
        return _along(x, across, log_x), _up(y, upward)

    parts = [_axes(across, upward, x_label, y_label, log_x, powers=log_y)]
    for at, name in marks:
        x = _along(at, across, log_x)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="mark"/>')
        parts.append(f'<text x="{x + 3:.1f}" y="{TOP + 10}" class="soft">{escape(name)}</text>')
    used: list[str] = []
    for k, (line, (low, high)) in enumerate(zip(lines, bands, strict=True)):
        ink = "currentColor" if line.reference else colour(line.name) or INKS[len(used) % len(INKS)]
        dash = ' stroke-dasharray="5 4" opacity=".6"' if line.reference else ""
        if not line.reference:
            dashes = _DASHES[used.count(ink) % len(_DASHES)]
            dash = f' stroke-dasharray="{dashes}"' if dashes else ""
            used.append(ink)
        edge = [*zip(line.x, high, strict=False), *reversed([*zip(line.x, low, strict=False)])]
        if path := _path(edge, place):
            parts.append(f'<polygon points="{path}" fill="{ink}" opacity=".2"/>')
        path = _path(zip(line.x, line.y, strict=True), place)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="1.8"{dash}/>')
        if not line.reference:
            parts.append(_hovers(line, place, ink, log_y))
        parts.append(_legend(k, line.name, ink, len(lines), dash))
    return _svg("".join(parts), above=18 * ((len(lines) - 1) // _ABREAST))


def points(
    places: Sequence[tuple[str, float, float, str]], x_label: str, y_label: str, *, log_x: bool = False,
    diagonal: bool = False,
) -> str:  # fmt: skip
    """Draw named points: name, x, y, and the text on hover; with a diagonal both axes are equal and start at 0."""
    across = _range([x for _, x, _, _ in places], log_x)
    across = (across[0] / 1.3, across[1] * 1.3) if log_x else across
    upward = _range([y for _, _, y, _ in places], False, pad=0.12)
    if diagonal:
        across = upward = 0.0, 1.1 * max(across[1], upward[1])
    parts = [_axes(across, upward, x_label, y_label, log_x)]
    if diagonal:
        parts.append(f'<line x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - RIGHT}" y2="{TOP}" class="mark"/>')
    named: list[tuple[float, float]] = []
    for k, (name, x, y, tooltip) in enumerate(places):
        at, up, ink = _along(x, across, log_x), _up(y, upward), colour(name) or INKS[k % len(INKS)]
        side = (-8, "end") if at > 0.7 * WIDTH else (8, "start")
        line = up + 4.0
        while any(abs(line - other) < 16.0 and abs(at - there) < 180.0 for there, other in named):
            line -= 4.0  # keep names from overlapping
        named.append((at, line))
        parts.append(
            f'<g><title>{escape(tooltip)}</title><circle cx="{at:.1f}" cy="{up:.1f}" r="5" fill="{ink}"/>'
            f'<text x="{at + side[0]:.1f}" y="{line:.1f}" text-anchor="{side[1]}">{escape(name)}</text></g>'
        )
    return _svg("".join(parts))


def whiskers(rows: Sequence[tuple[str, float, float, str]], label: str, reference: float) -> str:
    """Draw a point with its uncertainty for each name: name, value, half the width of the bar, text on hover."""
    height = 24 * len(rows) + 44
    left = min(260, 14 + 11 * max((len(name) for name, _, _, _ in rows), default=0))
    ends = [v + side * (half if math.isfinite(half) else 0.0) for _, v, half, _ in rows for side in (-1, 1)]
    low, high = _range([*ends, reference], False, pad=0.05)

    def place(value: float) -> float:
        return left + (value - low) / (high - low) * (WIDTH - RIGHT - left)

    parts = [f'<line x1="{place(reference):.1f}" x2="{place(reference):.1f}" y1="4" y2="{height - 40}" class="mark"/>']
    for value in _ticks(low, high):
        x = place(value)
        parts.append(f'<text x="{x:.1f}" y="{height - 24}" text-anchor="middle" class="soft">{_fast(value)}</text>')
    for k, (name, value, half, tooltip) in enumerate(rows):
        y = 16 + 24 * k
        reach = half if math.isfinite(half) else 0.0
        parts.append(
            f'<g><title>{escape(tooltip)}</title><line x1="{place(value - reach):.1f}" x2="{place(value + reach):.1f}" '
            f'y1="{y}" y2="{y}" stroke="{INKS[0]}" stroke-width="3"/>'
            f'<circle cx="{place(value):.1f}" cy="{y}" r="5" fill="{INKS[0]}"/>'
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text></g>'
        )
    parts.append(f'<text x="{WIDTH / 2}" y="{height - 6}" text-anchor="middle" class="soft">{escape(label)}</text>')
    return _svg("".join(parts), height)


def bars(values: Sequence[tuple[str, float, str]], label: str) -> str:
    """Draw horizontal bars, signed: name, length, and text on hover."""
    height = 22 * len(values) + 40
    left = min(320, 14 + 8.5 * max((len(name) for name, _, _ in values), default=0))
    most = max((abs(value) for _, value, _ in values), default=1.0) or 1.0
    negative = any(value < 0.0 for _, value, _ in values)
    zero = left + ((WIDTH - left - RIGHT) / 2 if negative else 0)
    reach = (WIDTH - RIGHT - zero - 60) / most
    parts = []
    for k, (name, value, tooltip) in enumerate(values):
        y, length = 8 + 22 * k, abs(value) * reach
        x = zero if value >= 0 else zero - length
        ink = INKS[0] if value >= 0 else INKS[1]
        shown = name if len(name) <= 40 else name[:39] + "…"
        parts.append(
            f'<g><title>{escape(tooltip)}</title><rect x="{x:.1f}" y="{y}" width="{max(length, 0.5):.1f}" height="15" '
            f'fill="{ink}"/><text x="{left - 6}" y="{y + 12}" text-anchor="end">{escape(shown)}</text></g>'
        )
    parts.append(f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="4" y2="{height - 34}" class="axis"/>')
    parts.append(f'<text x="{WIDTH / 2}" y="{height - 10}" text-anchor="middle" class="soft">{escape(label)}</text>')
    return _svg("".join(parts), height)


def spectrum(values: Sequence[float], label: str, marks: Sequence[tuple[float, str]] = ()) -> str:
    """Draw values in descending order on a logarithmic scale, with levels marked."""
    shown = [v for v in values if v > 0.0] or [1.0]
    lowest = min([shown[-1], *(v for v, _ in marks if v > 0.0)])
    low, high = math.floor(math.log10(lowest)), math.ceil(math.log10(shown[0]) + 1e-9)
    span = (low, max(high, low + 1))
    across, step = (0.5, len(shown) + 0.5), (WIDTH - LEFT - RIGHT) / len(shown)
    parts = [_axes(across, span, "direction", label, False, powers=True)]
    for k, value in enumerate(shown, start=1):
        y, x = _up(math.log10(value), span), _along(k, across, False) - 0.4 * step
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{0.8 * step:.1f}" height="{HEIGHT - BOTTOM - y:.1f}" '
            f'fill="{INKS[0]}"><title>direction {k}: {value:.5g}</title></rect>'
        )
    for value, name in marks:
        if value > 0.0:
            y = _up(math.log10(value), span)
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="mark"/>')
            parts.append(f'<text x="{WIDTH - RIGHT}" y="{y - 4:.1f}" text-anchor="end">{escape(name)}</text>')
    return _svg("".join(parts))


def matrix(names: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """Draw a table of counts, each cell shaded by its share of the row."""
    head = "".join(f"<th class=n>{escape(name)}</th>" for name in names)
    body = []
    for name, row in zip(names, rows, strict=True):
        total = sum(row) or 1.0
        cells = "".join(
            f'<td class=n style="background:color-mix(in srgb, #3b82c4 {100 * v / total * 0.6:.0f}%, transparent)" '
            f'title="{v / total:.1%} of the rows of {escape(name)}">{v:,.0f}</td>'
            for v in row
        )
        body.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return f'<div class="scroll"><table><tr><th>class \\ said</th>{head}</tr>{"".join(body)}</table></div>'


def _hovers(line: Curve, place: Callable[[float, float], tuple[float, float]], ink: str, log_y: bool = False) -> str:
    """Draw points that show their values on hover."""
    stride = max(1, math.ceil(len(line.x) / _HOVERED))
    chosen = sorted({*range(0, len(line.x), stride), len(line.x) - 1} if len(line.x) else set())
    parts = []
    for k in chosen:
        if math.isfinite(line.y[k]):
            x, y = place(line.x[k], line.y[k])
            value = 10.0 ** line.y[k] if log_y else line.y[k]
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{ink}" class="hover">'
                f"<title>{escape(line.name)}: {value:.5g} at {_fast(line.x[k])}</title></circle>"
            )
    return "".join(parts)


def _band(line: Curve) -> tuple[list[float], list[float]]:
    """Return the lower and upper edge of a curve's uncertainty."""
    pairs = list(zip(line.y, line.spread or (), strict=False))
    return [y - s for y, s in pairs], [y + s for y, s in pairs]


def _logs(values: Sequence[float]) -> list[float]:
    return [math.log10(v) if v > 0.0 else math.nan for v in values]


def _path(points: Iterable[tuple[float, float]], place: Callable[[float, float], tuple[float, float]]) -> str:
    return " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in points if math.isfinite(y))


def _legend(k: int, name: str, ink: str, count: int, dash: str) -> str:
    x, y = LEFT + 213 * (k % _ABREAST), 16 - 18 * ((count - 1) // _ABREAST - k // _ABREAST)
    return (
        f'<line x1="{x}" x2="{x + 20}" y1="{y - 4}" y2="{y - 4}" stroke="{ink}" stroke-width="3"{dash}/>'
        f'<text x="{x + 26}" y="{y}">{escape(name)}</text>'
    )


def _axes(
    across: tuple[float, float],
    upward: tuple[float, float],
    x_label: str,
    y_label: str,
    log_x: bool,
    powers: bool = False,
) -> str:
    floor = HEIGHT - BOTTOM
    parts = [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}" class="axis"/>']
    ticks = _decades(*across) if log_x else _ticks(*across)
    for value in ticks:
        x = _along(value, across, log_x)
        parts.append(f'<text x="{x:.1f}" y="{floor + 16}" text-anchor="middle" class="soft">{_fast(value)}</text>')
    for value in [float(v) for v in range(int(upward[0]), int(upward[1]) + 1)] if powers else _ticks(*upward):
        y = _up(value, upward)
        shown = f"1e{value:.0f}" if powers else _fast(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" class="soft">{shown}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 6}" text-anchor="middle" class="soft">{escape(x_label)}</text>'
    )
    middle = (TOP + floor) / 2
    turned = f'transform="translate(13 {middle}) rotate(-90)" text-anchor="middle" class="soft"'
    parts.append(f"<text {turned}>{escape(y_label)}</text>")
    return "".join(parts)


def standalone(svg: str) -> str:
    """Return the chart as a file of its own, whose ink follows the reader's light or dark setting."""
    light, dark = "color: #1d2329; --soft: #5d6873; --line: #d8dde2", "color: #e4e7ea; --soft: #9aa5b0; --line: #343b42"
    style = f"svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}{STYLE}"
    return svg.replace(">", f"><style>{style}</style>", 1) + "\n"


def _svg(inside: str, height: float = HEIGHT, above: float = 0) -> str:
    box = f"0 {-above} {WIDTH} {height + above}"
    return f'<svg class="chart plot" viewBox="{box}" xmlns="http://www.w3.org/2000/svg">{inside}</svg>'


def _along(x: float, across: tuple[float, float], log: bool) -> float:
    low, high = (math.log(v) for v in across) if log else across
    share = ((math.log(max(x, 1e-300)) if log else x) - low) / ((high - low) or 1.0)
    return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)


def _up(y: float, upward: tuple[float, float]) -> float:
    share = (y - upward[0]) / ((upward[1] - upward[0]) or 1.0)
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def _range(values: Sequence[float], log: bool, pad: float = 0.0) -> tuple[float, float]:
    kept = [v for v in values if math.isfinite(v) and (v > 0.0 or not log)] or [1.0]
    low, high = min(kept), max(kept)
    if low == high:
        return (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    return low - pad * (high - low), high + pad * (high - low)


def _ticks(low: float, high: float) -> list[float]:
    """Return four to eight round values within a range."""
    raw = (high - low) / 5 or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next((size * k for k in (1, 2, 5) if size * k >= raw), size * 10)
    first = math.ceil(low / step)
    return [step * k for k in range(first, first + 12) if step * k <= high + 1e-9 * step]


def _decades(low: float, high: float) -> list[float]:
    tens = [10.0**k for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    return tens if len(tens) > 1 else _ticks(low, high)


def _fast(value: float) -> str:
    """Format a number shortly enough for an axis.

    >>> _fast(250000.0), _fast(0.125), _fast(2e6)
    ('250k', '0.125', '2M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}" if value % (size / 100) == 0 else f"{value / size:.3g}{letter}"
    return f"{value:.4g}"
