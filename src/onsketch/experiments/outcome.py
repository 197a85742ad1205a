"""The outcome of an experiment: rows and verdicts, saved as JSON and CSV, shown as charts and a page."""

from __future__ import annotations

import csv
import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import onsketch
from onsketch.experiments.design import Chart, Claim, Conditions, Experiment, Results, Row, Verdict

TOO_SMALL = "A quick run: it shows that everything works; its sizes are too small to judge the claims by."


@dataclass
class Outcome:
    """The rows of an experiment and how they were made."""

    name: str
    rows: list[Row]
    effort: str
    command: str
    data: list[str] = field(default_factory=list)
    version: str = onsketch.__version__
    python: str = field(default_factory=platform.python_version)

    def save(self, folder: Path, experiment: Experiment) -> None:
        """Write ``NAME.json`` (everything), ``NAME.csv`` (without curves) and an SVG for each chart."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_plain(asdict(self)), separators=(",", ":"))
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")
        names = list(dict.fromkeys(name for row in self.rows for name in row if not name.startswith("curve")))
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            sheet = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
            sheet.writeheader()
            for row in self.rows:
                sheet.writerow({k: f"{row[k]:.6g}" if isinstance(row.get(k), float) else row.get(k) for k in names})
        for chart in experiment.charts(self.rows):
            from onsketch.report.plots import standalone

            path = folder / f"{self.name}-{chart.name}.svg"
            path.write_text(standalone(drawn(chart)), encoding="utf-8")

    def verdicts(self, experiment: Experiment) -> list[tuple[Claim, Verdict]]:
        """Return each claim with its verdict. Runs smaller than the paper's are not judged."""
        judged = [(claim, claim.judge(self.rows)) for claim in experiment.claims]
        if self.effort == "full":
            return judged
        small = "at a smaller size than the paper's, "
        return [
            (claim, verdict._replace(holds=None, words=f"{small}{str(verdict)[:1].lower()}{str(verdict)[1:]}"))
            for claim, verdict in judged
        ]


def made(experiment: Experiment, conditions: Conditions, results: Results, command: str) -> Outcome:
    """Return the outcome of finished cells."""
    rows = experiment.rows(conditions, results)
    sets = list(dict.fromkeys(str(row["data"]) for row in rows if row.get("data")))
    return Outcome(experiment.name, rows, conditions.effort.name, command, sets)


def read(path: Path) -> Outcome:
    """Read a saved outcome."""
    return Outcome(**json.loads(path.read_text(encoding="utf-8")))


def drawn(chart: Chart) -> str:
    """Draw the chart as SVG, or a note if there is nothing to draw."""
    from onsketch.report.plots import curves, points

    lines = [line for line in chart.lines if len(line.x)]
    if chart.points:
        places = [(one.name, one.x[0], one.y[0], f"{one.name}: {one.x[0]:.4g}, {one.y[0]:.4g}") for one in lines]
        return points(places, chart.x_label, chart.y_label, diagonal=True)
    return curves(lines, chart.x_label, chart.y_label, log_x=chart.log_x, log_y=chart.log_y)


def table(experiment: Experiment, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells of the columns to be shown."""
    shown = [name for name in experiment.columns if any(row.get(name) is not None for row in rows)]
    headings = [experiment.columns[name] for name in shown]
    edge = " (end of the grid)"  # a longer grid might have had a better setting
    return headings, [
        [_shown(row.get(name)) + edge * (name == "setting" and bool(row.get("at_edge"))) for name in shown]
        for row in rows
    ]


def stated(claim: Claim) -> str:
    """Return the paper's sentence, and the rule by which it is judged if it needs one."""
    return f"{claim.text} Judged by: {claim.rule}" if claim.rule else claim.text


def page(paper: str, pairs: Sequence[tuple[Experiment, Outcome]]) -> str:
    """Return one page for a paper: claims with verdicts, charts and numbers of each figure or table."""
    from onsketch.report.page import Page

    sheet = Page(f"{paper}: reproduced").text(pairs[0][0].paper.citation)
    for experiment, outcome in pairs:
        sheet.heading(f"{experiment.shows}: {experiment.title}")
        sheet.text(experiment.setup)
        if outcome.effort == "quick":
            sheet.note(TOO_SMALL)
        sheet.table(
            ["the paper", "its figures", "here"],
            [[stated(claim), claim.printed or "-", str(verdict)] for claim, verdict in outcome.verdicts(experiment)],
        )
        for chart in experiment.charts(outcome.rows):
            sheet.text(chart.title).chart(drawn(chart), chart.title)
        sheet.table(*table(experiment, outcome.rows))
        for note in experiment.notes:
            sheet.note(note)
        sheet.note(f"Made by: {outcome.command} (effort {outcome.effort}, onsketch {outcome.version}).")
    return sheet.html()


def _plain(thing: Any) -> Any:
    """Return the same with shortened numbers, and null for numbers that JSON cannot hold."""
    if isinstance(thing, dict):
        return {name: _plain(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(value) for value in thing]
    if isinstance(thing, float):
        return float(f"{thing:.6g}") if math.isfinite(thing) else None
    return thing


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
