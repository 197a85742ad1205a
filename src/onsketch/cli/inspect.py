"""``onsketch inspect``: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onsketch.cli.console import out, print_rows, told_plainly
from onsketch.cli.outputs import check_outputs
from onsketch.core.errors import OptionError

_BARS = 40
"""Eigenvalues shown."""


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model, a checkpoint or a sketch.")],
    top: Annotated[int, typer.Option(min=0, help="Largest weights to show.")] = 10,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Kernel learners: show the regret on the first rows of this file."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="With --data: how many of them, at a cost of their cube.", show_default="1000"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Kernel learners: write a page with plots here (HTML).")
    ] = None,
) -> None:
    """Show what a model file holds: method, options, features, spectrum, largest weights.

    Of kernel learners also effective dimensions, p_min and how the dictionary grew; with --data, the regret of such a
    learner on those rows against kernel ridge regression solved offline (or the like for its loss).

    \b
    Examples:
      onsketch inspect a9a.model --top 20
      onsketch inspect ijcnn1.model --data ijcnn1.xz --rows 2000 --report ijcnn1.html
    """  # noqa: D301
    if rows is not None and data is None:
        raise typer.BadParameter("it is about the rows of --data, which was not given", param_hint="--rows")
    check_outputs(report=report)
    with told_plainly():
        from onsketch.files import model_file

        if report is not None:
            from onsketch.report.charts import pyplot

            pyplot()  # say at once that it is missing

        content = model_file.read(model)
        if content.kind not in ("learner", "sketch"):
            facts = [(name, str(value)) for name, value in content.header.items()]
            print_rows(out(), (content.kind, str(model)), facts)
            return
        thing = model_file.build(content)
        kernel = content.kind == "learner" and hasattr(thing, "history")
        if not kernel and (data is not None or report is not None):
            raise OptionError("--data and --report are for kernel learners, such as pros-n-kons.")
        found = None if data is None else _studied(thing, content, data, rows or 1000)
        console = out()
        facts = _sketch_facts(thing) if content.kind == "sketch" else _learner_facts(thing, content)
        print_rows(console, (content.kind, str(model)), facts)
        if kernel:
            _print_growth(console, thing, found)
        if report is not None:
            _write_report(report, model, thing, found)
            console.print(f"\nReport written to {report}", soft_wrap=True)
        print_spectrum(console, thing)
        if content.kind == "learner" and top:
            _print_weights(console, thing, top, content.notes)


def _learner_facts(learner: Any, content: Any) -> list[tuple[str, str]]:
    facts = [
        ("method", f"{learner.method.name}: {learner.method}"),
        ("parts", learner.method.parts),
        ("options", ", ".join(f"{name}={value}" for name, value in sorted(content.header["options"].items()))),
        ("rounds", f"{learner.rounds:,}"),
        ("memory", f"{learner.state_bytes()['total'] / 1e6:.3f} MB"),
        ("written by", f"onsketch {content.header['version']}, format {content.header['format']}"),
    ]
    from onsketch.jobs.evaluation import grown

    facts.append(grown(learner))
    if hasattr(learner, "diagnostics"):
        facts += [(name, f"{value:g}") for name, value in learner.diagnostics().items()]
    training = content.notes.get("training")
    if training is not None:
        from onsketch.data.task import Task
        from onsketch.jobs.evaluation import Progress

        progress = Progress(**training["progress"])
        error = "" if progress.error is None else f", error {progress.error:.3%}"
        facts.append(("task", str(Task(**training["task"]))))
        facts.append(("progressive", f"loss {progress.mean_loss:.6g}{error}"))
    if hasattr(learner, "ridge"):
        facts.append(("ridge", f"{learner.ridge:.6g} now"))
    if "checkpoint" in content.notes:
        facts.append(("checkpoint", f"of {', '.join(content.notes['checkpoint']['plan']['sources'])}"))
    return facts


def _studied(learner: Any, content: Any, data: str, rows: int) -> Any:
    """The regret of such a learner on the first rows of a file, read as the training read its own."""
    from onsketch.data import stream
    from onsketch.data.task import Task
    from onsketch.data.usable import learnable
    from onsketch.jobs.offline import stacked
    from onsketch.learners.kernel import study

    told = content.notes.get("training") or {"task": {"kind": "regression"}, "reading": {}}
    task, blocks, count = Task(**told["task"]), [], 0
    with stream([data], **told["reading"]) as source:
        for block in source:
            room, kept = rows - count, learnable(block, told["reading"].get("on_error") == "skip")
            blocks.append((kept.X[:room], task.labels(kept.y[:room]), None))
            count += len(blocks[-1][1])
            if count >= rows:
                break
    X, y, _ = stacked(blocks)
    return study(learner, X, y)


def _print_growth(console: Any, learner: Any, found: Any) -> None:
    """How the dictionary grew and, where it is known, the regret: a line for each doubling of the rounds."""
    history = (learner if found is None else found.learner).history()
    console.print("\ngrowth" if found is None else f"\ngrowth and regret over {len(found.regret):,} rows")
    names = [name for name in history if name != "rounds"]
    if found is not None:
        facts = {"effective dimension": found.effective_dimension, "online": found.online_effective_dimension}
        told = ", ".join(f"{name} {value:.4g}" for name, value in facts.items())
        console.print(f"of all these rows, exactly: {told}", soft_wrap=True)
    titles = [name.replace("_", " ") for name in names] + ([] if found is None else ["regret"])
    console.print(f"{'rounds':>10} " + " ".join(f"{title:>16.16}" for title in titles), soft_wrap=True)
    for k, t in enumerate(history["rounds"].astype(int)):
        values = [history[name][k] for name in names] + ([] if found is None else [found.regret[t - 1]])
        console.print(f"{t:>10,} " + " ".join(f"{value:>16.6g}" for value in values), soft_wrap=True)


def _write_report(path: Path, model: Path, learner: Any, found: Any) -> None:
    from onsketch.report.kernels import growth_chart, regret_chart
    from onsketch.report.page import Page

    page = Page(f"{learner.method.name}: {model.name}")
    page.text(f"{learner.method}.")
    page.table(["", ""], [[name.replace("_", " "), f"{value:g}"] for name, value in learner.diagnostics().items()])
    page.heading("Growth of the dictionary")
    page.chart(growth_chart(learner), "growth of the dictionary")
    if found is not None:
        page.heading(f"Regret on {len(found.regret):,} rows")
        page.chart(regret_chart(found), "regret against the best function in hindsight")
        page.note(
            f"Against the best function of the same kernel, solved offline. Effective dimension of these rows "
            f"{found.effective_dimension:.4g}, online {found.online_effective_dimension:.4g}."
        )
    path.write_text(page.html(), encoding="utf-8")


def _sketch_facts(sketch: Any) -> list[tuple[str, str]]:
    return [("sketch", repr(sketch)), ("rows", f"{sketch.n_rows:,}"), ("ridge", f"{sketch.ridge:g}")]


def print_spectrum(console: Any, thing: Any) -> None:
    """Eigenvalues as bars of text, on a logarithmic scale of at most six decades."""
    import math

    try:
        values = thing.spectrum() if callable(thing.spectrum) else thing.spectrum
    except OptionError:
        return
    positive = [value for value in values.tolist() if value > 0.0]
    if not positive:
        return
    console.print("\nspectrum of the sketch")
    floor = max(positive[-1], positive[0] * 1e-6)
    span = math.log(positive[0] / floor) or 1.0
    for k, value in enumerate(positive[:_BARS], start=1):
        length = 1 + round(39 * max(0.0, math.log(value / floor)) / span)
        console.print(f"{k:4d} {value:12.5g} {'█' * length}", soft_wrap=True)
    if len(positive) > _BARS:
        console.print(f"     and {len(positive) - _BARS:,} more, down to {positive[-1]:.5g}", soft_wrap=True)


def _print_weights(console: Any, learner: Any, top: int, notes: dict[str, Any]) -> None:
    from onsketch.report.training import largest_weights

    try:
        pairs = largest_weights(learner, top, names_of(notes))
    except OptionError:
        return
    console.print("\nlargest weights")
    width = max((len(name) for name, _ in pairs), default=0)
    for name, weight in pairs:
        console.print(f"  {name:<{width}} {weight:+.6g}", soft_wrap=True)
    if learner.intercept:
        console.print(f"  {'(intercept)':<{width}} {learner.intercept:+.6g}", soft_wrap=True)


def names_of(notes: dict[str, Any]) -> Any:
    """From feature to name, as far as names were kept."""
    names = (notes.get("training") or {}).get("names") or {}
    return lambda feature: names.get(str(feature), str(feature))
