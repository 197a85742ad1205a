"""The page of one training: the progressive curve, the spectrum of the sketch, the largest weights."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onsketch.core.errors import OptionError
from onsketch.jobs.evaluation import grown
from onsketch.jobs.models import one_of
from onsketch.report.charts import Line, bar_chart, line_chart, spectrum_chart
from onsketch.report.page import Page

if TYPE_CHECKING:
    from onsketch.jobs.training import Training

LARGEST, SHOWN = 25, 100
"""Weights and eigenvalues shown."""


def training_page(job: Training, seconds: float = 0.0) -> str:
    """The page, as HTML."""
    assert job.progress is not None
    assert job.task is not None
    name = one_of(job.learner).method.name
    page = Page(f"{name} on {', '.join(job.plan.sources)}")
    page.text(f"{job.learner.method}. {str(job.task).capitalize()}, {job.learner.loss} loss.")
    facts = [["rows learned", f"{job.progress.rows:,}"], ["average loss", f"{job.progress.mean_loss:.6g}"]]
    if job.progress.error is not None:
        facts.append(["error", f"{job.progress.error:.3%}"])
    if job.held_out is not None:
        facts.append(["loss of held-out rows", f"{job.held_out.mean_loss:.6g}"])
    facts.append([*grown(job.learner)])
    if job.skipped:
        facts.append(["bad lines skipped", f"{job.skipped:,}"])
    page.table(["", ""], facts)
    page.heading("Progressive loss")
    rows = [record.rows for record in job.records]
    curves = [Line("so far", rows, [record.loss for record in job.records])]
    curves.append(Line("since the last point", rows, [record.recent_loss for record in job.records]))
    page.chart(line_chart(curves, "rows", f"mean {job.learner.loss} loss", log_x=True), "progressive loss")
    page.note("Every row is predicted before it is learned; points lie at rows 1, 2, 4, 8, …")
    if hasattr(job.learner, "history") and job.learner.rounds:
        from onsketch.report.kernels import growth_chart

        page.heading("Growth of the dictionary")
        page.chart(growth_chart(job.learner), "growth of the dictionary")
        page.table(
            ["", ""], [[name.replace("_", " "), f"{value:g}"] for name, value in job.learner.diagnostics().items()]
        )
    try:
        values = job.learner.spectrum()
    except OptionError as error:
        page.note(str(error))
    else:
        page.heading("Spectrum of the sketch")
        page.chart(spectrum_chart(values[:SHOWN].tolist(), "eigenvalue"), "spectrum of the sketch")
    with suppress(OptionError):  # a kernel learner has points, not weights
        largest = largest_weights(job.learner, LARGEST, lambda feature: job.names.get(feature, str(feature)))
        page.heading("Largest weights")
        page.chart(bar_chart(dict(largest), "weight"), "largest weights")
    page.heading("Options")
    options = job.learner.options
    page.table(
        ["option", "value"],
        [[name, str(getattr(options, name))] for name in sorted(job.learner.method.concerns)],
    )
    return page.html()


def largest_weights(learner: Any, count: int, names: Any = None) -> list[tuple[str, float]]:
    """The features with the largest weights, by name where names are known."""
    features, weights = learner.coefficients()
    order = abs(weights).argsort()[::-1][:count]
    name = names or str
    return [(name(int(features[k])), float(weights[k])) for k in order]
