"""The program where rows cannot be learned, predicted or sketched, or are not there at all."""

import json
import re

import pytest

import onsketch
from onsketch.data import stream
from onsketch.data.usable import labelled_rows
from onsketch.errors import InputError
from program import check_message, run


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
    kept = labelled_rows(block, skip=True)
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


def test_initial_predictions_are_refused_by_name(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("1 1 0.5 | a\n-1 | b\n")
    for command in (("train", path), ("compare", path, "-l", "ogd")):
        refused = run(*command)
        assert refused.exit_code == 1
        assert "row 1 of the stream has an initial prediction" in refused.stderr


@pytest.mark.parametrize("command", ["train", "compare"])
def test_not_one_row_that_can_be_learned(command, tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text(" | a\n | b\n")
    learning = (command, path, "-l", "adagrad", "--task", "regression")
    check_message(run(*learning, "--on-error", "skip"), 1, "not one row could be learned; 2 were skipped")
    check_message(run(*learning), 1, "row 1 of the stream has no label")


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
    check_message(run("sketch", path, "--size", "1", *more), 1, "row 2 of the stream is longer than 1e+150")
    passed = run("sketch", path, "--size", "1", *more, "--on-error", "skip")
    assert passed.exit_code == 0, passed.output
    assert "1 bad lines or rows were skipped" in passed.stdout
    path.write_text("1 1:1e200\n")
    check_message(run("sketch", path, *more, "--on-error", "skip"), 1, "not one row could be sketched; 1 were skipped")


def test_rows_too_long_to_be_predicted(tmp_path):
    good, big, model = tmp_path / "good.vw", tmp_path / "big.vw", tmp_path / "model"
    good.write_text("1 'a| a\n-1 'b| b\n")
    big.write_text("1 'a| a\n1 'long| a:1e200\n-1 'b| b\n")
    assert run("train", good, "-l", "adagrad", "--save", model).exit_code == 0
    check_message(run("predict", model, big), 1, f"{big}: row 2 of the stream is longer than")
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
    options = (
        "-l",
        "ogd",
        "--step-size",
        "1e120",
        "--clip",
        "none",
        "--loss",
        "squared",
        "--task",
        "regression",
        "--plain",
    )
    learned = run(
        "train",
        path,
        *options,
        "--task",
        "regression",
        "--on-error",
        "skip",
        "--predictions",
        predictions,
        "--holdout",
        holdout,
    )
    assert learned.exit_code == 0, learned.output
    tags = [line.split()[1] for line in predictions.read_text().splitlines()]
    skipped = int(re.search(r"^skipped +(\d+) ", learned.stdout, flags=re.MULTILINE)[1])
    assert "long" not in tags
    assert "steep" not in tags
    assert len(tags) + skipped == 6


def test_a_setting_that_diverges_in_a_regression_shows_no_error(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("1.5 | a\n2.5 | a:1e140\n3 | a:1e140\n" * 3)
    done = run("compare", path, "-l", "ogd", "--step-size", "1e100", "--loss", "squared", "--clip", "none", "--plain")
    assert done.exit_code == 0, done.output
    assert "diverged" in done.stdout
    assert "error" not in done.stdout


def test_rows_of_one_class_are_noticed_though_some_were_skipped(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("1 | a\n1 | b\n | c\n1 | a:1e200\n")
    done = run("train", path, "-l", "adagrad", "--on-error", "skip")
    assert "all of the rows are of the class to be found" in done.stdout


def test_a_stream_without_rows_is_said_to_have_none(ten, tmp_path):
    model, empty = tmp_path / "model", tmp_path / "empty.svm"
    assert run("train", ten, "-l", "adagrad", "--save", model).exit_code == 0
    empty.write_text("")
    check_message(run("predict", model, empty), 0, "there is not a single row to predict")


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
        check_message(refused, 1, f"{more}: row 12 of the stream has label 7")
        assert "--positive" in refused.stderr
