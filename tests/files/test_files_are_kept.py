"""Nothing that is to be read is written over, one run at a time writes a file; damaged tables are refused by name."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onsketch
from onsketch.errors import InputError, ReadError
from onsketch.files import model_file
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
        go_on.wait(60)
        Path(name).write_bytes(b"whole")

    writer = threading.Thread(target=write_atomically, args=(target, slowly))
    writer.start()
    try:
        assert inside.wait(60)
        with held(target):
            pass
        write_atomically(target, lambda name: Path(name).write_bytes(b"other"))
        assert target.read_bytes() == b"other"
    finally:
        go_on.set()
        writer.join(60)
    assert target.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [target]


def test_a_save_removes_what_a_killed_save_of_the_same_file_left(tmp_path: Path) -> None:
    model, other = tmp_path / "model", tmp_path / ".model2.abcd1234"
    program = (
        "import os, signal, sys\nfrom onsketch.files.model_file import write_atomically\n"
        "write_atomically(sys.argv[1], lambda name: os.kill(os.getpid(), signal.SIGKILL))"
    )
    subprocess.run([sys.executable, "-c", program, str(model)], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    other.write_bytes(b"of another file")
    onsketch.learner("adagrad").save(model)
    assert set(tmp_path.iterdir()) == {model, other}


@pytest.mark.parametrize("option", ["--json", "--csv", "--report", "--save"])
def test_an_output_of_a_race_that_is_an_input_is_refused(ten: Path, option: str) -> None:
    link, before = ten.with_name("link"), ten.read_bytes()
    link.symlink_to(ten)
    assert run("compare", str(ten), "-l", "adagrad", option, str(link)).exit_code == 2
    assert ten.read_bytes() == before


class FullDisk:
    """A file that takes no more than so many bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write(self, data: Any) -> int:
        if len(data) > self.room:
            self.file.write(bytes(data)[: self.room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)
        return int(self.file.write(data))


@pytest.mark.parametrize("share", [0.0, 0.002, 0.3, 0.9])
def test_on_a_full_disk_the_model_that_was_there_stays(share: float, tmp_path: Path, monkeypatch: Any) -> None:
    X, y = np.random.default_rng(0).normal(size=(50, 40)), np.ones(50)
    learner, path = onsketch.learner("adagrad"), tmp_path / "model"
    learner.learn(X[:20], y[:20])
    learner.save(path)
    before = path.read_bytes()
    room = int(share * len(before))
    learner.learn(X[20:], y[20:])
    monkeypatch.setattr(model_file, "open", lambda *given: FullDisk(open(*given), room), raising=False)  # noqa: SIM115
    with pytest.raises(OSError, match="No space left"):
        learner.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert onsketch.load(path).rounds == 20
    learner.save(path)
    assert onsketch.load(path).rounds == 50


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a small file system, as root")
def test_a_run_whose_disk_is_full_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=96k", "none", str(small)]
    mounted = subprocess.run(command, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("this place does not let file systems be mounted")
    try:
        rows = tmp_path / "rows.svm"
        rows.write_text("".join(f"{1 - 2 * (k % 2)} {k % 50}:1 {50 + k % 7}:{k % 5}\n" for k in range(12_000)))

        def train(folder: Path) -> Any:
            keeping = ("--checkpoint", folder / "c", "--every", 1000, "--resume", "--block-rows", 1000)
            return run("train", rows, "-l", "adagrad", "--save", folder / "m", "--predictions", folder / "p", *keeping)

        whole = tmp_path / "whole"
        whole.mkdir()
        assert train(whole).exit_code == 0
        failed = train(small)
        assert failed.exit_code != 0
        assert "space" in failed.output
        assert not isinstance(failed.exception, OSError)
        subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
        assert train(small).exit_code == 0
        for name in ("m", "p"):
            assert (small / name).read_bytes() == (whole / name).read_bytes()
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_a_clear_error(ten: Path, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    done = run("train", str(ten), "-l", "adagrad", "--save", str(folder / "model"))
    assert done.exit_code != 0
    assert "ermission" in done.output


def test_a_read_only_folder_for_all_users_is_a_clear_error(ten: Path) -> None:
    done = run("train", str(ten), "-l", "adagrad", "--save", "/proc/model")
    assert done.exit_code != 0
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_two_runs_at_once_do_not_share_a_checkpoint(ten: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with held(checkpoint):
        done = run("train", str(ten), "-l", "adagrad", "--checkpoint", str(checkpoint))
    assert done.exit_code != 0
    assert "another run" in " ".join(done.output.split())


@pytest.mark.parametrize("ending", ["svm", "csv"])
@pytest.mark.parametrize("longer", [False, True], ids=["shortened", "grown"])
def test_a_file_that_changes_its_length_while_it_is_read(ending: str, longer: bool, tmp_path: Path) -> None:
    """A file that shrinks while it is read is reported or ends early; no row is ever half a line."""
    path = tmp_path / f"rows.{ending}"
    line = "1 1:2 3:4\n" if ending == "svm" else "1,2,4\n"
    header = "" if ending == "svm" else "label,a,b\n"
    path.write_text(header + line * 100_000)
    rows = 0
    with onsketch.data.stream(str(path), block_rows=1000, prefetch=0) as blocks:
        for block in blocks:
            if rows == 0:
                with path.open("r+") as file:
                    if longer:
                        file.seek(0, os.SEEK_END)
                        file.write(line * 500)
                    else:
                        file.truncate(len(header) + len(line) * 50_000)
            rows += len(block)
            assert (block.y == 1.0).all()
            assert (block.X.sum(axis=1) == 6.0).all()
    assert rows == (100_500 if longer else rows)
    assert 1000 <= rows <= 100_500


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


def test_damage_in_a_parquet_file_names_row_group_and_column(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "damaged.parquet"
    table = pyarrow.table({"label": np.arange(3000.0), "x": np.random.default_rng(0).normal(size=3000)})
    parquet.write_table(table, path, row_group_size=1000, compression="zstd", use_dictionary=False)
    place = parquet.read_metadata(path).row_group(1).column(1).data_page_offset
    data = bytearray(path.read_bytes())
    data[place + 60 : place + 200] = bytes(140)
    path.write_bytes(data)
    blocks = onsketch.data.stream(str(path), label="label", prefetch=0, block_rows=500)
    assert [len(next(blocks)), len(next(blocks))] == [500, 500]
    with pytest.raises(ReadError, match=r"damaged\.parquet.*row group 1, column 'x'"):
        next(blocks)


def test_a_parquet_bomb_is_refused_by_the_name_of_the_option(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "bomb.parquet"
    table = pyarrow.table({"label": np.zeros(400_000), "x": np.zeros(400_000)})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False, row_group_size=400_000)
    with pytest.raises(ReadError, match=r"row group 0: .*max_unpack_bytes=1,048,576"):
        list(onsketch.data.stream(str(path), label="label", max_unpack_bytes=1 << 20))


def test_a_parquet_page_whose_header_never_ends_is_refused(tmp_path: Path) -> None:
    """A list of 2⁶² truths, each of no bytes to read."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "endless.parquet"
    table = pyarrow.table({"label": np.zeros(100), "x": np.zeros(100)})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    start = parquet.read_metadata(path).row_group(0).column(1).data_page_offset
    data[start : start + 11] = bytes([0x19, 0xF3, *[0xFF] * 8, 0x7F])
    path.write_bytes(data)
    with pytest.raises(ReadError):
        list(onsketch.data.stream(str(path), label="label"))
