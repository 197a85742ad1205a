"""The program where files have no labels and options do not fit; what it says of itself."""

import json
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import onsketch
from onsketch.core.errors import OptionError, ReadError
from program import PROGRAM, check_message, environment, run


def test_options_of_embedded_streams_do_not_go_with_files(ten):
    for option in ("--rows", "--dimension", "--condition"):
        refused = run("compare", ten, option, "7")
        assert refused.exit_code == 2
        assert option in refused.stderr


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
    assert run("predict", model, without).stdout == run("predict", model, with_labels).stdout  # columns go by name


def test_parquet_tells_how_far_it_has_been_read(tmp_path):
    from onsketch.cli.progress import _sizes
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
        program, env=environment(_ONSKETCH_COMPLETE=f"{shell}_source"), capture_output=True, text=True, check=True
    ).stdout
    assert "_ONSKETCH_COMPLETE" in script
    assert "onsketch" in script
    asked = {"_ONSKETCH_COMPLETE": f"{shell}_complete", "COMP_WORDS": "onsketch train --lea"}
    asked["COMP_CWORD"] = "--lea" if shell == "fish" else "2"
    offered = subprocess.run(program, env=environment(**asked), capture_output=True, text=True, check=False).stdout
    assert "--learner" in offered
    assert "--ridge" not in offered


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are not of this system")
def test_a_pipe_is_not_sketched_twice(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    check_message(run("sketch", fifo, "--format", "libsvm"), 1, "--n-features")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("train", "ten.svm", "--save", ""), "--save"),
        (("train", "ten.svm", "--save", "m", "--checkpoint", "./m"), "--checkpoint"),
        (("train", "ten.svm", "--checkpoint", "c", "--every", "0"), "--every"),
        (("train", "ten.svm", "--on-error", "nope"), "--on-error"),
        (("train", "ten.svm", "--missing", "nope"), "--missing"),
        (("predict", "model", "ten.svm", "-o", "nowhere/p"), "--output"),
        (("inspect", "model", "--report", "nowhere/page.html"), "--report"),
        (("inspect", "model", "--rows", "5"), "--rows"),
        (("compare", "ten.svm", "--json", "x", "--csv", "x"), "--csv"),
        (("compare", "--task", "regression"), "--task"),
        (("compare", "--on-error", "skip"), "--on-error"),
        (("compare", "--positive", "1"), "--positive"),
        (("sketch", "ten.svm", "--save", "nowhere/s"), "--save"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(command, option, ten, monkeypatch):
    monkeypatch.chdir(ten.parent)
    before = set(ten.parent.iterdir())
    check_message(run(*command), 2, option)
    assert set(ten.parent.iterdir()) == before


def test_embedded_streams_are_sorted_as_asked(tmp_path):
    small = ("compare", "-l", "ogd", "-l", "adagrad", "--rows", 100, "--dimension", 5, "--condition", 10)
    for by in ("loss", "error"):
        done = run(*small, "--by", by, "--json", tmp_path / by)
        assert done.exit_code == 0, done.output
        values = [entry["streams"][0][by] for entry in json.loads((tmp_path / by).read_text())["learners"]]
        assert values == sorted(values)


@pytest.mark.parametrize("command", ["train", "predict", "sketch", "compare"])
def test_help_names_the_files_once(command):
    usage = re.search(r"Usage: .*", run(command, "--help").stdout)[0].rstrip()
    assert re.search(r" ([{\[]FILE[}\]]|FILE)\.\.\.$", usage), usage


def test_output_that_cannot_show_a_bar(ten, tmp_path):
    assert run("sketch", ten, "--size", 2, "--save", tmp_path / "s").exit_code == 0
    program = [*PROGRAM, "inspect", str(tmp_path / "s")]
    shown = subprocess.run(program, env=environment(PYTHONIOENCODING="ascii"), capture_output=True, check=True)
    assert b"spectrum of the sketch" in shown.stdout


def test_inspect_does_not_offer_options_it_lacks(ten, tmp_path):
    model, more = tmp_path / "model", tmp_path / "more.svm"
    assert run("train", ten, "-l", "pros-n-kons", "--save", model).exit_code == 0
    more.write_text("1 1:1\n7 2:1\n")
    refused = run("inspect", model, "--data", more)
    check_message(refused, 1, "label 7: this is a classification, label 1 against -1")
    assert "--positive" not in refused.stderr


@pytest.mark.parametrize("empty", ["", "?"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_whose_labels_are_not_known_yet_are_predicted(empty, form, tmp_path):
    model, given, new = tmp_path / "model", tmp_path / "given.csv", tmp_path / f"new.{form}"
    given.write_text("y,a,w,id\n1.5,2,1,r\n2.5,3,2,s\n0.5,1,1,t\n")
    options = ("--label", "y", "--weight", "w", "--tag", "id", "--task", "regression", "--save", model)
    assert run("train", given, "-l", "adagrad", *options).exit_code == 0
    known = [line.split()[0] for line in run("predict", model, given).stdout.splitlines()]
    if form == "csv":  # without the column of weights, and that of tags
        new.write_text(f"y,a\n1.5,2\n{empty},3\n{empty},1\n")
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        labels = [1.5, None, None] if empty else [None, None, None]
        parquet.write_table(pyarrow.table({"y": labels, "a": [2.0, 3.0, 1.0]}), new)
    done = run("predict", model, new, *(("--format", "parquet") if form == "parquet" else ()))
    assert done.exit_code == 0, done.output
    assert done.stdout.split() == known
    assert ("1 rows with labels" in done.stderr) == (form == "csv" or empty == "?")
    check_message(run("train", new, "--label", "y", "--task", "regression"), 1, "the label is missing")


def test_hints_for_files_without_labels(tmp_path):
    model, given, new = tmp_path / "model", tmp_path / "given.csv", tmp_path / "new.csv"
    given.write_text("a,b,y\n1,2,1.5\n2,1,2.5\n")
    new.write_text("a,b\n1,2\n")
    assert run("train", given, "--label", "2", "--task", "regression", "--save", model).exit_code == 0
    assert len(run("predict", model, new).stdout.split()) == 1  # columns go by name, and the label is not among them
    assert run("predict", model, new, "--label", "none").stdout == run("predict", model, new).stdout
    bare = tmp_path / "bare.svm"
    bare.write_text("1:1 2:1\n")
    check_message(run("train", bare, "--format", "libsvm"), 1, "put any number")


def test_a_model_that_cannot_be_read_leaves_the_output_as_it_was(ten, tmp_path):
    output = tmp_path / "predictions"
    output.write_text("precious")
    check_message(run("predict", ten, ten, "-o", output), 1, "ten.svm")
    model = tmp_path / "model"
    assert run("train", ten, "-l", "adagrad", "--save", model).exit_code == 0
    check_message(run("predict", model, tmp_path / "absent", "-o", output), 1, "absent")
    assert output.read_text() == "precious"
    assert run("predict", model, ten, "-o", output).exit_code == 0
    assert len(output.read_text().split()) == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--bits", 40), "--bits 40:"),
        (("--holdout", 1), "--holdout 1:"),
        (("-l", "adagrad", "--step-size", -1), "--step-size -1:"),
        (("--loss", "poisson", "--task", "binary"), "--task binary: --loss poisson"),
        (("-l", "rfd-son", "--plain", "--ridge", 0, "--sketch-size", 0), "--ridge 0 with --sketch-size 0"),
        (("-l", "rfd-son", "--summary", "curvature", "--loss", "hinge"), "--summary curvature: --loss hinge"),
    ],
)
def test_messages_spell_options_as_they_are_typed(arguments, said, ten):
    refused = run("train", ten, *arguments)
    check_message(refused, 1, said)
    assert "=" not in refused.stderr


def test_errors_carry_the_options_that_they_name():
    with pytest.raises(OptionError) as refused:
        onsketch.learner("adagrad", step_size=-1.0)
    assert refused.value.options == {"step_size": -1.0}
    assert pickle.loads(pickle.dumps(refused.value)).options == {"step_size": -1.0}
    error = ReadError("file", 3, None, "read it with zero_based=True", zero_based=True)
    again = pickle.loads(pickle.dumps(error))
    assert (again.options, again.line, str(again)) == ({"zero_based": True}, 3, str(error))
