"""VW text: columns, weights and products as Vowpal Wabbit files them (its own audit, recorded), and bad lines."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_readers as reference
from onsketch.data import hash_name, stream
from onsketch.errors import InputError, ReadError
from readers import blocks


def entries(data: bytes, **options) -> list[list[tuple[int, float]]]:
    (block,) = blocks(data, format="vw", **options)
    cut = block.X.indptr
    pairs = list(zip(block.X.indices.tolist(), block.X.data.tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(cut[:-1], cut[1:], strict=True)]


def test_columns_are_those_of_vowpal_wabbit():
    # vw --audit --noconstant, version 9.11, default 18 bits
    line = "1 |a 5:2 x:3 foo:bar :1.5 :2 |b y:2 007 12345678901234567890123 |  5 3:2 |a é:1 z\n"
    assert entries(line.encode())[0] == [
        *((92599, 2.0), (55432, 3.0), (178348, 1.0), (92594, 1.5), (92595, 2.0)),
        *((152274, 2.0), (163338, 1.0), (49870, 1.0), (5, 1.0), (3, 2.0), (245264, 1.0), (202246, 1.0)),
    ]
    assert entries(b"1 |a x:2 y:3 |b u:5 7:1\n", bits=10)[0] == [(136, 2.0), (863, 3.0), (380, 5.0), (522, 1.0)]


AUDITED = {  # vw --audit --noconstant -q PAIR: the products of "|a x:2 y:3 |b u:5 7:1" and of "|a x |  p:2 q:3"
    "ab": ([(17252, 10), (172050, 2), (255985, 15), (66695, 3)], []),
    "aa": ([(1680, 4), (31047, 6), (253394, 9)], [(1680, 1)]),
    "::": (
        [
            *((1680, 4), (31047, 6), (253394, 9), (17252, 10), (172050, 2), (255985, 15), (66695, 3)),
            *((227144, 25), (103486, 5), (137140, 1)),
        ],
        [(1680, 1), (205044, 4), (194182, 6), (233936, 9), (10214, 2), (82096, 3)],
    ),
}


@pytest.mark.parametrize("pair", AUDITED)
def test_products_are_those_of_vowpal_wabbit(pair):
    rows = entries(b"1 |a x:2 y:3 |b u:5 7:1\n1 |a x |  p:2 q:3\n", quadratic=pair)
    for row, own, products in zip(rows, (4, 3), AUDITED[pair], strict=True):
        assert sorted(row[own:]) == sorted(products)


def test_a_product_counts_once_whatever_the_pairs():
    data = b"1 |a x:2 y:3 |b u:5 |c w\n"
    assert entries(data, quadratic=("ab", "ba")) == entries(data, quadratic="ab")
    assert entries(data, quadratic=("ab", "::", "cc")) == entries(data, quadratic="::")
    assert entries(data, quadratic=("ab", "a:")) == entries(data, quadratic="a:")


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(-5, 5), st.sampled_from(b"ab ")), max_size=6),
    st.sampled_from(["ab", "ba", "aa", "::", "a:", ":b"]),
    st.integers(1, 31),
)
def test_products_by_definition(features, pair, bits):
    from onsketch.rows.interactions import as_pairs, interact

    columns = np.array([f[0] for f in features], dtype=np.int64) % 2**bits
    values = np.array([f[1] for f in features], dtype=np.float64)
    spaces = np.array([f[2] for f in features], dtype=np.uint8)
    wanted = list(zip(columns.tolist(), values.tolist(), strict=True))
    first, second = pair.encode()
    for i, a in enumerate(spaces.tolist()):
        for j, b in enumerate(spaces.tolist()):
            meant = first in (a, ord(":")) and second in (b, ord(":"))
            once = a < b or (a == b and i <= j) or (a != b and pair != "::")
            if meant and once:
                column = ((16777619 * int(columns[i])) ^ int(columns[j])) % 2**bits
                wanted.append((column, values[i] * values[j]))
    indptr = np.array([0, len(features)])
    ptr, indices, products = interact(indptr, columns, values, spaces, as_pairs(pair), 2**bits - 1)
    assert ptr.tolist() == [0, len(wanted)]
    assert sorted(zip(indices.tolist(), products.tolist(), strict=True)) == sorted(wanted)


@given(st.text(min_size=1, max_size=20), st.text(max_size=5), st.integers(1, 31))
def test_hash_by_definition(name, space, bits):
    seed = reference.name_hash(space.encode(), 0) if space else 0
    assert hash_name(name, space, bits) == reference.name_hash(name.encode(), seed) % 2**bits


def test_heads():
    (block,) = blocks(b"1 |a x\n-1 2 |a x\n0.5 2 0.25 'one|a x\n|a x\n3 two|a x\n'three |a x\n7|a x\n", format="vw")
    np.testing.assert_array_equal(block.y, [1, -1, 0.5, math.nan, 3, math.nan, math.nan])
    assert block.sample_weight.tolist() == [1, 2, 2, 1, 1, 1, 1]
    assert block.initial.tolist() == [0, 0, 0.25, 0, 0, 0, 0]
    assert block.tags == ["", "", "one", "", "two", "three", "7"]
    (plain,) = blocks(b"1 | x\n", format="vw")
    assert (plain.sample_weight, plain.initial, plain.tags, plain.groups) == (None, None, None, None)


def test_tags_stay_with_their_rows_over_blocks():
    data = b"".join(b"1 %s|a x\n" % (b"t%d" % k if k % 3 == 0 else b"") for k in range(20))
    tags = [tag for block in blocks(data, format="vw", block_rows=4) for tag in block.tags or [""] * len(block)]
    assert tags == [f"t{k}" if k % 3 == 0 else "" for k in range(20)]


def test_scales_and_zeros():
    assert entries(b"1 |a:2.5 x y:0 z:-1\n")[0] == [(55432, 2.5), (202246, -2.5)]


def test_names():
    reading = stream(io.BytesIO("1 |a x:1 word:india |  p |é ß\n1 |a y\n".encode()), format="vw", names=True)
    list(reading)
    assert sorted(reading.names.values()) == ["a^word:india", "a^x", "a^y", "p", "é^ß"]
    assert reading.names[hash_name("x", "a")] == "a^x"
    assert reading.names[hash_name("word", "a", value="india")] == "a^word:india"


BAD_LINES = [
    ("1 2 3", 6, "expected '|'"),
    ("1 2 3 4 |a x", 7, "at most a label, a weight and an initial prediction"),
    ("one |a x", 1, "expected a number, found 'one'"),
    ("1 -2 |a x", 3, "weights are not negative"),
    ("1 'tag 3 |a x", 8, "unexpected '3'"),
    ("1 |:2 x", 4, "expected a namespace"),
    ("1 ||a x", 4, "expected a namespace"),
    ("1 |a:b x", 6, "expected a number, found 'b'"),
    ("1 |a x:nan", 8, "'nan' is not a finite number"),
    ("1 |a x:2abc", 9, "unexpected 'abc'"),
    ("1 |a x:", 8, "expected a number"),
    ("1 |a x:1:2", 9, "unexpected ':2'"),
    ("1 |a x:1e999", 8, "beyond the range"),
    ("1 |a:1e300 x:1e300", 12, "beyond the range"),
]


@pytest.mark.parametrize(("line", "column", "reason"), BAD_LINES)
def test_a_bad_line_says_where_and_why(line, column, reason):
    data = f"1 |a x\n{line}\n-1 |a y\n".encode()
    reading = stream(io.BytesIO(data), format="vw")
    assert len(next(reading)) == 1
    with pytest.raises(ReadError) as caught:
        next(reading)
    assert (caught.value.line, caught.value.column) == (2, column)
    assert reason in caught.value.reason
    reading = stream(io.BytesIO(data), format="vw", on_error="skip")
    assert sum(len(block) for block in reading) == 2
    assert reading.skipped == 1


def test_a_product_beyond_float64():
    with pytest.raises(InputError, match="beyond float64"):
        entries(b"1 |a x:1e200 y:1e200\n", quadratic="aa")
