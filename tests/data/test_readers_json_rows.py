"""JSON objects taken apart, and JSON Lines as rows of the schema that the first lines decide."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from onsketch.core.errors import InputError, ReadError
from onsketch.data import hash_name, stream
from onsketch.data.json_rows import example, rows_of


def lines(rows, **options):
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    reading = stream(io.BytesIO(text), "json", prefetch=0, **options)
    return list(reading), reading


def named(rows, **options):
    """The rows of the first block by name of their features."""
    (block, *_), reading = lines(rows, names=True, **options)
    X = block.rows
    return [
        {reading.names[s]: v for s, v in zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)}
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def test_truth_null_and_zero():
    assert rows_of([{"a": True, "b": False, "c": None, "d": 0, "e": -0.0}]).data.tolist() == [1.0]


def test_names_of_digits_are_numbers_of_columns_and_words_have_one_rule():
    rows = rows_of([{"17": 2, "colour": "red", "site": {"clicks": True, "views": 0}}])
    assert rows.indices.tolist() == [17, hash_name("colour=red"), hash_name("site.clicks")]


@pytest.mark.parametrize(
    ("features", "field"),
    [
        ({"a": {"b": [1, {}]}, "n": {"x": float("inf")}}, "n.x"),
        ({"n": {"a": 10**400}, "m": [1, float("inf")]}, "m.1"),
        ("words", "features"),
        ({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": 1}}}}}}}}}}, "deeper"),
        ({"a\ud800": 1}, "surrogate"),
    ],
)
def test_an_error_names_the_field(features, field):
    with pytest.raises(InputError, match=field.replace(".", r"\.")):
        rows_of([{"fine": 1}, features])


def test_parts_of_an_example():
    assert example(json.loads('{"features": [1, 2], "label": -1, "weight": 2, "tag": "t"}')) == ([1, 2], -1, 2, "t")
    assert example({"_label": 1, "_tag": "t", "y": 3}) == ({"y": 3}, 1, None, "t")
    assert example({"Target": 1, "y2": 3}) == ({"y2": 3}, 1, None, None)
    assert example({"w": 2, "cost": 5}, label="cost", weight="w") == ({}, 5, 2, None)
    assert example({"a": 1}) == ({"a": 1}, None, None, None)
    with pytest.raises(InputError, match="'y' and 'label'"):
        example({"y": 1, "label": 2})


ROWS = [{"y": k % 2, "age": k, "job": "cook" if k % 3 else None, "ok": k % 2 == 0} for k in range(6)]


def test_keys_of_most_objects_are_columns_and_others_may_come():
    rows = [*ROWS, {"y": 1, "age": 3, "job": "clerk", "rare": "x"}, {"y": 0}]
    found = named(rows, everyday=True)
    assert found[0] == {"job is missing": 1.0, "ok": 1.0}
    assert found[1] == {"age": 1.0, "job=cook": 1.0}
    assert found[6] == {"age": 3.0, "job=clerk": 1.0, "ok is missing": 1.0, "rare=x": 1.0}
    assert found[7] == {"age is missing": 1.0, "job is missing": 1.0, "ok is missing": 1.0}
    assert named(rows)[7] == {}  # from Python, what is null or not there is nothing unless asked for


def test_options_say_what_columns_are():
    assert named(ROWS, everyday=True, categorical=["age"])[2]["age=2"] == 1.0
    assert set(named(ROWS, keep=["age", "job"])[1]) == {"age", "job=cook"}
    assert set(named(ROWS, ignore=["age"])[1]) == {"job=cook"}
    assert set(named(ROWS, everyday=True, interact=["age,job"])[1]) == {"age", "job=cook", "age*job=cook"}
    codes = [{**row, "zip": f"0{k}"} for k, row in enumerate(ROWS)]
    assert named(codes, everyday=True)[3]["zip=03"] == 1.0


def test_the_schema_makes_later_files_mean_the_same():
    _, reading = lines([{"y": 1, "code": "007"}] * 3 + [{"y": 0, "code": "17"}] * 3, everyday=True)
    found = named([{"code": 17, "y": 1}], everyday=True, schema=reading.schema)
    assert found == [{"code=17": 1.0}]


def test_labels_weights_tags_and_words():
    rows = [{"features": {"a": 1}, "label": word, "weight": 2, "tag": "t"} for word in ("no", "yes", "no")]
    (block,), reading = lines(rows, everyday=True)
    assert (block.y.tolist(), reading.classes) == ([0.0, 1.0, 0.0], ["no", "yes"])
    assert block.sample_weight.tolist() == [2.0] * 3
    assert block.tags == ["t"] * 3
    (block,), _ = lines(rows, positive="yes")
    assert block.y.tolist() == [-1.0, 1.0, -1.0]


@pytest.mark.parametrize("label", [None, "none"])
def test_rows_need_no_label_where_there_is_none(label):
    with stream(io.BytesIO(b'{"a": 1, "y": 2}\n{"a": 3}\n'), "json", label=label) as blocks:
        (block,) = blocks
    assert np.isnan(block.y).all()
    assert block.X.toarray().sum() == 6.0


def test_a_resumed_reading_may_lack_a_key_of_earlier_rows():
    rows = [{"y": 1, "a": 1.0, "t": "x"}] + [{"y": 0, "a": 2.0}] * 5
    (first, *rest), _ = lines(rows, tag="t", block_rows=2)
    again, _ = lines(rows, tag="t", block_rows=2, resume=first.position)
    assert [block.y.tolist() for block in again] == [block.y.tolist() for block in rest]
    with pytest.raises(InputError, match="tag='t': no row has this key"):
        lines(rows[1:], tag="t")


def test_a_bad_line_is_named_or_skipped():
    rows = [{"y": 1, "a": 1.0}] * 3 + [{"y": 1, "a": "x"}] + [{"y": 0, "a": 2.0}]
    with pytest.raises(ReadError, match=r"<stream>:4:1: column 'a': expected a finite number, found 'x'"):
        lines(rows)
    (block,), reading = lines(rows, on_error="skip")
    assert (len(block), reading.skipped) == (4, 1)
    assert np.asarray(block.rows.data).tolist() == [1.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("weight", [[1], {"kg": 1}, 10**400, "much", -1], ids=["list", "object", "huge", "word", "-1"])
def test_a_weight_that_is_no_number_makes_a_bad_line(weight):
    rows = [{"y": 1, "a": 1.0, "w": 2}, {"y": 0, "a": 2.0, "w": weight}, {"y": 0, "a": 3.0, "w": 1}]
    with pytest.raises(ReadError, match=r"<stream>:2:1: .* is no weight"):
        lines(rows, weight="w")
    (block,), reading = lines(rows, weight="w", on_error="skip")
    assert (block.sample_weight.tolist(), reading.skipped) == ([2.0, 1.0], 1)
