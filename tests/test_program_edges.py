"""The program where input is odd: pipes that stall, rows that cannot be learned, files without labels."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import onsketch
from onsketch.cli import app
from onsketch.data import stream
from onsketch.errors import InputError
from onsketch.learnable import learnable
from onsketch.task import Task

TRAIN = [sys.executable, "-c", "from onsketch.cli import main; main()", "train"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(Path(onsketch.__file__).parents[1]), **more}


def test_ctrl_c_while_a_pipe_stalls_saves_at_once(tmp_path):
    model = tmp_path / "model"
    command = [*TRAIN, "-", "--format", "libsvm", "-l", "adagrad", "--block-rows", "1", "--save", str(model)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        process.stdin.write(b"1 1:1\n-1 2:1\n")
        process.stdin.flush()  # and nothing more: the pipe stays open
        while b" 2 " not in process.stdout.readline():  # the line of the second row
            assert process.poll() is None
        time.sleep(0.5)  # now it waits
        process.send_signal(signal.SIGINT)
        began = time.perf_counter()
        assert process.wait(timeout=60) == 130
        assert time.perf_counter() - began < 20
        assert b"Interrupted after 2 rows; model" in process.stderr.read()
    assert onsketch.load(model).rounds == 2


@pytest.fixture
def flawed(tmp_path):
    """Six good rows, a bad line, a row without a label, and two that are too large."""
    path = tmp_path / "flawed.vw"
    good = "1 | a b\n-1 | c\n1 | a\n"
    path.write_text(good + "oops\n" + " | a b\n" + good + "1 | a:1e200\n1 | a:1e150 b:1e150\n")
    return path


def test_what_cannot_be_learned_stops_or_is_passed_over(flawed, tmp_path):
    text = flawed.read_text().replace("oops\n", "")
    flawed.write_text(text)
    stopped = run("train", flawed, "-l", "adagrad")
    assert stopped.exit_code == 1
    assert "row 4 of the stream has no label" in stopped.stderr
    predictions = tmp_path / "p"
    passed = run("train", flawed, "-l", "adagrad", "--on-error", "skip", "--predictions", predictions)
    assert passed.exit_code == 0, passed.output
    assert re.search(r"^skipped +3 ", passed.stdout, flags=re.MULTILINE)
    assert re.search(r"^rows +6$", passed.stdout, flags=re.MULTILINE)
    assert len(predictions.read_text().splitlines()) == 6


@pytest.mark.parametrize("dense", [True, False])
def test_rows_too_long_to_be_squared_are_found(dense, tmp_path):
    rows = [[1.0, 2.0], [1e150, 1e150], [0.0, 1e151], [1e150, 0.0]]
    path = tmp_path / ("x.csv" if dense else "x.svm")
    if dense:
        path.write_text("y,a,b\n" + "".join(f"1,{a!r},{b!r}\n" for a, b in rows))
    else:
        path.write_text("".join(f"1 0:{a!r} 1:{b!r}\n" for a, b in rows))
    (block,) = stream(path)
    kept = learnable(block, Task("regression"), skip=True)
    assert kept.passed_over == 2
    onsketch.learner("adagrad").predict(kept.rows)  # the learner takes exactly those
    for row in (1, 2):
        with pytest.raises(InputError):
            onsketch.learner("adagrad").predict(block.X[[row]])


def test_compare_and_sketch_tell_how_much_was_skipped(flawed, tmp_path):
    done = run("compare", flawed, "-l", "adagrad", "--on-error", "skip", "--json", tmp_path / "j")
    assert done.exit_code == 0, done.output
    assert "4 bad lines or rows were skipped" in done.stdout
    document = json.loads((tmp_path / "j").read_text())
    assert (document["rows"], document["skipped"]) == (6, 4)
    sketched = run("sketch", flawed, "--size", "2", "--bits", "4", "--on-error", "skip")
    assert "3 bad lines or rows were skipped" in sketched.stdout


def test_options_of_embedded_streams_do_not_go_with_files(flawed):
    for option in ("--rows", "--dimension", "--condition"):
        refused = run("compare", flawed, option, "7")
        assert refused.exit_code == 2
        assert option in refused.stderr


def test_initial_predictions_are_refused_by_name(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("1 1 0.5 | a\n-1 | b\n")
    for command in (("train", path), ("compare", path, "-l", "ogd")):
        refused = run(*command)
        assert refused.exit_code == 1
        assert "row 1 of the stream has an initial prediction" in refused.stderr


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)).round(3)
    y = np.where(X[:, 0] > 0, "yes", "no")
    lines = [f"{label},{','.join(map(str, row))}" for label, row in zip(y, X, strict=True)]
    with_labels, without = tmp_path / "with.csv", tmp_path / "without.csv"
    with_labels.write_text("answer,a,b,c\n" + "\n".join(lines) + "\n")
    without.write_text("a,b,c\n" + "\n".join(line.split(",", 1)[1] for line in lines) + "\n")
    return with_labels, without


def test_a_file_without_labels_is_predicted(table, tmp_path):
    with_labels, without = table
    model = tmp_path / "model"
    trained = run("train", with_labels, "--label", "answer", "--positive", "yes", "-l", "adagrad", "--save", model)
    assert trained.exit_code == 0, trained.output
    known, unknown = run("predict", model, with_labels), run("predict", model, without)
    assert unknown.exit_code == 0, unknown.output
    assert unknown.stdout == known.stdout
    assert "rows with labels" in known.stderr
    assert unknown.stderr == ""
    assert run("predict", model, without, "--label", "none").stdout == known.stdout
    words = run("predict", model, without, "--kind", "label").stdout.split()
    signs = [float(margin) > 0 for margin in known.stdout.split()]
    assert words == ["yes" if sign else "other" for sign in signs]


def test_a_label_by_place_is_not_taken_from_the_features(table, tmp_path):
    with_labels, without = table
    model = tmp_path / "model"
    assert run("train", with_labels, "--label", "0", "--positive", "yes", "--save", model).exit_code == 0
    refused = run("predict", model, without)
    assert refused.exit_code == 1
    assert "--label none" in refused.stderr or "when the model was trained" in refused.stderr


def test_parquet_tells_how_far_it_has_been_read(tmp_path):
    from onsketch.cli.train import _sizes
    from onsketch.data import write

    path = tmp_path / "x.parquet"
    write(path, np.ones((7, 2)), np.ones(7))
    assert _sizes([str(path)], None) == [7]
    assert _sizes([str(path)], "arrow") == [7]  # the name tells
    path.write_bytes(b"nothing")
    assert _sizes([str(path)], None) == [0]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    program = [sys.executable, "-c", "import sys; sys.argv[0] = 'onsketch'; from onsketch.cli import main; main()"]
    script = subprocess.run(
        program, env=environment(_ONSKETCH_COMPLETE=f"source_{shell}"), capture_output=True, text=True, check=True
    ).stdout
    assert "_ONSKETCH_COMPLETE" in script
    assert "onsketch" in script
    asked = {"_ONSKETCH_COMPLETE": f"complete_{shell}", "COMP_WORDS": "onsketch train --lea", "COMP_CWORD": "2"}
    asked |= {"_TYPER_COMPLETE_ARGS": "onsketch train --lea", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    offered = subprocess.run(program, env=environment(**asked), capture_output=True, text=True, check=False).stdout
    assert "--learner" in offered
    assert "--ridge" not in offered
