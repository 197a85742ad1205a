"""Training jobs: what is learned, what is reported, and that a crash at any moment changes nothing."""

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import onsketch
from onsketch import data
from onsketch.core.losses import loss_values
from onsketch.data.task import find_task
from onsketch.errors import InputError, ModelFileError, OptionError, UpdateError
from onsketch.files import model_file
from onsketch.files.records import converted
from onsketch.jobs.evaluation import progressive
from onsketch.jobs.tally import Progress
from onsketch.jobs.training import Plan, Training


def labelled_rows(rows=1500, features=12, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, features)) * (rng.random((rows, features)) < 0.5), 3)
    return X, np.where(X @ rng.normal(size=features) > 0.0, 1.0, -1.0)


@pytest.fixture
def file(tmp_path):
    X, y = labelled_rows()
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{label:g} " + " ".join(f"{j}:{v:g}" for j, v in enumerate(row) if v) + "\n"
                            for row, label in zip(X, y, strict=True)))  # fmt: skip
    return path


def finished(job):
    for _ in job.run():
        pass
    return job


def plan(path, method="adagrad", **changes):
    reading = {"block_rows": 100, **changes.pop("reading", {})}
    return Plan([str(path)], method, reading=reading, **changes)


def test_a_job_learns_what_the_learner_learns(file):
    X, y = labelled_rows()
    job = finished(Training(plan(file)))
    alone = onsketch.safe_learner("adagrad", loss="logistic")
    margins = alone.learn(X, y)
    assert (job.learner.weights == alone.weights).all()
    assert job.progress.rows == 1500
    assert job.progress.mean_loss == pytest.approx(loss_values("logistic", margins, y).mean(), rel=1e-12)
    assert job.progress.error == pytest.approx(np.mean((margins > 0) != (y > 0)))
    assert [record.rows for record in job.records] == [2**k for k in range(11)]


def test_a_plain_job_learns_what_the_bare_learner_learns(file):
    X, y = labelled_rows()
    alone = onsketch.learner("adagrad", loss="logistic")
    alone.learn(X, y)
    assert (finished(Training(plan(file, options={"plain": True}))).learner.weights == alone.weights).all()


def test_records_do_not_depend_on_the_blocks(file):
    def records(rows):
        return finished(Training(plan(file, reading={"block_rows": rows}))).records

    assert records(1) == records(7) == records(5000)
    recent = records(64)
    total = sum(
        r.recent_loss * (r.rows - before) for r, before in zip(recent, [0, *(r.rows for r in recent)], strict=False)
    )
    assert total == pytest.approx(recent[-1].loss * recent[-1].rows)


def test_held_out_rows_are_never_learned(file):
    X, y = labelled_rows()
    job = finished(Training(plan(file, holdout=10)))
    learned = np.arange(1, 1501) % 10 != 0
    alone = onsketch.safe_learner("adagrad", loss="logistic")
    alone.learn(X[learned], y[learned])
    assert (job.learner.weights == alone.weights).all()
    assert (job.progress.rows, job.held_out.rows, job.rows) == (1350, 150, 1500)
    assert job.held_out.error < 0.3


def test_held_out_rows_are_the_same_in_every_pass(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{1 if k % 2 else -1} {k}:1\n" for k in range(10)))  # a feature for each row
    job = finished(Training(plan(path, holdout=3, passes=2)))
    assert set(job.learner.coefficients()[0]) == {0, 1, 3, 4, 6, 7, 9}


def test_the_first_name_of_a_column_is_kept_when_resuming(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("".join(f"{1 if k % 2 else -1} | name{k}\n" for k in range(40)))
    todo = Plan([str(path)], "adagrad", reading={"bits": 3, "names": True, "block_rows": 10})
    whole = finished(Training(todo))
    whole.save(tmp_path / "whole")
    first = Training(todo)
    next(iter(first.run()))
    first.checkpoint(tmp_path / "checkpoint")
    second = Training(todo)
    second.resume(tmp_path / "checkpoint")
    finished(second).save(tmp_path / "parts")
    assert second.names == whole.names
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()


def test_a_named_pipe_loses_nothing_and_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(f"{1 if k % 2 else -1} {k % 7}:1\n" for k in range(500))
    writer = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)  # waits for a reader
    writer.start()
    job = finished(Training(Plan([str(pipe)], "adagrad")))
    writer.join()
    assert job.rows == 500
    with pytest.raises(OptionError, match="once only"):
        Training(Plan([str(pipe)], "adagrad", passes=2))


def test_passes_go_over_the_file_again(file):
    X, y = labelled_rows()
    job = finished(Training(plan(file, passes=3)))
    alone = onsketch.safe_learner("adagrad", loss="logistic")
    for _ in range(3):
        alone.learn(X, y)
    assert (job.learner.weights == alone.weights).all()
    with pytest.raises(OptionError, match="passes"):
        Training(Plan(["-"], "adagrad", passes=2))


def test_predictions_are_those_made_before_learning(file, tmp_path):
    X, y = labelled_rows()
    finished(Training(plan(file), str(tmp_path / "p.txt")))
    written = np.loadtxt(tmp_path / "p.txt")
    assert written == pytest.approx(onsketch.safe_learner("adagrad", loss="logistic").learn(X, y), rel=1e-8)


@pytest.mark.parametrize("method", ["adagrad", "rfd-son"])
@pytest.mark.parametrize("stop", [1, 7, 14])
def test_a_job_resumed_ends_as_one_never_stopped(method, stop, file, tmp_path):
    todo = plan(file, method, passes=2, holdout=7)
    whole = finished(Training(todo, str(tmp_path / "whole.txt")))
    whole.save(tmp_path / "whole")
    first = Training(todo, str(tmp_path / "parts.txt"))
    for k, _ in enumerate(first.run(), start=1):
        if k == stop:
            first.checkpoint(tmp_path / "checkpoint")
        if k == stop + 2:
            break  # learned more after the checkpoint, and lost it
    second = Training(todo, str(tmp_path / "parts.txt"))
    second.resume(tmp_path / "checkpoint")
    finished(second).save(tmp_path / "parts")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()
    assert (tmp_path / "whole.txt").read_bytes() == (tmp_path / "parts.txt").read_bytes()
    assert whole.records == second.records


def test_only_the_same_job_resumes(file, tmp_path):
    job = Training(plan(file))
    next(iter(job.run()))
    job.checkpoint(tmp_path / "checkpoint")
    with pytest.raises(OptionError, match=r"another job \(options: "):
        Training(plan(file, options={"step_size": 0.5})).resume(tmp_path / "checkpoint")
    finished(job).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="not a checkpoint"):
        Training(plan(file)).resume(tmp_path / "model")


def test_a_file_that_changed_does_not_resume(file, tmp_path):
    job = Training(plan(file))
    next(iter(job.run()))
    job.checkpoint(tmp_path / "checkpoint")
    file.write_text("1 0:1\n" + file.read_text())
    again = Training(plan(file))
    again.resume(tmp_path / "checkpoint")
    with pytest.raises(InputError, match="resume"):
        finished(again)


def test_rows_that_cannot_be_learned_stop_or_are_skipped(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 0:1\n-1 0:1e140 1:1e140\n1 0:1\n")
    wild = {"loss": "squared", "step_size": 1e100, "plain": True}
    with pytest.raises(UpdateError):
        finished(Training(plan(path, "ogd", options=wild)))
    job = finished(Training(plan(path, "ogd", options=wild, reading={"on_error": "skip"})))
    assert job.skipped > 0
    assert job.rows == 3
    assert np.isfinite(job.learner.weights).all()


@pytest.mark.parametrize(
    ("labels", "kind", "expected"),
    [
        ([-1, 1], "classification", "label 1 against -1"),
        ([1, 1], "classification", "label 1 against -1"),
        ([0, 1], "classification", "label 1 against 0"),
        ([1, 2], "classification", "label 2 against 1"),
        ([0.5, 2.25, 3], "regression", "regression"),
    ],
)
def test_the_task_is_inferred_from_the_first_labels(labels, kind, expected):
    task = find_task(np.array(labels, dtype=float))
    assert (task.kind, expected in str(task)) == (kind, True)


def test_tasks_that_must_be_given():
    with pytest.raises(InputError, match="--positive"):
        find_task(np.array([1.0, 2.0, 3.0]), "binary")
    task = find_task(np.array([1.0, 2.0]))
    with pytest.raises(InputError, match="label 3"):
        task.labels(np.array([1.0, 3.0]))
    with pytest.raises(OptionError, match="regression"):
        find_task(np.array([1.0]), "regression", "2")
    assert find_task(np.array([1.0, 2.0, 3.0]), "regression").kind == "regression"


def test_an_empty_stream_is_an_error(tmp_path):
    (tmp_path / "empty.svm").write_text("\n")
    with pytest.raises(InputError, match="not a single row"):
        finished(Training(plan(tmp_path / "empty.svm")))


def test_progressive_evaluation_with_a_callback():
    _, y = labelled_rows()
    seen = []
    text = io.BytesIO(b"".join(b"%d 0:1 1:%d\n" % (label, k % 5) for k, label in enumerate(y.astype(int))))
    with data.stream(text, "libsvm") as blocks:
        total = progressive(
            onsketch.learner("adagrad", loss="logistic"), ((b.X, b.y, b.sample_weight) for b in blocks), seen.append
        )
    assert [record.rows for record in seen] == [2**k for k in range(11)]
    assert total.rows == 1500
    assert converted(total.state(), Progress) == total


def test_weights_weigh_the_tally():
    X, y = labelled_rows(rows=50)
    tally = Progress("squared", True)
    tally.add(tally.judged(y, np.zeros(50), np.arange(50.0)), X)
    assert tally.mean_loss == pytest.approx(1.0)
    assert tally.error == pytest.approx(np.arange(50.0)[y > 0].sum() / np.arange(50.0).sum())  # 0 says the negative
    assert tally.weight == np.arange(50.0).sum()


# The program, killed -----------------------------------------------------------------------------------------------

PROGRAM = "from onsketch.cli import main; main()"
KILLED = f"""
import os, random, signal, sys, threading

rng, replace = random.Random(int(sys.argv.pop(1))), os.replace
left = rng.randrange(8)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def replaced(source, target, **options):
    global left
    replace(source, target, **options)
    left -= os.path.basename(target) == "checkpoint"
    if left == 0:
        threading.Timer(rng.random() * 0.004, kill).start()
    elif left == -3:  # on a busy machine the timer may come late
        kill()


os.replace = replaced
if left == 0:  # while it starts, or soon after
    threading.Timer(rng.random(), kill).start()
{PROGRAM}
"""
"""The program, which kills itself at its start or a few checkpoints on, whatever it is doing then."""


def program(*arguments, code=PROGRAM, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_killed_at_any_moment_the_model_is_the_same(piped, tmp_path):
    rng = random.Random(7)
    source = tmp_path / "rows.svm"
    lines = (f"{rng.choice((-1, 1))} {rng.randrange(40)}:1 {rng.randrange(40, 90)}:{rng.random():.3f}\n"
             for _ in range(40_000))  # fmt: skip
    source.write_text("".join(lines))

    def command(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        where = "-" if piped else source
        saving = ["--save", folder / "model", "--predictions", folder / "p.txt"]
        keeping = ["--checkpoint", folder / "checkpoint", "--every", 500, "--resume"]
        return ["train", where, "-l", "adagrad", "--format", "libsvm", "--block-rows", 500, *saving, *keeping]

    def end(name, *seed, **options):
        with source.open("rb") as file:
            process = program(*seed, *command(name), stdin=file if piped else subprocess.DEVNULL, **options)
            _, errors = process.communicate(timeout=300)
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        return process.returncode

    assert end("whole") == 0
    for seed in range(6):
        assert end("killed", seed, code=KILLED) == -signal.SIGKILL
    assert end("killed") == 0
    checkpoint = tmp_path / "killed" / "checkpoint"
    for name in ("model", "p.txt"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert onsketch.load(tmp_path / "killed" / "model").rounds == 40_000
    assert model_file.read(checkpoint).notes["training"]["progress"]["rows"] == 40_000


def test_ctrl_c_saves_what_it_can_and_says_so(tmp_path):
    source = tmp_path / "rows.svm"
    source.write_text("1 1:1\n-1 2:1\n" * 200_000)
    process = program("train", source, "-l", "adagrad", "--block-rows", 200, "--save", tmp_path / "model",
                      "--checkpoint", tmp_path / "checkpoint", "--every", 200)  # fmt: skip
    while process.poll() is None and not (tmp_path / "checkpoint").exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"Interrupted after" in errors
    assert b"--resume" in errors
    assert 0 < onsketch.load(tmp_path / "model").rounds < 400_000
