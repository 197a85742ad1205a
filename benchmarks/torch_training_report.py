"""Tables of docs/studies/pytorch.md from the runs of benchmarks/torch_training.py.

    python benchmarks/torch_training_report.py [--check]

Replaces what is between the marks of the page; ``--check`` only says whether the page is up to date.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "studies" / "pytorch.md", ROOT / "docs" / "results" / "torch-training"
NETWORKS = {
    "mlp": "MLP", "cnn": "papers' CNN", "resnet": "ResNet-18", "vit": "small ViT", "table": "table",
    "characters": "characters",
}  # fmt: skip
REFERENCE = "NorMuon .9"
VARIANTS = {
    "Sketchy, orthogonal": "as in the library",
    "Sketchy, orthogonal, refresh_every=10": "`refresh_every=10`",
    "orthogonal, power 3/8": "`power=0.375`",
    "orthogonal, no columns": "without NorMuon's normalisation",
    "orthogonal, AdamW for the rest": "AdamW's steps, not Nesterov's, for all other parameters",
    "recipe A": "prototype, AdamW for all other parameters",
    "recipe B": "prototype in blocks of 128, 3 Newton-Schulz steps, power 1/8",
    "recipe without a sketch": "prototype without a sketch, 5 Newton-Schulz steps",
}
"""Names in the runs of orthogonal directions, and what they are."""


class Figures:
    """Losses of the search and of the final runs, and the times."""

    def __init__(self, folder: Path) -> None:
        self.runs = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
        self.times = json.loads((folder / "timings.json").read_text())
        self.machine = self.times.pop("machine")
        self.names = {name: f"**{name}**" if name.startswith("Sketchy") else name for name in self.times["mlp"]}

    def search(self, network: str, name: str) -> dict[float, float]:
        """The test loss of each rate, on one seed."""
        return {run["lr"]: _loss(run) for run in self.runs if _is(run, "search", network, name)}

    def rate(self, network: str, name: str) -> float:
        found = self.search(network, name)
        return min(found, key=lambda lr: found[lr])

    def finals(self, network: str, name: str) -> list[float]:
        """The test losses of the other seeds, at the best rate."""
        rate = self.rate(network, name)
        return [_loss(run) for run in self.runs if _is(run, "final", network, name) and run["lr"] == rate]

    def mean(self, network: str, name: str) -> float:
        return statistics.fmean(self.finals(network, name))

    def error(self, network: str, name: str) -> float:
        """The standard error of the mean."""
        losses = self.finals(network, name)
        return statistics.stdev(losses) / math.sqrt(len(losses))


def _is(run: dict[str, Any], stage: str, network: str, name: str) -> bool:
    return (run["stage"], run["task"], run["name"]) == (stage, network, name)


def _loss(run: dict[str, Any]) -> float:
    value = float(run["curve"][-1][2])
    return value if math.isfinite(value) else math.inf


def table(
    names: dict[str, str],
    cell: Callable[[str, str], str],
    last: str = "",
    more: Callable[[str], str] | None = None,
) -> str:
    """One row for each optimizer, by the word for it, and one column for each network."""
    heads = ["", *NETWORKS.values(), *([last] if more else [])]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, word in names.items():
        cells = [word, *(cell(network, name) for network in NETWORKS)]
        lines.append("| " + " | ".join([*cells, *([more(name)] if more else [])]) + " |")
    return "\n".join(lines)


def per_cent(loss: float, reference: float) -> str:
    return f"{100.0 * (loss / reference - 1.0):+.1f}".replace("-", "−")


def losses(figures: Figures) -> str:
    best = {network: min(figures.mean(network, name) for name in figures.names) for network in NETWORKS}

    def cell(network: str, name: str) -> str:
        losses, mean = figures.finals(network, name), figures.mean(network, name)
        digits = 3 if mean < 1 else 2
        text = f"{mean:.{digits}f}"
        return f"{f'**{text}**' if mean == best[network] else text} ± {statistics.stdev(losses):.{digits}f}"

    return table(figures.names, cell)


def ratios(figures: Figures) -> str:
    return ratios_of(figures, figures.names)


def variants(figures: Figures) -> str:
    return ratios_of(figures, VARIANTS)


def ratios_of(figures: Figures, names: dict[str, str]) -> str:
    """Per cent of the loss above (below) the reference; in italics within two standard errors of the difference."""

    def cell(network: str, name: str) -> str:
        difference = figures.mean(network, name) - figures.mean(network, REFERENCE)
        noise = math.hypot(figures.error(network, name), figures.error(network, REFERENCE))
        text = per_cent(figures.mean(network, name), figures.mean(network, REFERENCE))
        return f"*{text}*" if abs(difference) <= 2.0 * noise else text

    def mean(name: str) -> str:
        pairs = [(figures.mean(network, name), figures.mean(network, REFERENCE)) for network in NETWORKS]
        return per_cent(math.exp(statistics.fmean(math.log(a / b) for a, b in pairs)), 1.0)

    return table(names, cell, "mean", mean)


def rates(figures: Figures) -> str:
    return table(figures.names, lambda network, name: f"{figures.rate(network, name):g}")


def carried(figures: Figures) -> str:
    """Sketchy's loss at multiples of AdamW's best rate, over AdamW's loss there, on the seed of the search."""
    lines = ["| | " + " | ".join(NETWORKS.values()) + " |", "|---" * (len(NETWORKS) + 1) + "|"]
    for factor in (0.5, 1.0, 2.0, 4.0):
        cells = [f"{factor:g} × AdamW's best rate"]
        for network in NETWORKS:
            best = figures.rate(network, "AdamW")
            found = figures.search(network, "Sketchy").get(factor * best)
            cells.append(
                "–"
                if found is None
                else f"{100.0 * (found / figures.search(network, 'AdamW')[best] - 1.0):+.1f}".replace("-", "−")
            )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def costs(figures: Figures) -> str:
    def cell(network: str, name: str) -> str:
        times, base = figures.times[network][name], figures.times[network]["AdamW"]
        return f"{times['optimizer_ms']:.2f}, {times['optimizer_ms'] / base['optimizer_ms']:.1f}"

    def state(name: str) -> str:
        found = sorted(figures.times[network][name]["bytes"] for network in NETWORKS)
        return f"{found[0]:.1f} to {found[-1]:.1f}"

    return table(figures.names, cell, "bytes per parameter", state)


def setting(figures: Figures) -> str:
    steps = sorted({run["steps"] for run in figures.runs})
    return (
        f"{figures.machine['device']}, torch {figures.machine['torch']}, pytorch_optimizer "
        f"{figures.machine['pytorch_optimizer']}; {steps[-1]} steps (the ResNet {steps[0]}); {len(figures.runs)} runs."
    )


PARTS = {
    "setting": setting, "losses": losses, "ratios": ratios, "variants": variants, "rates": rates, "carried": carried,
    "costs": costs,
}  # fmt: skip


def written(page: str, figures: Figures) -> str:
    """The page with its tables made anew."""
    for name, part in PARTS.items():
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not end:
            raise ValueError(f"{PAGE.name} has no place for the table {name!r}")
        page = f"{before}{begin}{part(figures)}\n\n{end}{after}"
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page would change")
    args = parser.parse_args()
    page = PAGE.read_text("utf-8")
    made = written(page, Figures(RESULTS))
    if not args.check:
        PAGE.write_text(made, "utf-8")
    return int(args.check and made != page)


if __name__ == "__main__":
    sys.exit(main())
