"""CSV records of several lines: quoted fields may hold line ends, and a bad record is passed over as a whole."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onsketch.data import hash_name, stream
from onsketch.data.sources import Bytes
from onsketch.errors import ReadError

cells = st.text(alphabet='ab",;\n\r 1', max_size=12)
rows = st.lists(st.tuples(st.integers(0, 9), cells, cells), min_size=1, max_size=12)


def read(text: str, chunk: int = 1 << 18, **options: Any) -> tuple[list[float], list[list[int]], Any]:
    """Labels, and the columns of each row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bytes, "chunk", chunk)
        given = {"label": "y", "everyday": True, "prefetch": 0, "categorical": [1, 2], **options}
        with stream(io.BytesIO(text.encode()), "csv", **given) as blocks:
            y, found = [], []
            for block in blocks:
                y += block.y.tolist()
                X = block.rows
                ends = np.asarray(X.indptr).tolist()
                columns = np.asarray(X.indices).tolist()
                found += [columns[a:b] for a, b in zip(ends, ends[1:], strict=False)]
            return y, found, blocks


def written(table: list[tuple[int, str, str]], end: str = "\n") -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(["y", "u", "v"])
    writer.writerows(table)
    return sink.getvalue()


def hashed(column: str, cell: str) -> int:
    return hash_name(f"{column}={cell}")


@given(rows, st.integers(1, 40), st.sampled_from(["\n", "\r\n"]))
def test_quoted_fields_are_those_of_pythons_csv_however_the_bytes_come(table: Any, chunk: int, end: str) -> None:
    y, found, blocks = read(written(table, end), chunk, delimiter=",")
    assert y == [float(label) for label, _, _ in table]
    assert found == [[hashed("u", u), hashed("v", v)] for _, u, v in table]
    assert blocks.position.line == written(table, end).count("\n")


@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
def test_a_stream_resumes_after_any_record(chunk: int) -> None:
    table = [(k % 10, f"a\n{k}", 'b"\n') for k in range(20)]
    text = written(table)
    whole = read(text, delimiter=",")[:2]
    with stream(io.BytesIO(text.encode()), "csv", label="y", everyday=True, block_rows=3, prefetch=0) as blocks:
        position = next(blocks).position
    assert position.rows == 3
    assert position.line == 10
    y, found, _ = read(text, chunk, resume=position, block_rows=3)
    assert (y, found) == (whole[0][3:], whole[1][3:])


BAD = [
    '9,"two\nlines",x,too many\n',  # the bad field lies behind the line end
    '9,x,too many,"two\nlines"\n',  # and before it
    'none,"two\n9,evil,1\nlines",x\n',  # the label
    '9,"two\nlines"\n',  # too few
]


@pytest.mark.parametrize("chunk", [1, 5, 1 << 18])
@pytest.mark.parametrize("bad", BAD)
def test_no_line_of_a_bad_record_is_learned(bad: str, chunk: int) -> None:
    text = 'y,u,v\n1,a,b\n2,"a\nb",c\n' + bad + "3,c,d\n"
    y, _, blocks = read(text, chunk, on_error="skip", numeric="y")
    assert y == [1.0, 2.0, 3.0]
    assert blocks.skipped == 1
    assert blocks.position.line == text.count("\n")
    with pytest.raises(ReadError) as refused:
        read(text, chunk, numeric="y")
    assert refused.value.line in (5, 6)


def test_a_bad_field_is_named_by_its_own_line_and_column() -> None:
    with pytest.raises(ReadError, match="more fields") as refused:
        read('y,u,v\n1,"two\nlines",b,c\n')
    assert (refused.value.line, refused.value.column) == (3, 9)


@pytest.mark.parametrize("chunk", [1, 9, 1 << 18])
def test_a_quote_that_does_not_end_spoils_one_line(chunk: int) -> None:
    text = 'y,u,v\n1,a,b\n2,"a,b\n' + "3,c,d\n" * 5
    y, _, blocks = read(text, chunk, on_error="skip")
    assert y == [1.0] + [3.0] * 5
    assert blocks.skipped == 1
    with pytest.raises(ReadError, match="a quoted field does not end") as refused:
        read(text, chunk)
    assert refused.value.line == 3


@pytest.mark.slow
def test_a_quote_that_does_not_end_is_given_up_after_four_megabytes() -> None:
    text = 'y,u,v\n1,a,b\n2,"a,b\n' + "3,c,d\n" * 800_000
    y, _, blocks = read(text, on_error="skip")
    assert len(y) == 800_001
    assert blocks.skipped == 1


def test_names_of_columns_may_take_two_lines() -> None:
    y, found, _ = read('y,"u\n(first)",v\n1,a,b\n')
    assert y == [1.0]
    assert found == [[hashed("u\n(first)", "a"), hashed("v", "b")]]
