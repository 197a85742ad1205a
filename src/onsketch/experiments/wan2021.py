"""Y. Wan, L. Zhang: Efficient Adaptive Online Learning via Frequent Directions, 2021 (Ada-FD and Ada-FFD)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from onsketch.experiments import networks
from onsketch.experiments.checks import against, ahead, curves, groups, pick, powers, value
from onsketch.experiments.contest import Contest, Entry, score
from onsketch.experiments.design import Cell, Chart, Claim, Conditions, Experiment, Paper, Results, Row, Verdict

PAPER = Paper("wan2021", "Y. Wan, L. Zhang. Efficient Adaptive Online Learning via Frequent Directions. 2021.")
OURS = ("ada-fd", "ada-ffd")
RULES = {"mirror": "CMD (mirror descent)", "dual": "PDS (dual averaging)"}


def _grids(conditions: Conditions) -> tuple[dict[str, list[float]], dict[str, list[float]], dict[str, list[float]]]:
    """Steps; steps and ridges; the thinned grid of what costs O(d²) or O(d³) a round."""
    effort = conditions.effort
    steps = {"step_size": powers(10.0, -4, 0, effort.of(2, 1, 1))}
    both = {**steps, "ridge": powers(10.0, -4, 1, effort.of(5, 1, 1))}
    thin = effort.of(
        {"step_size": [0.1], "ridge": [1.0]},
        {"step_size": [0.01, 0.1, 1.0], "ridge": [0.1, 10.0]},
        {"step_size": [0.001, 0.01, 0.1, 1.0], "ridge": [0.01, 1.0]},
    )
    return steps, both, thin


def _sketched(label: str, method: str, size: int, grid: dict[str, Any], loss: str, **options: Any) -> Entry:
    if method.endswith("-son"):
        options |= {"curvature": 1.0, "clip": None}
    given = {"loss": loss, "sketch_size": size, **options}
    return Entry(label, method, given, grid, random=method in ("radagrad", "ada-lr"))


def _full(conditions: Conditions, loss: str, **options: Any) -> Entry:
    return Entry("ada-full", "ada-full", {"loss": loss, **options}, _grids(conditions)[2])


def _first_order(conditions: Conditions, loss: str) -> list[Entry]:
    steps = _grids(conditions)[0]
    return [
        Entry("adagrad", "adagrad", {"loss": loss, "ridge": 1e-8}, steps),
        Entry("ogd", "ogd", {"loss": loss}, steps),
        Entry("adam", "adam", {"loss": loss, "ridge": 1e-8}, steps),
    ]


def _regression(conditions: Conditions) -> dict[str, Any]:
    effort = conditions.effort
    rows, dimension = effort.of(150, 2_000, 10_000), effort.of(50, 200, 500)
    return {"name": "low_rank_regression", "rows": rows, "dimension": dimension}


# Figures 1 and 2 -----------------------------------------------------------------------------------------------------


def _contests1(conditions: Conditions) -> list[Contest]:
    steps, both, thin = _grids(conditions)
    mirror = [_sketched(name, name, 20, steps, "absolute", ridge=1.0) for name in OURS]
    mirror += [_full(conditions, "absolute"), *_first_order(conditions, "absolute")]
    mirror += [
        _sketched("radagrad", "radagrad", 20, both, "absolute"),
        _sketched("fd-son", "fd-son", 20, both, "absolute"),
    ]
    mirror.append(_sketched("ada-lr", "ada-lr", 20, thin, "absolute"))
    dual = [_sketched(name, name, 20, steps, "absolute", ridge=10.0, update="dual") for name in OURS]
    dual.append(Entry("adagrad", "adagrad", {"loss": "absolute", "ridge": 1e-8, "update": "dual"}, steps))
    dual.append(_full(conditions, "absolute", update="dual"))
    repeats = conditions.effort.of(1, 5, 20)
    return [
        Contest(_regression(conditions), entries, repeats, "loss", reshuffle=False, about={"rule": RULES[rule]})
        for rule, entries in (("mirror", mirror), ("dual", dual))
    ]


def _cells1(conditions: Conditions, results: Results) -> Iterable[Cell]:
    for contest in _contests1(conditions):
        yield from contest.cells(results)


def _rows1(conditions: Conditions, results: Results) -> list[Row]:
    return [row for contest in _contests1(conditions) for row in contest.rows(results, ["loss"])]


def _close_to_full(rows: Sequence[Row]) -> Verdict:
    parts, holds = [], []
    for rule in groups(rows, "rule"):
        mine = pick(rows, rule=rule)
        full = value(mine, "loss", learner="ada-full")
        ours = [value(mine, "loss", learner=name) for name in OURS]
        holds.append(max(ours) < 1.5 * full)
        parts.append(f"{rule}: ada-full {full:.4g}, ada-fd {ours[0]:.4g}, ada-ffd {ours[1]:.4g}")
    return Verdict(all(holds), f"within 1.5 times its regret? {'; '.join(parts)}")


def _charts1(rows: Sequence[Row]) -> list[Chart]:
    found = []
    for key, rule in RULES.items():
        lines = curves(pick(rows, rule=rule), "losses")
        found.append(Chart(key, f"Regret, {rule}", lines, "rows", "regret", log_y=True))
    return found


def _rows2(conditions: Conditions, results: Results) -> list[Row]:
    rows = []
    for contest in _contests1(conditions):
        for entry in contest.entries:
            for step in entry.grid["step_size"]:
                cells = [cell for cell in contest.grid(entry) if cell.given["options"]["step_size"] == step]
                best = min(score(results[cell], "loss") for cell in cells)
                rows.append({**contest.about, "learner": entry.label, "step_size": step,
                             "loss": best if math.isfinite(best) else None})  # fmt: skip
    return rows


def _alike(rows: Sequence[Row]) -> Verdict:
    """By how much regret grows at a tenth or ten times the best step."""
    mine = pick(rows, rule=RULES["mirror"])
    growth = {}
    for name in groups(mine, "learner"):
        losses = [row["loss"] if row["loss"] is not None else math.inf for row in pick(mine, learner=name)]
        at = losses.index(min(losses))
        beside = [losses[k] for k in (at - 1, at + 1) if 0 <= k < len(losses)]
        if beside and min(losses) > 0:
            growth[name] = min(beside) / min(losses)
    told = ", ".join(f"{name} {ratio:.1f}" for name, ratio in growth.items())
    ours = max((growth.get(name, math.inf) for name in OURS), default=math.inf)
    others = max((ratio for name, ratio in growth.items() if name not in OURS), default=math.nan)
    return Verdict(
        ours <= 2.0 * others, f"regret at the better neighbour of the best step, in units of the best: {told}"
    )


def _charts2(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(key, f"Regret against the step size, {rule}", against(pick(rows, rule=rule), "step_size", "loss"),
              "step size η", "total regret", log_x=True, log_y=True)
        for key, rule in RULES.items()
    ]  # fmt: skip


# Figure 3 ------------------------------------------------------------------------------------------------------------


def _contests3(conditions: Conditions) -> list[Contest]:
    steps, both, thin = _grids(conditions)
    found = []
    for size in conditions.effort.of([10, 20], [20, 40, 80], [20, 40, 60, 80]):
        entries = []
        for name in OURS:
            grid, fixed = (steps, {"ridge": 1.0}) if size == 20 else (both, {})
            entries.append(_sketched(name, name, size, grid, "absolute", **fixed))
        entries += [_sketched("radagrad", "radagrad", size, conditions.effort.of(thin, thin, both), "absolute")]
        entries += [_sketched("fd-son", "fd-son", size, both, "absolute")]
        entries += [_sketched("ada-lr", "ada-lr", size, thin, "absolute"), _full(conditions, "absolute")]
        found.append(
            Contest(_regression(conditions), entries, conditions.effort.of(1, 1, 5), "loss", reshuffle=False,
                    about={"size": size})
        )  # fmt: skip
    return found


def _cells3(conditions: Conditions, results: Results) -> Iterable[Cell]:
    for contest in _contests3(conditions):
        yield from contest.cells(results)


def _bare(contests: Sequence[Contest], results: Results, metrics: Sequence[str]) -> list[Row]:
    rows = [row for contest in contests for row in contest.rows(results, metrics)]
    return [{name: entry for name, entry in row.items() if not name.startswith("curve")} for row in rows]


def _rows3(conditions: Conditions, results: Results) -> list[Row]:
    return _bare(_contests3(conditions), results, ["loss"])


def _falls(rows: Sequence[Row]) -> Verdict:
    sizes = groups(rows, "size")
    parts, holds = [], []
    for name in ("ada-fd", "ada-ffd", "radagrad", "fd-son", "ada-lr"):
        first, last = (value(rows, "loss", learner=name, size=size) for size in (sizes[0], sizes[-1]))
        holds.append(last < first)
        parts.append(f"{name} {first:.4g} to {last:.4g}")
    return Verdict(all(holds), f"from τ = {sizes[0]} to {sizes[-1]}: {', '.join(parts)}")


def _beats_full(rows: Sequence[Row]) -> Verdict:
    last = pick(rows, size=groups(rows, "size")[-1])
    full = value(last, "loss", learner="ada-full")
    ours = [value(last, "loss", learner=name) for name in OURS]
    return Verdict(max(ours) < full, f"ada-full {full:.4g}, ada-fd {ours[0]:.4g}, ada-ffd {ours[1]:.4g}")


def _ffd_faster(rows: Sequence[Row]) -> Verdict:
    ratios = {
        size: value(rows, "microseconds", learner="ada-fd", size=size)
        / value(rows, "microseconds", learner="ada-ffd", size=size)
        for size in groups(rows, "size")
    }
    told = ", ".join(f"{ratio:.1f} times at τ = {size}" for size, ratio in ratios.items())
    return Verdict(all(ratio > 1.0 for ratio in ratios.values()), f"ada-fd takes {told} as long")


def _charts3(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart("regret", "Total regret against τ", against(rows, "size", "loss"), "τ", "total regret", log_y=True),
        Chart("time", "Time of a row against τ", against(rows, "size", "microseconds"), "τ", "µs a row", log_y=True),
    ]


# Figure 4 ------------------------------------------------------------------------------------------------------------


def _contests4(conditions: Conditions) -> list[Contest]:
    effort = conditions.effort
    dimension = effort.of(12, 100, 500)
    half = dimension // 2
    shares = (0.1, 0.2, 0.4, 0.6, 0.8)
    sizes = sorted({max(2, round(share * half)) for share in shares} | {half - 1, half, half + 1})
    grid = effort.of(
        {"step_size": [0.1], "ridge": [1.0]},
        {"step_size": [0.01, 0.1, 1.0], "ridge": [0.1, 1.0, 10.0]},
        {"step_size": [0.01, 0.1, 1.0], "ridge": [0.1, 1.0, 10.0]},
    )
    stream = {"name": "low_rank_regression", "rows": effort.of(100, 2_000, 10_000), "dimension": dimension}
    found = []
    for size in sizes:
        entries = [_sketched(name, name, size, grid, "absolute") for name in OURS]
        full = Entry("ada-full", "ada-full", {"loss": "absolute"}, grid)
        found.append(Contest(stream, [*entries, full], about={"size": size, "dimension": dimension}))
    return found


def _cells4(conditions: Conditions, results: Results) -> Iterable[Cell]:
    for contest in _contests4(conditions):
        yield from contest.cells(results)


def _rows4(conditions: Conditions, results: Results) -> list[Row]:
    return _bare(_contests4(conditions), results, ["loss"])


def _jump(rows: Sequence[Row]) -> Verdict:
    half = rows[0]["dimension"] // 2
    before, after = (value(rows, "loss", learner="ada-ffd", size=size) for size in (half, half + 1))
    full = value(rows, "loss", learner="ada-full", size=half + 1)
    same = abs(after - full) <= 1e-6 * full
    words = f"τ = {half}: {before:.4g}, τ = {half + 1}: {after:.6g}, ada-full: {full:.6g}"
    return Verdict(same and before < after, words)


def _charts4(rows: Sequence[Row]) -> list[Chart]:
    return [Chart("regret", "Total regret against τ", against(rows, "size", "loss"), "τ", "total regret")]


# Figures 5 to 7 ------------------------------------------------------------------------------------------------------


def _contests5(conditions: Conditions) -> list[Contest]:
    effort = conditions.effort
    steps, both, thin = _grids(conditions)
    found = []
    for name in conditions.sources.among("gisette", "epsilon"):
        stream = {"name": name, "rows": effort.of(60, 1_000, 20_000 if name == "epsilon" else None)}
        mirror = [_sketched("ada-ffd", "ada-ffd", 20, steps, "squared_hinge", ridge=1.0)]
        mirror += _first_order(conditions, "squared_hinge")
        mirror.append(_sketched("radagrad", "radagrad", 20, effort.of(thin, thin, both), "squared_hinge"))
        mirror.append(_sketched("fd-son", "fd-son", 20, effort.of(thin, both, both), "squared_hinge"))
        dual = [_sketched("ada-ffd", "ada-ffd", 20, steps, "squared_hinge", ridge=10.0, update="dual")]
        options = {"loss": "squared_hinge", "ridge": 1e-8, "update": "dual"}
        dual.append(Entry("adagrad", "adagrad", options, steps))
        for rule, entries in (("mirror", mirror), ("dual", dual)):
            about = {"data": name, "rule": RULES[rule], "case": f"{name}, {RULES[rule]}"}
            found.append(Contest(stream, entries, effort.of(1, 3, 20), "mistakes", about=about))
    return found


def _cells5(conditions: Conditions, results: Results) -> Iterable[Cell]:
    for contest in _contests5(conditions):
        yield from contest.cells(results)


def _rows5(conditions: Conditions, results: Results) -> list[Row]:
    metrics = ["mistakes", "test_error"]
    return [row for contest in _contests5(conditions) for row in contest.rows(results, metrics)]


def _charts5(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(f"{number}", f"{case}: mistakes", curves(pick(rows, case=case), "mistakes"), "rows", "mistakes so far")
        for number, case in enumerate(groups(rows, "case"), 1)
    ]


# Figures 8 and 9 -----------------------------------------------------------------------------------------------------


def _rows8(conditions: Conditions, results: Results) -> list[Row]:
    names = ("ada-ffd", "adagrad", "radagrad", "fd-son", "ogd", "adam")
    return networks.rows_of(conditions.sources.networks, names)


def _little_slower(rows: Sequence[Row]) -> Verdict:
    ratios = {
        data: value(rows, "seconds", data=data, learner="ada-ffd")
        / value(rows, "seconds", data=data, learner="adagrad")
        for data in groups(rows, "data")
    }
    told = ", ".join(f"{ratio:.2f} times on {data}" for data, ratio in ratios.items())
    return Verdict(
        all(ratio < 1.5 for ratio in ratios.values()), f"an epoch of ada-ffd takes {told} as long as adagrad"
    )


_COLUMNS = {
    "rule": "update", "data": "data", "size": "τ", "dimension": "d", "learner": "learner", "step_size": "η",
    "loss": "regret", "loss_sd": "±", "mistakes": "mistakes", "mistakes_sd": "± ", "test_error": "test error",
    "microseconds": "µs a row", "setting": "setting", "tried": "settings tried",
}  # fmt: skip
_THINNED = (
    "Full-matrix AdaGrad (O(d³) a round) and Ada-LR (O(d²)) are tuned on a thinned grid, shown as settings tried."
)
_SETUP = (
    "10,000 rows, d = 500, noiseless target, absolute loss; step sizes 1e-4 to 1, ridges 1e-4 to 10 where tuned "
    "(Ada-FD and Ada-FFD at τ = 20 have ridge 1, in dual averaging 10), chosen by regret."
)
_SHORT = "Effort short: 2,000 rows, d = 200 (figure 4: d = 100)."
_NEWTON = "FD-SON: rows enter unscaled (curvature 1), no clipping, step size tuned too."
_BASELINES = ("adagrad", "radagrad", "fd-son", "ogd", "adam")

EXPERIMENTS = (
    Experiment(
        "wan2021-fig1", PAPER, "Figure 1", "Synthetic regression: regret at τ = 20", _SETUP, _cells1, _rows1, _charts1,
        (
            Claim("Ada-FD and Ada-FFD have less regret than AdaGrad under both updates.",
                  ahead("loss", OURS, ("adagrad",), "rule")),
            Claim("They are close to full-matrix AdaGrad.", _close_to_full),
            Claim("With mirror descent they have less than Ada-LR, RadaGrad, FD-SON, OGD and Adam.",
                  lambda rows: ahead("loss", OURS, ("ada-lr", "radagrad", "fd-son", "ogd", "adam"))(
                      pick(rows, rule=RULES["mirror"]))),
        ),
        _COLUMNS, notes=(_THINNED, _NEWTON, _SHORT),
    ),
    Experiment(
        "wan2021-fig2", PAPER, "Figure 2", "Sensitivity to the step size",
        "The runs of figure 1: total regret at each step size, the best ridge where there is a choice.",
        lambda conditions, results: [c for k in _contests1(conditions) for e in k.entries for c in k.grid(e)],
        _rows2, _charts2, (Claim("All algorithms are similarly sensitive to the step size.", _alike),),
        _COLUMNS, notes=(_THINNED, _SHORT),
    ),
    Experiment(
        "wan2021-fig3", PAPER, "Figure 3", "Sketch size: regret and time", _SETUP, _cells3, _rows3, _charts3,
        (
            Claim("Regret decreases as τ grows from 20 to 80.", _falls),
            Claim("Ada-FD and Ada-FFD always outperform Ada-LR, RadaGrad and FD-SON.",
                  ahead("loss", OURS, ("ada-lr", "radagrad", "fd-son"), "size")),
            Claim("At τ = 80 they slightly outperform full-matrix AdaGrad.", _beats_full),
            Claim("Ada-FFD is faster than Ada-FD.", _ffd_faster),
            Claim("Both are significantly faster than full-matrix AdaGrad.",
                  ahead("microseconds", OURS, ("ada-full",), "size", slack=0.5)),
        ),
        _COLUMNS, notes=(_THINNED, _NEWTON, _SHORT),
    ),
    Experiment(
        "wan2021-fig4", PAPER, "Figure 4", "The jump of Ada-FFD where 2τ exceeds d",
        f"{_SETUP} Step sizes 0.01 to 1, ridges 0.1 to 10.", _cells4, _rows4, _charts4,
        (Claim("Ada-FFD falls back to the regret of full-matrix AdaGrad, exactly, from τ = d/2 to d/2 + 1.", _jump),),
        _COLUMNS, notes=(_SHORT,),
    ),
    Experiment(
        "wan2021-fig5", PAPER, "Figures 5 to 7", "Gisette and Epsilon: mistakes, test accuracy, time",
        "One pass, squared hinge loss, τ = 20; grids as in figure 1, chosen by mistakes on one order, repeated on "
        "others.",
        _cells5, _rows5, _charts5,
        (
            Claim("Ada-FFD makes fewer mistakes than AdaGrad, RadaGrad, FD-SON, OGD and Adam on gisette.",
                  lambda rows: ahead("mistakes", ("ada-ffd",), _BASELINES, "case")(
                      [row for row in rows if row["data"] != "epsilon"])),
            Claim("Its test error is lower than theirs.", ahead("test_error", ("ada-ffd",), _BASELINES, "case")),
            Claim("It is faster than RadaGrad and FD-SON.",
                  ahead("microseconds", ("ada-ffd",), ("radagrad", "fd-son"), "case")),
        ),
        _COLUMNS, needs=("gisette", "epsilon"),
        notes=("Where gisette is absent, gisette-like is a stand-in made from MNIST, not gisette. Of epsilon the first "
               "20,000 rows of each order. Effort short: 1,000 rows, RadaGrad on a thinned grid.", _NEWTON),
    ),
    Experiment(
        "wan2021-fig8", PAPER, "Figures 8 and 9", "A small CNN: training loss, test accuracy, time of an epoch",
        networks.HOW, networks.no_cells, _rows8, networks.charts_of,
        (
            Claim("Ada-FFD has a lower training loss than AdaGrad, RadaGrad, FD-SON and OGD on every set.",
                  ahead("loss", ("ada-ffd",), ("adagrad", "radagrad", "fd-son", "ogd"), "data")),
            Claim("Its test error is lower than theirs.",
                  ahead("error", ("ada-ffd",), ("adagrad", "radagrad", "fd-son", "ogd"), "data")),
            Claim("It is only a little slower than AdaGrad.", _little_slower),
        ),
        networks.COLUMNS, notes=networks.NOTES,
    ),
)  # fmt: skip
