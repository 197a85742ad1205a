"""The pages: what they show is there, well-formed, without a network, and equal to its definition."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import onsketch
from onsketch.jobs.compare import Contender, Race, Track
from onsketch.jobs.standings import gap
from onsketch.report import plots
from onsketch.report.plots import Curve, curves, points, whiskers
from onsketch.report.race import race_page
from onsketch.sketches.study import error_bounds, spectral_error
from program import run


def rows(n: int = 800, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, np.where(X @ [1.0, -1.0, 0.5, 0.0, 0.2] + rng.normal(size=n) > 0, 1.0, -1.0)


def table(path, n: int = 300) -> str:
    X, y = rows(n)
    head = "age,visits,minutes,price,score,label\n"
    path.write_text(head + "\n".join(",".join(map(str, row)) for row in np.column_stack([X, y]).tolist()) + "\n")
    return str(path)


def drawings(page: str) -> list[ElementTree.Element]:
    """The charts of a page, each well-formed; nothing comes from elsewhere."""
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "prefers-color-scheme" in page
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)]


def test_a_race_tells_how_sure_it_is():
    X, y = rows()
    settings = tuple({"step_size": step} for step in (0.01, 0.1))
    blocks = [(X[k : k + 100], y[k : k + 100], None) for k in range(0, 800, 100)]
    field = [Contender("ogd", settings, sketched=False), Contender("adagrad", settings, sketched=False)]
    race = Race([Track("", iter(blocks))], field, {"loss": "logistic"})
    *_, (_, standings) = race.run()
    best, other = (standing.scores[0] for standing in standings)
    found = gap(other, best)
    assert found.ratio == pytest.approx(other.loss / best.loss, rel=1e-2)  # but for the last few rows
    # the definition, from learners of the same settings
    losses = []
    for standing, score in zip(standings, (best, other), strict=True):
        margins = onsketch.learner(standing.name, loss="logistic", **score.setting).learn(X, y)
        losses.append(np.logaddexp(0.0, -y * margins))
    at = [row[0] for row in best.sums]
    edges = np.array(at)[np.unique(np.linspace(0, len(at) - 1, 41).round().astype(int))]
    each = np.array([(losses[1] - losses[0])[a:b].sum() for a, b in zip(edges[:-1], edges[1:], strict=True)])
    wanted = math.sqrt(each.size * each.var(ddof=1)) / edges[-1]
    assert found.loss == pytest.approx(each.sum() / edges[-1])
    assert found.loss_error == pytest.approx(wanted)
    text = race_page("about", standings, None)
    assert len(drawings(text)) == 4
    assert [one.setting for one in best.tried] == [best.setting, *(s for s in settings if s != best.setting)]
    assert text.count("<td>ogd</td>") >= 3


def test_the_training_page_shows_experts_directions_and_what_was_held_out(tmp_path):
    page = tmp_path / "page.html"
    path = table(tmp_path / "t.csv")
    with open(path, "a") as file:
        file.write("1,2,3,4,5,6,7\n")  # a line too long
    done = run(
        "train",
        path,
        "--holdout",
        "5",
        "--passes",
        "2",
        "--on-error",
        "skip",
        "--report",
        page,
        "--save",
        tmp_path / "m",
    )
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert len(drawings(text)) >= 7
    for part in (
        "Who is listened to",
        "second Newton",
        "held out",
        "pass 2",
        "visits +",
        "skipped: lines that could not",
    ):
        assert part in text
    done = run("train", path, "--holdout", "5", "--passes", "2", "--on-error", "skip", "--save", tmp_path / "n")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()  # a page changes nothing


def test_directions_are_those_of_the_sketch():
    X, y = rows()
    for method in ("rfd-son", "auto"):
        learner = onsketch.learner(method, loss="logistic", sketch_size=4)
        learner.learn(X, y)
        energies, features, vectors = learner.directions()
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(len(vectors)), atol=1e-8)
        np.testing.assert_allclose(energies, learner.spectrum()[: energies.size], rtol=1e-8)
        assert len(features) == vectors.shape[1]


def test_the_page_of_a_sketch(tmp_path):
    path, page = table(tmp_path / "t.csv"), tmp_path / "page.html"
    assert run("sketch", path, "--size", "3", "--report", page).exit_code == 0
    text = page.read_text()
    assert len(drawings(text)) == 2
    for part in ("escaped", "measured", "energy captured", "visits +"):
        assert part in text
    assert run("sketch", path, "--errors", "2,4", "--report", page).exit_code == 0
    assert len(drawings(page.read_text())) == 2
    assert "bound of FD" in page.read_text()


def test_no_sketch_by_frequent_directions_exceeds_its_bound():
    from onsketch.sketch import FastFrequentDirections

    for d in (20, 80):  # by dense matrices, and by iteration
        X = np.random.default_rng(d).normal(size=(200, d)) * np.arange(1, d + 1) ** -1.0
        norm = np.linalg.norm(X, 2) ** 2
        for m, bound in error_bounds(X, [3, 8, 15]).items():
            assert spectral_error(X, FastFrequentDirections(d, m).update(X)) <= bound * norm * (1 + 1e-9)


def test_charts_hold_what_they_are_given():
    lines = [Curve(f"line {k}", [1, 2, 3], [0.1 * k, 0.2, math.nan]) for k in range(6)]
    for chart in (
        curves(lines, "x", "y", log_x=True, log_y=True),
        points([("a", 1.0, 2.0, "tooltip"), ("b", 1.01, 2.0, "tooltip")], "x", "y", log_x=True),
        whiskers([("<a>", 1.1, math.nan, "tooltip"), ("b", 1.2, 0.1, "tooltip")], "ratio", 1.0),
    ):
        text = ElementTree.tostring(ElementTree.fromstring(chart), encoding="unicode")
        assert "nan" not in text


def test_no_curve_leaves_the_frame_or_runs_along_its_edge():
    y = [900.0, 40.0, 3.0, 2.0, 1.5, *[1.0 + 0.001 * k for k in range(100)]]
    line = Curve("loss", range(1, len(y) + 1), y, spread=[0.5] * len(y))
    for log_y in (False, True):
        drawn = ElementTree.fromstring(curves([line], "rows", "loss", log_x=True, log_y=log_y))
        for shape in drawn:
            for place in shape.get("points", "").split():
                x, height = map(float, place.split(","))
                assert plots.LEFT <= x <= plots.WIDTH - plots.RIGHT
                assert plots.TOP <= height <= plots.HEIGHT - plots.BOTTOM
        (path,) = [shape.get("points") for shape in drawn if shape.tag.endswith("polyline")]
        heights = [float(place.split(",")[1]) for place in path.split()]
        assert heights[0] < heights[1] < heights[2]  # the first values are as they are, not cut


def test_a_page_of_a_model_that_went_on_tells_why_rows_were_skipped(tmp_path):
    data, model, page = tmp_path / "data.vw", tmp_path / "model", tmp_path / "page.html"
    data.write_text("1 |n a:1\n|n a:0.5\n-1 |n a:-1\n1 |n b:1\n")
    for start in ([], ["--from", model]):
        done = run("train", data, "-l", "adagrad", "--on-error", "skip", *start, "--save", model, "--report", page)
        assert done.exit_code == 0, done.output
        assert f"rows without a label, or too long</td><td>{2 if start else 1}" in page.read_text()
        assert "would not be finite" not in page.read_text()


@pytest.mark.parametrize(("loss", "labels"), [("squared", [0, 1]), ("poisson", [0, 1, 2, 7])])
def test_the_page_of_a_regression_has_labels_and_rates_as_the_file_has_them(loss, labels, tmp_path):
    """Labels 0 and 1 of a regression are numbers, not −1 and 1; Poisson predictions are rates, not logarithms."""
    X, _ = rows(200)
    y = np.random.default_rng(1).choice(labels, 200).astype(float)
    cells = np.column_stack([X[:, 0], y]).tolist()
    (tmp_path / "rows.csv").write_text("a,label\n" + "".join(f"{a},{int(label)}\n" for a, label in cells))
    page, said = tmp_path / "page.html", tmp_path / "said.txt"
    train = ["train", tmp_path / "rows.csv", "-l", "adagrad", "--task", "regression", "--loss", loss]
    assert run(*train, "--report", page, "--predictions", said).exit_code == 0
    shown = re.sub(r"<[^>]*>", " ", page.read_text())
    assert f"mean {y.mean():.6g}, standard deviation {y.std():.6g}" in shown
    predictions = np.loadtxt(said)
    rmse = float(re.search(r"RMSE\s+([0-9.]+)", shown)[1])
    assert rmse == pytest.approx(math.sqrt(np.mean((predictions - y) ** 2)), rel=1e-5)
    assert loss != "poisson" or predictions.min() > 0.0


def test_the_page_of_two_classes_has_labels_as_the_file_has_them(tmp_path):
    X, y = rows(200)
    lines = [f"{a},{int(label > 0.0)}\n" for a, label in zip(X[:, 0].tolist(), y.tolist(), strict=True)]
    (tmp_path / "rows.csv").write_text("a,label\n" + "".join(lines))
    page = tmp_path / "page.html"
    assert run("train", tmp_path / "rows.csv", "-l", "adagrad", "--report", page).exit_code == 0
    shown = re.sub(r"<[^>]*>", " ", page.read_text())
    assert "label 1 against 0" in shown
    share = float((y > 0.0).mean())
    parts = sorted([(share, 1), (1.0 - share, 0)], reverse=True)
    assert ", ".join(f"{name} {part:.1%}" for part, name in parts) in shown
