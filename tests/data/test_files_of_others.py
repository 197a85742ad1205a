"""Files that other programs write: they are read as they are meant, or refused in one line."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onsketch.data import stream
from onsketch.errors import InputError, OptionError, ReadError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def written(table: Any, form: str, **options: Any) -> bytes:
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, sink, **options)
    else:
        new = pa.ipc.new_stream if form == "stream" else pa.ipc.new_file
        with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table)
    return sink.getvalue()


def rows_of(data: bytes, **options: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """The rows of a file, dense, with their labels and classes."""
    with stream(io.BytesIO(data), prefetch=0, everyday=True, bits=8, **options) as blocks:
        found = list(blocks)
        X = np.concatenate([np.asarray(b.X.todense()) if hasattr(b.X, "todense") else b.X for b in found])
        return X, np.concatenate([b.y for b in found]), blocks.classes


WORDS = ["b", None, "a", "b", "c", "a"]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int8(), pa.int64()])
@pytest.mark.parametrize("form", ["file", "stream", "parquet"])
def test_words_by_dictionary_are_the_same_words(kind: Any, form: str) -> None:
    """Polars writes categories with unsigned indices."""
    y = [1.0, 0.0] * 3
    plain = pa.table({"y": y, "w": WORDS})
    codes = pa.array([1, None, 3, 1, 0, 3], kind)
    coded = pa.table({"y": y, "w": pa.DictionaryArray.from_arrays(codes, pa.array(["c", "b", "never", "a"]))})
    for one, other in zip(rows_of(written(plain, form)), rows_of(written(coded, form)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("form", ["file", "parquet"])
def test_words_of_polars(form: str) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"y": [1.0, 0.0] * 3, "w": WORDS})
    wanted = rows_of(written(frame.to_arrow(), form))
    for kind in (polars.Categorical, polars.Enum(["a", "b", "c", "d"])):
        made = rows_of(written(frame.with_columns(polars.col("w").cast(kind)).to_arrow(), form))
        assert all(np.array_equal(one, other) for one, other in zip(wanted, made, strict=True))


def test_classes_come_in_the_order_of_the_rows() -> None:
    y = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2, 0], pa.uint8()), pa.array(["no", "never", "yes"]))
    for form in ("file", "parquet"):
        _, labels, classes = rows_of(written(pa.table({"y": y, "a": [1.0, 2.0, 3.0, 4.0]}), form))
        assert classes == ["yes", "no"]
        assert labels.tolist() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_every_encoding_of_words_is_read(encoding: str) -> None:
    table = pa.table({"y": np.arange(3000) % 2 * 1.0, "w": [f"word {k % 7}" for k in range(3000)]})
    plain = rows_of(written(table, "parquet"))
    coded = written(table, "parquet", use_dictionary=False, column_encoding={"w": encoding}, row_group_size=700)
    assert all(np.array_equal(one, other) for one, other in zip(plain, rows_of(coded), strict=True))


@pytest.mark.parametrize("text", [b"\n\n\n", b" \n\t\r\n \n", b"\n" * 5000])
def test_a_table_of_blank_lines_has_no_rows(text: bytes) -> None:
    with stream(io.BytesIO(text), "csv", label="y") as blocks:
        assert list(blocks) == []


# Small files that would become large in memory -----------------------------------------------------------------

ZEROS = pa.table({"y": np.zeros(400_000), "x": np.zeros(400_000)})


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("form", ["file", "stream"])
def test_a_batch_that_unpacks_to_much_is_refused_before_it_is_unpacked(
    form: str, compression: str, tmp_path: Path
) -> None:
    many = pa.table({f"x{k}": np.zeros(400_000) for k in range(60)})  # lz4 packs 255 bytes into one at best
    table = ZEROS if compression == "zstd" else many
    data = written(table, form, compression=compression)
    options = {"label": "none", "max_unpack_bytes": 1 << 20}
    if compression == "lz4":
        assert len(rows_of(data, **options)[0]) == 400_000
        return
    path = tmp_path / "zeros.arrow"
    path.write_bytes(data)
    for source in (io.BytesIO(data), str(path)):
        with pytest.raises(ReadError, match=r"would unpack to 6,400,000, more than max_unpack_bytes=1,048,576"):
            list(stream(source, **options))
    assert len(rows_of(data, label="none")[0]) == 400_000


@pytest.mark.slow
def test_a_pipe_of_batches_is_checked_as_a_file_is() -> None:
    program = "from onsketch.data import stream\nprint(sum(map(len, stream('-', label='y', max_unpack_bytes=%d))))"
    for form in ("stream", "file"):
        data = written(ZEROS, form, compression="zstd")
        command = [sys.executable, "-c", program % (1 << 23)]
        assert subprocess.run(command, input=data, capture_output=True, check=True).stdout == b"400000\n"
        command = [sys.executable, "-c", program % (1 << 20)]
        assert b"max_unpack_bytes" in subprocess.run(command, input=data, capture_output=True, check=False).stderr


def test_a_message_whose_head_names_an_impossible_length_is_refused_in_a_line() -> None:
    data = written(pa.table({"y": np.arange(100.0)}), "stream")
    message = list(pa.ipc.MessageReader.open_stream(data))[1]
    damaged = data.replace(message.body.size.to_bytes(8, "little"), (1 << 60).to_bytes(8, "little"), 1)
    program = "from onsketch.data import stream\nprint(sum(map(len, stream('-', label='y'))))"
    done = subprocess.run([sys.executable, "-c", program], input=damaged, capture_output=True, check=False)
    assert b"ReadError: standard input: not a readable Arrow file" in done.stderr
    assert b"damaged?" in done.stderr


def test_a_dictionary_that_unpacks_to_much_is_refused() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 10), pa.array(["x" * (1 << 22)]))
    data = written(pa.table({"y": [1.0] * 10, "w": words}), "file", compression="zstd")
    with pytest.raises(ReadError, match="max_unpack_bytes"):
        rows_of(data, max_unpack_bytes=1 << 20)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measures the memory of a process")
def test_a_long_word_of_many_rows_is_held_once() -> None:
    table = pa.table({"y": np.zeros(600), "w": pa.array(["x" * (1 << 20)] * 600)})
    data = written(table, "parquet", compression="zstd", dictionary_pagesize_limit=1 << 26, store_schema=False)
    program = """
import io, sys
from onsketch.data import stream
with stream(io.BytesIO(sys.stdin.buffer.read()), label="y") as blocks:
    print(sum(map(len, blocks)))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    rows, peak = map(int, done.stdout.split())
    assert rows == 600
    assert peak < 400 << 10  # KiB; once for each row would be 600 MiB more


@pytest.mark.slow
def test_columns_that_pyarrow_cannot_describe_end_no_process() -> None:
    """A footer with a codec that nobody knows: ``metadata.row_group(0).column(0).compression`` is not asked for."""
    data = written(pa.table({"y": [1.0, 2.0], "w": ["a", "b"]}), "parquet", compression="zstd", write_statistics=False)
    index = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # The field "codec" of a column: a number (type 5), zigzag 12 for zstd, before the number of values, 2.
    spoilt = data[:index] + data[index:].replace(b"\x15\x0c\x16\x04", b"\x15\x7e\x16\x04")
    assert spoilt != data
    program = (
        "import sys, io\nfrom onsketch.data import stream\nlist(stream(io.BytesIO(sys.stdin.buffer.read()), label='y'))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=spoilt, capture_output=True, check=False)
    assert done.returncode == 1
    last = done.stderr.decode().strip().splitlines()[-1]
    assert "ReadError" in last
    assert "row group 0" in last


def test_an_index_that_is_cut_off_is_missed() -> None:
    data = written(ZEROS, "file")
    with pytest.raises(ReadError, match="truncated"):
        rows_of(data[:-10], label="y")
    with pytest.raises((ReadError, InputError)):
        rows_of(data[:100], label="y")


# Names of columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("country,inf\nfr,1\nde,0\nfr,1\nde,0\n", ["country", "inf"]),
        ("country,nan\nfr,1\nde,0\nfr,1\nde,0\n", ["country", "nan"]),
        ("city,2019,2020\nparis,5,1\nlondon,7,0\nparis,9,1\nlondon,7,0\n", ["city", "2019", "2020"]),
        ("0,1,2,target\n.5,1,2,yes\n.1,1,3,no\n.3,2,4,yes\n.4,1,0,no\n", ["0", "1", "2", "target"]),
        (",0,1\n0,.5,2\n1,.25,3\n2,4.5,1\n", ["", "0", "1"]),
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n7.1,3,virginica\n", None),
        ("1,nan,2\n4,3,2\n5,3,1\n", None),
        ("7,3,red\n7,4,blue\n8,3,red\n7,2,blue\n", None),
        ("2019,2020\n1,2\n3,4\n", None),
    ],
)
def test_numbers_may_be_names_of_columns(text: str, names: list[str] | None) -> None:
    with stream(io.BytesIO(text.encode()), "csv", label=-1, everyday=True, prefetch=0) as blocks:
        rows = sum(map(len, blocks))
        assert rows == text.count("\n") - (names is not None)
        if names is not None:
            assert [field["name"] for field in blocks.schema["fields"]] == names


# JSON ----------------------------------------------------------------------------------------------------------


def json_rows(lines: list[str], **options: Any) -> tuple[Any, Any, set[str]]:
    data = "".join(line + "\n" for line in lines).encode()
    with stream(io.BytesIO(data), "json", names=True, prefetch=0, **options) as blocks:
        (block,) = blocks
        names = {name.replace("^", ".") for name in blocks.names.values()}
        return block.y.tolist(), block.sample_weight, names


def test_a_column_may_be_called_features() -> None:
    y, _, names = json_rows(['{"label": 1, "features": {"a": 1}, "user": {"b": 2}, "age": 31}'])
    assert y == [1.0]
    assert names == {"features.a", "user.b", "age"}
    y, _, names = json_rows(['{"_label": -1, "features": {"13": 0.5}}'])
    assert y == [-1.0]
    assert names == {"features.13"}
    y, _, names = json_rows(['{"label": 1, "features": {"a": 1}}'])
    assert names == {"a"}


def test_the_weight_of_a_row_counts_for_any_other_keys() -> None:
    _, weights, names = json_rows(['{"label": 1, "w": 5, "features": {"a": 1}}', '{"label": 0, "b": 1}'], weight="w")
    assert weights.tolist() == [5.0, 1.0]
    assert names == {"features.a", "b"}


@pytest.mark.parametrize("option", ["weight", "tag"])
def test_a_key_that_no_row_has_is_refused(option: str) -> None:
    lines = ['{"label": 1, "a": 1}', '{"label": 0, "a": 2}']
    with pytest.raises(InputError, match=f"{option}='w': no row has this key"):
        json_rows(lines, **{option: "w"})
    json_rows(lines, **{option: "w"}, unlabelled=True)
    json_rows([*lines, '{"label": 0, "w": 2}'], **{option: "w"})


def test_a_batch_of_arrow_is_known_by_the_names_of_its_columns() -> None:
    from onsketch.sklearn import OnlineClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * [1.0, 100.0]
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    (batch,) = table.to_batches()
    model = OnlineClassifier("adagrad").fit(batch, X[:, 0] > 0)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert np.array_equal(model.predict(batch), model.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(batch.select(["b", "a"]))


# Encodings, arrays and archives --------------------------------------------------------------------------------

CITIES = "y,city,a\n1,Zürich,2\n0,Genève,3\n1,Zürich,4\n0,Genève,5\n"


def plain(data: bytes, form: str | None = "csv", **options: Any) -> tuple[list[float], dict[int, str]]:
    with stream(io.BytesIO(data), form, everyday=True, prefetch=0, names=True, **options) as blocks:
        return np.concatenate([block.y for block in blocks]).tolist(), dict(blocks.names)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "utf-8-sig"])
def test_text_of_any_encoding_is_the_same_text(encoding: str) -> None:
    reading = {} if encoding in ("utf-16", "utf-8-sig") else {"encoding": encoding}
    assert plain(CITIES.encode(encoding), **reading) == plain(CITIES.encode())


@pytest.mark.parametrize("format", [None, "csv"])
def test_utf_16_is_known_by_its_mark(format: str | None) -> None:
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        assert plain(mark + CITIES.encode(encoding), format) == plain(CITIES.encode())


def test_text_that_is_not_utf_8_is_refused_with_the_remedy() -> None:
    with pytest.raises(ReadError, match=r"byte 0xfc is not UTF-8.*encoding='latin-1'") as refused:
        plain(CITIES.encode("latin-1"))
    assert refused.value.line == 2
    with pytest.raises(ReadError, match="not ascii"):
        plain(CITIES.encode(), encoding="ascii")
    with pytest.raises(OptionError, match="no such encoding"):
        plain(CITIES.encode(), encoding="latin-99")


def test_a_stream_in_another_encoding_resumes() -> None:
    data = CITIES.encode("utf-16")
    with stream(io.BytesIO(data), "csv", label="y", block_rows=2, prefetch=0) as blocks:
        position = next(blocks).position
    with stream(io.BytesIO(data), "csv", label="y", resume=position, prefetch=0) as blocks:
        assert sum(map(len, blocks)) == 2


RECORDS = [{"y": k % 2, "a": k / 4, "text": 'a "quoted", ] word', "n": {"b": [1, 2]}} for k in range(40)]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("chunk", [1, 10, 1 << 18])
def test_an_array_of_records_is_lines_of_records(indent: int | None, chunk: int, monkeypatch: Any) -> None:
    import json

    from onsketch.data import recoded

    monkeypatch.setattr(recoded, "_CHUNK", chunk)
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
    array = json.dumps(RECORDS, indent=indent).encode()
    assert plain(array, None) == plain(array, "json") == plain(lines, "json")


@pytest.mark.parametrize(
    "text", ["[", '[{"y": 1, "a": 2}', '[{"y": 1} {"y": 2}]', '[{"y": 1}] x', "[{'y': 1}]", "[1, 2]"]
)
def test_what_is_no_array_of_records_is_refused(text: str) -> None:
    with pytest.raises(InputError) as refused:
        plain(text.encode(), "json")
    assert "\n" not in str(refused.value)


def test_the_only_file_of_an_archive_is_read(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "table.csv.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/table.csv", CITIES)
    assert plain(path.read_bytes()) == plain(CITIES.encode())
    with stream(str(path)) as blocks:
        assert blocks.format == "csv"
        assert sum(map(len, blocks)) == 4
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.csv", CITIES)
    with pytest.raises(ReadError, match=r"2 files .*unpack it first"):
        plain(path.read_bytes())


def test_formats_that_are_not_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "old.feather"
    path.write_bytes(b"FEA1" + bytes(60) + b"FEA1")
    with pytest.raises(InputError, match="Feather file of version 1"):
        list(stream(str(path)))
    with pytest.raises(InputError, match="Feather file of version 1"):
        list(stream(io.BytesIO(path.read_bytes())))
    with pytest.raises(InputError, match="separated by blanks"):
        plain(b"y a b\n1 2 3\n0 2 5\n", label="y")


# Vowpal Wabbit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["1:2:0.4 | a b", "1:0 2:1 | a", "shared | s_1 s_2", "0:0.1:0.75 | a", "2 1:0.5:0.2 | a"]
)
def test_labels_of_other_tasks_are_named(line: str) -> None:
    with pytest.raises(ReadError, match="contextual-bandit labels"):
        list(stream(io.BytesIO(f"1 | a\n{line}\n".encode()), "vw"))


def test_the_scale_of_a_namespace_counts_for_numbers_only() -> None:
    with stream(io.BytesIO(b"+1 |emotion:3 happiness:true joy:2 plain\n"), "vw") as blocks:
        (block,) = blocks
    assert block.rows.data.tolist() == [1.0, 6.0, 3.0]  # as vw --audit says


def test_columns_and_options_that_are_misspelt_get_a_suggestion(tmp_path: Path) -> None:
    table = b"y,age,job\n" + b"".join(b"%d,%d,cook\n" % (k % 2, k) for k in range(30))
    for option, near in (("label", "'y'"), ("ignore", "'age'"), ("categorical", "'job'"), ("columns", "'job'")):
        misspelt = {"label": "Y", "ignore": "agee", "categorical": "jobs", "columns": "Job"}[option]
        with pytest.raises(InputError, match=rf"{option}='{misspelt}'.*Did you mean {near}\?") as found:
            list(stream(io.BytesIO(table), "csv", **{"label": "y", option: misspelt}))
        assert option in found.value.options
    with pytest.raises(InputError, match="Name one column each time"):
        list(stream(io.BytesIO(table), "csv", label="y", ignore="age,job"))
    with pytest.raises(OptionError, match=r"label=\.\.\. does not concern vw files"):
        stream(io.BytesIO(b"1 | a\n"), "vw", label="y")
    with stream(io.BytesIO(table), "csv", label="y", everyday=True) as blocks:
        list(blocks)
        schema = blocks.schema
    with stream(io.BytesIO(table.replace(b"age", b"Age")), "csv", everyday=True, schema=schema) as blocks:
        list(blocks)
        assert "no column 'age': it counts as missing in every row. Did you mean 'Age'?" in blocks.notes[0]


def test_columns_that_are_encrypted_are_named() -> None:
    keys = pytest.importorskip("pyarrow.parquet.encryption")

    class Kms(keys.KmsClient):
        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
            return key_bytes.hex().encode()

        def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
            return bytes.fromhex(wrapped_key.decode())

    how = keys.EncryptionConfiguration("footer", column_keys={"column": ["a"]}, plaintext_footer=True)
    properties = keys.CryptoFactory(lambda _: Kms()).file_encryption_properties(keys.KmsConnectionConfig(), how)
    sink = io.BytesIO()
    table = pa.table({"y": [1.0, 0.0], "a": [1.0, 2.0]})
    with pq.ParquetWriter(sink, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(ReadError, match=r"column 'a' is encrypted, which cannot be read; write it without encryption"):
        rows_of(sink.getvalue(), label="y")


def test_lists_of_a_fixed_size_are_columns_by_place() -> None:
    fixed = pa.array([[k, 2.0] for k in range(20)], pa.list_(pa.float64(), 2))
    plain = pa.array([[k, 2.0] for k in range(20)], pa.list_(pa.float64()))
    for form in ("file", "parquet"):
        rows = [rows_of(written(pa.table({"y": [1.0, 0.0] * 10, "v": v}), form)) for v in (fixed, plain)]
        assert np.array_equal(rows[0][0], rows[1][0])
        assert rows[0][0].any()
