"""The papers' experiments: cells are kept and found again, settings are chosen honestly, everything runs in little."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from onsketch.data import a9a_like
from onsketch.experiments import PAPERS, chosen, every
from onsketch.experiments.checks import ahead
from onsketch.experiments.contest import Contest, Entry, learn, score
from onsketch.experiments.design import (
    FULL,
    IN_TREND,
    NOT_JUDGED,
    NOT_REPRODUCED,
    QUICK,
    REPRODUCED,
    SHORT,
    Cell,
    Claim,
    Conditions,
    Experiment,
    Paper,
    Results,
)
from onsketch.experiments.networks import rows_of
from onsketch.experiments.outcome import made, read
from onsketch.experiments.running import Bench
from onsketch.experiments.streams import Sources
from program import run


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch, tmp_path):
    monkeypatch.delenv("ONSKETCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def experiment_of(cells, rows=lambda conditions, results: []):
    return Experiment("x", Paper("p", "c"), "Figure 0", "t", "s", cells, rows, lambda rows: [], (), {})


def bench(tmp_path, jobs=1):
    return Bench(Conditions(QUICK, Sources()), tmp_path / "runs", jobs)


def test_finished_cells_are_found_again_and_broken_ones_run_again(tmp_path):
    calls = []

    def work(sources, number):
        calls.append(number)
        return {"square": number**2}

    cells = [Cell(work, {"number": n}) for n in range(4)]
    one = experiment_of(lambda conditions, results: cells)
    first = bench(tmp_path)
    first.run(one)
    assert sorted(calls) == [0, 1, 2, 3]
    assert [first.results[cell]["square"] for cell in cells] == [0, 1, 4, 9]
    (tmp_path / "runs" / f"{cells[2].key}.json").write_text('{"result": {"sq')  # as if killed while writing
    calls.clear()
    again = bench(tmp_path)
    reports = []
    again.run(one, lambda done, total: reports.append((done, total)))
    assert calls == [2]
    assert reports[0] == (3, 4)
    assert reports[-1] == (4, 4)
    assert again.results[cells[2]] == {"square": 4}


def squared(sources, number):
    return {"square": number**2}


def failing(sources, number):
    raise ArithmeticError(f"no {number}")


@pytest.mark.slow
def test_processes_share_cells_among_experiments_and_pass_errors_on(tmp_path):
    cells = [Cell(squared, {"number": n}) for n in range(5)]

    def later(conditions, results):
        yield cells[3]
        if cells[3] in results:
            yield Cell(squared, {"number": results[cells[3]]["square"]})

    both = [experiment_of(lambda conditions, results: cells), experiment_of(later)]
    here, reports = bench(tmp_path, jobs=2), []
    finished = list(here.run_all(both, lambda experiment, done, total: reports.append((done, total))))
    assert {id(experiment) for experiment in finished} == {id(experiment) for experiment in both}
    assert here.results[Cell(squared, {"number": 9})] == {"square": 81}
    assert (5, 5) in reports
    assert (2, 2) in reports
    assert len(list((tmp_path / "runs").iterdir())) == 6
    alone = bench(tmp_path)
    alone.run(both[0])
    assert [alone.results[cell]["square"] for cell in cells] == [0, 1, 4, 9, 16]
    with pytest.raises(ArithmeticError, match="no 7"):
        bench(tmp_path, jobs=2).run(experiment_of(lambda conditions, results: [Cell(failing, {"number": 7})]))


def test_an_error_in_a_cell_leaves_the_finished_ones(tmp_path):
    def fail(sources, number):
        if number == 1:
            raise RuntimeError("no")
        return {}

    cells = [Cell(fail, {"number": n}) for n in range(2)]
    with pytest.raises(RuntimeError, match="no"):
        bench(tmp_path).run(experiment_of(lambda conditions, results: cells))
    assert (tmp_path / "runs" / f"{cells[0].key}.json").exists()


def test_later_cells_may_depend_on_earlier_ones(tmp_path):
    def work(sources, number):
        return {"next": number + 1}

    def cells(conditions, results: Results):
        cell = Cell(work, {"number": 0})
        yield cell
        while cell in results and results[cell]["next"] < 3:
            cell = Cell(work, {"number": results[cell]["next"]})
            yield cell

    here = bench(tmp_path)
    here.run(experiment_of(cells))
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_the_contest_takes_the_best_of_the_grid_and_repeats_only_that(tmp_path):
    steps = [1e-6, 0.05, 1e3]
    entry = Entry("adagrad", "adagrad", {"loss": "squared"}, {"step_size": steps})
    contest = Contest(
        {"name": "ill_conditioned", "rows": 300, "condition": 10.0}, [entry], 3, "loss", about={"data": "synthetic"}
    )
    here = bench(tmp_path)
    here.run(experiment_of(lambda conditions, results: contest.cells(results)))
    losses = [score(here.results[cell], "loss") for cell in contest.grid(entry)]
    best = steps[int(np.argmin(losses))]
    (row,) = contest.rows(here.results, ["loss", "error"])
    assert row["setting"] == f"step_size {best:g}"
    assert row["tried"] == 3
    assert row["repeats"] == 3
    assert len(list((tmp_path / "runs").iterdir())) == 3 + 2
    runs = [score(here.results[cell], "loss") for cell in contest.runs(entry, here.results)]
    assert row["loss"] == pytest.approx(np.mean(runs))
    assert row["loss_sd"] == pytest.approx(np.std(runs, ddof=1))
    assert row["curve_losses"][-1] == pytest.approx(row["loss"])
    assert row["at_edge"] == (best != 0.05)


def test_a_pass_counts_what_was_predicted_before_learning():
    import onsketch

    stream = {"name": "ill_conditioned", "rows": 200, "condition": 50.0, "seed": 1}
    result = learn(Sources(), stream, "ogd", {"loss": "squared", "step_size": 0.01}, 0)
    data = Sources().stream(**stream)
    margins = onsketch.learner("ogd", loss="squared", step_size=0.01).learn(data.X, data.y)
    assert result["losses"][-1] == pytest.approx(float(np.sum((margins - data.y) ** 2)))
    assert result["mistakes"][-1] == int(np.sum(margins * data.y <= 0))
    assert result["rows"][-1] == 200
    assert not result["diverged"]


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_algorithm_6_is_its_pseudo_code_and_leaves_each_row_within_its_set(ridge):
    """luo2019, Algorithm 6, written out; the public learner must agree."""
    import onsketch

    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 9)), np.sign(rng.normal(size=60))
    size = 3
    learner = onsketch.learner(
        "rfd-son", loss="squared", sketch_size=size, ridge=ridge, curvature_schedule="1/t", projection="after"
    )
    B, alpha, w = np.zeros((0, 9)), ridge, np.zeros(9)
    for t, (x, label) in enumerate(zip(X, y, strict=True), 1):
        assert learner.learn(x[None], np.array([label]))[0] == pytest.approx(w @ x, rel=1e-6, abs=1e-8)
        gradient = 2.0 * (w @ x - label) * x
        B = np.vstack([B, np.sqrt(0.125 + 1.0 / t) * gradient])
        if len(B) == 2 * size:
            values, V = np.linalg.svd(B, full_matrices=False)[1:]
            B = np.sqrt(values[: size - 1] ** 2 - values[size - 1] ** 2)[:, None] * V[: size - 1]
            alpha += values[size - 1] ** 2 / 2.0
        inverse = np.linalg.pinv(B.T @ B + alpha * np.eye(9), rcond=1e-12, hermitian=True)
        u = w - inverse @ gradient
        over = np.sign(u @ x) * max(abs(u @ x) - 1.0, 0.0)
        w = u - over / (x @ inverse @ x) * (inverse @ x)
        assert abs(w @ x) <= 1.0 + 1e-9
        assert abs(learner.predict(x[None])[0]) <= 1.0 + 1e-6


def test_claims_of_order_are_judged():
    rows = [{"learner": "a", "m": 1.0, "d": "x"}, {"learner": "b", "m": 2.0, "d": "x"}]
    assert ahead("m", ["a"], ["b"])(rows).holds is True
    assert ahead("m", ["b"], ["a"])(rows).holds is False
    assert ahead("m", ["a"], ["c"])(rows).holds is None
    rows += [{"learner": "a", "m": 3.0, "d": "y"}, {"learner": "b", "m": 2.0, "d": "y"}]
    verdict = ahead("m", ["a"], ["b"], "d")(rows)
    assert verdict.holds is False
    assert "y: a 3, b 2" in verdict.words
    rows.append({"learner": "c", "m": None, "d": "x"})
    assert "c" not in ahead("m", ["a"], ["b", "c"], "d")(rows).words


def test_experiments_are_declared_for_every_paper():
    known = every()
    assert {experiment.paper.name for experiment in known.values()} == set(PAPERS)
    assert len(known) >= 18
    for name, experiment in known.items():
        assert name.startswith(experiment.paper.name)
        assert experiment.claims
        assert experiment.setup
    assert chosen(["luo2016", "luo2016-fig1"]) == chosen(["luo2016"])
    assert QUICK.of(1, 2, 3) < SHORT.of(1, 2, 3) < FULL.of(1, 2, 3)


def test_grids_grow_with_the_effort():
    for experiment in every().values():
        counts = [len(list(experiment.cells(Conditions(effort, Sources()), {}))) for effort in (QUICK, SHORT, FULL)]
        assert counts[0] <= counts[1] <= counts[2], experiment.name


def test_the_runs_of_the_networks_are_read(tmp_path):
    assert rows_of(tmp_path / "none", ["ada-ffd"]) == []
    runs = [
        {"stage": stage, "dataset": "mnist", "method": method, "seed": seed,
         "curve": [{"epoch": e, "loss": loss / e, "accuracy": 0.9, "seconds": 2.0 * seed * e} for e in (1, 2)]}
        for stage, method, seed, loss in (
            ("search", "AdaFFD", 1, 9.0), ("final", "AdaFFD", 1, 1.0), ("final", "AdaFFD", 3, 3.0),
            ("final", "Adam", 1, 1.0),
        )
    ]  # fmt: skip
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, runs)))
    (row,) = rows_of(path, ["ada-ffd"])
    assert row["loss"] == 1.0
    assert row["repeats"] == 2
    assert row["seconds"] == 4.0
    row, _ = rows_of(path, ["ada-ffd", "adam"])
    assert row["seconds"] == 2.0  # of the seed that both have
    assert rows_of(path, ["ogd"]) == []


def test_the_program_lists_and_refuses(tmp_path):
    listed = run("reproduce", "list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in every())
    for arguments, complaint, code in [
        (["nonsense"], "nonsense", 1),
        (["luo2016", "--effort", "huge"], "huge", 2),
        (["luo2016", "--quick", "--effort", "full"], "--quick", 2),
        (["luo2016", "--data", str(tmp_path / "none")], "none", 2),
    ]:
        refused = run("reproduce", *arguments, "--out", str(tmp_path / "out"))
        assert refused.exit_code == code
        assert complaint in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_everything_runs_in_little(tmp_path):
    folder, target = tmp_path / "sets", tmp_path / "out"
    folder.mkdir()
    X, y = a9a_like(400)
    for name in ("a9a", "heart", "farm-ads"):
        part = X[:, :13] if name == "heart" else X
        lines = [
            f"{label:+g} " + " ".join(f"{j + 1}:1" for j in row.nonzero()[-1])
            for row, label in zip(part, y, strict=True)
        ]
        (folder / name).write_text("\n".join(lines))
    result = run("reproduce", "all", "--quick", "--data", str(folder), "--out", str(target))
    assert result.exit_code == 0, result.output
    outcomes = {path.stem: read(path) for path in target.glob("*.json")}
    absent = {"wan2018-fig2", "wan2018-fig4", "wan2021-fig5", "wan2021-fig8", "wan2021-fig10"}
    assert set(outcomes) == set(every()) - absent
    for name, outcome in outcomes.items():
        verdicts = outcome.verdicts(every()[name])
        assert len(verdicts) == len(every()[name].claims)
        with (target / f"{name}.csv").open() as file:
            assert len(list(csv.DictReader(file))) == len(outcome.rows) > 0
    for paper in PAPERS:
        page = (target / f"{paper}.html").read_text()
        assert "<th>the paper</th>" in page or ">the paper<" in page
        assert "A quick run" in page
    # The sharp limits hold even here: rank-counting at 2τ > d is full-matrix AdaGrad; RFD's error is half of FD's.
    assert outcomes["wan2021-fig4"].verdicts(every()["wan2021-fig4"])[0][1].words
    rows = outcomes["wan2021-fig4"].rows
    half = rows[0]["dimension"] // 2 + 1
    same = [row["loss"] for row in rows if row["size"] == half and row["learner"] in ("ada-ffd", "ada-full")]
    assert math.isclose(*same, rel_tol=1e-5)
    small = outcomes["luo2019-fig1"]
    assert all(claim.judge(small.rows).holds for claim in every()["luo2019-fig1"].claims)
    assert all(verdict.grade == NOT_JUDGED for _, verdict in small.verdicts(every()["luo2019-fig1"]))
    count = len(list((target / "runs").iterdir()))
    again = run("reproduce", "luo2019-fig1", "--quick", "--data", str(folder), "--out", str(target))
    assert again.exit_code == 0
    assert len(list((target / "runs").iterdir())) == count


def test_an_outcome_is_read_back_as_it_was(tmp_path):
    experiment = experiment_of(lambda conditions, results: [], lambda conditions, results: [
        {"learner": "a", "data": "d", "loss": 1.25, "bad": math.inf, "curve_x": [1, 2]},
    ])  # fmt: skip
    outcome = made(experiment, Conditions(QUICK, Sources()), {}, "onsketch reproduce x")
    outcome.save(tmp_path, experiment)
    back = read(tmp_path / "x.json")
    assert back.rows == [{"learner": "a", "data": "d", "loss": 1.25, "bad": None, "curve_x": [1, 2]}]
    assert back.data == ["d"]
    assert (tmp_path / "x.csv").read_text() == "learner,data,loss,bad\na,d,1.25,inf\n"


def test_claims_are_judged_on_the_papers_own_data_sets_before_stand_ins():
    claim = Claim("a is below b", ahead("m", ["a"], ["b"], "data"))
    own = [{"learner": "a", "m": 1.0, "data": "a9a"}, {"learner": "b", "m": 2.0, "data": "a9a"}]
    other = [{"learner": "a", "m": 3.0, "data": "hiva"}, {"learner": "b", "m": 2.0, "data": "hiva"}]
    assert claim.judge(own).grade == REPRODUCED
    both = claim.judge(own + other)
    assert both.grade == REPRODUCED
    assert "On stand-ins (not reproduced)" in both.words
    swapped = [{**row, "m": 5.0 - row["m"]} for row in other]
    assert str(claim.judge(swapped)).startswith("Reproduced on a stand-in")
    assert claim.judge(other).grade == NOT_REPRODUCED
    assert claim.judge([]).grade == NOT_JUDGED


def test_a_claim_that_holds_in_most_groups_is_reproduced_in_trend():
    claim = Claim("a is below b", ahead("m", ["a"], ["b"], "data"))
    rows = [{"learner": name, "m": m, "data": d} for d in ("x", "y", "z") for name, m in (("a", 1.0), ("b", 2.0))]
    assert claim.judge(rows).grade == REPRODUCED
    rows[0]["m"] = 3.0
    assert claim.judge(rows).grade == IN_TREND
    rows[2]["m"] = 3.0
    assert claim.judge(rows).grade == NOT_REPRODUCED
