"""``onsketch inspect``: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onsketch.cli.console import out, print_rows, told_plainly
from onsketch.errors import OptionError
from onsketch.evaluation import grown


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model, a checkpoint or a sketch.")],
    top: Annotated[int, typer.Option(min=0, help="Largest weights to show.")] = 10,
) -> None:
    """Show what a model file holds: method, options, features, spectrum, largest weights.

    \b
    Example:
      onsketch inspect a9a.model --top 20
    """  # noqa: D301
    with told_plainly():
        from onsketch import model_file

        content = model_file.read(model)
        thing = model_file.build(content)
    console = out()
    facts = _sketch_facts(thing) if content.kind == "sketch" else _learner_facts(thing, content)
    print_rows(console, (content.kind, str(model)), facts)
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
    facts.append(grown(learner))
    if hasattr(learner, "diagnostics"):
        facts += [(name, f"{value:g}") for name, value in learner.diagnostics().items()]
    training = content.notes.get("training")
    if training is not None:
        from onsketch.evaluation import Progress
        from onsketch.task import Task

        progress = Progress(**training["progress"])
        error = "" if progress.error is None else f", error {progress.error:.3%}"
        facts.append(("task", str(Task(**training["task"]))))
        facts.append(("progressive", f"loss {progress.mean_loss:.6g}{error}"))
    if "checkpoint" in content.notes:
        facts.append(("checkpoint", f"of {', '.join(content.notes['checkpoint']['plan']['sources'])}"))
    return facts


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
    for k, value in enumerate(positive, start=1):
        length = 1 + round(39 * max(0.0, math.log(value / floor)) / span)
        console.print(f"{k:4d} {value:12.5g} {'█' * length}", soft_wrap=True)


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
