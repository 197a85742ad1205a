"""Ctrl-C: what was done is kept, and said."""

import json
import re
import signal
import subprocess
import time

import pytest

import onsketch
from onsketch.data import stream
from program import PROGRAM, check_message, environment, run


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_run_stopped_while_a_pipe_stalls_saves_at_once(asked, tmp_path):
    model = tmp_path / "model"
    command = [*PROGRAM, "train", "-", "--format", "libsvm", "-l", "adagrad", "--block-rows", "1", "--save", str(model)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        process.stdin.write(b"1 1:1\n-1 2:1\n")
        process.stdin.flush()  # and nothing more: the pipe stays open
        while b" 2 " not in process.stdout.readline():  # the line of the second row
            assert process.poll() is None
        time.sleep(0.5)  # now it waits
        process.send_signal(getattr(signal, asked))
        began = time.perf_counter()
        assert process.wait(timeout=60) == 130
        assert time.perf_counter() - began < 20
        assert b"Interrupted after 2 rows; model" in process.stderr.read()
    assert onsketch.load(model).rounds == 2


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


def press_ctrl_c(monkeypatch, at, after=0):
    """Let the stream opened after ``after`` others be interrupted."""
    opened = []

    def open_stream(*arguments, **options):
        opened.append(1)
        return Interrupting(at, *arguments, **options) if len(opened) > after else stream(*arguments, **options)

    monkeypatch.setattr("onsketch.data.stream", open_stream)


def test_ctrl_c_before_the_format_of_a_pipe_is_known(ten, monkeypatch):
    press_ctrl_c(monkeypatch, at=0)
    check_message(
        run("train", ten, "-l", "adagrad"), 130, "Interrupted before the first rows came; there is nothing to save."
    )


def test_ctrl_c_in_a_second_pass_keeps_the_first(ten, tmp_path, monkeypatch):
    press_ctrl_c(monkeypatch, at=0, after=1)
    model = tmp_path / "model"
    check_message(
        run("train", ten, "-l", "adagrad", "--passes", 2, "--save", model), 130, "Interrupted after 10 rows; model"
    )
    assert onsketch.load(model).rounds == 10


def test_ctrl_c_in_a_race_shows_and_writes_the_standings(ten, tmp_path, monkeypatch):
    press_ctrl_c(monkeypatch, at=3)
    files = [tmp_path / name for name in ("race.json", "race.csv", "race.html")]
    options = ("--json", files[0], "--csv", files[1], "--report", files[2], "--block-rows", 4, "--regret")
    done = run("compare", ten, "-l", "adagrad", *options)
    check_message(done, 130, "Interrupted after 8 rows; these are the standings after those.")
    assert re.search(r"^adagrad +0\.", done.stdout, flags=re.MULTILINE)
    assert json.loads(files[0].read_text())["rows"] == 8
    assert files[1].read_text().splitlines()[-1].split(",")[2] == "8"
    assert "adagrad" in files[2].read_text()


def test_ctrl_c_before_a_race_has_rows(ten, monkeypatch):
    press_ctrl_c(monkeypatch, at=0)
    check_message(run("compare", ten, "-l", "adagrad"), 130, "Interrupted")


def test_ctrl_c_keeps_the_predictions_made(ten, tmp_path, monkeypatch):
    model, output = tmp_path / "model", tmp_path / "p"
    assert run("train", ten, "-l", "adagrad", "--save", model).exit_code == 0
    press_ctrl_c(monkeypatch, at=3)
    check_message(run("predict", model, ten, "--block-rows", 4, "-o", output), 130, "Interrupted after 8 rows.")
    assert len(output.read_text().splitlines()) == 8


def test_ctrl_c_keeps_the_sketch_so_far(ten, tmp_path, monkeypatch):
    press_ctrl_c(monkeypatch, at=3, after=1)
    saved = tmp_path / "sketch"
    done = run("sketch", ten, "--size", 2, "--block-rows", 4, "--save", saved)
    check_message(done, 130, "Interrupted after 8 rows; this is the sketch of those.")
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
