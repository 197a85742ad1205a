"""A page for each method: when to use it, formula, cost, citation and options."""

from __future__ import annotations

import dataclasses
from typing import Any

from onsketch.learners.methods import METHODS, Method, ridge_share
from onsketch.learners.options import DECLARED, Options

FOLDER = "reference/methods"

ALONG = "along a direction of energy λ the step is divided by"
GEOMETRY = {
    "newton": rf"\(P = (\alpha I + S^\top S)^{{-1}}\): {ALONG} α + λ.",
    "adagrad": rf"\(P = \big(\alpha I + (S^\top S)^{{1/2}}\big)^{{-1}}\): {ALONG} α + √λ.",
    "s-adagrad": rf"\(P = \big((\alpha + \Sigma\rho) I + S^\top S\big)^{{-1/2}}\): {ALONG} √(α + Σρ + λ), "
    "where Σρ is the energy that the sketch has lost.",
    "gradient": "P = I: the rule of the method decides the step.",
}
WHEN = {
    "ogd": "A baseline to compare with. Use it for a few scaled, nearly uncorrelated features.",
    "adagrad": "Sparse or badly scaled features without strong correlation: text, categories.",
    "adam": "To compare with; it was made for networks.",
    "lazy-adam": "As adam, on sparse rows.",
    "ftrl": "When weights should be exactly zero (`l1`).",
    "arow": "Classification with few mistakes expected and no step size to tune.",
    "ada-full": "Up to some hundred features. Ada-FD and Ada-FFD approximate it.",
    "ons": "Up to a few hundred dense features: the exact second-order method.",
    "rp-son": "Low-rank data; the cheapest sketch. Where the spectrum has a long tail, frequent directions do better.",
    "fd-son": "Correlated features, with a tuned ridge.",
    "rfd-son": "The first to try on correlated or badly conditioned features. With `ridge=0` there is nothing to tune. "
    "On wide sparse rows give it a ridge: at 0 its first steps can overshoot (see "
    "[luo2019](../../papers/luo2019.md)).",
    "pfd-son": "When the leading directions are known to matter, and should keep their energy.",
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
    "sketched-kons": "To study the trade of regret for time; see [Kernel methods](../../howto/kernel_methods.md).",
    "pros-n-kons": "A non-linear function on a long stream: cost in the dictionary alone.",
    "kernel-ogd": "To compare with.",
    "budget-kernel-ogd": "A non-linear function in a fixed memory.",
    "auto": "First. It needs no tuning in any units, and learns which of several learners to trust.",
}


REFERENCES = {
    "Luo, Agarwal, Cesa-Bianchi and Langford 2016": "https://arxiv.org/abs/1602.02202",
    "Luo, Chen, Zhang, Li and Zhang 2019": "https://arxiv.org/abs/1705.05067",
    "Wan and Zhang 2018": "https://doi.org/10.1007/978-3-319-93037-4_32",
    "Wan and Zhang 2021": "https://doi.org/10.1109/TPAMI.2021.3096880",
    "Calandriello, Lazaric and Valko 2017, NIPS": "https://papers.nips.cc/paper/7194-"
    "efficient-second-order-online-kernel-learning-with-adaptive-embedding",
    "Calandriello, Lazaric and Valko 2017": "https://arxiv.org/abs/1706.04892",
    "Krummenacher, McWilliams, Kilcher, Buhmann and Meinshausen 2016": "https://arxiv.org/abs/1611.06652",
    "Duchi, Hazan and Singer 2011": "https://jmlr.org/papers/v12/duchi11a.html",
    "Zinkevich 2003": "https://cdn.aaai.org/ICML/2003/ICML03-120.pdf",
    "Kingma and Ba 2015": "https://arxiv.org/abs/1412.6980",
    "McMahan et al. 2013": "https://doi.org/10.1145/2487575.2488200",
    "Crammer, Kulesza and Dredze 2009": "https://doi.org/10.1007/s10994-013-5327-x",
    "Hazan, Agarwal and Kale 2007": "https://doi.org/10.1007/s10994-007-5016-8",
    "Desai, Ghashami and Phillips 2016": "https://arxiv.org/abs/1501.06561",
    "Feinberg, Chen, Sun, Anil and Hazan 2023": "https://arxiv.org/abs/2302.03764",
    "Kivinen, Smola and Williamson 2004": "https://doi.org/10.1109/TSP.2004.830991",
    "Wang, Crammer and Vucetic 2012": "https://jmlr.org/papers/v13/wang12b.html",
}
"""Addresses of the papers cited in the methods table; the longer of two names comes first."""


def linked(citation: str) -> str:
    """Return a citation with a link for each paper in it."""
    for name, address in REFERENCES.items():
        if f"[{name}" not in citation:
            citation = citation.replace(name, f"[{name}]({address})")
    return citation


def menu() -> list[dict[str, Any]]:
    """Return the menu: pages by kind."""
    groups: dict[str, list[dict[str, str]]] = {}
    for name, method in METHODS.items():
        groups.setdefault(_kind(method), []).append({name: f"{FOLDER}/{name}.md"})
    return [
        {"All options": "reference/methods/options.md"},
        *({kind: groups[kind]} for kind in KINDS if kind in groups),
    ]


KINDS = ("No tuning", "Newton steps, sketched", "AdaGrad, sketched", "First order", "Kernels")


def _kind(method: Method) -> str:
    """Return the group of the menu that a method belongs to."""
    if method.mixture:
        return "No tuning"
    if method.kernel:
        return "Kernels"
    if not method.sketched and method.sketch != "exact":
        return "First order"
    return "Newton steps, sketched" if method.newton else "AdaGrad, sketched"


def pages() -> dict[str, str]:
    """Return the pages by their paths."""
    lines = [
        "# All methods",
        "",
        "A method is a sketch, a geometry and an update rule. `onsketch.compose` builds the other combinations.",
        "",
        "| method | description | sketch × geometry × update | citation |",
        "|---|---|---|---|",
    ]
    for name, method in METHODS.items():
        lines.append(f"| [{name}]({name}.md) | {method.line} | {method.parts} | {linked(method.citation)} |")
    made = {f"reference/methods/{name}.md": _page(method) for name, method in METHODS.items()}
    return {
        "reference/methods/index.md": "\n".join(lines) + "\n",
        "reference/methods/options.md": _options_page(),
        **made,
    }


def _page(method: Method) -> str:
    geometry = GEOMETRY.get(method.geometry, "")
    step = method.moves.line or rf"\(w \leftarrow w - \eta\, P g\), {geometry}"
    parts = [
        f"# {method.name}", "", f"{method.line[:1].upper()}{method.line[1:]}.", "",
        f"**When to use it.** {WHEN.get(method.name, 'See the guide on choosing a method.')}", "",
        "## What it does", "",
        f"- **Sketch** `{method.sketch}`: {method.kind.line}.",
        f"- **Geometry** `{method.geometry}`. With gradient g and ridge α: {step}",
        f"- **Cost of a row**: {method.kind.cost}.",
        f"- **Citation**: {linked(method.citation)}.", "",
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
    """Return the page of all options."""
    lines = [
        "# All options", "",
        "Options of learners, estimators and the program. `None` leaves an option to the method, except for `clip`:",
        "there it means no bound. An option that does not concern a method is an error; the estimators ignore it with",
        "a warning.", "",
        "| option | type | default | meaning | methods |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for field in dataclasses.fields(Options):
        option = DECLARED[field.name]
        concerned = [name for name, method in METHODS.items() if option.concerns(method)]
        others = [name for name in METHODS if name not in concerned]
        if not others:
            methods = "all"
        elif len(others) < len(concerned):
            methods = f"all except {', '.join(others)}"
        else:
            methods = ", ".join(concerned)
        kind = _cell(str(field.type).replace("Callable[..., Any]", "function"))
        lines.append(f"| `{field.name}` | {kind} | {option.shown} | {_cell(option.sentence)} | {methods} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Return text as a cell of a table."""
    return (text[:1].upper() + text[1:]).replace("|", "\\|")
