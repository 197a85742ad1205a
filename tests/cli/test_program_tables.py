"""Everyday tables at the first try: labels of any kind, gaps, other marks, columns by name, and going on tomorrow."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onsketch.data import hash_name, stream
from onsketch.errors import InputError
from program import check_message, run


def read_table(text, **options):
    """The first block of a table as the program reads it, and the stream."""
    reading = stream(io.BytesIO(text.encode()), "csv", everyday=True, **options)
    return next(reading), reading


def table(path, rows=300, seed=0, labels=("no", "yes"), delimiter=",", gaps=True):
    """A table with numbers, words, gaps and a label, that a linear model can learn."""
    rng = np.random.default_rng(seed)
    lines = [delimiter.join(["age", "job", "pay", "outcome"])]
    for _ in range(rows):
        age, job, pay = rng.integers(20, 60), rng.choice(["clerk", "smith", "boss"]), rng.normal()
        score = (age - 40) / 10 + (job == "boss") + pay + 0.5 * rng.normal()
        label = labels[int(np.clip(round(score) + len(labels) // 2, 0, len(labels) - 1))]
        shown = "" if gaps and rng.random() < 0.1 else f"{pay:.3f}"
        lines.append(delimiter.join([str(age), str(job), shown, str(label)]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("labels", "meaning"),
    [
        (("no", "yes"), "label yes against no"),
        (("True", "False"), "label True against False"),
        (("0", "1"), "label 1 against 0"),
        (("<=50K", ">50K"), "label >50K against <=50K"),
        (("low", "mid", "high"), "3 classes"),
        (("3", "4", "5", "6"), "4 classes"),
        (("1.5", "2.25", "3.75"), "regression"),
    ],
)
def test_labels_of_any_kind_need_no_option(labels, meaning, tmp_path):
    path = table(tmp_path / "t.csv", 200, labels=labels)
    result = run("train", path, "--label", "outcome", "-l", "adagrad")
    assert result.exit_code == 0, result.output
    assert meaning in result.stdout


def test_a_label_that_is_not_named_is_asked_for_with_candidates(tmp_path):
    check_message(run("train", table(tmp_path / "t.csv", 20)), 1, "Likely: outcome")


def test_a_slip_in_the_positive_class_is_an_error(tmp_path):
    path = table(tmp_path / "t.csv", 50)
    check_message(run("train", path, "--label", "outcome", "--positive", "Yes"), 1, "did you mean 'yes'?")
    check_message(run("train", path, "--label", "outcome", "--positive", "maybe"), 1, "not one of the 50 rows")
    check_message(run("train", path, "--label", "outcom"), 1, "Did you mean 'outcome'?")


def test_a_gap_is_a_feature_of_its_own():
    block, reading = read_table("y,a,b\n1,2,red\n0,,red\n1,3,\n")
    dense = block.X.toarray()
    assert dense[:, hash_name("a")].tolist() == [2, 0, 3]
    assert dense[:, hash_name("a=")].tolist() == [0, 1, 0]
    assert dense[:, hash_name("b=")].tolist() == [0, 0, 1]
    assert reading.names[hash_name("a=")] == "a is missing"
    block, reading = read_table("y,a,b\n1,2,5\n0,,6\n")
    assert block.X.toarray().tolist() == [[2, 5, 0, 0], [0, 6, 1, 0]]
    assert reading.names == {0: "a", 1: "b", 2: "a is missing", 3: "b is missing"}


def test_gaps_after_the_sample_are_reported_as_well():
    text = "y,a,b\n" + "1,2,3\n" * 600 + "0,,4\n"
    blocks = list(stream(io.BytesIO(text.encode()), "csv", everyday=True, block_rows=100))
    assert isinstance(blocks[0].rows, np.ndarray)
    assert blocks[-1].X.toarray().tolist() == [[0, 4, 1, 0]]


def test_columns_are_decided_by_a_sample_not_by_the_first_row():
    _, reading = read_table("y,a,b,c\n1,,7,x\n0,red,,y\n1,blue,8,x\n")
    kinds = {field["name"]: field["kind"] for field in reading.schema["fields"]}
    assert kinds == {"y": "label", "a": "category", "b": "number", "c": "category"}
    _, reading = read_table("y,zip,job\n1,12345,a\n0,12346,b\n", categorical="zip")
    assert [field["kind"] for field in reading.schema["fields"]] == ["label", "category", "category"]
    _, reading = read_table("y,zip\n" + "1,01234\n0,98765\n" * 3)
    assert reading.schema["fields"][1]["kind"] == "category"
    _, reading = read_table("y,x\n1,a\n0,2\n1,3\n1,4\n", numeric="x", on_error="skip")
    assert reading.schema["fields"][1]["kind"] == "number"


def test_columns_that_only_name_rows_are_left_out():
    text = "y,Customer ID,who\n" + "".join(f"{k % 2},{k},person-{k}\n" for k in range(200))
    _, reading = read_table(text.replace("\n", ",1\n").replace("who,1", "who,x", 1))
    kinds = [field["kind"] for field in reading.schema["fields"]]
    assert kinds == ["label", "ignored", "ignored", "number"]


@given(st.lists(st.floats(-1e6, 1e6).map(lambda v: round(v, 3)), min_size=2, max_size=20), st.sampled_from("; \t|"))
@settings(max_examples=25, deadline=None)
def test_european_numbers_are_those_of_the_same_table_with_points(values, mark):
    mark = ";" if mark == " " else mark
    english = "y,a\n" + "".join(f"{k % 2},{v}\n" for k, v in enumerate(values))
    european = english.replace(",", mark).replace(".", ",")
    one, _ = read_table(english)
    two, _ = read_table(european, decimal=",")
    np.testing.assert_array_equal(one.X, two.X)


def test_european_tables_are_recognised():
    block, reading = read_table("a;b;y\n1,5;1.234,5;1\n2,25;7;0\n")
    assert (reading.schema["delimiter"], reading.schema["decimal"]) == (";", ",")
    assert block.X.tolist() == [[1.5, 1234.5], [2.25, 7.0]]


def test_columns_are_matched_by_name_and_changed_ones_refused(tmp_path):
    model = tmp_path / "m"
    assert (
        run("train", table(tmp_path / "t.csv"), "--label", "outcome", "-l", "adagrad", "--save", model).exit_code == 0
    )
    known = (tmp_path / "t.csv").read_text()
    (tmp_path / "order.csv").write_text("\n".join(",".join(line.split(",")[::-1]) for line in known.split()))
    margins = run("predict", model, tmp_path / "t.csv").stdout
    assert run("predict", model, tmp_path / "order.csv").stdout == margins
    (tmp_path / "gone.csv").write_text("\n".join(line.split(",", 1)[1] for line in known.split()))
    gone = run("predict", model, tmp_path / "gone.csv")
    assert gone.exit_code == 0
    assert "no column 'age': it counts as missing in every row" in gone.stderr
    (tmp_path / "words.csv").write_text("age,job,pay\nold,clerk,1\n")
    check_message(run("predict", model, tmp_path / "words.csv"), 1, "expected a number, found 'old'")
    (tmp_path / "numbers.csv").write_text("age,job,pay\n" + "30,7,1\n" * 30)
    check_message(run("predict", model, tmp_path / "numbers.csv"), 1, "column 'job' holds numbers, and held words")


def test_describe_learns_nothing(tmp_path):
    result = run("train", table(tmp_path / "t.csv"), "--label", "outcome", "--describe")
    assert result.exit_code == 0
    for text in ("delimiter comma", "job", "category", "label yes against no", "missing"):
        assert text in result.stdout


CUTS = [
    ("csv", ("no", "yes"), "auto"),
    ("csv", ("low", "mid", "high"), "adagrad"),
    ("csv", ("1.5", "2.25", "3.75"), "rfd-son"),
    ("vw", None, "oja-son"),
    ("svm", None, "adagrad"),
    ("jsonl", None, "adagrad"),
]


def written(folder, name, form, labels, rows, seed):
    """A file of some form whose rows follow each other, whatever the cut."""
    rng = np.random.default_rng(seed)
    path = folder / f"{name}.{form}"
    if form == "csv":
        return table(path, rows, seed, labels)
    lines = []
    for _ in range(rows):
        a, b, y = rng.normal(), rng.integers(5), rng.integers(2)
        if form == "vw":
            lines.append(f"{2 * y - 1} |u a:{a:.3f} c{b} |v d{rng.integers(9)}")
        elif form == "svm":
            lines.append(f"{y} 1:{a:.3f} {2 + b}:1")
        else:
            lines.append(json.dumps({"label": ["hot", "cold"][y], "a": round(a, 3), "user": {"b": f"w{b}"}}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(("form", "labels", "method"), CUTS)
def test_continuing_a_model_is_one_run_over_all_files(form, labels, method, tmp_path):
    files = [written(tmp_path, str(k), form, labels, rows, k) for k, rows in enumerate((120, 1, 77))]
    extra = ["--label", "outcome"] if form == "csv" else ["--names", "-q", "uv"] if form == "vw" else []
    extra += ["-l", method, "--holdout", 7, "--block-rows", 50]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run("train", *files, *extra, "--save", whole).exit_code == 0
    assert run("train", files[0], *extra, "--save", parts).exit_code == 0
    for file in files[1:]:
        again = run("train", file, "--from", parts, "--save", parts)
        assert again.exit_code == 0, again.output
    assert parts.read_bytes() == whole.read_bytes()


def test_new_classes_may_come_tomorrow(tmp_path):
    one, two = table(tmp_path / "1.csv", labels=("a", "b", "c")), table(tmp_path / "2.csv", labels=("b", "c", "d"))
    model = tmp_path / "m"
    assert run("train", one, "--label", "outcome", "-l", "adagrad", "--save", model).exit_code == 0
    assert run("train", two, "--from", model, "--save", model).exit_code == 0
    assert set(run("predict", model, two).stdout.split()) <= set("abcd")
    assert "4 classes" in run("inspect", model).stdout


def test_continuing_keeps_the_task_of_the_model(tmp_path):
    path, model = table(tmp_path / "t.csv"), tmp_path / "m"
    assert run("train", path, "--label", "outcome", "-l", "adagrad", "--save", model).exit_code == 0
    for option, reason in (
        (["-l", "ogd"], "stays one"),
        (["--step-size", "3"], "options of a model stay"),
        (["--label", "job"], "read as the training did"),
        (["--task", "regression"], "is a model of"),
    ):
        check_message(run("train", path, "--from", model, *option), 1, reason)


def test_files_may_be_added_when_resuming(tmp_path):
    files = [table(tmp_path / f"{k}.csv", 60, k) for k in range(3)]
    common = ["--label", "outcome", "-l", "adagrad"]
    assert run("train", *files, *common, "--save", tmp_path / "whole").exit_code == 0
    keep = ["--checkpoint", tmp_path / "c", "--resume", "--save", tmp_path / "parts"]
    for count in (1, 2, 3):
        result = run("train", *files[:count], *common, *keep)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    check_message(run("train", files[0], *common, *keep), 1, "another job")


def test_a_stream_names_its_classes_in_their_order():
    block, reading = read_table("y,a\nb,1\na,2\n,3\nb,4\n", unlabelled=True)
    assert reading.classes == ["b", "a"]
    assert np.isnan(block.y[2])
    with pytest.raises(InputError, match="label is missing"):
        list(stream(io.BytesIO(b"y,a\nb,1\n,2\n"), "csv", everyday=True))
