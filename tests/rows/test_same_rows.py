"""The same table gives the same rows from every source: objects, JSON, CSV, data frames and Arrow."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import sys
import threading
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onsketch.core.errors import InputError
from onsketch.data import stream
from onsketch.rows import words
from onsketch.rows.arrays import Faults, as_columns
from onsketch.rows.encoder import Encoder
from onsketch.rows.names import Names
from onsketch.rows.schema import Field, Schema, word_of

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

LETTERS = st.characters(codec="utf-8", exclude_characters="\x00\r\ufeff", exclude_categories=["Cs"])
WORDS = st.one_of(
    st.sampled_from(["red", "blue", " red ", "007", "3.0", "3", "-0.0", "1e5", "NA", "", "?", "n/a", "True", "x=y",
                     "a.b", "2024-05-01", '"q"', "a,b", "two\nlines", "É", "ς", "17"]),
    st.text(LETTERS, max_size=12),
)  # fmt: skip
TEXTS = st.lists(
    st.one_of(st.sampled_from(["The", "the", "cat", "Straße", "ΟΔΟΣ", "don't", "x_1", "3.5"]), WORDS), max_size=8
)
NUMBERS = st.one_of(st.integers(-(2**62), 2**62), st.floats(-1e300, 1e300), st.sampled_from([0, -0.0, 0.5, 1e-300]))
SECONDS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)).map(lambda when: when.replace(microsecond=0))
AMOUNTS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+", "$", "-$", "$-", "€ ", "£", " "]),
    st.one_of(st.integers(0, 10**9).map("{:,}".format), st.integers(0, 10**6).map(str)),
    st.one_of(st.just(""), st.integers(0, 999).map(".{}".format)),
    st.sampled_from(["", "%", " %", "e2", "  "]),
)
COMMAS = str.maketrans(",.", ".,")
DATES = st.builds(
    "{1}{0}{2}{0}{3}{4}".format,
    st.sampled_from(["/", "-", ".", " "]), st.integers(1, 12), st.integers(1, 12), st.integers(1900, 2100),
    st.sampled_from(["", " 13:05", " 1:05:59 PM", "T01:05:59.25Z", " 23:00+02:00"]),
)  # fmt: skip
FORMED = {
    "amount": ("number", ""), "comma": ("number", ","), "dmy": ("date", "dmy"), "mdy": ("date", "mdy"),
    "pairs": ("text", "pairs"),
}  # fmt: skip
"""Kinds of cells that are written in a form of their own."""
CELLS = {
    "amount": AMOUNTS,
    "comma": AMOUNTS.map(lambda text: text.translate(COMMAS)),
    "dmy": DATES,
    "mdy": DATES,
    "pairs": TEXTS.map(" ".join),
    "number": NUMBERS,
    "boolean": st.booleans(),
    "category": WORDS,
    "any": st.one_of(WORDS, st.integers(-9, 9), st.floats(-9, 9)),
    "date": SECONDS,
    "text": TEXTS.map(" ".join),
}
ARROW = {"number": pa.float64(), "boolean": pa.bool_(), "date": pa.timestamp("s")}
POLARS = {"number": pl.Float64, "boolean": pl.Boolean, "date": pl.Datetime("us")}
NAMES = st.text(LETTERS.filter(lambda c: c not in ".\n"), min_size=1, max_size=6).map(str.strip).filter(bool)
EVERYTHING = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@st.composite
def tables(draw):
    """Kinds of columns by name, and rows."""
    kinds = draw(st.dictionaries(NAMES, st.sampled_from(sorted(CELLS)), min_size=1, max_size=6))
    cell = {name: st.one_of(st.none(), CELLS[kind], CELLS[kind]) for name, kind in kinds.items()}
    return kinds, draw(st.lists(st.fixed_dictionaries(cell), min_size=1, max_size=40))


def through_json(rows):
    return [json.loads(json.dumps(row, default=lambda when: when.isoformat())) for row in rows]


def as_csv(rows, names):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def through_csv(text):
    """Every cell is a text then."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def readable(kinds, rows):
    """True if the compiled reader of CSV takes these cells: on one line, and without blanks within quotes."""
    cells = [cell for row in (kinds, *rows) for cell in [*row.values(), *row] if isinstance(cell, str)]
    quoted = [cell for cell in cells if any(mark in cell for mark in ',"\n\v\f\x1c\x1d\x1e\x85\u2028\u2029')]
    blank = all(cell is None or str(cell).strip() == "" for row in rows for cell in row.values())
    return (
        not any("\n" in cell for cell in cells)
        and not blank
        and all(cell == cell.strip(" \t") for cell in quoted)
        and all(cell.strip() for cell in kinds)
    )


def compiled(text, schema, missing):
    options = {"label": "none", "unlabelled": True, "prefetch": 0, "header": True, "delimiter": ","}
    with stream(io.BytesIO(text.encode()), "csv", schema=schema.state(), missing=missing, **options) as blocks:
        (block,) = blocks
    return block.rows


def sources(kinds, rows, schema, missing):
    """The rows from every source."""
    names = list(kinds)
    columns = {name: [row[name] for row in rows] for name in names}
    typed = dict(columns)
    for name, kind in kinds.items():
        if kind == "number":
            typed[name] = [None if cell is None else float(cell) for cell in columns[name]]
        elif kind == "any":
            typed[name] = [None if cell is None else str(cell) for cell in columns[name]]
    table = pa.table({n: pa.array(typed[n], ARROW.get(k, pa.string())) for n, k in kinds.items()})
    frame = pl.DataFrame({n: pl.Series(n, typed[n], dtype=POLARS.get(k, pl.String)) for n, k in kinds.items()})
    words = [n for n, k in kinds.items() if k in ("category", "any", "text", "pairs")]
    text = as_csv(rows, names)
    yield "objects", lambda e: e.objects(rows)
    yield "keys in another order", lambda e: e.objects([dict(reversed(row.items())) for row in rows])
    yield "gaps left out", lambda e: e.objects([{n: v for n, v in row.items() if v is not None} for row in rows])
    yield "lists", lambda e: e.objects([[row[name] for name in names] for row in rows])
    yield "JSON", lambda e: e.objects(through_json(rows))
    yield "CSV", lambda e: e.objects(through_csv(text))
    yield "columns", lambda e: e.columns(columns, len(rows))
    yield "pandas", lambda e: of_table(e, pd.DataFrame(columns))
    yield "NumPy", lambda e: e.columns({n: pd.DataFrame(columns)[n].to_numpy() for n in names}, len(rows))
    yield "pandas categories", lambda e: of_table(e, pd.DataFrame(typed).astype(dict.fromkeys(words, "category")))
    yield "pandas CSV", lambda e: e.objects(through_csv(pd.DataFrame(columns).to_csv(index=False)))
    yield "polars", lambda e: of_table(e, frame)
    yield "polars categories", lambda e: of_table(e, frame.with_columns(frame[n].cast(pl.Categorical) for n in words))
    yield "Arrow table", lambda e: of_table(e, table)
    yield "Arrow chunks", lambda e: of_table(e, pa.concat_tables([table.slice(0, 1), table.slice(1)]))
    yield "Arrow batch", lambda e: of_table(e, table.combine_chunks().to_batches()[0])
    yield "Arrow slice", lambda e: of_table(e, pa.concat_tables([table, table]).combine_chunks().slice(len(rows)))
    for index in (pa.uint32(), pa.int8()):
        coded = {n: table[n].combine_chunks().dictionary_encode().cast(pa.dictionary(index, pa.string())) if n in words
                 else table[n] for n in names}  # fmt: skip
        yield f"Arrow dictionary {index}", lambda e, coded=coded: of_table(e, pa.table(coded))
    if readable(kinds, rows):
        yield "compiled CSV", lambda e: compiled(text, schema, missing)


def of_table(encoder, table):
    """The rows of a data frame or an Arrow table."""
    return encoder.columns(as_columns(table), table.shape[0])


def parts(block):
    return block.tolist() if isinstance(block, np.ndarray) else [part.tolist() for part in block[:3]]


@pytest.mark.slow
@settings(max_examples=60, **EVERYTHING)
@given(tables(), st.sampled_from(["indicate", "zero"]), st.booleans())
def test_every_source_gives_the_same_rows(table, missing, gaps):
    kinds, rows = table
    formed = {name: FORMED.get(kind, (kind, "")) for name, kind in kinds.items()}
    fields = [Field(name, kind, form=form, start=11_000) for name, (kind, form) in formed.items()]
    schema = Schema(tuple(fields), gaps=gaps)
    encoder, wanted = Encoder(Schema.from_state(json.loads(json.dumps(schema.state()))), missing=missing), None
    for name, source in sources(kinds, rows, schema, missing):
        found = parts(source(encoder))
        wanted = found if wanted is None else wanted
        assert found == wanted, name


@pytest.mark.slow
@settings(max_examples=60, **EVERYTHING)
@given(st.lists(st.dictionaries(NAMES, st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), WORDS),
                                max_size=5), min_size=1, max_size=40))  # fmt: skip
def test_columns_that_no_schema_lists_are_what_their_cells_look_like(rows):
    encoder = Encoder(schema := Schema(extra="learn"))
    wanted = parts(encoder.objects(rows))
    names = sorted({name for row in rows for name in row})
    assert parts(encoder.objects([dict(reversed(row.items())) for row in rows])) == wanted
    assert parts(encoder.objects(through_json(rows))) == wanted
    assert parts(encoder.columns({name: [row.get(name) for row in rows] for name in names}, len(rows))) == wanted
    if names:
        text = as_csv([{name: row.get(name) for name in names} for row in rows], names)
        assert parts(encoder.objects(through_csv(text))) == wanted
        whole = [{name: row.get(name) for name in names} for row in rows]
        if readable(dict.fromkeys(names, "any"), whole) and len(names) > 1:
            assert parts(compiled(text, schema, "indicate")) == wanted


def test_objects_within_objects_are_columns_of_theirs():
    rows = [{"a": {"b": 1.5, "c": {"d": "red"}}, "e": 2}, {"a": {"b": None, "c": {"d": "blue"}}, "e": 0}] * 20
    flat = [{"a.b": row["a"]["b"], "a.c.d": row["a"]["c"]["d"], "e": row["e"]} for row in rows]
    listed = Schema((Field("a.b", "number"), Field("a.c.d", "category"), Field("e", "number")))
    for schema in (listed, Schema(extra="learn")):
        encoder = Encoder(schema)
        wanted = parts(encoder.objects(flat))
        assert parts(encoder.objects(rows)) == wanted
        assert parts(of_table(encoder, pa.Table.from_pylist(rows))) == wanted
        assert parts(of_table(encoder, pa.Table.from_pylist(flat))) == wanted
        assert parts(of_table(encoder, pl.DataFrame(rows))) == wanted
        assert parts(of_table(encoder, pd.DataFrame(flat))) == wanted


def test_lists_are_texts_of_words_or_columns_by_place():
    encoder = Encoder(Schema(extra="learn"), names=(names := Names()))
    rows = encoder.objects([{"x": [1, 0, 2.5], "tags": ["b", "a", "a"]}])
    found = {names.of(slot): value for slot, value in zip(rows.indices.tolist(), rows.data.tolist(), strict=True)}
    assert found == {"x.0": 1.0, "x.2": 2.5, "tags=a": 2.0, "tags=b": 1.0}
    table = pa.Table.from_pylist([{"x": [1, 0, 2.5], "tags": ["b", "a", "a"]}])
    assert parts(of_table(encoder, table)) == parts(rows)


def test_other_types_of_the_same_values():
    """Dates with a zone and without a time, decimals, enumerations, float32, large and view strings."""
    zone = dt.timezone(dt.timedelta(hours=2))
    whens = [
        dt.datetime(2024, 5, 1, 1, 30, tzinfo=zone),
        dt.datetime(1969, 12, 31, 23, 0, 0, 500, tzinfo=zone),
        None,
    ] * 10
    rows = [{"when": when, "day": when and when.date(), "cost": None if when is None else 1003.858,
             "size": None if when is None else "small", "part": None if when is None else 0.5}
            for when in whens]  # fmt: skip
    kinds = {"when": "date", "day": "date", "cost": "number", "size": "category", "part": "number"}
    encoder = Encoder(Schema(tuple(Field(name, kind) for name, kind in kinds.items())))
    wanted = parts(encoder.objects(rows))
    assert parts(encoder.objects(through_json(rows))) == wanted
    cost = [None if row["cost"] is None else Decimal("1003.858") for row in rows]
    for unit in ("ms", "us", "ns"):
        for text in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.uint8(), pa.string())):
            table = pa.table({
                "when": pa.array(whens, pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, "Europe/Berlin")),
                "day": pa.array([row["day"] for row in rows], pa.date64() if unit == "ms" else pa.date32()),
                "cost": pa.array(cost, pa.decimal128(12, 3)),
                "size": pa.array([row["size"] for row in rows], pa.string()).cast(text),
                "part": pa.array([row["part"] for row in rows], pa.float32()),
            })  # fmt: skip
            assert parts(of_table(encoder, table)) == wanted
            assert parts(of_table(encoder, table.to_pandas())) == wanted
    frame = pl.DataFrame(rows).with_columns(
        pl.col("size").cast(pl.Enum(["large", "small"])), pl.col("when").dt.convert_time_zone("Asia/Tokyo")
    )
    assert parts(of_table(encoder, frame)) == wanted


def test_products_of_columns_are_the_same_from_every_source():
    from onsketch.rows.interactions import as_interactions

    rows = [{"age": 31.0, "job": "cook", "pay": None}, {"age": None, "job": "clerk", "pay": 2.5}]
    schema = Schema((Field("age", "number"), Field("job", "category"), Field("pay", "number")))
    text = as_csv(rows, list(rows[0]))
    for options in ({"quadratic": "::"}, {"interact": ["age,job"]}, {"quadratic": "aj", "cubic": "ajp"}):
        encoder = Encoder(schema, pairs=as_interactions(**options), names=(names := Names()))
        wanted = encoder.objects(rows)
        assert parts(of_table(encoder, pa.Table.from_pylist(rows))) == parts(wanted)
        with stream(io.BytesIO(text.encode()), "csv", schema=schema.state(), label="none", unlabelled=True, names=True,
                    missing="indicate", **options) as blocks:  # fmt: skip
            (block,) = blocks
            names_of = dict(blocks.names)
        assert parts(block.rows) == parts(wanted)
        assert {names_of[slot] for slot in wanted.indices.tolist()} == {
            names.of(slot) for slot in wanted.indices.tolist()
        }
        assert "age*job=cook" in names.known.values()


def test_names_are_those_of_the_features():
    kinds = {"age": "number", "job": "category", "note": "text", "when": "date"}
    row = {"age": 3, "job": "cook", "note": "Ärger the THE", "when": "2024-05-01T13:00"}
    wanted = {
        "age",
        "job=cook",
        "note=ärger",
        "note=the",
        "when.hour=13",
        "when.weekday=2",
        "when.month=5",
        "when.days",
    }
    schema = Schema(tuple(Field(name, kind) for name, kind in kinds.items()))
    for encode in (lambda e: e.objects([row]), lambda e: of_table(e, pa.Table.from_pylist([row]))):
        names = Names()
        rows = encode(Encoder(schema, names=names))
        assert {names.of(slot) for slot in rows.indices.tolist()} == wanted


def test_errors_name_row_and_column_and_can_be_collected():
    encoder = Encoder(Schema((Field("n", "number"), Field("when", "date"))), missing="error")
    bad = {
        "n: expected a finite number, found 'x'": {"n": "x", "when": "2024-05-01"},
        "n: an infinite value": {"n": float("inf"), "when": "2024-05-01"},
        "when: no value": {"n": 1},
        "when: expected a date": {"n": 1, "when": "yesterday"},
    }
    for reason, cells in bad.items():
        rows = [*[{"n": 1, "when": "2024-05-01"}] * 3, cells]
        with pytest.raises(InputError, match=f"row 3: {reason}"):
            encoder.objects(rows)
        columns = {name: [row.get(name) for row in rows] for name in ("n", "when")}
        with pytest.raises(InputError, match=f"row 3: {reason}"):
            encoder.columns(columns, 4)
        faults = Faults(4)
        encoder.columns(columns, 4, faults)
        assert faults.rows.tolist() == [False, False, False, True]


def test_a_category_that_recurs_after_the_cache_was_emptied(monkeypatch):
    from onsketch.rows import words as module

    rows = [{"a": f"w{k % 7}", "t": f"one w{k % 5} w{k % 3}"} for k in range(40)]
    schema = Schema((Field("a", "category"), Field("t", "text")))
    wanted = parts(Encoder(schema).objects(rows))
    monkeypatch.setattr(module, "MOST_WORDS", 3)
    assert parts(Encoder(schema).objects(rows)) == wanted


@given(st.integers(-(10**20), 10**20))
def test_whole_numbers_are_one_category_whether_written_as_float_or_not(number):
    assert word_of(str(number)) == word_of(f"{number}.0") == word_of(number)


@pytest.mark.parametrize("listed", [True, False])
def test_threads_share_an_encoder_whose_cache_is_emptied(monkeypatch, listed):
    monkeypatch.setattr(words, "MOST_WORDS", 40)
    fields = (Field("job", "category"), Field("text", "text"), Field("age", "number"))
    shared = Encoder(Schema(fields) if listed else Schema(extra="learn"))
    rng = np.random.default_rng(0)
    rows = [
        {"job": f"job{rng.integers(200)}", "text": [f"word{k}" for k in rng.integers(300, size=4)], "age": 1.0}
        for _ in range(1500)
    ]
    wanted, failures = [Encoder(shared.schema).object(row) for row in rows], []

    def encode(order):
        try:
            for place in order.tolist():
                assert shared.object(rows[place]) == wanted[place]
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=encode, args=(rng.permutation(len(rows)),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failures == []


def test_names_and_words_of_any_length_and_number_take_little_memory(monkeypatch):
    monkeypatch.setattr("onsketch.rows.words.MOST_WORDS", 100)
    names = Names()
    encoder = Encoder(Schema((), extra="learn"), names=names)
    plain = Encoder(Schema((), extra="learn"))
    for k in range(300):
        row = {f"name{k}": f"word{k}", "n" * 50_000 + str(k): 1.0, "always": "w" * 50_000 + str(k)}
        row["list"] = [{"inner": f"word{k}"}] if k % 2 else [f"word{k}", k]
        row["object"] = {f"inner{k}": {f"deeper{k}": f"word{k}"}}
        assert encoder.object(row) == plain.object(row)
    kept = list(encoder.hashes.plans) + [word for words in encoder.hashes._known.values() for word in words]
    assert sum(map(len, kept)) < 300_000
    assert len(encoder.hashes._known) <= 110
    assert max(map(len, names.known.values())) <= 1001


def test_words_of_lists_and_categories_of_one_column_do_not_depend_on_history():
    rows = [{"tags": ["Red"]}, {"tags": "Red"}, {"tags": "red"}]
    schema = Schema((Field("tags", "any"),))
    alone = [Encoder(schema).objects([row]).indices.tolist() for row in rows]
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        encoder = Encoder(schema)
        assert [encoder.objects([rows[k]]).indices.tolist() for k in order] == [alone[k] for k in order]
    assert alone[0] == alone[2] != alone[1]


def test_an_object_in_a_listed_column_is_encoded_once_where_other_columns_come():
    encoder = Encoder(Schema((Field("a", "any"),), extra="learn"), names=(names := Names()))
    rows = encoder.objects([{"a": {"b": 1}, "new": 2}])
    assert [names.of(slot) for slot in rows.indices.tolist()] == ["a.b", "new"]
    assert rows.data.tolist() == [1.0, 2.0]


def test_products_of_objects_in_listed_columns_and_of_columns_that_come_late():
    from onsketch.rows.interactions import as_interactions

    pairs = as_interactions(interact=["a,n"])
    encoder = Encoder(Schema((Field("a", "any"), Field("n", "number"))), names=(names := Names()), pairs=pairs)
    rows = encoder.objects([{"a": {"b": 2.0}, "n": 3.0}])
    found = {names.of(slot): value for slot, value in zip(rows.indices.tolist(), rows.data.tolist(), strict=True)}
    assert found == {"a.b": 2.0, "n": 3.0, "a.b*n": 6.0}
    lines = [{"label": k % 2, "age": k} for k in range(600)] + [{"label": 1, "age": 2, "pay": 3}]
    text = "".join(json.dumps(row) + "\n" for row in lines).encode()
    with stream(io.BytesIO(text), "json", interact=["age,pay"], names=True) as blocks:
        (block,) = blocks
        names_of = dict(blocks.names)
    assert {names_of[slot] for slot in block.X[[600]].indices.tolist()} == {"age", "pay", "age*pay"}
    with stream(io.BytesIO(text), "json", interact=["age,height"]) as blocks:
        list(blocks)
        assert any("no column 'height'" in note for note in blocks.notes)
