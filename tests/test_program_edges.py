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
    kept = learnable(block, skip=True)
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


def told(result, code, text):
    """The exit code, and one line that tells why: never a traceback."""
    assert result.exit_code == code, result.output
    assert text in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are not of this system")
def test_a_pipe_is_not_sketched_twice(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    told(run("sketch", fifo, "--format", "libsvm"), 1, "--n-features")


@pytest.mark.parametrize("command", ["train", "compare"])
def test_not_one_row_that_can_be_learned(command, tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text(" | a\n | b\n")
    learning = (command, path, "-l", "adagrad", "--task", "regression")
    told(run(*learning, "--on-error", "skip"), 1, "not one row could be learned; 2 were skipped")
    told(run(*learning), 1, "row 1 of the stream has no label")


def test_not_one_row_that_a_cluster_can_learn(tmp_path):
    from onsketch.cluster import fit

    path = tmp_path / "rows.vw"
    path.write_text(" | a\n | b\n")
    with pytest.raises(InputError, match="not one row could be learned; 2 were skipped"):
        fit("adagrad", str(path), task="regression", reading={"on_error": "skip"}, cluster="none")


@pytest.mark.parametrize("more", [(), ("--errors", "1,2")])
def test_rows_too_long_to_be_sketched(more, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1 2:3\n1 1:1e200\n-1 2:1\n")
    told(run("sketch", path, "--size", "1", *more), 1, "row 2 of the stream is longer than 1e+150")
    passed = run("sketch", path, "--size", "1", *more, "--on-error", "skip")
    assert passed.exit_code == 0, passed.output
    assert "1 bad lines or rows were skipped" in passed.stdout
    path.write_text("1 1:1e200\n")
    told(run("sketch", path, *more, "--on-error", "skip"), 1, "not one row could be sketched; 1 were skipped")


def test_rows_too_long_to_be_predicted(tmp_path):
    good, big, model = tmp_path / "good.vw", tmp_path / "big.vw", tmp_path / "model"
    good.write_text("1 'a| a\n-1 'b| b\n")
    big.write_text("1 'a| a\n1 'long| a:1e200\n-1 'b| b\n")
    assert run("train", good, "-l", "adagrad", "--save", model).exit_code == 0
    told(run("predict", model, big), 1, f"{big}: row 2 of the stream is longer than")
    passed = run("predict", model, big, "--on-error", "skip")
    assert passed.stdout == run("predict", model, good).stdout
    assert passed.stdout.split()[1::2] == ["a", "b"]
    assert "1 bad lines or rows were skipped" in passed.stderr
    assert "2 rows with labels" in passed.stderr


@pytest.mark.parametrize("holdout", [0, 2])
def test_skipped_rows_have_no_line_among_the_predictions(holdout, tmp_path):
    """Whether nobody could learn them (too long), or this learner could not (an update that is not finite)."""
    path, predictions = tmp_path / "rows.vw", tmp_path / "p"
    good = "1 'a| x\n2.5 'b| y\n"
    path.write_text(good + "1 'long| x:1e200\n3 'steep| x:1e149\n" + good)
    options = ("-l", "ogd", "--step-size", "1e120", "--clip", "none", "--loss", "squared", "--task", "regression")
    learned = run("train", path, *options, "--on-error", "skip", "--predictions", predictions, "--holdout", holdout)
    assert learned.exit_code == 0, learned.output
    tags = [line.split()[1] for line in predictions.read_text().splitlines()]
    skipped = int(re.search(r"^skipped +(\d+) ", learned.stdout, flags=re.MULTILINE)[1])
    assert "long" not in tags
    assert "steep" not in tags
    assert len(tags) + skipped == 6


def test_a_setting_that_diverges_in_a_regression_shows_no_error(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("1.5 | a\n2.5 | a:1e140\n3 | a:1e140\n" * 3)
    done = run("compare", path, "-l", "ogd", "--step-size", "1e100", "--loss", "squared", "--clip", "none")
    assert done.exit_code == 0, done.output
    assert "diverged" in done.stdout
    assert "error" not in done.stdout


def test_rows_of_one_class_are_noticed_though_some_were_skipped(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("1 | a\n1 | b\n | c\n1 | a:1e200\n")
    done = run("train", path, "-l", "adagrad", "--on-error", "skip")
    assert "all of the rows are of the class to be found" in done.stdout


class Interrupting:
    """A stream whose reader presses Ctrl-C while block ``at`` is awaited; with 0, while it is opened."""

    def __init__(self, at, *arguments, **options):
        if at == 0:
            signal.raise_signal(signal.SIGINT)
        self.stream, self.left = stream(*arguments, **options), at

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stream.close()

    def __iter__(self):
        return self

    def __next__(self):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return next(self.stream)


@pytest.fixture
def ten(tmp_path):
    path = tmp_path / "ten.svm"
    path.write_text("1 1:1 2:0.5\n-1 2:1\n" * 5)
    return path


def press_ctrl_c(monkeypatch, at, after=0):
    """Let the stream opened after ``after`` others be interrupted."""
    opened = []

    def open_stream(*arguments, **options):
        opened.append(1)
        return Interrupting(at, *arguments, **options) if len(opened) > after else stream(*arguments, **options)

    monkeypatch.setattr("onsketch.data.stream", open_stream)


def test_ctrl_c_before_a_pipe_has_told_its_format(ten, monkeypatch):
    press_ctrl_c(monkeypatch, at=0)
    told(run("train", ten, "-l", "adagrad"), 130, "Interrupted before the first rows came; there is nothing to save.")


def test_ctrl_c_in_a_second_pass_keeps_the_first(ten, tmp_path, monkeypatch):
    press_ctrl_c(monkeypatch, at=0, after=1)
    model = tmp_path / "model"
    told(run("train", ten, "-l", "adagrad", "--passes", 2, "--save", model), 130, "Interrupted after 10 rows; model")
    assert onsketch.load(model).rounds == 10


def test_ctrl_c_in_a_race_shows_and_writes_the_standings(ten, tmp_path, monkeypatch):
    press_ctrl_c(monkeypatch, at=3)
    files = [tmp_path / name for name in ("race.json", "race.csv", "race.html")]
    options = ("--json", files[0], "--csv", files[1], "--report", files[2], "--block-rows", 4, "--regret")
    done = run("compare", ten, "-l", "adagrad", *options)
    told(done, 130, "Interrupted after 8 rows; these are the standings after those.")
    assert re.search(r"^adagrad +0\.", done.stdout, flags=re.MULTILINE)
    assert json.loads(files[0].read_text())["rows"] == 8
    assert files[1].read_text().splitlines()[-1].split(",")[2] == "8"
    assert "adagrad" in files[2].read_text()


def test_ctrl_c_before_a_race_has_rows(ten, monkeypatch):
    press_ctrl_c(monkeypatch, at=0)
    told(run("compare", ten, "-l", "adagrad"), 130, "Interrupted")


def test_ctrl_c_keeps_the_predictions_made(ten, tmp_path, monkeypatch):
    model, output = tmp_path / "model", tmp_path / "p"
    assert run("train", ten, "-l", "adagrad", "--save", model).exit_code == 0
    press_ctrl_c(monkeypatch, at=3)
    told(run("predict", model, ten, "--block-rows", 4, "-o", output), 130, "Interrupted after 8 rows.")
    assert len(output.read_text().splitlines()) == 8


def test_ctrl_c_keeps_the_sketch_so_far(ten, tmp_path, monkeypatch):
    press_ctrl_c(monkeypatch, at=3, after=1)
    saved = tmp_path / "sketch"
    done = run("sketch", ten, "--size", 2, "--block-rows", 4, "--save", saved)
    told(done, 130, "Interrupted after 8 rows; this is the sketch of those.")
    assert onsketch.load(saved).n_rows == 8


def test_ctrl_c_while_a_block_is_at_work_waits_for_its_end(capsys):
    from onsketch.cli.interrupt import between_blocks

    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        for block in between_blocks(iter(range(5))):
            if block == 2:
                signal.raise_signal(signal.SIGINT)
            done.append(block)
    assert done == [0, 1, 2]
    assert "Stopping after this block" in capsys.readouterr().err


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
    told(run(*command), 2, option)
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
    program = [*TRAIN[:-1], "inspect", str(tmp_path / "s")]
    shown = subprocess.run(program, env=environment(PYTHONIOENCODING="ascii"), capture_output=True, check=True)
    assert b"spectrum of the sketch" in shown.stdout


def test_a_stream_without_rows_is_said_to_have_none(ten, tmp_path):
    model, empty = tmp_path / "model", tmp_path / "empty.svm"
    assert run("train", ten, "-l", "adagrad", "--save", model).exit_code == 0
    empty.write_text("")
    told(run("predict", model, empty), 0, "there is not a single row to predict")


def test_labels_that_are_skipped_do_not_decide_the_task(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1e200 1:1\n1 1:1\n-1 2:1\n")
    for command in ("train", "compare"):
        done = run(command, path, "-l", "adagrad", "--on-error", "skip")
        assert done.exit_code == 0, done.output
        assert "classification, label 1 against -1" in done.stdout


def test_a_third_label_is_named_by_its_place(ten, tmp_path):
    more = tmp_path / "more.svm"
    more.write_text("1 1:1\n7 2:1\n")
    for command in ("train", "compare"):
        refused = run(command, ten, more, "-l", "adagrad", "--block-rows", 10)
        told(refused, 1, f"{more}: row 12 of the stream has label 7")
        assert "--positive" in refused.stderr


def test_inspect_does_not_offer_options_it_lacks(ten, tmp_path):
    model, more = tmp_path / "model", tmp_path / "more.svm"
    assert run("train", ten, "-l", "pros-n-kons", "--save", model).exit_code == 0
    more.write_text("1 1:1\n7 2:1\n")
    refused = run("inspect", model, "--data", more)
    told(refused, 1, "label 7: this is a classification, label 1 against -1")
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
    told(run("train", new, "--label", "y", "--task", "regression"), 1, "the label is missing")


def test_hints_for_files_without_labels(tmp_path):
    model, given, new = tmp_path / "model", tmp_path / "given.csv", tmp_path / "new.csv"
    given.write_text("a,b,y\n1,2,1.5\n2,1,2.5\n")
    new.write_text("a,b\n1,2\n")
    assert run("train", given, "--label", "2", "--task", "regression", "--save", model).exit_code == 0
    told(run("predict", model, new), 1, "--label none")
    assert len(run("predict", model, new, "--label", "none").stdout.split()) == 1
    bare = tmp_path / "bare.svm"
    bare.write_text("1:1 2:1\n")
    told(run("train", bare, "--format", "libsvm"), 1, "put any number")
