"""Figure 1: error against the condition number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onsketch.experiments.checks import against, groups, percent, value
from onsketch.experiments.contest import Contest
from onsketch.experiments.design import Cell, Chart, Claim, Conditions, Experiment, Results, Row, Verdict
from onsketch.experiments.luo2016.paper import PAPER, SETUP, WIDER, adagrad, sketched


def _contests(conditions: Conditions) -> list[Contest]:
    effort = conditions.effort
    step = effort.of(6, 2, 1)
    entries = [adagrad(step), *(sketched(f"oja-son, m = {m}", m, step) for m in (0, 5, 10))]
    kappas = effort.of([10, 200], [10, 50, 100, 150, 200], list(range(10, 201, 10)))
    rows = effort.of(400, 10_000, 10_000)
    return [
        Contest(
            {"name": "ill_conditioned", "rows": rows, "condition": float(kappa)},
            entries, effort.of(2, 3, 5), "error", about={"condition": kappa},
        )
        for kappa in kappas
    ]  # fmt: skip


def _cells(conditions: Conditions, results: Results) -> Iterable[Cell]:
    for contest in _contests(conditions):
        yield from contest.cells(results)


def _rows(conditions: Conditions, results: Results) -> list[Row]:
    return [row for contest in _contests(conditions) for row in contest.rows(results, ["error"])]


def _ends(rows: Sequence[Row], learner: str) -> tuple[float, float]:
    kappas = groups(rows, "condition")
    return (
        value(rows, "error", learner=learner, condition=min(kappas)),
        value(rows, "error", learner=learner, condition=max(kappas)),
    )


def _hardly_worsens(rows: Sequence[Row]) -> Verdict:
    easy, hard = _ends(rows, "oja-son, m = 10")
    first, last = _ends(rows, "adagrad")
    words = f"from {percent(easy)} to {percent(hard)}, where adagrad goes from {percent(first)} to {percent(last)}"
    return Verdict(hard < last and hard - easy < 0.35 * (last - first), words)


def _degrades(rows: Sequence[Row]) -> Verdict:
    easy, hard = _ends(rows, "adagrad")
    return Verdict(hard > 1.2 * easy, f"adagrad's error goes from {percent(easy)} to {percent(hard)}")


def _size_helps(rows: Sequence[Row]) -> Verdict:
    hard = [_ends(rows, f"oja-son, m = {m}")[1] for m in (0, 5, 10)]
    words = ", ".join(f"m = {m}: {percent(error)}" for m, error in zip((0, 5, 10), hard, strict=True))
    return Verdict(hard[0] > hard[1] > hard[2], f"at the largest condition number {words}")


def _plain_is_worse(rows: Sequence[Row]) -> Verdict:
    plain, diagonal = _ends(rows, "oja-son, m = 0")[1], _ends(rows, "adagrad")[1]
    return Verdict(plain > diagonal, f"at the largest condition number {percent(plain)} against {percent(diagonal)}")


def _charts(rows: Sequence[Row]) -> list[Chart]:
    lines = [
        line._replace(y=[100 * y for y in line.y], spread=line.spread and [100 * half for half in line.spread])
        for line in against(rows, "condition", "error")
    ]
    title = "Progressive error against the condition number"
    return [Chart("error", title, lines, "condition number", "progressive error (%)")]


EXPERIMENT = Experiment(
    "luo2016-fig1", PAPER, "Figure 1", "Error against the condition number of the features",
    f"Synthetic rows, d = 100, 10,000 of them, labels the same at every condition number. {SETUP} chosen at each "
    "condition number on the first data set, repeated on others. Metric: share of signs mistaken before learning.",
    _cells, _rows, _charts,
    (
        Claim("AdaGrad degrades when the data is ill-conditioned.", _degrades),
        Claim("Without a sketch (m = 0) Oja-SON is worse than AdaGrad.", _plain_is_worse),
        Claim("As the sketch grows (0, 5, 10), Oja-SON becomes more accurate.", _size_helps),
        Claim("At m = 10 it is substantially better and hardly worsens with the condition number.",
              _hardly_worsens),
    ),
    {"condition": "condition", "learner": "learner", "error": "error", "error_sd": "±", "setting": "setting"},
    notes=(WIDER,),
)  # fmt: skip
