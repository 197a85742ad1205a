"""The program, from its options to its exit codes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onsketch
from onsketch.jobs.compare import CONTENDERS
from program import run

SMALL = ["compare", "--rows", "200", "--dimension", "12", "--sketch-size", "4"]


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout.strip()) == (0, f"onsketch {onsketch.__version__}")


def test_help_lists_the_commands():
    result = run("--help")
    assert result.exit_code == 0
    for command in ("train", "predict", "compare", "sketch", "inspect", "methods"):
        assert command in result.stdout
        assert run(command, "--help").exit_code == 0


def test_help_begins_with_what_everybody_needs():
    env = {**os.environ, "PYTHONPATH": str(Path(onsketch.__file__).parents[1]), "COLUMNS": "120"}
    program = [sys.executable, "-c", "from onsketch.cli import main; main()", "train"]
    short, whole = (
        subprocess.run([*program, word], capture_output=True, text=True, check=True, env=env).stdout
        for word in ("--help", "--help-all")
    )
    assert short.index("Examples") < short.index("--label") < short.index("--sketch-size") < len(short)
    assert "--help-all" in short
    assert "--coef0" not in short
    assert "--coef0" in whole
    assert len(short.splitlines()) < 150


def test_starting_imports_no_large_library():
    code = "import sys, onsketch.cli; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(Path(onsketch.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert not {"numpy", "scipy", "numba", "rich.live"} & set(done.stdout.split())


def test_a_command_waits_for_nothing_that_it_does_not_use(tmp_path):
    (tmp_path / "one.svm").write_text("1 1:0.5\n")
    code = (
        "import sys; from onsketch.cli import main; sys.argv[1:] = ['train', 'one.svm', '--quiet', '-l', 'adagrad']\n"
        "try:\n main()\nexcept SystemExit as end: print(end.code, *sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(onsketch.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    for _ in range(2):  # the first run may have to compile kernels, and the compiler imports much
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, cwd=tmp_path)
    code, *modules = done.stdout.split()
    assert code == "0", done.stderr
    heavy = {
        "pydantic",
        "rich.live",
        "rich.console",
        "numpy.ma",
        "scipy.sparse",
        "pyarrow",
        "pandas",
        "onsketch.cli.compare",
    }
    assert not heavy & set(modules)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["compare", "--rows", "0"], "--rows"),
        (["compare", "--condition", "0.5"], "--condition"),
        (["compare", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_the_culprit(arguments, complaint):
    result = run(*arguments)
    assert result.exit_code == 2
    assert complaint in result.output


def test_json_into_a_missing_directory_is_refused_before_any_work(tmp_path):
    result = run(*SMALL, "--json", str(tmp_path / "nowhere" / "out.json"))
    assert result.exit_code == 2
    assert "nowhere" in result.output.replace("\n", "")


def test_methods_lists_every_one():
    result = run("methods")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in onsketch.methods())


def test_an_unknown_learner_is_refused_with_a_hint():
    result = run(*SMALL, "--learner", "rdf-son")
    assert result.exit_code == 2
    assert "rfd-son" in result.output


def test_compare_in_plain_lines():
    result = run(*SMALL)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    assert all(name in result.stdout for name in CONTENDERS)
    assert result.stdout.splitlines()[-1].startswith("What to see: for accuracy, ")


@pytest.mark.parametrize("no_color", [None, "1"])
def test_compare_on_a_terminal_moves_a_table_and_heeds_no_color(no_color):
    env = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": no_color}
    result = run(*SMALL, "--learner", "ogd", "--learner", "rfd-son", **env)
    assert result.exit_code == 0, result.output
    assert "after 200 rows" in result.stdout
    assert "What to see" in result.stdout
    assert bool(re.search(r"\x1b\[[\d;]*3\dm", result.stdout)) == (no_color is None)


def test_compare_writes_json(tmp_path):
    path = tmp_path / "out.json"
    names = ["rfd-son", "adagrad"]
    chosen = [part for name in names for part in ("--learner", name)]
    result = run(*SMALL, *chosen, "--condition", "50", "--json", str(path))
    assert result.exit_code == 0, result.output
    document = json.loads(path.read_text())
    assert (document["rows"], document["dimension"]) == (200, 12)
    learners = {entry["learner"]: entry for entry in document["learners"]}
    assert set(learners) == {*names, *(f"{name}, clip 1" for name in names)}
    (stream,) = learners["rfd-son"]["streams"]
    assert stream["stream"] == "50"
    assert set(stream["setting"]) == {"ridge"}
    assert 0 <= stream["error"] <= 1
    assert learners["adagrad"]["settings_tried"] > 1
    errors = [entry["streams"][0]["error"] for entry in document["learners"]]
    assert errors == sorted(errors)
    assert stream["curve"][-1]["rows"] == 200


def test_compare_repeats_itself(tmp_path):
    def errors(seed):
        path = tmp_path / "out.json"
        result = run(*SMALL, "--learner", "oja-son", "--seed", str(seed), "--json", str(path))
        assert result.exit_code == 0, result.output
        return [stream["error"] for stream in json.loads(path.read_text())["learners"][0]["streams"]]

    assert errors(3) == errors(3) != errors(4)


def test_completion_is_offered():
    result = run("--show-completion", _ONSKETCH_COMPLETE="", SHELL="/bin/bash")
    assert "--show-completion" in run("--help").stdout
    assert result.exit_code in (0, 1)  # 1 where no shell is recognised
