"""The program on files: train, predict, inspect, compare, sketch; pages, tables and bad lines."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onsketch
from program import run, shell


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "rows.vw"
    lines = []
    for k in range(600):
        size, colour = rng.normal(), rng.choice(["red", "blue"])
        label = 1 if size + (colour == "red") > 0.3 else -1
        lines.append(f"{label} 1.0 row{k}|shape size:{size:.4f} |paint {colour}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(rows_file):
    path = rows_file.parent / "rows.model"
    result = run("train", str(rows_file), "-l", "rfd-son", "--sketch-size", "4", "--names", "-q", "sp",
                 "--intercept", "--save", str(path))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "classification, label 1 against -1, logistic loss" in result.stdout
    assert re.search(r"^rows +600$", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^error +\d", result.stdout, flags=re.MULTILINE)
    return path


def test_train_then_predict(rows_file, model, tmp_path):
    result = run("predict", str(model), str(rows_file), "-o", str(tmp_path / "margins"))
    assert result.exit_code == 0, result.output
    assert "600 rows with labels" in result.stderr
    lines = (tmp_path / "margins").read_text().splitlines()
    assert len(lines) == 600
    assert lines[17].split()[1] == "row17"
    content = onsketch.load(model)
    assert content.rounds == 600
    labels = run("predict", str(model), str(rows_file), "--kind", "label").stdout.split()[::2]
    margins = [float(line.split()[0]) for line in lines]
    assert labels == ["1" if margin > 0 else "-1" for margin in margins]
    chances = [
        float(p) for p in run("predict", str(model), str(rows_file), "--kind", "probability").stdout.split()[::2]
    ]
    assert chances == pytest.approx([1 / (1 + math.exp(-margin)) for margin in margins], rel=1e-6)


def test_inspect_tells_names_options_and_spectrum(model):
    result = run("inspect", str(model), "--top", "3")
    assert result.exit_code == 0, result.output
    expected = (
        "rfd-son",
        "ridge 0.03",
        "scaling magnitude",
        "rounds",
        "600",
        "spectrum of the sketch",
        "shape^size",
        "(intercept)",
    )
    for part in expected:
        assert part in result.stdout


def test_kernel_learners_show_growth_and_regret(rows_file, model, tmp_path):
    saved, page, plots = (tmp_path / name for name in ("kernel.model", "train.html", "inspect.html"))
    result = run("train", str(rows_file), "-l", "pros-n-kons", "--kernel", "rbf", "--save", str(saved), "--report",
                 str(page))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Growth of the dictionary" in page.read_text()
    assert page.read_text().count("<svg") >= 4  # loss, error, growth, spectrum, ranking
    result = run("inspect", str(saved), "--data", str(rows_file), "--rows", "300", "--report", str(plots))
    assert result.exit_code == 0, result.output
    for part in ("effective_dimension", "p_min", "growth and regret over 300 rows", "dictionary size", "regret"):
        assert part in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines() if line.startswith("       ")][-1] == "300"
    assert plots.read_text().count("<svg") == 2
    assert "growth" in run("inspect", str(saved)).stdout
    refused = run("inspect", str(model), "--report", str(plots))
    assert refused.exit_code != 0
    assert "for kernel learners" in refused.output
    assert "largest weights × scale" in run("inspect", str(model), "--data", str(rows_file)).stdout


def test_train_report_is_one_page_without_outside_references(rows_file, tmp_path):
    page = tmp_path / "page.html"
    result = run("train", str(rows_file), "-l", "rfd-son", "--sketch-size", "4", "--report", str(page), "--quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    text = page.read_text()
    for part in (
        "progressive loss",
        "progressive error",
        "ROC curve",
        "reliability curve",
        "spectrum",
        "largest weights",
    ):
        assert f'aria-label="{part}' in text
    for part in ("Confusion", "best constant", "<details>", "The data"):
        assert part in text
    assert "prefers-color-scheme" in text
    assert not re.search(r'(src|href)="(?!#)', text.replace('xlink:href="#', ""))


def test_compare_on_a_file_with_grid_regret_page_and_tables(rows_file, tmp_path):
    page, table, document = (tmp_path / name for name in ("page.html", "curve.csv", "out.json"))
    result = run("compare", str(rows_file), "-l", "rfd-son", "-l", "adagrad", "--sketch-size", "4", "--step-size",
                 "0.1,1", "--ridge", "1e-3,1", "--regret", "--report", str(page), "--csv", str(table), "--json",
                 str(document))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "8 settings of 2 learners in one pass" in result.stdout
    assert "Regret" in result.stdout
    figures = json.loads(document.read_text())
    best = figures["best_fixed_loss"]
    for learner in figures["learners"]:
        (score,) = learner["streams"]
        assert score["regret"] == pytest.approx(score["loss"] * 600 - best)
        assert learner["settings_tried"] == 4
    text = page.read_text()
    for part in ("ratios to the best", "loss against rows", "error against rows", "cost against error"):
        assert f'aria-label="{part}' in text
    assert text.count("★") == 3  # one for each learner, and the word on it
    assert not re.search(r'(src|href)="(?!#)', text)
    assert table.read_text().splitlines()[0] == "learner,stream,rows,cpu_seconds,loss,error"


@pytest.mark.slow
def test_compare_on_a_pipe_has_no_regret_and_says_so(rows_file):
    done = shell("compare - -l adagrad --regret", input=rows_file.read_bytes())
    assert b"No regret" in done.stdout


def test_sketches_are_saved_merged_and_compared(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 6)) * [5, 4, 3, 2, 1, 0.1]
    for name, part in (("one", X[:40]), ("two", X[40:])):
        lines = "".join("0 " + " ".join(f"{j}:{v:.17g}" for j, v in enumerate(row)) + "\n" for row in part)
        (tmp_path / f"{name}.svm").write_text(lines)
        saved = run("sketch", str(tmp_path / f"{name}.svm"), "--size", "3", "--save", str(tmp_path / name))
        assert saved.exit_code == 0, saved.output
    merged = run("sketch", "--merge", str(tmp_path / "one"), str(tmp_path / "two"), "--save", str(tmp_path / "both"))
    assert merged.exit_code == 0, merged.output
    both = onsketch.load(tmp_path / "both")
    assert both.n_rows == 90
    assert np.linalg.norm(X.T @ X - both.covariance(), 2) <= both.escaped * (1 + 1e-9)
    compared = run("sketch", str(tmp_path / "one.svm"), str(tmp_path / "two.svm"), "--errors", "2,3")
    assert compared.exit_code == 0, compared.output
    assert all(kind in compared.stdout for kind in ("fast-fd", "fast-rfd", "cfd", "pfd", "rp", "oja"))
    assert "sketch" in run("inspect", str(tmp_path / "both")).stdout


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("1 1:1\n2 1:nan\n", [], "rows.svm:2:5"),
        ("1 1:1\n2 1:1\n3 1:1\n", ["--task", "binary"], "--positive"),
        ("1 1:1\n", ["--loss", "cubic"], "cubic"),
        ("1 1:1\n", ["-l", "adagrad", "--betas", "0.9", "0.9"], "betas"),
        ("", [], "not a single row"),
    ],
)
def test_bad_input_exits_with_1_and_one_line_that_says_what(text, options, complaint, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(text)
    result = run("train", str(path), "--save", str(tmp_path / "model"), *options)
    assert result.exit_code == 1
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    assert complaint in line
    assert not (tmp_path / "model").exists()


def test_bad_lines_can_be_skipped_and_are_counted(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1 1:x\n-1 2:1\n")
    result = run("train", str(path), "-l", "adagrad", "--on-error", "skip")
    assert result.exit_code == 0, result.output
    assert "skipped       1" in result.stdout


def test_predict_passes_over_labels_it_does_not_know_and_counts_bad_lines(tmp_path):
    (tmp_path / "train.svm").write_text("1 1:1\n-1 2:1\n" * 20)
    (tmp_path / "new.svm").write_text("0 1:1\n1 1:1\n-1 x\n")
    model = str(tmp_path / "model")
    assert run("train", str(tmp_path / "train.svm"), "-l", "adagrad", "--save", model).exit_code == 0
    result = run("predict", model, str(tmp_path / "new.svm"), "--on-error", "skip")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.split()) == 2
    assert "1 bad lines or rows were skipped" in result.stderr
    assert "1 rows with labels" in result.stderr


def test_predict_finds_columns_by_name(tmp_path):
    (tmp_path / "train.csv").write_text("label,a,b\n" + "1,2,3\n0,3,2\n" * 5)
    (tmp_path / "same.csv").write_text("label,a,b\n1,3,2\n")
    (tmp_path / "new.csv").write_text("label,b,more,a\n1,2,7,3\n")
    (tmp_path / "gone.csv").write_text("label,b\n1,2\n")
    model = str(tmp_path / "model")
    assert run("train", str(tmp_path / "train.csv"), "-l", "adagrad", "--save", model).exit_code == 0
    same, new = (run("predict", model, str(tmp_path / name)) for name in ("same.csv", "new.csv"))
    assert (new.exit_code, new.stdout) == (0, same.stdout)
    assert "the model does not know the column 'more', which is left out." in new.stderr
    gone = run("predict", model, str(tmp_path / "gone.csv"))
    assert gone.exit_code == 0
    assert "no column 'a': it counts as missing in every row." in gone.stderr
    refused = run("predict", model, str(tmp_path / "gone.csv"), "--missing", "error")
    assert refused.exit_code == 1
    assert "'a' is not there" in refused.stderr


def test_a_class_that_never_occurs_is_an_error(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n2 2:1\n" * 20)
    result = run("train", str(tmp_path / "rows.svm"), "-l", "adagrad", "--positive", "7")
    assert result.exit_code == 1
    assert "--positive 7: not one of the 40 rows has this label" in result.stderr


@pytest.mark.parametrize("missing", ["model", "predictions", "checkpoint"])
def test_files_that_cannot_be_written_are_refused_before_any_work(missing, tmp_path):
    option = {"model": "--save"}.get(missing, f"--{missing}")
    result = run("train", str(tmp_path / "rows"), option, str(tmp_path / "nowhere" / "file"))
    assert result.exit_code == 2
    assert "nowhere" in result.output.replace("\n", "")


def test_a_reader_that_leaves_early_is_no_crash(rows_file):
    env = {**os.environ, "PYTHONPATH": str(Path(onsketch.__file__).parents[1])}
    program = f"{sys.executable} -c 'from onsketch.cli import main; main()'"
    done = subprocess.run(
        f"{program} methods | head -1", shell=True, capture_output=True, text=True, env=env, check=True
    )
    assert done.stdout.startswith("method")
    assert "Traceback" not in done.stderr
