"""Parquet, Arrow and Feather; and all formats written and read back."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from onsketch.data import hash_name, stream, write
from onsketch.errors import InputError, OptionError, ReadError
from readers import blocks, together

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(
    X=arrays(np.float64, st.tuples(st.integers(1, 7), st.integers(1, 4)), elements=finite | st.just(0.0)),
    weighted=st.booleans(),
    tagged=st.booleans(),
    data=st.data(),
)
@pytest.mark.parametrize("name", ["f.svm", "f.vw", "f.csv", "f.tsv.gz", "f.vw.xz", "f.parquet", "f.arrow", "f.svm.bz2"])
def test_what_is_written_is_read(tmp_path, name, X, weighted, tagged, data):
    rows = len(X)
    y = data.draw(arrays(np.float64, rows, elements=finite))
    extra: dict = {}
    if ".svm" not in name:
        if weighted:
            extra["sample_weight"] = data.draw(arrays(np.float64, rows, elements=st.floats(0, 1e9)))
        if tagged:
            extra["tags"] = data.draw(
                st.lists(st.from_regex("[a-z]{1,5}", fullmatch=True), min_size=rows, max_size=rows)
            )
    write(tmp_path / name, csr_array(X) if weighted else X, y, **extra)
    columns: dict = {}
    if ".vw" not in name and ".svm" not in name:
        columns = {"weight": "weight" if weighted else None, "tag": "tag" if tagged else None}
    parts = blocks(tmp_path / name, block_rows=3, **columns)
    Z, labels = together([part for part in parts if len(part)])
    np.testing.assert_array_equal(np.pad(Z, ((0, 0), (0, max(0, X.shape[1] - Z.shape[1]))))[:, : X.shape[1]], X)
    np.testing.assert_array_equal(labels, y)
    if "tags" in extra:
        assert [tag for part in parts for tag in part.tags] == extra["tags"]
    if "sample_weight" in extra:
        weights = [np.ones(len(p)) if p.sample_weight is None else p.sample_weight for p in parts]
        np.testing.assert_array_equal(np.concatenate(weights), extra["sample_weight"])


def test_writing_says_what_does_not_fit(tmp_path):
    with pytest.raises(OptionError, match="cannot detect the format"):
        write(tmp_path / "rows", np.ones((1, 1)), [1])
    with pytest.raises(OptionError, match="no place"):
        write(tmp_path / "f.svm", np.ones((1, 1)), [1], tags=["a"])
    with pytest.raises(InputError, match="do not fit together"):
        write(tmp_path / "f.csv", np.ones((2, 1)), [1])
    with pytest.raises(InputError, match="cannot be a name or tag"):
        write(tmp_path / "f.vw", np.ones((1, 1)), [1], names=["a b"])


TABLE = pa.table(
    {
        "x": pa.array([1, 2, None, 4], pa.int32()),
        "colour": pa.array(["red", "blue", None, "red"]),
        "flag": pa.array([True, False, True, False]),
        "label": pa.array([1.0, 0.0, 1.0, 0.0]),
        "when": pa.array([0, 1, 2, 3], pa.duration("s")),
    }
)


def test_words_numbers_and_missing_values(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path)
    with pytest.raises(InputError, match="column 'when' is of type duration"):
        blocks(path)
    with pytest.raises(ReadError, match=r":3:1: column 'x': no value in this field") as caught:
        blocks(path, ignore="when")
    assert (caught.value.line, caught.value.column) == (3, 1)
    reading = stream(path, ignore="when", on_error="skip")
    assert sum(len(block) for block in reading) == 3
    assert reading.skipped == 1
    reading = stream(path, ignore="when", missing="zero", names=True)
    X, y = together(list(reading))
    assert y.tolist() == [1, 0, 1, 0]
    assert X[:, hash_name("x")].tolist() == [1, 2, 0, 4]
    assert X[:, hash_name("colour=red")].tolist() == [1, 0, 0, 1]
    assert X[:, hash_name("flag")].tolist() == [1, 0, 1, 0]
    assert np.count_nonzero(X) == 8
    assert reading.names[hash_name("colour=blue")] == "colour=blue"


def test_a_bad_row_ends_the_block_before_it(tmp_path):
    path = tmp_path / "t.arrow"
    write(path, np.array([[1.0], [np.inf], [3.0]]), [1, 2, 3], format="arrow")
    reading = stream(path)
    assert next(reading).y.tolist() == [1]
    with pytest.raises(ReadError, match=":2:2: column 'x0': an infinite value"):
        next(reading)


def test_labels_of_words(tmp_path):
    path = tmp_path / "t.feather"
    table = pa.table({"y": pa.array(["yes", "no", "yes"]).dictionary_encode(), "x": [1.0, 2.0, 3.0]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ReadError, match="positive="):
        blocks(path)
    assert blocks(path, positive="yes")[0].y.tolist() == [1, -1, 1]


def test_row_groups_batches_and_resuming(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"y": rng.normal(size=1000), "a": rng.normal(size=1000)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=170)
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=300)
    for name in ("t.parquet", "t.arrow"):
        parts = blocks(tmp_path / name, block_rows=64)
        assert max(map(len, parts)) == 64
        np.testing.assert_array_equal(together(parts)[1], table["y"].to_numpy())
        for part in parts:
            rest = blocks(tmp_path / name, block_rows=50, resume=part.position)
            if rest:
                np.testing.assert_array_equal(together(rest)[1], table["y"].to_numpy()[part.position.rows :])
            else:
                assert part.position.rows == 1000


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_damaged_file_is_refused_or_its_rest_is_the_rest(form):
    """Every byte in turn: a row group may not end before the rows that its footer counts."""
    table, file = pa.table({"y": [1.0, None, 3.0] * 2, "a": ["x", "y"] * 3}), io.BytesIO()
    if form == "parquet":
        pq.write_table(table, file, row_group_size=2, compression="zstd")
    else:
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    sound, outcomes = file.getvalue(), set()
    for at in range(8, 400):
        for damage in (b"\x08", b"\xff\xff"):
            damaged = sound[:at] + damage + sound[at + len(damage) :]
            options = {"format": form, "on_error": "skip", "prefetch": 0}
            try:
                parts = list(stream(io.BytesIO(damaged), **options))
            except (InputError, ReadError) as error:
                outcomes.add(type(error))
                continue
            outcomes.add(None)
            for k, part in enumerate(parts):
                rest = list(stream(io.BytesIO(damaged), **options, resume=part.position))
                assert sum(map(len, rest)) == sum(map(len, parts[k + 1 :]))
    assert {None, ReadError} <= outcomes


@pytest.mark.slow
def test_pipes_and_damage(tmp_path):
    table = pa.table({"y": [1.0, 2.0], "a": [3.0, 4.0]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    program = "from onsketch.data import stream\nprint([b.y.tolist() for b in stream('-')])"
    command = [sys.executable, "-c", program]
    out = subprocess.run(command, input=sink.getvalue(), capture_output=True, check=True)
    assert out.stdout == b"[[1.0, 2.0]]\n"
    with pytest.raises(InputError, match="cannot be read from a pipe"):
        blocks("-", format="parquet")
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ReadError, match="not a readable Parquet file"):
        blocks(path)
    with pytest.raises(InputError, match="no such file"):
        blocks(tmp_path / "none.parquet")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_the_first_rows_decide_the_columns_after_parts_without_rows(tmp_path, name):
    table = pa.table({"y": [1.0, 0.0, 1.0], "a": ["1.5", "2.5", "3.5"], "b": ["x", "z", "x"]})
    schemas, found = [], []
    for parts in ([table], [table[:0], table[:0], table]):
        if name == "t.parquet":
            with pq.ParquetWriter(tmp_path / name, table.schema) as writer:
                for part in parts:
                    writer.write_table(part)
        else:
            with pa.OSFile(str(tmp_path / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
                for part in parts:
                    writer.write_batch(pa.RecordBatch.from_pydict(part.to_pydict(), schema=table.schema))
        reading = stream(tmp_path / name, label="y", prefetch=0)
        (block,) = reading
        schemas.append(reading.schema)
        found.append((block.rows.indices.tolist(), block.rows.data.tolist()))
    assert schemas[0] == schemas[1]
    assert found[0] == found[1]
