"""Tables and curves of the runs of torch_cnn_study.py."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

METHODS = ("AdaGP", "AdaFFD", "AdaFD", "SAdaGrad", "RadaGrad", "FDSON", "RFDSON", "Adagrad", "OGD", "Adam")
COLOURS = ("#1b6ca8", "#d1495b", "#2e8540", "#e08e0b", "#6a4c93", "#00798c", "#8d5524", "#555555", "#aaaaaa", "#000000")

Job = dict[str, Any]


def is_of(run: Job, dataset: str, method: str) -> bool:
    return bool(run["dataset"] == dataset and run["method"] == method)


def last_loss(run: Job) -> float:
    """The training loss at the end; infinite if the run diverged."""
    loss = run["curve"][-1]["loss"] if run["curve"] else None
    return math.inf if loss is None else float(loss)


def best_run(runs: list[Job]) -> Job | None:
    return min(runs, key=last_loss) if runs else None


def report(out: Path, runs: list[Job]) -> None:
    """Write summary.json, summary.md and one picture for each data set, and print the tables."""
    final, ablation = finals(runs), ablations(runs)
    (out / "summary.json").write_text(json.dumps({"final": final, "ablation": ablation}, indent=1))
    lines = [
        "| data | method | lr | options | seeds | train loss | test accuracy | s/epoch |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in final:
        loss = f"{row['loss']:.4f} ± {row['loss_sd']:.4f}"
        accuracy = f"{row['accuracy']:.4f} ± {row['accuracy_sd']:.4f}"
        start = f"| {row['dataset']} | {row['method']} | {row['lr']:g} | {words(row['options'])} | {row['seeds']} "
        lines.append(f"{start}| {loss} | {accuracy} | {row['seconds']:.2f} |")
    lines += ["", "| data | method | setting | best lr | train loss | test accuracy |", "|---|---|---|---|---|---|"]
    for row in ablation:
        start = f"| {row['dataset']} | {row['method']} | {words(row['options'])} | {row['lr']:g} "
        lines.append(f"{start}| {row['loss']:.4f} | {row['accuracy']:.4f} |")
    (out / "summary.md").write_text("\n".join(lines) + "\n")
    for dataset in {row["dataset"] for row in final}:
        (out / f"curves-{dataset}.svg").write_text(picture(dataset, runs))
    print("\n".join(lines))


def timed(runs: list[Job], dataset: str) -> set[int]:
    """The seeds that all methods have: seconds are of these alone, for others ran at another time."""
    seeds = [{run["seed"] for run in runs if run["stage"] == "final" and is_of(run, dataset, m)} for m in METHODS]
    return set.intersection(*filter(None, seeds))


def finals(runs: list[Job]) -> list[Job]:
    """Mean and spread over the seeds, best training loss first."""
    rows = []
    runs = [run for run in runs if run["stage"] == "final"]
    for dataset, method in sorted({(run["dataset"], run["method"]) for run in runs}):
        seeds = timed(runs, dataset)
        mine = [run for run in runs if is_of(run, dataset, method)]
        losses = [last_loss(run) for run in mine]
        accuracies = [run["curve"][-1]["accuracy"] for run in mine]
        row = {name: mine[0][name] for name in ("dataset", "method", "lr", "options")}
        row |= {"seeds": len(mine), "loss": statistics.fmean(losses), "accuracy": statistics.fmean(accuracies)}
        row["loss_sd"] = statistics.pstdev(losses) if all(map(math.isfinite, losses)) else math.nan
        row["accuracy_sd"] = statistics.pstdev(accuracies)
        curves = [run["curve"] for run in mine if run["seed"] in seeds or not seeds]
        row["seconds"] = statistics.fmean(curve[-1]["seconds"] / len(curve) for curve in curves)
        rows.append(row)
    return sorted(rows, key=lambda row: (row["dataset"], row["loss"]))


def ablations(runs: list[Job]) -> list[Job]:
    """The best rate of each setting."""
    rows = []
    runs = [run for run in runs if run["stage"] == "ablate"]
    for dataset, method, options in sorted({(r["dataset"], r["method"], json.dumps(r["options"])) for r in runs}):
        mine = [run for run in runs if is_of(run, dataset, method) and json.dumps(run["options"]) == options]
        best = min(mine, key=last_loss)
        row = {name: best[name] for name in ("dataset", "method", "lr", "options")}
        rows.append(row | {"loss": last_loss(best), "accuracy": best["curve"][-1]["accuracy"], "trials": len(mine)})
    return rows


def words(options: dict[str, Any]) -> str:
    """Options in a table's cell."""
    return ", ".join(name if value is True else f"{name} {value:g}" for name, value in options.items()) or "defaults"


def picture(dataset: str, runs: list[Job]) -> str:
    """Four small plots: training loss and test accuracy against epochs and against seconds.

    Means over the seeds that all methods have.
    """
    series: dict[str, tuple[str, list[dict[str, float]]]] = {}
    names, seeds = ("epoch", "loss", "accuracy", "seconds"), timed(runs, dataset)
    for colour, method in zip(COLOURS, METHODS, strict=True):
        of_method = [run for run in runs if run["stage"] == "final" and is_of(run, dataset, method)]
        mine = [run["curve"] for run in of_method if run["seed"] in seeds]
        mine = [curve for curve in mine if curve[-1]["loss"] is not None]
        length = min(map(len, mine), default=0)
        if length:
            means = [{n: statistics.fmean(curve[i][n] for curve in mine) for n in names} for i in range(length)]
            series[method] = colour, means
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 600" font-family="sans-serif" font-size="11">']
    for number, (value, over) in enumerate((v, o) for o in ("epoch", "seconds") for v in ("loss", "accuracy")):
        parts += panel(series, value, over, 60 + 420 * (number % 2), 30 + 270 * (number // 2), dataset)
    for k, (method, (colour, _)) in enumerate(series.items()):
        parts.append(f'<text x="{60 + 80 * k}" y="590" fill="{colour}">{method}</text>')
    return "\n".join([*parts, "</svg>"])


def panel(
    series: dict[str, tuple[str, list[dict[str, float]]]], value: str, over: str, left: int, top: int, dataset: str
) -> list[str]:
    """One plot; the worst twelfth of the points may leave it, so that the rest can be told apart."""
    points = sorted(point[value] for _, curve in series.values() for point in curve)
    if not points:
        return []
    x1 = max(point[over] for _, curve in series.values() for point in curve)
    rest = len(points) // 12
    y0, y1 = (points[0], points[-1 - rest]) if value == "loss" else (points[rest], points[-1])
    y1 = max(y1, y0 + 1e-9)
    title = f"{dataset}: {'training loss' if value == 'loss' else 'test accuracy'} over {over}"
    parts = [
        f'<text x="{left}" y="{top - 8}">{title}</text>',
        f'<rect x="{left}" y="{top}" width="300" height="210" fill="none" stroke="#999"/>',
    ]
    for share in (0.0, 0.5, 1.0):
        label = f"{y0 + share * (y1 - y0):.3g}"
        parts.append(f'<text x="{left - 6}" y="{top + 214 - 210 * share:.0f}" text-anchor="end">{label}</text>')
        label = f"{share * x1:.3g}"
        parts.append(f'<text x="{left + 300 * share:.0f}" y="{top + 226}" text-anchor="middle">{label}</text>')
    for colour, curve in series.values():
        places = []
        for point in curve:
            height = min(1.0, max(0.0, (point[value] - y0) / (y1 - y0)))
            places.append(f"{left + 300 * point[over] / x1:.1f},{top + 210 - 210 * height:.1f}")
        parts.append(f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return parts
