"""JSON objects are the rows that the same features written as VW text are."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onsketch.core.errors import InputError
from onsketch.data import json_rows, stream
from onsketch.data.json_rows import ObjectRows, example, rows_of

words = st.text(alphabet="abcxyzäß_", min_size=1, max_size=6)
names = words | st.integers(0, 10**6).map(str)
numbers = st.floats(-1e6, 1e6).filter(lambda x: x == 0.0 or abs(x) > 1e-9) | st.integers(-1000, 1000)
flat = st.dictionaries(names, numbers | words, max_size=5)
objects = st.tuples(flat, st.dictionaries(words, flat, max_size=3))


def _pairs(features: dict) -> str:
    return " ".join(f"{name}:{value}" for name, value in features.items())


def _read(lines: list[str], **options):
    with stream(io.BytesIO("".join(line + "\n" for line in lines).encode()), "vw", **options) as blocks:
        return list(blocks), blocks.names


@given(st.lists(objects, min_size=1, max_size=4), st.integers(5, 24))
def test_an_object_is_the_row_of_the_same_features_as_text(rows, bits):
    lines = ["1 | " + _pairs(top) + "".join(f" |{n} {_pairs(s)}" for n, s in spaces.items()) for top, spaces in rows]
    ours = ObjectRows(bits, {})
    for top, spaces in rows:
        nested = {name: inner for name, inner in spaces.items() if name not in top}
        ours.add({**top, **nested})
    blocks, text_names = _read(lines, bits=bits, names=True)
    if any(name in top for top, spaces in rows for name in spaces):
        return  # JSON has no room for a feature and a namespace of one name at the same level
    mine, theirs = ours.take(), blocks[0].rows
    assert mine.shape == theirs.shape
    for one, other in zip(mine[:3], theirs[:3], strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    assert ours.names == text_names


def test_lists_are_namespaces_without_names():
    ours = rows_of([{"x": [1, 0, 2.5], "tags": ["a", "b"]}, [3, 0, 4]])
    blocks, _ = _read(["1 |x :1 :0 :2.5 |tags a b", "1 | :3 :0 :4"])
    assert all(np.array_equal(a, b) for a, b in zip(ours[:3], blocks[0].rows[:3], strict=True))


def test_truth_null_and_zero():
    assert rows_of([{"a": True, "b": False, "c": None, "d": 0, "e": -0.0}]).data.tolist() == [1.0]


def test_what_is_forgotten_is_hashed_again(monkeypatch):
    monkeypatch.setattr(json_rows, "MOST_NAMES", 3)
    some = [{"a": 1, "n": {"b": 2, "c": "d"}, "e": 1}] * 3
    scarce = rows_of(some)
    monkeypatch.setattr(json_rows, "MOST_NAMES", 1000)
    assert scarce.indices.tolist() == rows_of(some).indices.tolist()


@pytest.mark.parametrize(
    ("features", "field"),
    [
        ({"a": {"b": [1, {}]}}, "a.b.1"),
        ({"a": float("nan")}, "a"),
        ({"n": {"a": 10**400}}, "n.a"),
        ("words", "features"),
        ({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": 1}}}}}}}}}}, "deeper"),
        ({"a\ud800": 1}, "surrogate"),
    ],
)
def test_an_error_names_the_field_and_leaves_no_trace(features, field):
    rows = ObjectRows()
    rows.add({"fine": 1})
    with pytest.raises(InputError, match=field.replace(".", r"\.")):
        rows.add(features)
    assert rows.take().data.tolist() == [1.0]


def test_parts_of_an_example():
    assert example(json.loads('{"features": [1, 2], "label": -1, "weight": 2, "tag": "t"}')) == ([1, 2], -1, 2, "t")
    assert example({"_label": 1, "_tag": "t", "y": 3}) == ({"y": 3}, 1, None, "t")
    assert example({"Target": 1, "y2": 3}) == ({"y2": 3}, 1, None, None)
    assert example({"w": 2, "cost": 5}, label="cost", weight="w") == ({}, 5, 2, None)
    assert example({"a": 1}) == ({"a": 1}, None, None, None)
    with pytest.raises(InputError, match="'y' and 'label'"):
        example({"y": 1, "label": 2})
