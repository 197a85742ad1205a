"""A page for each paper, from the results in docs/results: claims and verdicts, charts, tables."""

from __future__ import annotations

from pathlib import Path

from onsketch.experiments import PAPERS, every
from onsketch.experiments.design import Experiment
from onsketch.experiments.outcome import Outcome, drawn, read, table
from onsketch.report.plots import standalone

RESULTS = Path(__file__).resolve().parents[1] / "results"
MOST = 60
"""Rows of a table shown; the file has the rest."""


def _found() -> dict[str, list[tuple[Experiment, Outcome]]]:
    known = every()
    pairs = [(known[path.stem], read(path)) for path in sorted(RESULTS.glob("*.json")) if path.stem in known]
    return {paper: [pair for pair in pairs if pair[0].paper.name == paper] for paper in PAPERS}


def menu() -> list[dict[str, str]]:
    """A page for each paper with results."""
    return [{paper: f"papers/{paper}.md"} for paper, pairs in _found().items() if pairs]


def pages() -> dict[str, str]:
    """The pages and their pictures."""
    made: dict[str, str] = {"papers/index.md": _overview()}
    for paper, pairs in _found().items():
        if not pairs:
            continue
        parts = [f"# {paper}", "", pairs[0][0].paper.citation, ""]
        for experiment, outcome in pairs:
            parts += _section(experiment, outcome)
            for chart in experiment.charts(outcome.rows):
                made[f"papers/{experiment.name}-{chart.name}.svg"] = standalone(drawn(chart))
        made[f"papers/{paper}.md"] = "\n".join(parts) + "\n"
    return made


def _overview() -> str:
    lines = [
        "# The papers, reproduced", "",
        "`onsketch reproduce` runs the figures and tables of the papers and judges each of their claims by its own "
        "figures. What follows is what it said; nothing is retouched, and a claim that did not hold here is listed as "
        "such. The command and the sizes are given with each; `short` runs are smaller than the papers'.", "",
        "| experiment | shows | the paper says | here |", "|---|---|---|---|",
    ]  # fmt: skip
    for paper, pairs in _found().items():
        for experiment, outcome in pairs:
            for text, verdict in outcome.verdicts(experiment):
                head, _, words = str(verdict).partition(":")
                _, found, why = words.partition(" Why: ")
                told = f"{head}. Why: {why}" if found else head
                lines.append(f"| [{experiment.name}]({paper}.md) | {experiment.shows} | {text} | {_cell(told)} |")
    heads = [v.head for pairs in _found().values() for e, outcome in pairs for _, v in outcome.verdicts(e)]
    lines[4:4] = [
        "The rule: a claim is judged on the paper's own data sets where any of them is at hand, and then *holds* or "
        "*does not hold* (what stand-ins say is told beside it); where there are only stand-ins it *holds on a "
        "stand-in*, or not; where a run is smaller than the paper's it *cannot be told*. Every claim is a sentence of "
        "the paper, turned into a comparison of figures that stands in the experiment's source. The rule is younger "
        "than the runs. So are the comparisons that name a rule of their own: they replace more lenient ones, and "
        "were written by people who had seen the figures.", "",
        "| verdict | claims |", "|---|---|",
        *(f"| {head} | {heads.count(head)} |" for head in dict.fromkeys(
            ("Holds", "Holds on a stand-in", "Does not hold", "Cannot be told"))), "",
    ]  # fmt: skip
    lines += _settings()
    missing = sorted(set(every()) - {experiment.name for pairs in _found().values() for experiment, _ in pairs})
    if missing:
        lines += ["", f"Without committed results so far: {', '.join(missing)}."]
    smaller = [experiment.name for pairs in _found().values() for experiment, o in pairs if o.effort != "full"]
    if smaller:
        lines += ["", f"Smaller than the papers' so far: {', '.join(smaller)}."]
    return "\n".join(lines) + "\n"


_UNEQUAL = {
    "luo2016-fig3": (
        "AdaGrad is tuned by its step over a shorter range than the sketches by their ridge, both in factors of two; "
        "its best step is never the first or the last."
    ),
    "luo2016-fig3b": (
        "AdaGrad is tuned by its step over a shorter range than the sketches by their ridge, both in factors of four; "
        "its best step is never the first or the last."
    ),
    "luo2019-table2": ("at ridge 0 there is nothing to tune, which is what RFD₀ is for."),
    "wan2018-fig1": (
        "AdaGrad has a step to tune and no ridge, the sketches have both. Ada-full costs O(d³) a row: its grid is "
        "thinned, which favours its rivals."
    ),
    "wan2018-fig2": ("AdaGrad has a step to tune and no ridge, the sketches have both."),
    "wan2021-fig1": (
        "OGD has no ridge, those of AdaGrad and Adam are held at 1e-8 and those of Ada-FD and Ada-FFD at 1 (in dual "
        "averaging at 10), as in the paper: steps alone. Ada-LR costs O(d²) a row and Ada-full O(d³): their grids are "
        "thinned, which favours the others."
    ),
    "wan2021-fig3": (
        "Ada-FD and Ada-FFD have their ridge held at 1 at τ = 20, as in the paper. Ada-LR costs O(d²) a row and "
        "Ada-full O(d³): their grids are thinned (at effort short RadaGrad's, too), which favours the others."
    ),
    "wan2021-fig5": (
        "OGD has no ridge, those of AdaGrad and Adam are held at 1e-8 and that of Ada-FFD at 1 (in dual averaging at "
        "10), as in the paper: steps alone."
    ),
}
"""Why the methods of a race were not all tuned over as many settings."""


def _tried(experiment: Experiment, outcome: Outcome) -> str:
    """Settings tried for each method and why, if not as many for all. A race without a reason is refused."""
    tried: dict[int, list[str]] = {}
    for row in outcome.rows:
        if row.get("tried") and row["method"] not in tried.setdefault(row["tried"], []):
            tried[row["tried"]].append(row["method"])
    if len(tried) < 2:
        return ""
    told = "; ".join(f"{count}: {', '.join(names)}" for count, names in sorted(tried.items()))
    if experiment.name not in _UNEQUAL:
        raise ValueError(f"{experiment.name}: settings tried {told}. Say why they are not as many for all in _UNEQUAL.")
    return f"{told}. Why: {_UNEQUAL[experiment.name]}"


def _settings() -> list[str]:
    """Races whose methods were not tuned over as many settings, with the numbers."""
    lines = [
        "", "## Races with unequal tuning", "",
        "Settings tried for each method, where they are not as many for all; the same stands beside each figure.", "",
        "| experiment | settings tried |", "|---|---|",
    ]  # fmt: skip
    found = [(experiment, _tried(experiment, outcome)) for pairs in _found().values() for experiment, outcome in pairs]
    return [*lines, *(f"| {experiment.name} | {told} |" for experiment, told in found if told)]


def _section(experiment: Experiment, outcome: Outcome) -> list[str]:
    parts = [
        f"## {experiment.shows}: {experiment.title}",
        "",
        experiment.setup,
        "",
        "| the paper says | here |",
        "|---|---|",
    ]
    parts += [f"| {_cell(text)} | {_cell(str(verdict))} |" for text, verdict in outcome.verdicts(experiment)]
    if told := _tried(experiment, outcome):
        parts += ["", f"Settings tried, not as many for all: {told}"]
    parts.append("")
    for chart in experiment.charts(outcome.rows):
        parts += [f"![{chart.title}]({experiment.name}-{chart.name}.svg)", "", f"*{chart.title}*", ""]
    headings, rows = table(experiment, outcome.rows)
    parts += [f"| {' | '.join(map(_cell, headings))} |", "|" + "---|" * len(headings)]
    parts += [f"| {' | '.join(map(_cell, row))} |" for row in rows[:MOST]]
    if len(rows) > MOST:
        parts += ["", f"… and {len(rows) - MOST} rows more in `docs/results/{experiment.name}.csv`."]
    parts += ["", *(f"{note}\n" for note in experiment.notes)]
    parts += [f"Made by `{outcome.command}` (effort {outcome.effort}, onsketch {outcome.version}).", ""]
    return parts


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
