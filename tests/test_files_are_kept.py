"""Nothing that is to be read is written over, one run at a time writes a file; damaged tables are refused by name."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import onsketch
from onsketch.errors import InputError, ReadError
from onsketch.files.locks import held
from onsketch.files.model_file import write_atomically

from program import run  # isort: skip


@pytest.mark.parametrize("option", ["--predictions", "--save", "--checkpoint", "--report"])
@pytest.mark.parametrize("how", ["same", "spelled", "symbolic", "hard"])
def test_an_output_that_is_an_input_is_refused_and_the_input_stays(ten: Path, option: str, how: str) -> None:
    other = ten.with_name("other")
    if how == "symbolic":
        other.symlink_to(ten)
    elif how == "hard":
        os.link(ten, other)
    name = {"same": ten, "spelled": ten.parent / ".." / ten.parent.name / ten.name}.get(how, other)
    before = ten.read_bytes()
    outcome = run("train", str(ten), "-l", "adagrad", option, str(name))
    assert outcome.exit_code != 0
    assert ten.read_bytes() == before


def test_one_run_at_a_time_has_a_file_and_what_it_leaves_is_removed(tmp_path: Path) -> None:
    model = tmp_path / "model"
    leftover = tmp_path / ".model.abcd1234"
    leftover.write_bytes(b"half")
    with held(model, None):
        assert not leftover.exists()
        with pytest.raises(InputError, match="another run"), held(model):
            pass
    with held(model):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_being_written_is_no_leftover(tmp_path: Path) -> None:
    target, inside, go_on = tmp_path / "model", threading.Event(), threading.Event()

    def slowly(name: str) -> None:
        inside.set()
        go_on.wait(10)
        Path(name).write_bytes(b"whole")

    writer = threading.Thread(target=write_atomically, args=(target, slowly))
    writer.start()
    inside.wait(10)
    with held(target):
        pass
    go_on.set()
    writer.join(10)
    assert target.read_bytes() == b"whole"


def test_a_hostile_arrow_file_is_refused_by_name(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.RecordBatch.from_pydict({"label": [1.0, 0.0], "word": ["aaaa", "bbbb"]})
    path = str(tmp_path / "hostile.arrow")
    with pyarrow.OSFile(path, "wb") as sink, pyarrow.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    sound, ends = Path(path).read_bytes(), np.array([0, 4, 8], dtype=np.int32)
    assert sound.count(ends.tobytes()) == 1
    hostile = np.array([0, 10**9, 8], dtype=np.int32)
    Path(path).write_bytes(sound.replace(ends.tobytes(), hostile.tobytes()))
    with pytest.raises(ReadError, match=r"hostile\.arrow.*word"):
        list(onsketch.data.stream(path, label="label"))


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_file_cut_short_is_refused_by_name(ending: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"label": np.arange(5000.0), "x": np.random.default_rng(0).normal(size=5000)})
    path = tmp_path / f"cut.{ending}"
    if ending == "parquet":
        parquet.write_table(table, path)
    else:
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ReadError, match=rf"cut\.{ending}"):
        list(onsketch.data.stream(str(path), label="label"))
