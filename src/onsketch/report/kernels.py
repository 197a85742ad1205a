"""Page of a kernel learner: how its dictionary grew, and its regret."""

from __future__ import annotations

from typing import Any

from onsketch.report.page import Page
from onsketch.report.plots import Curve, curves

_SHOWN = {
    "dictionary_size": "dictionary",
    "rows_kept": "rows kept",
    "online_effective_dimension": "online effective dimension",
}


def kernel_page(title: str, learner: Any, found: Any = None) -> str:
    """Return the page as HTML; ``found`` is the study of the learner on some rows, if there is one."""
    page = Page(f"{learner.method.name}: {title}").text(f"{learner.method}.")
    page.table(["", ""], [[name.replace("_", " "), f"{value:g}"] for name, value in learner.diagnostics().items()])
    page.heading("Growth of the dictionary").chart(growth_chart(learner), "growth of the dictionary")
    if found is not None:
        at = regret_points(len(found.regret))
        line = Curve(found.learner.method.name, at, [float(found.regret[t - 1]) for t in at])
        page.heading(f"Regret on {len(found.regret):,} rows")
        page.chart(curves([line], "rounds", "regret", log_x=True), "regret against the best function in hindsight")
        page.note(
            f"Against the best function of the same kernel, solved offline. Effective dimension of these rows "
            f"{found.effective_dimension:.4g}, online {found.online_effective_dimension:.4g}."
        )
    return page.html()


def growth_chart(learner: Any) -> str:
    """Draw a learner's ``history``; rows kept only where their number differs from the dictionary's."""
    history = {name: values.tolist() for name, values in learner.history().items()}
    rounds = history["rounds"]
    if history.get("rows_kept") == history.get("dictionary_size", rounds):
        history.pop("rows_kept", None)
    lines = [Curve(label, rounds, history[name]) for name, label in _SHOWN.items() if name in history]
    return curves(lines, "rounds", "rows", log_x=True)


def regret_points(rounds: int, per_doubling: int = 8) -> list[int]:
    """Return the rounds to show: evenly spaced on a logarithmic axis, the last included.

    >>> regret_points(10, per_doubling=1)
    [1, 2, 4, 8, 10]
    """
    points = {round(2.0 ** (k / per_doubling)) for k in range(per_doubling * rounds.bit_length())}
    return sorted({t for t in points if t <= rounds} | {rounds})
