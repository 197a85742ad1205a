"""LIBSVM text: equal to scikit-learn's loader where both read it, and clear about what cannot be read."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from onsketch.data import LabelMap, stream
from onsketch.errors import InputError, OptionError, ReadError
from readers import DATA, blocks, needs_data, together

numbers = st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-999, 999).map(str)
blanks = st.sampled_from([" ", "  ", "\t"])


@st.composite
def valid_files(draw):
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        indices = sorted(draw(st.sets(st.integers(0, 2000), max_size=6)))
        words = [draw(numbers), *(f"{k}:{draw(numbers)}" for k in indices)]
        line = draw(blanks).join(words) + draw(st.sampled_from(["", " ", "\r", " # note 3:4"]))
        lines += [line, *draw(st.sampled_from([[], [""], ["# comment"]]))]
    return "\n".join(lines).encode() + draw(st.sampled_from([b"", b"\n"]))


@given(valid_files(), st.integers(1, 5), st.integers(1, 60))
def test_equals_scikit_learn(data, block_rows, block_bytes):
    X, y = load_svmlight_file(io.BytesIO(data), zero_based=True)
    parts = blocks(data, format="libsvm", block_rows=block_rows, block_bytes=block_bytes)
    ours, labels = together(parts)
    if X.nnz:  # where there are no features at all, scikit-learn makes one up
        np.testing.assert_array_equal(ours, X.toarray())
    np.testing.assert_array_equal(labels, y)
    assert max(len(part) for part in parts) <= block_rows


@needs_data
@pytest.mark.parametrize("name", ["a9a", "rcv1_small", "heart", "splice"])
def test_equals_scikit_learn_on_real_files(name):
    import lzma

    with lzma.open(DATA / f"{name}.xz") as file:
        X, y = load_svmlight_file(file, zero_based=True)
    parts = blocks(DATA / f"{name}.xz", block_rows=1000)
    assert sum(part.X.nnz for part in parts) == X.nnz
    np.testing.assert_array_equal(np.concatenate([part.X.data for part in parts]), X.data)
    np.testing.assert_array_equal(np.concatenate([part.X.indices for part in parts]), X.indices)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), y)


def test_query_ids_as_scikit_learn_reads_them(tmp_path):
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(20, 5)), rng.normal(size=20), np.repeat(np.arange(5), 4)
    path = tmp_path / "ranked.svm"
    dump_svmlight_file(X, y, str(path), query_id=qid, zero_based=True, comment="a comment")
    (block,) = blocks(path)
    np.testing.assert_array_equal(block.groups, qid)
    np.testing.assert_allclose(block.X.toarray(), X, rtol=1e-15)


def test_indices_are_unchanged_by_default():
    one, zero = b"1 1:5 3:2\n-1 2:1\n", b"1 0:5 2:2\n-1 1:1\n"
    assert blocks(one)[0].X.shape == (2, 4)
    assert blocks(one, zero_based=False)[0].X.shape == (2, 3)
    for data in (one, zero):
        np.testing.assert_array_equal(blocks(data, zero_based="auto")[0].X.toarray(), [[5, 0, 2], [0, 1, 0]])
    with pytest.raises(ReadError, match=r":1:3: feature index 0"):
        blocks(zero, zero_based=False)
    # Decided by the first block, kept in the position, and an error where the stream says otherwise later.
    reading = stream(io.BytesIO(one + b"1 0:1\n"), zero_based="auto", block_rows=1)
    first = next(reading)
    with pytest.raises(ReadError, match=r":3:3: feature index 0"):
        list(reading)
    rest = blocks(one, zero_based="auto", block_rows=1, resume=first.position)
    assert rest[0].X.indices.tolist() == [1]


def test_widths():
    data = b"1 3:1\n1 9:1\n1 2:1\n"
    assert [part.X.shape[1] for part in blocks(data, block_rows=1)] == [4, 10, 10]
    assert [part.X.shape[1] for part in blocks(data, block_rows=1, n_features=12)] == [12, 12, 12]
    with pytest.raises(ReadError, match=r":2:3: the feature '9:1' does not fit n_features=5"):
        blocks(data, n_features=5)
    assert blocks(data, bits=3)[0].X.indices.tolist() == [3, 1, 2]
    wide = blocks(b"1 123456789012345678:2\n")[0].X
    assert wide.indices.dtype == np.int64
    assert wide.indices[0] == 123456789012345678
    assert blocks(b"1\n-1\n")[0].X.shape == (2, 0)


def test_unsorted_and_repeated_indices_are_kept_and_add_up():
    (block,) = blocks(b"1 5:1 2:3 5:4\n")
    assert block.X.toarray()[0, 5] == 5.0


BAD_LINES = [
    ("x 1:2", 1, "expected a number, found 'x'"),
    ("1:2 3:4", 1, "the line has no label: it begins with the feature '1:2'"),
    ("1,2 3:4", 2, "more than one label"),
    ("1 2", 4, "expected ':'"),
    ("1 a:2", 3, "expected a feature as index:value, found 'a:2'"),
    ("1 -3:2", 3, "expected a feature"),
    ("1 3:", 5, "expected a number, found the end of the line"),
    ("1 3: 4", 5, "expected a number, found a space"),
    ("1 3:4x 5:6", 6, "unexpected 'x'"),
    ("1 3:nan", 5, "'nan' is not a finite number"),
    ("1 3:1e999", 5, "beyond the range of float64"),
    ("inf 3:1", 1, "'inf' is not a finite number"),
    ("1 1234567890123456789:1", 3, "more than 18 digits"),
    ("1 qid:x 3:1", 7, "after qid:"),
    ("1 3:1 qid:4", 7, "expected a feature"),
    ("1 3:1:2", 6, "unexpected ':2'"),
]


@pytest.mark.parametrize(("line", "column", "reason"), BAD_LINES)
def test_a_bad_line_says_where_and_why(tmp_path, line, column, reason):
    path = tmp_path / "bad.svm"
    path.write_text(f"1 1:1\n\n-1 2:1\n{line}\n1 3:1\n")
    reading = stream(path)
    assert next(reading).y.tolist() == [1.0, -1.0]  # what comes before is delivered
    with pytest.raises(ReadError) as caught:
        next(reading)
    error = caught.value
    assert (error.path, error.line, error.column) == (str(path), 4, column)
    assert reason in error.reason
    assert str(error) == f"{path}:4:{column}: {error.reason}"
    assert isinstance(error, InputError)

    reading = stream(path, on_error="skip")
    assert np.concatenate([block.y for block in reading]).tolist() == [1.0, -1.0, 1.0]
    assert reading.skipped == 1
    assert str(reading.first_skipped) == str(error)


def test_labels_to_signs():
    assert LabelMap()(np.array([0.0, 1.0, 0.0])).tolist() == [-1, 1, -1]
    assert LabelMap()(np.array([1.0, -1.0])).tolist() == [1, -1]
    with pytest.raises(InputError, match="positive=2"):
        LabelMap()(np.array([1.0, 2.0]))
    mapped = LabelMap()
    mapped(np.array([0.0, 1.0]))
    with pytest.raises(InputError, match="three classes"):
        mapped(np.array([-1.0]))
    assert np.isnan(LabelMap()(np.array([1.0, np.nan]))).tolist() == [False, True]  # no label stays no label
    assert blocks(b"1 1:1\n2 1:1\n3 1:1\n", positive="2")[0].y.tolist() == [-1, 1, -1]


@pytest.mark.parametrize(
    "options",
    [
        {"format": "xml"},
        {"block_rows": 0},
        {"on_error": "ignore"},
        {"bits": 0},
        {"bits": 32},
        {"zero_based": 3},
        {"zero_based": "auto", "bits": 4},
        {"n_features": 4, "bits": 4},
        {"quadratic": "abc"},
        {"label": 3},
        {"delimiter": ";"},
        {"format": "vw", "zero_based": False},
        {"format": "csv", "delimiter": "ab"},
        {"format": "csv", "missing": "mean"},
        {"positive": "spam"},
    ],
)
def test_options_that_cannot_be(options):
    with pytest.raises(OptionError):
        stream(io.BytesIO(b"1 1:1\n"), **options)
