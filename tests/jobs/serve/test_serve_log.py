"""The log gives back what was acknowledged, cuts what a crash has torn, and refuses what a disk has lost."""

from __future__ import annotations

import errno
import os
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="the service needs the extra 'serve'")

from onsketch.data.json_rows import rows_of
from onsketch.jobs.serve.batch import Batch, joined, part_of
from onsketch.jobs.serve.log import _CHECK, _HEAD, _MAGIC, HEAD_BYTES, Log, LogError, read_log, segments
from onsketch.rows.sparse import Sparse


def _payloads(folder, start=0, **options):
    found = list(read_log(folder, start, **options))
    notes = [item for item in found if isinstance(item, str)]
    return [item.payload for item in found if not isinstance(item, str)], notes


def _written(folder, payloads, synced=0):
    log = Log(folder, 0)
    for k, payload in enumerate(payloads):
        log.append(payload)
        if k < synced:
            log.sync(k + 1)
    os.close(log._file)
    return segments(folder)[0][1]


def _starts(content, payloads):
    """Where the records with these payloads begin."""
    return [content.index(payload) - HEAD_BYTES for payload in payloads]


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=6), st.integers(0, 400))
@settings(max_examples=60)
def test_a_log_cut_anywhere_gives_its_whole_records(tmp_path_factory, payloads, cut):
    folder = tmp_path_factory.mktemp("log")
    path = _written(folder, payloads, synced=0)
    whole = path.read_bytes()
    path.write_bytes(whole[: min(cut, len(whole))])
    ends = np.cumsum([0, HEAD_BYTES, *(len(payload) + HEAD_BYTES for payload in payloads)])
    expected = payloads[: max(int(np.searchsorted(ends, min(cut, len(whole)), side="right")) - 2, 0)]
    found, notes = _payloads(folder)
    assert found == expected
    assert len(notes) == int(min(cut, len(whole)) not in ends)
    assert _payloads(folder) == (expected, [])  # what was torn is gone


@pytest.mark.parametrize("byte", [0, 5, 9, 17, 30, 40])
@pytest.mark.parametrize("record", [1, 2])
def test_damage_among_acknowledged_rows_is_refused(tmp_path, record, byte):
    payloads = [b"a" * 20, b"b" * 20, b"c" * 20]
    path = _written(tmp_path, payloads, synced=3)
    content = bytearray(path.read_bytes())
    start = _starts(content, payloads)[record]
    content[start + byte] ^= 1
    path.write_bytes(content)
    with pytest.raises(LogError, match=rf"damaged at byte {start}.*--cut-damaged"):
        _payloads(tmp_path)
    assert path.read_bytes() == content  # nothing was cut
    found, notes = _payloads(tmp_path, cut_damaged=True)
    assert found == payloads[:record]
    assert "damaged" in notes[0]


def test_damage_among_rows_that_were_never_acknowledged_is_cut(tmp_path):
    payloads = [b"a" * 20, b"b" * 20, b"c" * 20]
    path = _written(tmp_path, payloads, synced=1)
    content = bytearray(path.read_bytes())
    start = _starts(content, payloads)[1]
    content[start + 8] ^= 0xFF
    path.write_bytes(content)
    found, notes = _payloads(tmp_path)
    assert found == [b"a" * 20]
    assert "torn" in notes[0]
    assert path.with_suffix(".torn").read_bytes() == content[start:]


def test_a_record_forged_in_a_payload_does_not_make_a_torn_record_look_damaged(tmp_path):
    head = _HEAD.pack(_MAGIC, 0, 3, 1 << 62, 0)
    forged = head + _CHECK.pack(zlib.crc32(head))
    path = _written(tmp_path, [b"a" * 20, b"b" * 9 + forged + b"b" * 9], synced=1)
    path.write_bytes(path.read_bytes()[:-4])
    found, notes = _payloads(tmp_path)
    assert found == [b"a" * 20]
    assert "torn" in notes[0]


def test_a_segment_that_cannot_be_created_changes_nothing(tmp_path, monkeypatch):
    log = Log(tmp_path, 0)
    log.append(b"first")
    opened = os.open

    def full(path, *options, **named):
        if str(path).endswith(".rows"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, *options, **named)

    def unsynced(folder):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("onsketch.jobs.serve.log.os.open", full)
    assert not log.rotate()
    log.append(b"second")
    log.sync(2)
    monkeypatch.undo()
    monkeypatch.setattr("onsketch.jobs.serve.log.sync_folder", unsynced)
    assert not log.rotate()  # a file that is empty is left behind
    log.append(b"third")
    log.sync(3)
    assert _payloads(tmp_path, start=2) == ([b"third"], [])
    monkeypatch.undo()
    log.append(b"fourth")
    assert log.rotate()
    log.append(b"fifth")
    log.close()
    assert _payloads(tmp_path) == ([b"first", b"second", b"third", b"fourth", b"fifth"], [])
    assert [first for first, _ in segments(tmp_path)] == [0, 4]


def test_a_damaged_segment_before_another_is_refused(tmp_path):
    log = Log(tmp_path, 0)
    log.append(b"a")
    log.rotate()
    log.append(b"b")
    log.close()
    first = segments(tmp_path)[0][1]
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(LogError, match="damaged"):
        _payloads(tmp_path)
    first.unlink()
    with pytest.raises(LogError, match="begins with record 1"):
        _payloads(tmp_path)
    assert _payloads(tmp_path, start=1) == ([b"b"], [])


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    log = Log(tmp_path, 0)
    log.append(b"first")
    write = os.write

    def full(file, data):
        write(file, bytes(data)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("onsketch.jobs.serve.log.os.write", full)
    with pytest.raises(OSError, match="No space"):
        log.append(b"second")
    monkeypatch.undo()
    log.append(b"third")
    log.close()
    assert _payloads(tmp_path) == ([b"first", b"third"], [])


@given(
    st.lists(st.dictionaries(st.text(max_size=4), st.floats(-10, 10), max_size=4), min_size=1, max_size=5), st.data()
)
def test_a_batch_survives_its_bytes(features, data):
    rows = rows_of(features)
    labels = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=len(features), max_size=len(features))))
    weights = data.draw(st.none() | st.just(labels**2))
    one = Batch(rows, labels, weights, data.draw(st.dictionaries(st.text(), st.integers())))
    two = Batch.decode(one.encode())
    assert isinstance(two.rows, Sparse)
    assert all(np.array_equal(a, b) for a, b in zip(one.rows[:3], two.rows[:3], strict=True))
    assert two.rows.shape == one.rows.shape
    assert np.array_equal(one.labels, two.labels)
    assert (two.weights is None) == (weights is None)
    assert two.notes == one.notes
    parts = [part_of(rows, k, k + 1) for k in range(len(features))]
    again = joined(parts)
    assert all(np.array_equal(a, b) for a, b in zip(again[:3], rows[:3], strict=True))


def test_a_dense_batch_survives_its_bytes():
    one = Batch(np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0]))
    two = Batch.decode(one.encode())
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(joined([one.rows, two.rows]), np.tile(one.rows, (2, 1)))
