"""Columns written for people: free text, dates, currency, per cent and thousands, decided from the first rows."""

from __future__ import annotations

import datetime as dt
import io
import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onsketch.data import stream
from onsketch.errors import ReadError
from onsketch.rows.arrays import as_columns
from onsketch.rows.encoder import Encoder
from onsketch.rows.schema import DMY, MDY, YMD, Schema, number_of, second_of

NOTES = ["the cat sat on the mat", "a dog ate my homework", "rain in the plain again", "no news is good news"]


def read(data, form="csv", **options):
    """The rows of a file, with labels, schema and names."""
    data = data.encode() if isinstance(data, str) else data
    with stream(io.BytesIO(data), form, everyday=True, prefetch=0, **{"label": "y", "bits": 24, **options}) as blocks:
        found = list(blocks)
        return found, {field["name"]: field for field in blocks.schema["fields"]}, dict(blocks.names)


def lines(cells, name="x"):
    """A table of one column, quoted, and a label."""
    return f"y,{name}\n" + "".join(f'{k % 2},"{cell}"\n' for k, cell in enumerate(cells))


# What the first rows decide ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "kind", "form"),
    [
        (["$113.40", "$1,200.00", "$7"], "number", ""),
        (["57%", "5 %", "-3%"], "number", ""),
        (["113,397", "1,204", "12"], "number", ""),
        (["7,0", "12,25", "1.204,5"], "number", ","),
        (["€ 5,50", "12,25 €", "7"], "number", ","),
        (["2024-05-01", "2024-05-02 13:00", "2024-06-01"], "date", ""),
        (["5/1/2024", "12/31/2024", "1/2/2025"], "date", "mdy"),
        (["5/1/2024", "31/12/2024", "1/2/2025"], "date", "dmy"),
        (["01.05.24", "02.05.24", "03.05.24"], "date", "dmy"),
        (["1 May 2024", "2 Jun 2024", "30 Jul 2024"], "date", ""),
        (["May 1, 2024 3:05 PM", "Jun 2, 2024 1:00 AM", "Jul 3, 2024 12:00 PM"], "date", ""),
        (NOTES, "text", ""),
        (["red", "green", "blue"], "category", ""),
        (["1.2.3", "1.2.4", "2.0.0"], "category", ""),
        (["12:30", "13:30", "14:30"], "category", ""),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], "category", ""),
        (["1", "2", "3"], "number", ""),
    ],
)
def test_the_first_rows_decide_the_kind(cells, kind, form):
    _, fields, _ = read(lines(cells * 4 if kind != "text" else cells))
    assert (fields["x"]["kind"], fields["x"]["form"]) == (kind, form)


def test_many_texts_are_no_names_of_rows():
    cells = [f"{NOTES[k % 4]} {k}" for k in range(300)]
    _, fields, names = read(lines(cells))
    assert fields["x"]["kind"] == "text"
    assert {"x=cat", "x=homework"} <= set(names.values())
    ids = read(lines([f"user-{k}" for k in range(300)]).replace(",x\n", ",x,z\n", 1).replace('"\n', '",1\n'))[1]
    assert ids["x"]["kind"] == "ignored"


def test_options_decide_otherwise():
    _, fields, _ = read(lines(["1/2/2024", "3/4/2024"]), day_first=True)
    assert fields["x"]["form"] == "dmy"
    _, fields, _ = read(lines(NOTES), categorical=["x"])
    assert fields["x"]["kind"] == "category"
    _, fields, names = read(lines(["red hat", "blue hat"]), text=["x"], word_pairs=True)
    assert set(names.values()) == {"x=red", "x=hat", "x=blue", "x=red hat", "x=blue hat", "x is missing"}
    _, fields, _ = read(lines(["2024-05-01", "?"]), dates="x")
    assert fields["x"]["kind"] == "date"


def test_a_column_of_tabs_may_have_thousands():
    (block,), _, _ = read("y\tx\n1\t113,397\n0\t1,204\n")
    assert block.X.tolist() == [[113397.0], [1204.0]]
    (block,), _, _ = read("y;x\n1;113,397\n0;1,204\n")
    assert block.X.tolist() == [[113.397], [1.204]]


def test_amounts_are_labels_and_weights_too():
    with stream(io.BytesIO(b'y,a,w\n"$1,200",3,50%\n$7.50,4,25%\n'), "csv", weight="w", everyday=True) as blocks:
        (block,) = blocks
    assert block.y.tolist() == [1200.0, 7.5]
    assert block.sample_weight.tolist() == [50.0, 25.0]
    with stream(io.BytesIO(b'y,a\n"7,0",3\n"1,25",4\n'), "csv", everyday=True) as blocks:
        assert next(blocks).y.tolist() == [7.0, 1.25]


# Cells ---------------------------------------------------------------------------------------------------------

AMOUNTS = st.text("0123456789.,$%€£-+ eE()x", max_size=12).filter(str.strip)


@settings(max_examples=300, deadline=None)
@given(st.lists(AMOUNTS, min_size=1, max_size=30), st.booleans())
@example(["1,23,4", "1234,567", "1,234", "$-5", "-$5", "--5", "5$%", "1.5", "1.5,3", ".5", "5.", "1e5", "%"], True)
def test_the_compiled_reader_agrees_with_the_rule_for_cells(cells, comma):
    state = {"fields": [{"name": "x", "kind": "number", "form": "," if comma else ""}], "header": False}
    data = "".join(f'"{cell}"\n' for cell in cells).encode()
    with stream(io.BytesIO(data), "csv", schema=state, label="none", on_error="skip", missing="zero", delimiter=",",
                header=False, prefetch=0) as blocks:  # fmt: skip
        found = [value for block in blocks for value in np.asarray(block.X).ravel().tolist()]
    wanted = [number_of(cell, comma) for cell in cells]
    assert found == [value for value in wanted if value is not None]


@settings(max_examples=300, deadline=None)
@given(
    st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(2999, 12, 31)),
    st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d %B %Y", "%b %d, %Y", "%a, %d %b %Y"]),
    st.sampled_from(["", " %H:%M", " %H:%M:%S", "T%H:%M:%S.%f", " %I:%M %p", " %I:%M:%S%p"]),
    st.sampled_from(["", "Z", "+02:00", "-0330"]),
)  # fmt: skip
def test_dates_are_those_of_the_calendar(when, day, time, zone):
    order = {"%d.": DMY, "%m/": MDY}.get(day[:3], YMD)
    text = when.strftime(day + time).replace(when.strftime("%Y"), f"{when.year:04d}") + (zone if time else "")
    shown = dt.datetime(when.year, when.month, when.day)
    if time:
        shown = shown.replace(hour=when.hour, minute=when.minute, second=when.second if "%S" in time else 0)
    offset = {"": 0, "Z": 0, "+02:00": 7200, "-0330": -12600}[zone if time else ""]
    assert second_of(text, order) == math.floor((shown - dt.datetime(1970, 1, 1)).total_seconds()) - offset


@pytest.mark.parametrize("text", ["2023-02-29", "2024-13-01", "2024-05-01T", "24:00", "2024-05-01 25:00", "may", "",
                                  "1.5", "2024-05", "20240501", "2024-05-01 x", "31/12/2024"])  # fmt: skip
def test_other_texts_are_no_dates(text):
    assert second_of(text) is None


def test_a_word_among_dates_is_a_bad_line():
    data = lines(["2024-05-01"] * 600 + ["soon", "2024-05-02"])
    with pytest.raises(ReadError, match=r"expected a date, found.*soon"):
        read(data)
    with stream(io.BytesIO(data.encode()), "csv", label="y", on_error="skip") as blocks:
        assert sum(map(len, blocks)) == 601
        assert blocks.skipped == 1


# The same rows from every file ---------------------------------------------------------------------------------


def test_typed_columns_of_other_formats_are_the_same_rows():
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    whens = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=int(k)) for k in rng.integers(0, 9000, 200)]
    notes = [" ".join(rng.choice(["Äther", "cat", "dog", "the", "sat"], 5)) + f" {k}" for k in range(200)]
    rows = {"y": [k % 2 for k in range(200)], "when": whens, "note": notes}
    csv_file = "y,when,note\n" + "".join(f"{y},{when},{note}\n" for y, when, note in zip(*rows.values(), strict=True))
    (block,), fields, names = read(csv_file)
    assert [fields[name]["kind"] for name in ("when", "note")] == ["date", "text"]
    sink = io.BytesIO()
    parquet.write_table(pa.table(rows), sink)
    objects = [dict(zip(rows, map(str, row), strict=True)) for row in zip(*rows.values(), strict=True)]
    text = "".join(json.dumps(row) + "\n" for row in objects)
    for other, form in ((sink.getvalue(), "parquet"), (text, "json")):
        (found,), decided, named = read(other, form)
        assert {name: field["kind"] for name, field in decided.items()} == {n: f["kind"] for n, f in fields.items()}
        assert decided["when"]["start"] == fields["when"]["start"]
        assert [part.tolist() for part in found.rows[:3]] == [part.tolist() for part in block.rows[:3]]
        assert named == names
    schema = Schema.from_state({"fields": [fields["when"], fields["note"]]})
    columns = as_columns(pd.DataFrame(rows)[["when", "note"]])
    frame = Encoder(schema, 24).columns(columns, 200)
    assert [part.tolist() for part in frame[:3]] == [part.tolist() for part in block.rows[:3]]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(1, 40), st.booleans())
def test_words_of_texts_do_not_depend_on_blocks(rows, cells, pairs):
    texts = [f"{NOTES[k % 4]} Straße {k % 3}" if k % 5 else "" for k in range(cells)]
    data = "y,x,z,x2\n" + "".join(f"1,{t},a{k},{t[::-1]}\n" for k, t in enumerate(texts))
    options = {"text": ["x", "x2"], "word_pairs": pairs, "bits": 26}
    (whole,), _, names = read(data, **options)
    parts, _, others = read(data, block_rows=rows, **options)
    assert np.array_equal(np.concatenate([part.rows.indices for part in parts]), whole.rows.indices)
    assert np.array_equal(np.concatenate([part.rows.data for part in parts]), whole.rows.data)
    assert names == others
    assert set(whole.rows.indices.tolist()) <= set(names)


# Words for missing values, and what to do about bad cells --------------------------------------------------------

GAPPY = [{"y": k % 2, "a": "n.a." if k == 600 else -999 if k % 9 == 8 else k % 7, "w": ["red", "n.a."][k % 2]}
         for k in range(700)]  # fmt: skip


def in_form(rows, form):
    """The rows as bytes of a format; as Parquet, numbers are typed and words of them are missing."""
    if form == "json":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if form == "csv":
        return "".join(",".join(map(str, row)) + "\n" for row in (rows[0], *(row.values() for row in rows))).encode()
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.Table.from_pylist([{**row, "a": None if row["a"] == "n.a." else float(row["a"])} for row in rows])
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.mark.parametrize("first", ["csv", "json", "parquet"])
def test_words_for_missing_values_mean_the_same_in_every_format(first):
    plain = [{**row, "a": None if row["a"] in ("n.a.", -999) else row["a"], "w": row["w"].replace("n.a.", "NA")}
             for row in GAPPY]  # fmt: skip
    with stream(io.BytesIO(in_form(GAPPY, first)), label="y", everyday=True, na_values=["n.a.", "-999"]) as blocks:
        list(blocks)
        schema = blocks.schema
    assert schema["na_values"] == ("n.a.", "-999")
    kinds = {field["name"]: field["kind"] for field in schema["fields"]}
    assert kinds == {"y": "label", "a": "number", "w": "category"}
    wanted = Encoder(Schema.from_state(schema)).objects(plain)
    for form in ("csv", "json", "parquet"):
        with stream(io.BytesIO(in_form(GAPPY, form)), everyday=True, schema=schema) as blocks:
            (block,) = blocks
        assert (wanted.matrix() != block.X).nnz == 0, form


def test_a_number_of_a_missing_value_is_one_in_any_notation():
    for text in ("y,a\n1,-999\n0,-999.0\n1,-9.99e2\n0,5\n", "y,a,b\n1,-999,x\n0,-999.0,x\n1,-9.99e2,x\n0,5,x\n"):
        (block,), _, names = read(text, na_values="-999", header=True)
        gap = next(slot for slot, name in names.items() if name == "a is missing")
        assert block.X.toarray()[:, gap].tolist() == [1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_word_in_a_column_of_numbers_names_the_column_and_the_remedies(form):
    data = in_form(GAPPY, form)
    with pytest.raises(ReadError) as found:
        read(data, form)
    assert "column 'a': expected a " in str(found.value)
    assert str(found.value).count("\n") == 0
    assert {"categorical", "na_values", "on_error"} <= found.value.options.keys()
    schema = Schema.from_state({"fields": [{"name": "y", "kind": "label"}, {"name": "a", "kind": "number"}]})
    with pytest.raises(ReadError) as found:  # the kinds of a model's columns are what they are
        read(data, form, schema=schema.state())
    assert {"na_values", "on_error"} <= found.value.options.keys()
    assert "categorical" not in str(found.value)
    assert len(read(data, form, on_error="skip")[0][0]) == 699


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_missing_label_names_the_column_and_the_remedy(form):
    rows = [{"y": None if k == 600 else k % 2, "a": k % 7} for k in range(700)]
    data = in_form([{**row, "y": "" if row["y"] is None and form == "csv" else row["y"]} for row in rows], form)
    with pytest.raises(ReadError, match=r"the label is missing; on_error='skip' leaves out such rows$"):
        read(data, form)
    assert sum(map(len, read(data, form, on_error="skip")[0])) == 699


@pytest.mark.parametrize("words", [False, True])
def test_columns_that_a_file_lacks_are_missing_wherever_they_were(words):
    """Rows of numbers are parsed as dense ones, in which every column has its place."""
    table = "y,a,b,c\n" + "".join(f"{k % 2},{k},{k % 3},{'x' if words else k % 5}\n" for k in range(50))
    with stream(io.BytesIO(table.encode()), "csv", label="y", everyday=True) as blocks:
        list(blocks)
        schema = blocks.schema
    rows = [{"c": "x" if words else k % 5, "a": k} for k in range(9)]
    with stream(io.BytesIO(in_form(rows, "csv")), "csv", everyday=True, unlabelled=True, schema=schema) as blocks:
        (block,) = blocks
        assert blocks.notes == ["<stream>: no column 'b': it counts as missing in every row."]
    assert (Encoder(Schema.from_state(schema)).objects(rows).matrix() != block.X).nnz == 0
