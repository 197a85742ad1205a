"""Pictures of kernel learners: how the dictionary grew, and the regret."""

from __future__ import annotations

from typing import Any

from onsketch.report.plots import Curve, curves

_SHOWN = {
    "dictionary_size": "dictionary",
    "rows_kept": "rows kept",
    "online_effective_dimension": "online effective dimension",
}


def growth_chart(learner: Any) -> str:
    """Dictionary size and online effective dimension against rounds, as an SVG element."""
    return curves(growth_lines(learner), "rounds", "rows", log_x=True)


def growth_lines(learner: Any) -> list[Curve]:
    """Return the curves of a learner's ``history``; rows kept only where their number differs from the dictionary's."""
    history = learner.history()
    rounds = history["rounds"].tolist()
    lines = []
    for name, label in _SHOWN.items():
        same = (
            name == "rows_kept" and history[name].tolist() == history.get("dictionary_size", history["rounds"]).tolist()
        )
        if name in history and not same:
            lines.append(Curve(label, rounds, history[name].tolist()))
    return lines


def regret_chart(found: Any) -> str:
    """Regret against the best function in hindsight, round by round, as an SVG element."""
    at = regret_points(len(found.regret))
    name = found.learner.method.name
    return curves([Curve(name, at, [float(found.regret[t - 1]) for t in at])], "rounds", "regret", log_x=True)


def regret_points(rounds: int, per_doubling: int = 8) -> list[int]:
    """Return the rounds to show: evenly spaced on a logarithmic axis, the last included.

    >>> regret_points(10, per_doubling=1)
    [1, 2, 4, 8, 10]
    """
    points = {round(2.0 ** (k / per_doubling)) for k in range(per_doubling * rounds.bit_length())}
    return sorted({t for t in points if t <= rounds} | {rounds})
