"""Products of two and three features, their names, and namespaces and columns left out or kept."""

import io
from itertools import combinations_with_replacement

import numpy as np
import pytest

from onsketch.data import hash_name, stream
from onsketch.errors import InputError, OptionError

PRIME, MASK = 16777619, 2**18 - 1
LINE = b"1 |a x:2 u:7 |bee y:3 |c z:5\n"


def first(text, form, **options):
    reading = stream(io.BytesIO(text), form, **options)
    return next(reading), reading


def cubed(i, j, k):
    return ((PRIME * ((PRIME * i) ^ j)) ^ k) & MASK


def test_three_namespaces_by_definition():
    block, reading = first(LINE, "vw", cubic="cab", names=True)
    row = dict(zip(block.X.indices.tolist(), block.X.data.tolist(), strict=True))
    y, z = hash_name("y", "bee"), hash_name("z", "c")
    for name, value in (("x", 2), ("u", 7)):
        column = cubed(hash_name(name, "a"), y, z)
        assert row[column] == value * 15
        assert reading.names[column] == f"a^{name}*bee^y*c^z"
    assert len(row) == 6


def test_three_within_a_namespace_come_once_each():
    block, _ = first(b"1 |a 1:2 2:3 3:5\n", "vw", cubic="aaa")
    wanted = [p * q * r for p, q, r in combinations_with_replacement([2.0, 3.0, 5.0], 3)]
    assert sorted(block.X.data.tolist()) == sorted([2.0, 3.0, 5.0, *wanted])


def test_columns_of_tables_are_multiplied_by_name():
    block, reading = first(
        b"y,age,job,pay\n1,30,clerk,2\n", "csv", interact=["age,job", ("age", "pay", "job")], names=True
    )
    by_name = {reading.names[c]: v for c, v in zip(block.X.indices.tolist(), block.X.data.tolist(), strict=True)}
    assert by_name == {"age": 30, "job=clerk": 1, "pay": 2, "age*job=clerk": 30, "age*job=clerk*pay": 60}
    block, _ = first(b"y,a,b\n1,2,3\n", "csv", interact="a,b")
    assert sorted(block.X.data.tolist()) == [2, 3, 6]
    with pytest.raises(InputError, match="'wage': there is no such column"):
        next(stream(io.BytesIO(b"y,age,job\n1,30,clerk\n"), "csv", interact="wage,job"))
    with pytest.raises(OptionError, match="two or three columns"):
        stream(io.BytesIO(b"y,a\n1,2\n"), "csv", interact="a")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"ignore": "a"}, [3, 5]),
        ({"ignore": "bee"}, [2, 7, 5]),
        ({"ignore": ("a", "c")}, [3]),
        ({"keep": "c"}, [5]),
        ({"keep": ("bee", "a")}, [2, 7, 3]),
    ],
)
def test_namespaces_are_left_out_by_letter_or_name(options, kept):
    block, _ = first(LINE, "vw", **options)
    assert block.X.data.tolist() == kept


def test_columns_are_kept_by_name():
    block, _ = first(b"y,a,b,c\n1,2,3,4\n", "csv", keep="b")
    np.testing.assert_array_equal(block.X, [[3]])


def test_products_of_json_lines_are_those_of_the_same_table():
    text = b'{"label": 1, "age": 31, "site": {"clicks": 2, "who": "me"}}\n{"label": -1, "age": 3}\n'
    table = b"label,age,site.clicks,site.who\n1,31,2,me\n"
    for options in ({"quadratic": "s:"}, {"quadratic": "::"}, {"cubic": "ass"}):
        one, _ = first(text, "json", **options)
        two, _ = first(table, "csv", **options)
        np.testing.assert_array_equal(one.X.toarray()[0], two.X.toarray()[0])
        assert one.X[0].nnz > 3
    np.testing.assert_array_equal(one.y, [1, -1])


def test_a_bad_json_line_is_skipped():
    bad = b'{"label": 1, "a": 1}\n{"label": 1, "a": \n{"label": 1, "a": 2}\n'
    reading = stream(io.BytesIO(bad), "json", on_error="skip")
    assert [len(block) for block in reading] == [2]
    assert (reading.skipped, reading.first_skipped.line) == (1, 2)
