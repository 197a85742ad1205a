"""A page for each paper, from the committed results in docs/results: claims with grades, charts, tables."""

from __future__ import annotations

from pathlib import Path

from onsketch.experiments import PAPERS, every
from onsketch.experiments.design import GRADES, Claim, Experiment, Verdict
from onsketch.experiments.outcome import Outcome, drawn, read, stated, table
from onsketch.report.plots import standalone

RESULTS = Path(__file__).resolve().parents[1] / "results"
MOST = 60
"""Rows shown of a table; the CSV file has all."""


def _found() -> dict[str, list[tuple[Experiment, Outcome]]]:
    known = every()
    pairs = [(known[path.stem], read(path)) for path in sorted(RESULTS.glob("*.json")) if path.stem in known]
    return {paper: [pair for pair in pairs if pair[0].paper.name == paper] for paper in PAPERS}


def menu() -> list[dict[str, str]]:
    """Return the menu: a page for each paper with results."""
    return [{paper: f"papers/{paper}.md"} for paper, pairs in _found().items() if pairs]


def pages() -> dict[str, str]:
    """Return the pages and their pictures, by path."""
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
    judged = [
        (paper, experiment, claim, verdict)
        for paper, pairs in _found().items()
        for experiment, outcome in pairs
        for claim, verdict in outcome.verdicts(experiment)
    ]
    lines = [
        "# The papers, reproduced", "",
        "`onsketch reproduce` runs the figures and tables of the papers and checks each of their claims by its own "
        "figures. These pages are generated from the committed results. Every claim is a sentence of the paper. It has "
        "one of three grades:", "",
        "- **Reproduced**: the sentence holds on the figures, as it is stated.",
        "- **Reproduced in trend**: direction and ordering hold, but the size differs; the figures say by how much.",
        "- **Not reproduced**: neither; the likely reason is given, as far as it is known.", "",
        "A claim is judged on the paper's own data sets if any is at hand, and otherwise on stand-ins, which is said. "
        "Runs smaller than the paper's are not judged. Where a sentence leaves open what counts, the rule of judging "
        "is given. Where the paper leaves a constant open, it is part of the grid that is searched. The rules were "
        "written by people who had seen the figures.", "",
        "| grade | claims | of them on stand-ins alone |", "|---|---|---|",
    ]  # fmt: skip
    for grade in GRADES:
        verdicts = [verdict for *_, verdict in judged if verdict.grade == grade]
        lines.append(f"| {grade} | {len(verdicts)} | {sum(verdict.stand_in for verdict in verdicts)} |")
    lines += ["", "| experiment | shows | the paper | grade |", "|---|---|---|---|"]
    for paper, experiment, claim, verdict in judged:
        grade = f"{verdict.grade}{', on a stand-in' if verdict.stand_in else ''}"
        lines.append(f"| [{experiment.name}]({paper}.md) | {experiment.shows} | {_cell(claim.text)} | {grade} |")
    lines += _settings()
    missing = sorted(set(every()) - {experiment.name for pairs in _found().values() for experiment, _ in pairs})
    if missing:
        lines += ["", f"Without committed results so far: {', '.join(missing)}."]
    smaller = [experiment.name for pairs in _found().values() for experiment, o in pairs if o.effort != "full"]
    if smaller:
        lines += ["", f"Smaller than the papers' so far: {', '.join(smaller)}."]
    return "\n".join(lines) + "\n"


def _claims(judged: list[tuple[Claim, Verdict]]) -> list[str]:
    """Return a table of the paper's sentence and figures next to ours."""
    lines = ["| the paper | its figures | grade | here |", "|---|---|---|---|"]
    for claim, verdict in judged:
        grade = f"**{verdict.grade}**{' on a stand-in' if verdict.stand_in else ''}"
        printed = claim.printed or "none printed"
        lines.append(f"| {_cell(stated(claim))} | {_cell(printed)} | {grade} | {_cell(verdict.words)} |")
    return lines


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
        "AdaGrad has a step to tune and no ridge, the sketches have both. Ada-full costs O(d³) a row, so that its grid "
        "is thinned. That favours its rivals."
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
"""Reasons why the methods of an experiment were not all tuned over the same number of settings."""


def _tried(experiment: Experiment, outcome: Outcome) -> str:
    """Return the numbers of settings tried and the reason, if they differ. Without a reason this is an error."""
    tried: dict[int, list[str]] = {}
    for row in outcome.rows:
        if row.get("tried") and row["method"] not in tried.setdefault(row["tried"], []):
            tried[row["tried"]].append(row["method"])
    if len(tried) < 2:
        return ""
    counts = "; ".join(f"{count}: {', '.join(names)}" for count, names in sorted(tried.items()))
    if experiment.name not in _UNEQUAL:
        raise ValueError(f"{experiment.name}: settings tried {counts}. Give the reason in _UNEQUAL.")
    return f"{counts}. Reason: {_UNEQUAL[experiment.name]}"


def _settings() -> list[str]:
    """Return a section on experiments whose methods were tuned over different numbers of settings."""
    lines = [
        "", "## Unequal tuning", "",
        "Experiments whose methods were tuned over different numbers of settings. Each figure repeats its line.", "",
        "| experiment | settings tried |", "|---|---|",
    ]  # fmt: skip
    found = [(experiment, _tried(experiment, outcome)) for pairs in _found().values() for experiment, outcome in pairs]
    return [*lines, *(f"| {experiment.name} | {text} |" for experiment, text in found if text)]


def _section(experiment: Experiment, outcome: Outcome) -> list[str]:
    parts = [
        f"## {experiment.shows}: {experiment.title}",
        "",
        experiment.setup,
        "",
        *_claims(outcome.verdicts(experiment)),
    ]
    if text := _tried(experiment, outcome):
        parts += ["", f"Settings tried: {text}"]
    parts.append("")
    for chart in experiment.charts(outcome.rows):
        parts += [f"![{chart.title}]({experiment.name}-{chart.name}.svg)", "", f"*{chart.title}*", ""]
    headings, rows = table(experiment, outcome.rows)
    parts += [f"| {' | '.join(map(_cell, headings))} |", "|" + "---|" * len(headings)]
    parts += [f"| {' | '.join(map(_cell, row))} |" for row in rows[:MOST]]
    if len(rows) > MOST:
        parts += ["", f"… and {len(rows) - MOST} more rows in `docs/results/{experiment.name}.csv`."]
    parts += ["", *(f"{note}\n" for note in experiment.notes)]
    parts += [f"Made by `{outcome.command}` (effort {outcome.effort}, onsketch {outcome.version}).", ""]
    return parts


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
