"""CSV: columns by name and place, words hashed, missing values, quotes, and bad lines."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onsketch.data import hash_name, stream
from onsketch.errors import InputError, OptionError, ReadError
from readers import DATA, blocks, needs_data, together

TABLE = b"age,label,job\n30,1,clerk\n41.5,0,smith\n"


def test_numbers_only_is_dense_and_named():
    reading = stream(io.BytesIO(b"a,y,b\n1,1,2\n3,-1,4.5\n"))
    (block,) = list(reading)
    assert reading.format == "csv"
    np.testing.assert_array_equal(block.X, [[1, 2], [3, 4.5]])
    np.testing.assert_array_equal(block.y, [1, -1])
    assert reading.names == {0: "a", 1: "b"}


def test_words_are_hashed_as_name_equals_value():
    reading = stream(io.BytesIO(TABLE), names=True)
    (block,) = list(reading)
    dense = block.X.toarray()
    assert dense.shape == (2, 2**18)
    assert dense[0, hash_name("age")] == 30
    assert dense[0, hash_name("job=clerk")] == 1
    assert block.X.nnz == 4
    assert reading.names[hash_name("job=smith")] == "job=smith"
    # the same as the VW line that a VW user would write
    (vw,) = blocks(b"1 | age:30 job=clerk\n0 | age:41.5 job=smith\n", format="vw")
    np.testing.assert_array_equal(vw.X.toarray(), dense)


@pytest.mark.parametrize("label", ["label", 1, -2, "1"])
def test_label_by_name_or_place(label):
    assert blocks(TABLE, label=label)[0].y.tolist() == [1, 0]


def test_roles_of_columns():
    data = b"id;w;x;when;y\na;2;5;monday;1\nb;0.5;6;;0\n"
    (block,) = blocks(data, weight="w", tag="id", ignore="when", format="csv")
    assert block.sample_weight.tolist() == [2, 0.5]
    assert block.tags == ["a", "b"]
    np.testing.assert_array_equal(block.X, [[5], [6]])
    (block,) = blocks(data, label=None, ignore=("id", "when", "y", 1), format="csv")
    assert np.isnan(block.y).all()
    with pytest.raises(InputError, match="no column is named label"):
        blocks(b"a,b\n1,2\n")
    with pytest.raises(InputError, match="label='z': there is no such column"):
        blocks(b"a,b\n1,2\n", label="z")
    with pytest.raises(InputError, match="has 2 columns"):
        blocks(b"a,b\n1,2\n", label=2)
    with pytest.raises(OptionError, match="cannot be the label"):
        blocks(b"a,b\n1,2\n", label="a", weight="a")
    with pytest.raises(InputError, match="no column is left"):
        blocks(b"y\n1\n", format="csv")


def test_headers_and_delimiters():
    for mark in b",\t;|":
        data = b"1.5 2 1\n3 4 0\n".replace(b" ", bytes([mark]))
        np.testing.assert_array_equal(blocks(data, format="csv", label=-1)[0].X, [[1.5, 2], [3, 4]])
    np.testing.assert_array_equal(blocks(b"1:2\n3:4\n", format="csv", delimiter=":", label=0)[0].X, [[2], [4]])
    assert len(blocks(b"1,2\n3,4\n", header=True, label=0)[0]) == 1
    (block,) = blocks(b"x,y\nz,y\n", header=False, label=None, format="csv")
    assert len(block) == 2
    assert blocks(b"a,y\n", format="csv") == []
    assert blocks(b"", format="csv") == []
    assert blocks(b'\xef\xbb\xbf"y",a\r\n1,2\r\n')[0].X.tolist() == [[2]]


def test_missing_values():
    data = b"y,a,b\n1,,2\n0,NA,?\n1,nan, null \n"
    with pytest.raises(ReadError, match=r":2:3: column 'a': no value in this field; missing=.zero.*missing=.indicate"):
        blocks(data)
    np.testing.assert_array_equal(blocks(data, missing="zero")[0].X, [[0, 2], [0, 0], [0, 0]])
    (block,) = blocks(b"y,a,b\n1,2,red\n1,3,\n", missing="zero")
    assert block.X.nnz == 3
    reading = stream(io.BytesIO(data + b"1,5,6\n"), on_error="skip")
    assert [len(block) for block in reading] == [1]
    assert reading.skipped == 3


def test_positive_class():
    data = b'y,a\nyes,1\n"no",2\n yes ,3\n'
    with pytest.raises(ReadError, match=r":2:1: column 'y': the label 'yes' is no number; name the class"):
        blocks(data)
    assert blocks(data, positive="yes")[0].y.tolist() == [1, -1, 1]
    assert blocks(b"y,a\n1,1\n2.0,1\n", positive=2)[0].y.tolist() == [-1, 1]


words = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=8)


@given(st.lists(st.tuples(words, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=6))
def test_what_python_writes_is_read(rows):
    rows = [(word, value) for word, value in rows if word.strip(" \t") == word]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["y", "word", "x"])
    writer.writerows((1, word, value) for word, value in rows)
    parts = blocks(text.getvalue().encode(), categorical=("word",), delimiter=",", missing="zero", format="csv")
    from onsketch.rows.schema import MISSING_WORDS

    found = [
        list(zip(part.X[[k]].indices.tolist(), part.X[[k]].data.tolist(), strict=True))
        for part in parts
        for k in range(len(part))
    ]
    wanted = []
    for word, value in rows:
        entries = [] if word in MISSING_WORDS else [(hash_name(f"word={word}"), 1.0)]
        wanted.append(entries + ([(hash_name("x"), value)] if value else []))
    assert found == wanted


BAD_LINES = [
    ("1,x,2", 3, "expected a number, found 'x'"),
    ("1,2", 4, "fewer fields"),
    ("1,2,3,4", 6, "more fields"),
    ("1,inf,2", 3, "not a finite number"),
    ("1,1e999,2", 3, "beyond the range"),
    ('1,"2,3', 7, "a quoted field does not end"),
    ('1,"2"x,3', 6, "followed by 'x'"),
    (",2,3", 1, "the label is missing"),
    ("nan,2,3", 1, "the label is missing"),
    ("1,2 3,4", 3, "expected a number"),
]


@pytest.mark.parametrize(("line", "column", "reason"), BAD_LINES)
def test_a_bad_line_says_where_and_why(line, column, reason):
    data = f"y,a,b\n1,2,3\n{line}\n-1,4,5\n".encode()
    reading = stream(io.BytesIO(data), format="csv")
    assert len(next(reading)) == 1
    with pytest.raises(ReadError) as caught:
        next(reading)
    assert (caught.value.line, caught.value.column) == (3, column)
    assert reason in caught.value.reason
    reading = stream(io.BytesIO(data), format="csv", on_error="skip")
    assert sum(len(block) for block in reading) == 2
    assert reading.skipped == 1


def test_a_negative_weight():
    with pytest.raises(ReadError, match=":2:5: column 'w': '-1' is no weight"):
        blocks(b"y,a,w\n1,2,-1\n", weight="w")


def test_products_of_all_pairs():
    (block,) = blocks(b"y,a,b\n1,2,3\n", quadratic="::", bits=20)
    assert block.X.shape == (1, 2**20)
    assert sorted(block.X.data.tolist()) == [2, 3, 4, 6, 9]


def test_headers_of_several_files_must_agree(tmp_path):
    (tmp_path / "1.csv").write_text("y,a\n1,2\n")
    (tmp_path / "2.csv").write_text("y,a\n0,3\n")
    (tmp_path / "3.csv").write_text("y,b\n0,3\n")
    assert together(blocks([tmp_path / "1.csv", tmp_path / "2.csv"]))[0].tolist() == [[2], [3]]
    with pytest.raises(ReadError, match="header is not that of the first file"):
        blocks(str(tmp_path / "*.csv"))


@needs_data
def test_real_tables():
    X, y = together(blocks(DATA / "mlbench_Ionosphere.csv.xz", label="Class", positive="good"))
    assert X.shape == (351, 34)
    assert (y == 1).sum() == 225
    X, y = together(
        blocks(DATA / "mlbench_BreastCancer.csv.xz", label=-1, positive="malignant", ignore="Id", missing="zero")
    )
    assert X.shape == (699, 9)
    assert (y == 1).sum() == 241
