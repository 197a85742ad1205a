"""Results of a run, as lines for a terminal and as a document for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import onsketch
from onsketch.jobs.judging import Judge

if TYPE_CHECKING:
    from onsketch.jobs.cluster import Run
    from onsketch.jobs.tally import Progress
    from onsketch.jobs.training import Training

_MOST_COLLISIONS = 0.05
"""Share of colliding features from which on a warning is printed."""

_MOST_LEARNERS = 100
"""Classes of a one-vs-rest method from which on a warning is printed."""

_MOST_CLASSES = 12
"""Classes whose confusion is shown on a terminal."""


def judged(tally: Progress, judge: Judge | None) -> Iterator[tuple[str, str]]:
    """Yield the metrics of a tally, each compared with that of the best constant."""
    figures = {} if judge is None else judge.figures()
    constant = figures.get("best_constant_loss")
    baseline = "" if constant is None else f"; the best constant {constant:.6g}"
    yield "average loss", f"{tally.mean_loss:.6g} ({tally.loss}){baseline}"
    if tally.error is not None:
        constant = figures.get("best_constant_error")
        yield "error", f"{tally.error:.4%}" + ("" if constant is None else f"; the best constant {constant:.4%}")
    if "auc" in figures:
        yield "ranking", f"AUC {figures['auc']:.4f}, average precision {figures['average_precision']:.4f}"
    if "calibration_error" in figures:
        yield "calibration", f"probabilities are off by {figures['calibration_error']:.2%} on average (ECE)"
    if "deviance" in figures:
        baseline = f"; the best constant {figures['best_constant_deviance']:.6g}"
        share = f", {figures['deviance_explained']:.2%} explained" if "deviance_explained" in figures else ""
        yield "deviance", f"{figures['deviance']:.6g}{baseline}{share} (Poisson)"
    if "coverage" in figures:
        yield "coverage", f"{figures['coverage']:.2%} of the labels are not above their predictions ({tally.loss})"
    if "rmse" in figures:
        fit = f", R² {figures['r_squared']:.4f}" if "r_squared" in figures else ""
        yield "RMSE", f"{figures['rmse']:.6g}{fit}"


def warnings(judge: Judge | None, one_class: str = "") -> Iterator[str]:
    """Yield warnings about the metrics."""
    if one_class:
        yield f"{one_class} of the rows are of the class to be found; see --positive"
    if judge is not None and judge.sorted_labels:
        what = (
            "rows of a class come together"
            if judge.task.kind != "regression"
            else "labels hardly change from row to row"
        )
        yield (
            f"{what}, as in a sorted file: the figures above flatter the model, which only repeats the last labels. "
            "Shuffle the rows (shuf FILE), unless that is how they will come"
        )


def summary(job: Training | Run, seconds: float, rows: int) -> Iterator[str]:
    """The lines at the end of a training; ``rows`` were read in these seconds."""
    from onsketch.jobs.models import grown

    assert job.progress is not None
    lines = [("rows", f"{job.progress.rows:,}" + (f" learned, {job.rows:,} read" if job.held_out else ""))]
    if job.started_at:
        lines[0] = ("rows", f"{lines[0][1]}, {job.rows - job.started_at:,} of them now")
    lines += judged(job.progress, job.judge)
    if job.held_out is not None:
        error = "" if job.held_out.error is None else f", error {job.held_out.error:.4%}"
        lines.append(("held out", f"loss {job.held_out.mean_loss:.6g}{error} over {job.held_out.rows:,} rows"))
    lines.append(grown(job.learner))
    if job.skipped:
        lines.append(("skipped", f"{job.skipped:,} bad lines or rows"))
    for k, one in enumerate(job.passes, start=1):
        held = "" if one["held_out_loss"] is None else f", held out {one['held_out_loss']:.6g}"
        lines.append((f"pass {k}", f"loss {one['loss']:.6g}{held}"))
    if job.stopped_early:
        text = f"after {len(job.passes)} passes: the held-out loss fell no more; the best model is kept"
        lines.append(("stopped", text))
    if job.plan.passes > 1:
        lines.append(("passes", "from the second on, rows had been seen before they were predicted"))
    speed = f", {rows / seconds:,.0f} rows a second" if rows and seconds > 0.0 else ""
    lines.append(("time", f"{seconds:.2f} s{speed}"))
    one_class = ""
    if job.judge is not None and job.judge.task.signs and job.plan.passes == 1:
        known = job.progress.rows + (job.held_out.rows if job.held_out else 0)
        one_class = {0: "none", known: "all"}.get(job.positives, "")
    lines += [("warning", text) for text in warnings(job.judge, one_class)]
    lines += [("warning", text) for text in (*_columns(job), *_collisions(job), *job.notes)]
    lines += [("warning", f"-q: no namespace begins with {letter!r}") for letter in sorted(job.unmet)]
    yield ""
    for name, text in lines:
        yield f"{name:14s}{text}"


def _columns(job: Training | Run) -> Iterator[str]:
    """Warn of columns that should perhaps be left out, and of learners that are slow with many classes."""
    numbers = {field["name"] for field in (job.schema or {}).get("fields", ()) if field["kind"] == "number"}
    for name in (job.names.get(feature, str(feature)) for feature in job.giveaways):
        yield f"{name!r} alone gives the label in the first rows; if it is known only after the label, --ignore it"
    for name in (job.names.get(feature, "") for feature in job.counters):
        if name in numbers:
            yield f"{name!r} counts the rows; unless their order means something, --ignore it"
    many = len(getattr(job.learner, "learners", ()))
    if many > _MOST_LEARNERS:
        yield f"{many:,} classes are {many:,} learners with this method; auto learns all classes at once"


def _collisions(job: Training | Run) -> Iterator[str]:
    """Warn if many hashed features share a column."""
    from onsketch.jobs.models import collisions, features_seen
    from onsketch.rows.hashing import DEFAULT_BITS

    bits = job.reading.get("bits") or DEFAULT_BITS
    if getattr(job.learner, "n_features", 0) != 1 << bits:  # features that are not hashed
        return
    share = collisions(features_seen(job.learner) or 0, bits)
    if share > _MOST_COLLISIONS:
        yield f"about {share:.0%} of the features share a column with another one; try --bits {min(bits + 4, 31)}"


def confusion(judge: Judge | None) -> Iterator[str]:
    """The confusion of a few classes as a table: a line for each class, a column for each answer."""
    if judge is None or not judge.task.many or not judge.rows:
        return
    names, matrix = judge.confusion_matrix()
    if len(names) > _MOST_CLASSES:
        return
    width = max(6, *(min(len(name), 12) for name in names), *(len(f"{v:,.0f}") for row in matrix for v in row))
    yield ""
    yield "confusion (lines: the class, columns: what was said)"
    yield f"{'':>{width}} " + " ".join(f"{name:>{width}.{width}}" for name in names)
    for name, row in zip(names, matrix, strict=True):
        yield f"{name:>{width}.{width}} " + " ".join(f"{weight:>{width},.0f}" for weight in row)


def document(tally: Progress, judge: Judge | None, **more: Any) -> dict[str, Any]:
    """Return the summary as data for other programs."""
    found: dict[str, Any] = {"onsketch": onsketch.__version__, "rows": tally.rows, **more}
    found |= {"loss_name": tally.loss, "loss": tally.mean_loss, "error": tally.error}
    if judge is not None:
        found |= judge.figures()
        found["sorted_labels"] = judge.sorted_labels
        if judge.task.kind != "regression":
            names, matrix = judge.confusion_matrix()
            found["confusion"] = {"classes": names, "weights": matrix}
            found["reliability"] = [list(point) for point in judge.reliability()]
    return found
