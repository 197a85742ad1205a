"""A page for each method: formula, cost, citation, options, when to use it."""

from __future__ import annotations

import dataclasses
from typing import Any

from onsketch.learners.methods import METHODS, Method, ridge_share
from onsketch.learners.options import DECLARED, Options

FOLDER = "reference/methods"

GEOMETRY = {
    "newton": "P = (ridge·I + SᵀS)⁻¹: along a direction of energy λ the step is divided by `ridge + λ`.",
    "adagrad": "P = (ridge·I + (SᵀS)^½)⁻¹: along a direction of energy λ the step is divided by `ridge + √λ`.",
    "s-adagrad": "P = ((ridge + Σρ)·I + SᵀS)^−½: along a direction of energy λ the step is divided by "
    "`√(ridge + Σρ + λ)`, Σρ being what the sketch has lost.",
    "gradient": "P = I: no metric; the rule of the method decides the step.",
}
WHEN = {
    "ogd": "The yardstick. Use it where features are few, scaled and nearly uncorrelated.",
    "adagrad": "Sparse or badly scaled features without strong correlation: text, categories. Hard to beat there.",
    "adam": "To compare with; it was made for networks.",
    "lazy-adam": "As adam, on sparse rows.",
    "ftrl": "When weights should be exactly zero (`l1`).",
    "arow": "Classification with few mistakes expected and no step size to tune.",
    "ada-full": "The limit that Ada-FD and Ada-FFD approach; up to some hundred features.",
    "ons": "Up to a few hundred dense features: exact second order, nothing lost.",
    "rp-son": "Low-rank data; the cheapest sketch. Where the spectrum has a long tail, frequent directions do better.",
    "fd-son": "Correlated features, when a ridge has been found that suits the data.",
    "rfd-son": "The first to try on correlated or badly conditioned features: with `ridge=0` there is nothing to tune. "
    "On wide sparse rows give it a ridge: at 0 its first steps can overshoot for good (see "
    "[luo2019](../../papers/luo2019.md)).",
    "pfd-son": "When the leading directions are known to matter and should not pay for the others.",
    "cfd-son": "To compare with.",
    "oja-son": "Sparse rows and a spectrum that is stable over time; cheap per non-zero.",
    "ada-lr": "To compare with; needs d×d memory.",
    "radagrad": "To compare with.",
    "ada-gp": "AdaGrad's geometry on low-rank data at the least cost.",
    "ada-dp": "As ada-gp; the sketch of data instead of gradients has the cleaner theory.",
    "ada-fd": "AdaGrad's geometry with correlated features.",
    "ada-ffd": "As ada-fd, for sparse rows too; equals full-matrix AdaGrad where 2m exceeds d.",
    "s-adagrad": "As ada-fd, without its fragility in the ridge.",
    "kons": "A non-linear function and some thousand rows: the yardstick of the kernel methods.",
    "sketched-kons": "To study the trade of regret for time; see [Kernels](../../howto/kernel_methods.md).",
    "pros-n-kons": "A non-linear function on a long stream: cost in the dictionary alone.",
    "kernel-ogd": "To compare with.",
    "budget-kernel-ogd": "A non-linear function in a fixed memory.",
    "auto": "When nothing is known of the data: it learns which of several learners to trust.",
    "untuned": "As auto, where features come in mixed units, with offsets or outliers; the designated successor.",
}


def menu() -> list[dict[str, Any]]:
    """The pages, by kind."""
    groups: dict[str, list[dict[str, str]]] = {}
    for name, method in METHODS.items():
        groups.setdefault(_kind(method), []).append({name: f"{FOLDER}/{name}.md"})
    return [
        {"All options": "reference/methods/options.md"},
        *({kind: groups[kind]} for kind in KINDS if kind in groups),
    ]


KINDS = ("No tuning", "Newton steps, sketched", "AdaGrad, sketched", "First order", "Kernels")


def _kind(method: Method) -> str:
    """The group of the menu that a method belongs to."""
    if method.mixture:
        return "No tuning"
    if method.kernel:
        return "Kernels"
    if not method.sketched and method.sketch != "exact":
        return "First order"
    return "Newton steps, sketched" if method.newton else "AdaGrad, sketched"


def pages() -> dict[str, str]:
    """Their content, and the table of all."""
    lines = [
        "# All methods",
        "",
        "Each is a sketch, a geometry and an update rule; `onsketch.compose` builds the combinations without a name.",
        "",
        "| method | what it is | sketch × geometry × update | citation |",
        "|---|---|---|---|",
    ]
    for name, method in METHODS.items():
        lines.append(f"| [{name}]({name}.md) | {method.line} | {method.parts} | {method.citation} |")
    made = {f"reference/methods/{name}.md": _page(method) for name, method in METHODS.items()}
    return {
        "reference/methods/index.md": "\n".join(lines) + "\n",
        "reference/methods/options.md": _options_page(),
        **made,
    }


def _page(method: Method) -> str:
    step = method.moves.line or f"`w ← w − step·P g`, {GEOMETRY.get(method.geometry, '')}"
    parts = [
        f"# {method.name}", "", f"{method.line[:1].upper()}{method.line[1:]}.", "",
        f"**When to use it.** {WHEN.get(method.name, 'See the guide on choosing a method.')}", "",
        "## What it does", "",
        f"- **Sketch** `{method.sketch}`: {method.kind.line}.",
        f"- **Geometry** `{method.geometry}`. In each round, with g the gradient of the loss: {step}",
        f"- **Cost of a row**: {method.kind.cost}.",
        f"- **Citation**: {method.citation}.", "",
        "## Options", "", "| option | default | meaning |", "|---|---|---|",
    ]  # fmt: skip
    for name in sorted(method.concerns):
        default = DECLARED[name].shown
        if name in method.defaults and method.defaults[name] != "default":
            default = f"{method.defaults[name]}"
        elif name == "ridge" and method.geometry == "newton":
            default = f"1, or {ridge_share(method, Options.sketch_size):g} of the rows' mean squared length, if more"
        parts.append(f"| `{name}` | {default} | {_cell(DECLARED[name].sentence)} |")
    parts += [
        "",
        "## From the program and from Python",
        "",
        "```sh",
        f"onsketch train FILE --learner {method.name}",
        "```",
        "",
    ]
    parts += [f'In Python: `onsketch.learner("{method.name}", ...)`; see the [tutorial](../../start/tutorial.md).']
    return "\n".join(parts) + "\n"


def _options_page() -> str:
    """Every option, as it is declared."""
    lines = [
        "# All options", "",
        "Each option is declared once, in `learners/options.py`; learners, estimators and the program's options are "
        "made from that. None leaves an option to the method, but for `clip`, where it means no bound. An option that "
        "does not concern a method is an error (the estimators ignore it with a warning).", "",
        "| option | type | default | meaning | methods |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for field in dataclasses.fields(Options):
        option = DECLARED[field.name]
        concerned = [name for name, method in METHODS.items() if option.concerns(method)]
        others = [name for name in METHODS if name not in concerned]
        if not others:
            methods = "all"
        elif len(others) < len(concerned):
            methods = f"all but {', '.join(others)}"
        else:
            methods = ", ".join(concerned)
        kind = _cell(str(field.type).replace("Callable[..., Any]", "function"))
        lines.append(f"| `{field.name}` | {kind} | {option.shown} | {_cell(option.sentence)} | {methods} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text as a cell of a table."""
    return (text[:1].upper() + text[1:]).replace("|", "\\|")
