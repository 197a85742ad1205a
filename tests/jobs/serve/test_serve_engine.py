"""One writer, many readers: same bytes as the program, nothing acknowledged is lost, nothing grows without bound."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import threading
import time

import numpy as np
import pytest

pytest.importorskip("msgspec", reason="the service needs the extra 'serve'")

import onsketch
from onsketch.data.json_rows import rows_of
from onsketch.files.model_file import read, write
from onsketch.jobs.serve.engine import Engine, Settings
from onsketch.jobs.serve.learn_requests import Broken, Busy, DiskFull, LearnRequest, Stopping
from onsketch.jobs.serve.log import Log, LogError
from onsketch.jobs.serve.model import UNLISTED, load_model, new_model
from onsketch.jobs.serve.store import Store
from onsketch.jobs.serve.watch import Watch
from onsketch.jobs.tally import judged
from program import run
from serving import as_vw, objects


def _request(rows):
    matrix = rows_of([row["features"] for row in rows])
    return LearnRequest(matrix, [row["label"] for row in rows])


def _came(request):
    """The outcome of a request, or the error that refused it. The first row may have to wait for a compiler."""
    return request.future.exception(300) or request.future.result()


def _learn(engine, rows):
    request = _request(rows)
    engine.submit(request)
    return _came(request)


def _engine(folder=None, method="adagrad", task="binary", shadow=None, options=None, **settings):
    store = None if folder is None else Store(folder)
    found = None if store is None else store.load()
    number, model = 0, new_model(method, options or {}, task, {})
    if found is not None:
        number, model, shadow, _ = found
    engine = Engine(model, shadow, store, Settings(**settings))
    engine.recover(number)
    engine.start()
    return engine


def _saved(model, path):
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("method", ["adagrad", "auto", "oja-son"])
def test_service_program_and_python_give_the_same_bytes(tmp_path, method):
    rows = objects(300)
    engine = _engine(tmp_path / "log", method)
    margins, start = [], 0
    for size in (1, 1, 2, 50, 3, 143, 100):
        margins += _learn(engine, rows[start : start + size]).margins.tolist()
        start += size
    engine.drain()
    ours = _saved(engine.model, tmp_path / "ours")

    (tmp_path / "rows.vw").write_text("".join(as_vw(row) + "\n" for row in rows))
    assert run("train", tmp_path / "rows.vw", "-l", method, "--save", tmp_path / "theirs").exit_code == 0
    theirs = read(tmp_path / "theirs")
    theirs.notes["training"]["schema"] = UNLISTED  # which VW text has none of
    theirs.notes["training"]["format"] = None  # a service takes rows of several formats
    write(tmp_path / "theirs", *theirs)
    assert ours == (tmp_path / "theirs").read_bytes()

    learner = onsketch.safe_learner(method, loss="logistic")
    y = np.array([1.0 if row["label"] else -1.0 for row in rows])
    assert learner.learn(rows_of([row["features"] for row in rows]), y).tolist() == margins
    mine, python = onsketch.load(tmp_path / "ours").learner._arrays(), learner._arrays()
    assert mine.keys() == python.keys()
    assert all(mine[name].tobytes() == python[name].tobytes() for name in mine)


def _frozen(folder, copy):
    """The folder as a crash would leave it: copied while no file came or went (another thread writes snapshots)."""
    for _ in range(200):
        before = sorted(path.name for path in folder.iterdir())
        with contextlib.suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(folder, copy)
            if sorted(path.name for path in folder.iterdir()) == before:
                return
        shutil.rmtree(copy, ignore_errors=True)
        time.sleep(0.02)
    raise AssertionError("the folder never stood still")


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("snapshot_rows", [10_000, 40])
def test_a_copy_of_the_folder_at_any_moment_gives_the_model(tmp_path, task, snapshot_rows):
    rows = objects(150)
    if task == "multiclass":
        rows = [{**row, "label": row["features"]["colour"]} for row in rows]
    engine = _engine(tmp_path / "log", task=task, snapshot_rows=snapshot_rows)
    for start in range(0, 150, 10):
        _learn(engine, rows[start : start + 10])
    _frozen(tmp_path / "log", tmp_path / "copy")
    engine.drain()
    again = _engine(tmp_path / "copy", task=task)
    assert _saved(again.model, tmp_path / "a") == _saved(engine.model, tmp_path / "b")
    assert again.model.rows == 150
    again.drain()
    assert load_model(next((tmp_path / "copy").glob("snapshot-*.model")))[0].rows == 150


def test_a_snapshot_cuts_the_log(tmp_path):
    engine = _engine(tmp_path, snapshot_rows=20)
    for row in objects(100):
        _learn(engine, [row])
        if engine._saver is not None:
            engine._saver.join()
    assert engine.snapshots >= 4
    assert len(list(tmp_path.glob("snapshot-*.model"))) == 1
    assert len(list(tmp_path.glob("log-*.rows"))) == 1
    engine.drain()


def test_a_full_queue_refuses_at_once_and_predictions_go_on():
    engine = _engine(queue_rows=5, batch_rows=1)
    rows = objects(50)
    with engine._step:  # the writer cannot learn now
        engine._readers += 1
        waiting = []

        def fill():
            for row in rows:
                request = _request([row])
                engine.submit(request)
                waiting.append(request)

        with pytest.raises(Busy, match="rows are waiting"):
            fill()
        assert 1 <= len(waiting) <= 5
        engine._readers -= 1
    assert all(_came(request).refused == {} for request in waiting)
    assert engine.predict(rows_of([rows[0]["features"]])).shape == (1,)
    assert engine.queued == 0
    engine.drain()


@pytest.mark.parametrize("durability", ["none", "batch", "row"])
def test_a_single_row_is_learned_at_once_where_nothing_waits(durability, tmp_path, monkeypatch):
    engine, threads = _engine(tmp_path / "log", durability=durability), []
    learn = engine.model.learn
    monkeypatch.setattr(
        engine.model, "learn", lambda *given: threads.append(threading.current_thread()) or learn(*given)
    )
    rows = objects(6)
    for part in (rows[:1], rows[1:3], rows[3:4]):
        _learn(engine, part)
    here = threading.current_thread() if durability != "row" else engine._threads[0]  # who waits for the disk
    assert threads == [here, engine._threads[0], here]
    with engine._step:  # somebody looks at the model, and submitting does not wait
        request = _request(rows[4:5])
        engine.submit(request)
    assert _came(request).refused == {}
    assert threads[3:] == [engine._threads[0]]
    engine.drain()


def test_one_large_request_is_taken_by_an_empty_queue():
    engine = _engine(queue_rows=5)
    assert len(_learn(engine, objects(20)).margins) == 20
    engine.drain()


def test_draining_learns_what_waits_and_takes_nothing_new(tmp_path):
    engine = _engine(tmp_path, queue_rows=1000, batch_rows=7)
    waiting = []
    for row in objects(200):
        request = _request([row])
        engine.submit(request)
        waiting.append(request)
    engine.drain()
    assert all(len(_came(request).margins) == 1 for request in waiting)
    assert engine.model.rows == 200
    with pytest.raises(Stopping):
        engine.submit(_request(objects(1)))
    again = _engine(tmp_path)
    assert again.model.rows == 200
    again.drain()


def test_a_full_disk_refuses_rows_and_loses_none(tmp_path, monkeypatch):
    engine = _engine(tmp_path)
    rows = objects(30)
    _learn(engine, rows[:10])

    def full(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("onsketch.jobs.serve.log.os.write", full)
    before = engine.predict(rows_of([rows[0]["features"]]))
    assert isinstance(_learn(engine, rows[10:20]), DiskFull)
    assert engine.disk_full
    assert engine.predict(rows_of([rows[0]["features"]])) == before
    monkeypatch.undo()
    _learn(engine, rows[20:])  # room again
    assert not engine.disk_full
    engine.drain()
    whole = _engine()
    _learn(whole, rows[:10] + rows[20:])
    whole.drain()
    assert _saved(engine.model, tmp_path / "a") == _saved(whole.model, tmp_path / "b")


def test_a_service_on_a_full_disk_predicts_and_learns_once_space_is_freed(tmp_path, monkeypatch):
    engine = _engine(tmp_path)
    rows = objects(30)
    _learn(engine, rows[:10])
    shutil.copytree(tmp_path, tmp_path / "killed")
    engine.drain()
    asked, opened = rows_of([rows[0]["features"]]), os.open

    def full(path, flags, *options, **named):
        if flags & os.O_CREAT and not str(path).endswith("lock"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, flags, *options, **named)

    monkeypatch.setattr(os, "open", full)
    again = _engine(tmp_path / "killed")
    assert again.disk_full
    assert "No space left" in again.notes[0]
    assert again.predict(asked) == engine.predict(asked)
    assert isinstance(_learn(again, rows[10:20]), DiskFull)
    monkeypatch.undo()
    _learn(again, rows[20:])
    assert not again.disk_full
    again.drain()
    last = _engine(tmp_path / "killed")
    assert last.model.rows == 20
    last.drain()


def test_a_disk_that_fails_ends_learning_and_nothing_is_acknowledged(tmp_path, monkeypatch):
    engine = _engine(tmp_path)
    rows = objects(30)
    _learn(engine, rows[:10])

    def broken(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("onsketch.jobs.serve.log.os.fdatasync", broken)
    assert isinstance(_learn(engine, rows[10:20]), Broken)
    with pytest.raises(Broken, match="restart"):
        _learn(engine, rows[20:])
    assert not engine.ready
    assert np.isfinite(engine.predict(rows_of([rows[0]["features"]]))).all()
    monkeypatch.undo()
    engine.drain()


def test_a_disk_that_fails_at_a_row_ends_learning_and_a_restart_decides(tmp_path, monkeypatch):
    engine = _engine(tmp_path, durability="row")
    rows = objects(30)
    _learn(engine, rows[:10])

    def broken(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("onsketch.jobs.serve.log.os.fdatasync", broken)
    refused = _learn(engine, rows[10:20])
    assert isinstance(refused, Broken)
    assert "nothing was learned" not in str(refused)
    monkeypatch.undo()
    with pytest.raises(Broken, match="restart"):  # a later record would follow one that is in nobody's model
        _learn(engine, rows[20:])
    assert not engine.ready
    assert engine.model.rows == 10
    engine.drain()
    again = _engine(tmp_path, durability="row")
    assert again.model.rows == 20  # the record was on the disk
    _learn(again, rows[20:])
    again.drain()
    assert _engine(tmp_path, durability="row").model.rows == 30


def test_half_a_mark_in_the_log_ends_learning_and_every_client_is_answered(tmp_path, monkeypatch):
    engine = _engine(tmp_path)
    rows = objects(30)
    _learn(engine, rows[:10])
    write = Log._write

    def half_a_mark(log, file, size, payload):
        if not payload:
            raise LogError("half a record could not be removed from the log")
        return write(log, file, size, payload)

    monkeypatch.setattr(Log, "_write", half_a_mark)
    assert isinstance(_learn(engine, rows[10:20]), Broken)
    with pytest.raises(Broken, match="restart"):
        _learn(engine, rows[20:])
    assert not engine.ready
    assert all(thread.is_alive() for thread in engine._threads)
    monkeypatch.undo()
    engine.drain()


@pytest.mark.parametrize("durability", ["none", "batch", "row"])
def test_every_durability_keeps_what_was_drained(tmp_path, durability):
    engine = _engine(tmp_path, durability=durability)
    _learn(engine, objects(20))
    engine.drain()
    again = _engine(tmp_path, durability=durability)
    assert again.model.rows == 20
    again.drain()


def test_a_second_model_learns_the_same_rows_and_can_take_over(tmp_path):
    rows = objects(90)
    shadow = new_model("oja-son", {}, "binary", {})
    engine = _engine(tmp_path / "log", shadow=shadow)
    _learn(engine, rows[:30])
    promotion = LearnRequest(None, [], notes={"promote": True})
    engine.submit(promotion)
    _came(promotion)
    _learn(engine, rows[30:60])
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    assert engine.model is shadow
    engine.drain()
    again = _engine(tmp_path / "copy")  # the promotion is in the log
    assert again.model.learner.method.name == "oja-son"
    assert again.shadow.learner.method.name == "adagrad"
    for mine, theirs in ((engine.model, again.model), (engine.shadow, again.shadow)):
        assert mine.rows == 60
        assert _saved(mine, tmp_path / "a") == _saved(theirs, tmp_path / "b")
    again.drain()


def test_rows_whose_update_is_not_finite_are_refused_alone(tmp_path):
    engine = _engine(tmp_path / "log", method="ogd", task="regression", options={"plain": True})
    rows = [{"features": {"a": 1.0}, "label": 1.0}, {"features": {"a": 1e120}, "label": 1e140}, *objects(3)]
    outcome = _learn(engine, rows)
    assert list(outcome.refused) == [1]
    assert "finite" in outcome.refused[1]
    assert engine.model.rows == 4
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    engine.drain()
    again = _engine(tmp_path / "copy", task="regression")
    assert _saved(again.model, tmp_path / "a") == _saved(engine.model, tmp_path / "b")
    again.drain()


def test_labels_that_the_task_does_not_know_are_refused_alone():
    engine = _engine()
    outcome = _learn(
        engine, [{"features": {"a": 1}, "label": label} for label in (1, 3, "x", None, False, -1, 10**400)]
    )
    assert sorted(outcome.refused) == [1, 2, 3, 6]
    assert engine.model.rows == 3
    assert np.isnan(outcome.margins[1])
    engine.drain()


def test_two_services_cannot_write_one_folder(tmp_path):
    engine = _engine(tmp_path)
    with pytest.raises(onsketch.errors.OptionError, match="another service"):
        Store(tmp_path)
    engine.drain()


def test_readers_see_a_consistent_model_while_features_arrive():
    engine = _engine(method="auto", batch_rows=64)
    stop, bad = threading.Event(), []

    def read():
        rows = rows_of([{"a": 1, "colour": "red"}])
        while not stop.is_set():
            margins = engine.predict(rows)
            if not np.isfinite(margins).all():
                bad.append(margins)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for k in range(100):
            _learn(engine, [{"features": {**row["features"], f"new{k}_{j}": 1}, "label": row["label"]}
                            for j, row in enumerate(objects(20, k))])  # fmt: skip
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    engine.drain()
    assert not bad


def test_memory_of_what_waits_is_bounded_by_time_and_number():
    from onsketch.jobs.serve.waiting import Waitlist

    waitlist = Waitlist(most=3, seconds=0.05)
    rows = rows_of([{"a": 1}])
    for k in range(5):
        waitlist.put(f"r{k}", rows, None, {})
    assert len(waitlist) == 3
    assert waitlist.why_not("r0")[0] == 410
    waitlist.done("r4")
    assert waitlist.why_not("r4")[0] == 409
    time.sleep(0.06)
    assert waitlist.get("r3") is None
    assert waitlist.why_not("r3")[0] == 410
    assert waitlist.why_not("never")[0] == 404
    assert waitlist.counts() == {
        "waiting": 0, "labelled": 1, "expired": 2, "evicted": 2, "unknown": 1, "repeated": 1, "late": 2,
    }  # fmt: skip


def test_the_model_of_the_service_is_one_that_the_program_reads(tmp_path):
    engine = _engine()
    rows = objects(100)
    _learn(engine, rows)
    engine.save(tmp_path / "m")
    engine.drain()
    (tmp_path / "rows.vw").write_text("".join(as_vw(row) + "\n" for row in rows))
    result = run("predict", tmp_path / "m", tmp_path / "rows.vw", "--kind", "probability")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 100
    assert json.dumps(engine.model.counted().progress.state())
    assert os.path.getsize(tmp_path / "m") > 0


def test_a_failure_of_the_writer_reaches_the_waiting_requests(monkeypatch):
    engine = _engine()

    def broken(*arguments):
        raise MemoryError

    monkeypatch.setattr(engine.model, "learn", broken)
    monkeypatch.setattr("threading.excepthook", lambda arguments: None)
    assert isinstance(_learn(engine, objects(2)), Broken)
    assert not engine.ready
    engine.drain()


def test_rows_a_second_of_a_slow_service(monkeypatch) -> None:
    """A row a second, looked at once a minute."""
    now = [1000.0]
    monkeypatch.setattr("onsketch.jobs.serve.watch.time.time", lambda: now[0])
    model = new_model("adagrad", {}, "binary", {})
    watch = Watch(model.task, "logistic")
    for second in range(1, 181):
        now[0] += 1.0
        watch.arrive(1)
        watch.add(judged("logistic", np.array([1.0]), np.array([0.5]), True))
        if second % 60 == 0:
            assert watch.figures()["rows_a_second"] == pytest.approx(1.0, rel=0.1)
    assert watch.figures()["rows"] == 180
