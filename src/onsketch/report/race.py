"""Page of a comparison: the ranking and its uncertainty, the settings tried, and the costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onsketch.jobs.standings import as_table, gap
from onsketch.report.page import Page, imprint
from onsketch.report.plots import Curve, curves, points, steep, whiskers

if TYPE_CHECKING:
    from onsketch.jobs.standings import Score, Standing


def race_page(about: str, standings: Sequence[Standing], best_fixed: float | None, remark: str = "") -> str:
    """Return the page as HTML; ``best_fixed`` is the total loss of the best fixed weights, if it was computed."""
    page = Page("Learners compared").text(about).note(imprint())
    headings, rows = as_table(standings)
    if best_fixed is not None:
        headings.insert(-1, "regret")
        for row, standing in zip(rows, standings, strict=True):
            total = standing.scores[-1].total
            row.insert(-1, f"{total - best_fixed:,.1f}" if math.isfinite(total) else "-")
    page.table(headings, rows)
    page.note(
        "Progressive loss: every row is predicted before it is learned. Each learner is shown by the best of the "
        f"settings it tried in the same pass; the time is that of this one setting. {remark}".rstrip()
    )
    tracks = len(standings[0].scores)
    for k in range(tracks):
        end = f", condition number {standings[0].scores[k].track}" if tracks > 1 else ""
        scores = {s.name: s.scores[k] for s in standings if math.isfinite(s.scores[k].loss)}
        if scores:
            _behind(page, scores, end)
            _courses(page, scores, end)
            _costs(page, scores, end)
    _settings(page, standings)
    return page.html()


def _behind(page: Page, scores: dict[str, Score], end: str) -> None:
    """Add the ratios to the best, with their uncertainty."""
    best = min(scores, key=lambda name: scores[name].loss)
    rows, cells = [], []
    for name, score in scores.items():
        found = gap(score, scores[best])
        if found is None or name == best:
            continue
        sure = f" ± {found.ratio_error:.2g}" if math.isfinite(found.ratio_error) else ""
        interval = f"{found.loss:+.4g}" + (f" ± {found.loss_error:.2g}" if math.isfinite(found.loss_error) else "")
        cells.append([name, "" if math.isnan(found.ratio) else f"{found.ratio:.4f}{sure}", interval])
        if score.error is not None:
            wrong = f" ± {found.error_error:.2%}" if math.isfinite(found.error_error) else ""
            cells[-1].append(f"{found.error:+.2%}{wrong}")
        if math.isfinite(found.ratio):
            rows.append((name, found.ratio, 2.0 * found.ratio_error, f"{name}: {found.ratio:.4f}{sure}"))
    if not cells:
        return
    page.heading(f"How far behind {best}, the least loss{end}")
    if rows:
        page.chart(whiskers(rows, f"loss over that of {best}; bars: two standard errors", 1.0), "ratios to the best")
    head = ["learner", f"loss / loss of {best}", "loss difference"] + (
        ["error difference"] if len(cells[0]) > 3 else []
    )
    page.table(head, cells)
    page.note(
        "± one standard error, of paired differences over up to 40 blocks of the same rows. Within two of them the "
        "order may well be chance. The best of several settings was chosen on these very rows, which flatters it."
    )


def _courses(page: Page, scores: dict[str, Score], end: str) -> None:
    """Add charts of loss and error against the rows."""
    dense = {name: score.sums[1:] for name, score in scores.items() if len(score.sums) > 2}
    if not dense:
        return

    def drawn(label: str, place: int) -> str:
        lines = [
            Curve(name, [row[0] for row in sums], [row[place] / row[2] if row[2] else math.nan for row in sums])
            for name, sums in dense.items()
        ]
        return curves(lines, "rows", label, log_x=True, log_y=steep(lines))

    page.heading(f"Loss and error against rows{end}")
    page.chart(drawn("mean loss so far", 1), f"loss against rows{end}")
    signs = all(score.error is not None for score in scores.values())
    if signs:
        page.chart(drawn("error so far", 3), f"error against rows{end}")
    shown = sorted({row[0] for sums in dense.values() for row in sums})
    chosen = shown[:: max(1, len(shown) // 12)] + shown[-1:]
    by_row = {name: {row[0]: row for row in sums} for name, sums in dense.items()}
    cells = [
        [
            f"{rows:,}",
            *(f"{found[rows][1] / found[rows][2]:.5g}" if rows in found else "-" for found in by_row.values()),
        ]
        for rows in dict.fromkeys(chosen)
    ]
    page.folded("The numbers: mean loss so far", ["rows", *dense], cells)


def _costs(page: Page, scores: dict[str, Score], end: str) -> None:
    """Add a chart of the cost of each learner against its loss."""
    signs = all(score.error is not None for score in scores.values())
    places = [
        (name, score.microseconds, float(score.error if signs and score.error is not None else score.loss),
         f"{name}: {score.microseconds:.3g} µs a row, loss {score.loss:.5g}"
         + (f", error {score.error:.2%}" if score.error is not None else ""))
        for name, score in scores.items() if score.microseconds > 0.0
    ]  # fmt: skip
    if places:
        page.heading(f"Cost against {'error' if signs else 'loss'}{end}")
        label = "error" if signs else "mean loss"
        page.chart(points(places, "CPU microseconds to learn a row", label, log_x=True), f"cost against {label}{end}")


def _settings(page: Page, standings: Sequence[Standing]) -> None:
    """Add the grid of settings tried."""
    rows = []
    for standing in standings:
        for score in standing.scores:
            for k, one in enumerate(score.tried if len(score.tried) > 1 else ()):
                setting = ", ".join(f"{name} {value:g}" for name, value in (one.setting or {}).items()) or "defaults"
                loss = f"{one.loss:.5g}" if math.isfinite(one.loss) else "diverged"
                error = "-" if one.error is None or not math.isfinite(one.error) else f"{one.error:.2%}"
                cost = f"{one.microseconds:.1f}" if math.isfinite(one.microseconds) else "-"
                rows.append([standing.name, score.track or "-", ("★ " if k == 0 else "") + setting, loss, error, cost])
    if rows:
        page.heading("Settings tried")
        page.table(["learner", "stream", "setting", "loss", "error", "µs/example"], rows)
        page.note(
            "★ the one that is shown above. Where the best is at the end of its list, a longer list may do better."
        )
