"""``onsketch inspect``: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from onsketch.cli.console import errors_in_one_line, out, print_rows
from onsketch.cli.declaring import FILE, FOLDER, command, option, refuse
from onsketch.cli.outputs import check_outputs, write_json, write_page
from onsketch.core.errors import OptionError

_BARS = 40
"""Eigenvalues shown."""


@command()
@click.argument("model", type=FOLDER, metavar="MODEL", help="A model, a checkpoint or a sketch.")
@option("--top", type=click.IntRange(0), default=10, help="Largest weights to show.")
@option(
    "--data",
    metavar="FILE",
    help="Rank weights by weight × scale of its features. Kernel learners: show the regret on its rows.",
)
@option(
    "--rows",
    type=click.IntRange(1),
    show_default="1000",
    help="Kernel learners, with --data: how many rows, at a cost of their cube.",
)
@option("--weights", type=FILE, metavar="FILE", help="Write all weights here (CSV).")
@option("--json", "json_file", type=FILE, metavar="FILE", help="Write all this for other programs.")
@option("--report", type=FILE, metavar="FILE", help="Kernel learners: write a page with plots here (HTML).")
def inspect(
    model: Path, top: int, data: str | None, rows: int | None, weights: Path | None, json_file: Path | None,
    report: Path | None,
) -> None:  # fmt: skip
    """Show what a model file holds: method, options, features, spectrum, largest weights.

    Of kernel learners also effective dimensions, p_min and how the dictionary grew; with --data, the regret of such a
    learner on those rows against kernel ridge regression solved offline (or the like for its loss).

    \b
    Examples:
      onsketch inspect churn.model --top 20
      onsketch inspect churn.model --data churn.csv --weights weights.csv --json churn.json
      onsketch inspect ijcnn1.model --data ijcnn1.xz --rows 2000 --report ijcnn1.html
    """  # noqa: D301
    refuse((rows is not None and data is None, "it is about the rows of --data, which was not given", "--rows"))
    check_outputs([model, *([data] if data else [])], report=report, weights=weights, json=json_file)
    with errors_in_one_line():
        from onsketch.files import model_file
        from onsketch.jobs.estimators import read_trained
        from onsketch.jobs.notes import read_noted

        try:
            content = read_trained(model)
        except OptionError:  # an estimator that the program cannot use
            content = read_noted(model)
        console = out(json_file)
        if content.kind not in ("learner", "sketch", "classes"):
            facts = [(name, str(value)) for name, value in content.header.items()]
            print_rows(console, (content.kind, str(model)), facts)
            if json_file is not None:
                write_json(json_file, {"kind": content.kind, "facts": dict(facts)})
            return
        thing = model_file.build(content)
        kernel = content.kind == "learner" and hasattr(thing, "history")
        if report is not None and not kernel:
            raise OptionError("--report is for kernel learners, such as pros-n-kons; train --report has the others'.")
        if content.kind == "sketch" and (data or weights):
            raise OptionError("--data and --weights are for models, not for sketches.")
        if content.kind == "sketch":
            facts = [("sketch", repr(thing)), ("rows", f"{thing.n_rows:,}"), ("ridge", f"{thing.ridge:g}")]
        else:
            facts = learner_facts(thing, content)
        found = _studied(thing, content, data, rows or 1000) if kernel and data is not None else None
        listed = [] if kernel or content.kind == "sketch" else _weights(thing, content, data)
        print_rows(console, (content.kind, str(model)), facts)
        if kernel:
            _show_growth(console, thing, found, model, report)
        if content.kind != "classes":
            print_spectrum(console, thing)
        _print_weights(console, listed, top)
        if weights is not None:
            from onsketch.jobs.weights import write_weights

            write_weights(weights, listed)
            console.print(f"\n{len(listed):,} weights written to {weights}", soft_wrap=True)
        if json_file is not None:
            training = content.notes.get("training") or {}
            document = {
                "kind": content.kind,
                "facts": dict(facts),
                "options": content.header.get("options"),
                "training": {name: value for name, value in training.items() if name not in ("names", "judge")},
                "weights": [one._asdict() for one in listed[: max(top, 1000)]],
            }
            write_json(json_file, document)


def learner_facts(learner: Any, content: Any) -> list[tuple[str, str]]:
    """Describe a model in words, as pairs of name and value."""
    from onsketch.jobs.models import described, grown, in_force, one_of
    from onsketch.jobs.notes import noted

    one = one_of(learner)
    facts = [
        ("method", described(learner)),
        ("options", in_force(one)),
        ("rounds", f"{learner.rounds:,}"),
        ("written by", f"onsketch {content.header['version']}, format {content.header['format']}"),
        grown(learner),
    ]
    if hasattr(learner, "state_bytes"):
        facts.append(("memory", f"{learner.state_bytes()['total'] / 1e6:.3f} MB"))
    if hasattr(learner, "certificate") and learner.method.steps and learner.method.newton and learner.method.sketched:
        proof = learner.certificate()
        if proof.sketch_error is not None:
            share = f"{proof.escaped_share:.2%} of the energy escaped"
            facts.append(("sketch error", f"at most {proof.sketch_error:.4g} ({share})"))
        if proof.regret_bound is not None:
            facts.append(("regret", f"at most {proof.regret_bound:.4g} ({proof.theorem})"))
    if hasattr(learner, "diagnostics"):
        facts += [(name, f"{value:g}") for name, value in learner.diagnostics().items()]
    notes = noted(content.notes)
    if notes.training is not None:
        from onsketch.cli.summary import judged
        from onsketch.jobs.judging import Judge

        task, counts = notes.training.task, notes.training.judge
        facts.append(("task", str(task)))
        facts += judged(notes.training.progress, None if counts is None else Judge.from_state(task, counts))
        for field in (notes.training.schema or {}).get("fields", ()):
            why = f" ({field['why']})" if field["why"] else ""
            facts.append((f"column {field['name']}", f"{field['kind']}{why}"))
    if notes.checkpoint is not None:
        facts.append(("checkpoint", f"of {', '.join(notes.checkpoint.plan['sources'])}"))
    return facts


def _weights(learner: Any, content: Any, data: str | None) -> list[Any]:
    """All weights, by falling size; with data, of what they amount to there."""
    from onsketch.jobs.notes import noted, unknown_training
    from onsketch.jobs.weights import scales_of, weights_of

    if content.kind == "classes" and not hasattr(learner, "learners"):
        return []
    trained, scales = noted(content.notes).training or unknown_training(learner), None
    if data is not None:
        scales = scales_of([data], {**trained.read, "everyday": True, "unlabelled": True, "schema": trained.schema})
    classes = trained.task.names if content.kind == "classes" else None
    try:
        return weights_of(learner, classes, trained.names, scales)
    except OptionError:
        return []


def _studied(learner: Any, content: Any, data: str, rows: int) -> Any:
    """The regret of such a learner on the first rows of a file, read as the training read its own."""
    from onsketch.data import stream
    from onsketch.data.block import stacked
    from onsketch.data.usable import labelled_rows
    from onsketch.jobs.notes import noted, unknown_training
    from onsketch.learners.kernel import study

    trained, blocks, count = noted(content.notes).training or unknown_training(learner), [], 0
    with stream([data], **trained.reading) as source:
        for block in source:
            wanted, kept = rows - count, labelled_rows(block, trained.reading.get("on_error") == "skip")
            blocks.append((kept.X[:wanted], trained.task.labels(kept.y[:wanted]), None))
            count += len(blocks[-1][1])
            if count >= rows:
                break
    X, y, _ = stacked(blocks)
    return study(learner, X, y)


def _show_growth(console: Any, learner: Any, found: Any, model: Path, report: Path | None) -> None:
    """Print the growth of the dictionary and, if known, the regret, at each doubling of the rounds; write a page."""
    history = (learner if found is None else found.learner).history()
    console.print("\ngrowth" if found is None else f"\ngrowth and regret over {len(found.regret):,} rows")
    names = [name for name in history if name != "rounds"]
    if found is not None:
        facts = {"effective dimension": found.effective_dimension, "online": found.online_effective_dimension}
        listed = ", ".join(f"{name} {value:.4g}" for name, value in facts.items())
        console.print(f"of all these rows, exactly: {listed}", soft_wrap=True)
    titles = [name.replace("_", " ") for name in names] + ([] if found is None else ["regret"])
    console.print(f"{'rounds':>10} " + " ".join(f"{title:>16.16}" for title in titles), soft_wrap=True)
    for k, t in enumerate(history["rounds"].astype(int)):
        values = [history[name][k] for name in names] + ([] if found is None else [found.regret[t - 1]])
        console.print(f"{t:>10,} " + " ".join(f"{value:>16.6g}" for value in values), soft_wrap=True)
    if report is not None:
        from onsketch.report.kernels import kernel_page

        console.print()
        write_page(console, report, kernel_page(model.name, learner, found))


def print_spectrum(console: Any, thing: Any, most: int = _BARS) -> None:
    """The largest eigenvalues as bars of text, on a logarithmic scale of at most six decades."""
    import math

    try:
        values = thing.spectrum() if callable(thing.spectrum) else thing.spectrum
    except OptionError:
        return
    positive = [value for value in values.tolist() if value > 0.0]
    positive = positive if most >= _BARS else positive[:most]
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


def _print_weights(console: Any, listed: list[Any], top: int) -> None:
    """The largest weights, class by class."""
    for of_class in dict.fromkeys(one.of_class for one in listed):
        here = [one for one in listed if one.of_class == of_class]
        shown = [one for one in here if one.feature >= 0][:top] + [one for one in here if one.feature < 0]
        if not top or not shown:
            continue
        scaled = shown[0].scale is not None
        console.print(f"\nlargest weights{' × scale' if scaled else ''}{f' of class {of_class}' if of_class else ''}")
        width = max(len(one.name) for one in shown)
        for one in shown:
            parts = f"  = {one.weight:+.6g} × {one.scale:.6g}" if scaled and one.scale is not None else ""
            console.print(f"  {one.name:<{width}} {one.effect:+.6g}{parts}", soft_wrap=True)
