"""The study's picture: on each set, the errors of a few contenders over those of Vowpal Wabbit's default, as an SVG."""

from __future__ import annotations

from typing import Any

import numpy as np

SHOWN = {"auto": "#c0392b", "rfd-son": "#7f8c8d", "adagrad tuned": "#2980b9", "VW --coin": "#27ae60"}
LEFT, WIDTH, STEP, TOP = 150, 560, 15, 46


def plot(table: Any) -> str:
    """A dot per contender and set, sorted by auto's ratio; left of the line is better than VW."""
    ratios = {name: table.ratios(name, ("VW",)) for name in SHOWN if name in table.contenders}
    order = np.argsort(ratios["auto"])
    height = TOP + STEP * len(order) + 30
    low, high = np.log(0.2), np.log(4.0)

    def x(ratio: float) -> float:
        return LEFT + WIDTH * (float(np.clip(np.log(max(ratio, 1e-9)), low, high)) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="14" font-size="12">errors in one pass, over those of Vowpal Wabbit\'s default</text>',
    ]
    for k, (name, colour) in enumerate((name, SHOWN[name]) for name in ratios):
        at = LEFT + 130 * k
        parts.append(f'<circle cx="{at + 4}" cy="28" r="4" fill="{colour}"/><text x="{at + 12}" y="32">{name}</text>')
    for tick in (0.25, 0.5, 1.0, 2.0, 4.0):
        colour, bottom = "#333" if tick == 1.0 else "#ddd", height - 22
        parts.append(f'<line x1="{x(tick):.1f}" y1="{TOP}" x2="{x(tick):.1f}" y2="{bottom}" stroke="{colour}"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - 8}" text-anchor="middle">{tick:g}</text>')
    for line, index in enumerate(order):
        y = TOP + STEP * (line + 0.5)
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{table.sets[index]}</text>')
        for name in [name for name in reversed(list(ratios)) if np.isfinite(ratios[name][index])]:
            size = 4 if name == "auto" else 3
            parts.append(f'<circle cx="{x(ratios[name][index]):.1f}" cy="{y:.1f}" r="{size}" fill="{SHOWN[name]}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"
