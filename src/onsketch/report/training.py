"""Page of a training run: data, results and their explanation, for a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onsketch.core.errors import OptionError
from onsketch.jobs.models import described, grown, one_of
from onsketch.jobs.weights import weights_of
from onsketch.report.kernels import growth_chart
from onsketch.report.page import Page, imprint
from onsketch.report.plots import Curve, bars, curves, matrix, spectrum, steep

if TYPE_CHECKING:
    from onsketch.jobs.training import Training

LARGEST, SHOWN, CLASSES = 25, 60, 40
"""Number of weights, eigenvalues and classes shown."""

_DUST = 1e-9
"""Share of the largest eigenvalue below which eigenvalues are rounding errors."""


def training_page(job: Training, seconds: float) -> str:
    """Return the page as HTML."""
    assert job.progress is not None
    assert job.task is not None
    page = Page(f"{one_of(job.learner).method.name} on {', '.join(job.plan.sources)}")
    about = str(job.task)
    page.text(f"{about[:1].upper()}{about[1:]}. {described(job.learner)}, {job.loss} loss.")
    page.note(imprint())
    page.table(["", "this model", "best constant"], _figures(job, seconds))
    if job.judge is not None and job.judge.sorted_labels:
        page.text("Warning: labels come in long runs, as in a sorted file; these figures flatter the model.")
    _course(page, job)
    _classes(page, job)
    _growth(page, job)
    _experts(page, job)
    _spectrum(page, job)
    _weights(page, job)
    _data(page, job)
    page.heading("Options at work")
    from onsketch.jobs.models import in_force

    page.text(in_force(one_of(job.learner)))
    return page.html()


def _figures(job: Training, seconds: float) -> list[list[str]]:
    """Return the results, each with that of the best constant."""
    assert job.progress is not None
    figures = {} if job.judge is None else job.judge.figures()
    constant = figures.get("best_constant_loss")
    rows = [["average loss", f"{job.progress.mean_loss:.6g}", "" if constant is None else f"{constant:.6g}"]]
    if job.progress.error is not None:
        constant = figures.get("best_constant_error")
        rows.append(["error", f"{job.progress.error:.3%}", "" if constant is None else f"{constant:.3%}"])
    if "auc" in figures:
        base = "" if job.judge is None else f"{float(job.judge.shares[1]):.4f}"
        rows.append(["AUC", f"{figures['auc']:.4f}", "0.5"])
        rows.append(["average precision", f"{figures['average_precision']:.4f}", base])
    if "calibration_error" in figures:
        rows.append(["calibration error", f"{figures['calibration_error']:.3%}", ""])
    if "rmse" in figures:
        rows.append(["RMSE", f"{figures['rmse']:.6g}", ""])
        rows.append(["R²", f"{figures.get('r_squared', 0.0):.4f}", "0"])
    if "deviance" in figures:
        rows.append(["Poisson deviance", f"{figures['deviance']:.6g}", f"{figures['best_constant_deviance']:.6g}"])
    if "coverage" in figures:
        rows.append(["labels not above their predictions", f"{figures['coverage']:.2%}", ""])
    if job.held_out is not None:
        error = "" if job.held_out.error is None else f" (error {job.held_out.error:.3%})"
        rows.append([f"held-out loss, {job.held_out.rows:,} rows", f"{job.held_out.mean_loss:.6g}{error}", ""])
    rows.append(["rows learned", f"{job.progress.rows:,}", ""])
    rows.append([*grown(job.learner), ""])
    rows += [[f"skipped: {what}", f"{count:,}", ""] for what, count in _skipped(job) if count]
    if job.first_bad:
        rows.append(["the first of the bad lines", job.first_bad, ""])
    if seconds:
        rate = f", {(job.rows - job.started_at) / seconds:,.0f} rows a second"
        rows.append(["time", f"{seconds:.2f} s{rate}", ""])
    return rows


def _skipped(job: Training) -> list[tuple[str, int]]:
    """Return reasons for skipped rows, with counts."""
    finite = job.refused - job.unusable
    return [
        ("lines that could not be read", job.skipped - job.refused),
        ("rows without a label, or too long", job.unusable),
        ("rows whose update would not be finite", finite),
    ]


def _course(page: Page, job: Training) -> None:
    """Add loss and error over the rows, with the best constant as a line, and the passes."""
    assert job.progress is not None
    page.heading("Progressive loss")
    points = job.course.points if job.course is not None else []
    if len(points) < 2:
        points = [(r.rows, r.loss, r.recent_loss, r.error or 0.0, r.error or 0.0) for r in job.records]
    if not points:
        return
    rows = [p[0] for p in points]
    loss, error = (None, None) if job.judge is None else job.judge.best_constant()
    first_pass = max(job.progress.rows // max(len(job.passes), 1), 1)
    marks = [(first_pass * k, f"pass {k + 1}") for k in range(1, len(job.passes))]

    held = job.held_out_course.points if job.held_out_course is not None else []
    scale = job.progress.rows / job.held_out.rows if held and job.held_out is not None else 1.0

    def drawn(label: str, so_far: int, recent: int, constant: float | None) -> str:
        lines = [Curve("so far", rows, [p[so_far] for p in points]), Curve("recent", rows, [p[recent] for p in points])]
        if held:
            lines.append(Curve("held out", [p[0] * scale for p in held], [p[so_far] for p in held]))
        if constant is not None:
            lines.append(Curve("best constant", [rows[0], rows[-1]], [constant, constant], reference=True))
        return curves(lines, "rows", label, log_x=rows[-1] > 20 * rows[0], log_y=steep(lines), marks=marks)

    page.chart(drawn(f"mean {job.loss} loss", 1, 2, loss), "progressive loss")
    if job.progress.error is not None:
        page.chart(drawn("share mistaken", 3, 4, error), "progressive error")
    page.note("Every row is predicted before it is learned. Recent: the last fifth of the rows so far.")
    head = ["rows", "loss so far", "recent loss"] + (["error so far"] if job.progress.error is not None else [])
    chosen = points[:: max(1, len(points) // 20)]
    page.folded("The numbers", head, [[f"{p[0]:,}", *(f"{v:.5g}" for v in p[1 : len(head)])] for p in chosen])
    if job.passes:
        listing = [
            [str(k), *("" if v is None else f"{v:.6g}" for v in one.values())] for k, one in enumerate(job.passes, 1)
        ]
        page.table(["pass", "loss", "held-out loss"], listing)


def _classes(page: Page, job: Training) -> None:
    """Add ranking, calibration and confusion."""
    judge = job.judge
    if judge is None or judge.task.kind == "regression" or not judge.rows:
        return
    unit = (0.0, 1.0)
    if roc := judge.roc():
        page.heading("Ranking")
        lines = [
            Curve("this model", [p.x for p in roc], [p.y for p in roc]),
            Curve("chance", unit, unit, reference=True),
        ]
        labels = "negatives found (false positives)", "positives found"
        page.chart(curves(lines, *labels, x_range=unit, y_range=unit), f"ROC curve, area {judge.auc():.4f}")
        recall = judge.precision_recall()
        base = float(judge.shares[1])
        lines = [Curve("this model", [p.x for p in recall], [p.y for p in recall])]
        lines.append(Curve("chance", unit, (base, base), reference=True))
        page.chart(curves(lines, "recall", "precision", x_range=unit, y_range=unit), "precision and recall")
    if points := judge.reliability(least=10.0):
        page.heading("Calibration")
        lines = [Curve("this model", [p.x for p in points], [p.y for p in points])]
        lines.append(Curve("as said", unit, unit, reference=True))
        axes = "probability said", "share of positives"
        page.chart(curves(lines, *axes, x_range=unit, y_range=unit), "reliability curve")
        listing = [[f"{p.x:.3f}", f"{p.y:.3f}", f"{p.weight:,.0f}"] for p in points]
        page.folded("The numbers", ["probability said", "share of positives", "rows"], listing)
    names, counts = judge.confusion_matrix()
    if 1 < len(names) <= CLASSES:
        page.heading("Confusion")
        page.raw(matrix(names, counts))


def _growth(page: Page, job: Training) -> None:
    """Add the growth of a kernel learner's dictionary."""
    if not hasattr(job.learner, "history") or not job.learner.rounds:
        return
    page.heading("Growth of the dictionary").chart(growth_chart(job.learner), "growth of the dictionary")
    facts = job.learner.diagnostics().items()
    page.table(["", ""], [[name.replace("_", " "), f"{value:g}"] for name, value in facts])


def _experts(page: Page, job: Training) -> None:
    """Add the weights of a mixture's experts over time."""
    names = getattr(job.learner, "share_names", None)
    if names is None or len(job.shares) < 2:
        return
    stride = max(1, len(job.shares) // 200)
    shown = job.shares[::stride] + job.shares[-1:]
    rows = [at for at, _ in shown]
    page.heading("Who is listened to")
    lines = [Curve(name, rows, [float(share[k]) for _, share in shown]) for k, name in enumerate(names)]
    page.chart(
        curves(lines, "rows", "weight in the prediction", log_x=rows[-1] > 20 * rows[0]), "weights of the experts"
    )
    page.note(
        "How much the prediction makes of each expert; the weights are those of a regression, and may be negative."
    )
    listing = [[f"{at:,}", *(f"{float(v):.3f}" for v in share)] for at, share in shown[:: max(1, len(shown) // 12)]]
    page.folded("The numbers", ["rows", *names], listing)


def _spectrum(page: Page, job: Training) -> None:
    """Add the spectrum of the sketch without rounding errors, the mass it lost, and the features of its directions."""
    try:
        values = job.learner.spectrum()
    except (OptionError, AttributeError):
        return
    kept = values[values > _DUST * values.max(initial=0.0)][:SHOWN]
    if not kept.size:
        return
    marks = []
    for name in ("ridge", "escaped"):
        level = getattr(job.learner, name, None)
        if isinstance(level, (int, float)) and level > _DUST * kept[0]:
            marks.append((float(level), name))
    page.heading("Spectrum of the sketch")
    page.chart(spectrum(kept.tolist(), "eigenvalue", marks), "spectrum of the sketch")
    page.note("How much curvature the learner has seen along its main directions; beyond them it steps as if round.")
    try:
        energies, features, vectors = job.learner.directions()
    except (OptionError, AttributeError):
        return
    named = {int(f): job.names.get(int(f), str(f)) if f >= 0 else "(intercept)" for f in features}
    page.folded("What the directions are made of", *made_of(energies, features, vectors, named, values.sum()))


def _weights(page: Page, job: Training) -> None:
    """Add the largest weights by their effect."""
    assert job.task is not None
    classes = job.task.names if job.task.many else None
    try:
        found = weights_of(job.learner, classes, job.names, job.scales, LARGEST)
    except (OptionError, AttributeError):
        return
    found = sorted(found, key=lambda one: -abs(one.effect))[:LARGEST]
    if not found:
        return
    page.heading("Largest weights")
    rows = [(one.name if not one.of_class else f"{one.of_class}: {one.name}", one.effect, one) for one in found]
    listing = [
        (name, effect, f"{name}: weight {one.weight:.5g}" + ("" if one.scale is None else f" × scale {one.scale:.5g}"))
        for name, effect, one in rows
    ]
    page.chart(bars(listing, "weight × scale (root mean square of the feature)"), "largest weights")
    cells = [
        [name, f"{one.weight:.6g}", "" if one.scale is None else f"{one.scale:.6g}", f"{effect:.6g}"]
        for name, effect, one in rows
    ]
    page.folded("The numbers", ["feature", "weight", "scale", "weight × scale"], cells)


def _data(page: Page, job: Training) -> None:
    """Add the description of the data."""
    judge = job.judge
    page.heading("The data")
    facts = [["files", ", ".join(job.plan.sources)]]
    if job.scales is not None and job.scales.rows:
        facts.append(["values a row", f"{job.scales.values / job.scales.rows:.1f} of {job.scales.width:,} columns"])
    if judge is not None and judge.task.kind != "regression":
        names = list(judge.task.two_names) if judge.task.signs else list(judge.task.names or [])
        shares = sorted(zip(judge.shares.tolist(), names, strict=False), reverse=True)[:12]
        facts.append(["classes", ", ".join(f"{name} {share:.1%}" for share, name in shares)])
    elif judge is not None and judge.rows:
        mass, mean, square = judge.sums[:3].tolist()
        spread = float(np.sqrt(max(square / mass - (mean / mass) ** 2, 0.0))) if mass else 0.0
        facts.append(
            ["labels", f"mean {mean / mass + judge.first:.6g}, standard deviation {spread:.6g}" if mass else ""]
        )
    page.table(["", ""], facts)
    if job.columns and job.columns["fields"]:
        rows = [[field["name"], field["kind"], field["why"]] for field in job.columns["fields"]]
        page.folded("Columns", ["column", "taken for", "why"], rows)


def made_of(
    energies: Any, features: Any, vectors: Any, names: Mapping[int, str], total: float
) -> tuple[list[str], list[list[str]]]:
    """Return a table of the first directions: energy, share of the total, and their main features."""
    rows = []
    for k, (energy, vector) in enumerate(zip(energies[:10], vectors, strict=False), start=1):
        order = np.argsort(-np.abs(vector), kind="stable")[:5]
        sign = 1.0 if vector[order[0]] >= 0.0 else -1.0
        parts = [f"{names.get(int(features[j]), int(features[j]))} {sign * vector[j]:+.2f}" for j in order if vector[j]]
        share = f"{energy / total:.1%}" if total > 0.0 else ""
        rows.append([str(k), f"{energy:.5g}", share, ", ".join(parts)])
    return ["direction", "energy", "share", "largest features"], rows
