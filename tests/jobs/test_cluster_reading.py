"""Sharded runs read what one process reads: every format, remote files, and bad lines by the same policy."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onsketch
from onsketch import cluster
from onsketch.cluster import fit
from onsketch.errors import InputError
from onsketch.jobs.cluster.storage import Storage
from program import run as program
from shards import cut, shards_of
from streams import sparse_stream

EXACT: dict[str, Any] = {"method": "ons", "summary": "curvature", "clip": None, "ridge": 0.5}
"""Merged as if it had been one stream."""


# Formats -------------------------------------------------------------------------------------------------


def write(path: Path, X: Any, y: Any) -> None:
    """The rows in the format that the name says."""
    rows = list(zip(y.tolist(), X.tolist(), strict=True))
    if path.suffix == ".csv":
        names = [f"f{j}" for j in range(X.shape[1])]
        lines = [",".join(["label", *names]), *(",".join(map(repr, [label, *row])) for label, row in rows)]
    else:
        lines = [
            f"{label!r} 1 tag{i}|a " + " ".join(f"f{j}:{v!r}" for j, v in enumerate(row) if v)
            for i, (label, row) in enumerate(rows)
        ]
    path.write_text("\n".join([*lines, ""]))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "vw"])
@pytest.mark.parametrize("sync", [None, 2])
def test_text_shards_equal_one_stream(tmp_path: Path, suffix: str, sync: int | None) -> None:
    X, y = sparse_stream(n=200, seed=17)
    for k, piece in enumerate(cut(200, 4, 2)):
        write(tmp_path / f"{k}.{suffix}", X[piece], y[piece])
    write(tmp_path / f"whole-{suffix}.{suffix}", X, y)
    reading: dict[str, Any] = {"block_rows": 16, "names": True}
    if suffix == "vw":
        reading |= {"format": "vw", "bits": 10}
    run, alone = (
        fit(EXACT, str(tmp_path / files), task="regression", reading=reading, sync=sync, cluster="none")
        for files in (f"[0-9].{suffix}", f"whole-*.{suffix}")
    )
    assert run.rows == alone.rows == run.learner.rounds == 200
    np.testing.assert_allclose(run.learner.weights, alone.learner.weights, atol=1e-9)
    assert run.names == alone.names
    assert len(run.names) >= X.shape[1]


def test_tables_are_understood_by_the_first_shard(tmp_path: Path) -> None:
    """A column of categories whose first row in a later shard looks like a number is a category there too."""
    (tmp_path / "0.csv").write_text("label,a,b\n1,x,0.5\n0,y,0.25\n")
    (tmp_path / "1.csv").write_text("label,a,b\n1,7,0.5\n0,y,2\n")
    run = fit("adagrad", str(tmp_path / "*.csv"), cluster="none", reading={"names": True})
    assert {"a=7", "a=x", "a=y", "b"} <= set(run.names.values())


def test_parquet_shards(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = sparse_stream(n=200, seed=7)
    for k, piece in enumerate(cut(200, 3)):
        columns = {f"f{j}": X[piece, j] for j in range(X.shape[1])} | {"label": y[piece]}
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{k}.parquet", row_group_size=30)
    run = fit(EXACT, str(tmp_path / "*.parquet"), sync=2, reading={"block_rows": 16}, cluster="none")
    whole = onsketch.learner(**EXACT)
    whole.learn(X, y)
    np.testing.assert_allclose(run.learner.weights, whole.weights, atol=1e-9)


def test_remote_shards(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    X, y = sparse_stream("logistic", n=90, seed=16)
    files = shards_of(tmp_path, X, y, 3)
    fsspec.filesystem("memory").put(str(tmp_path) + "/", "/remote-shards/", recursive=True)
    near, far = (fit("adagrad", source, cluster="none", sync=1, reading={"block_rows": 20})
                 for source in (files, "memory://remote-shards/*.svm"))  # fmt: skip
    assert (near.learner.weights == far.learner.weights).all()
    assert far.rows == 90


def test_bad_lines_are_skipped_and_counted_once(tmp_path: Path) -> None:
    X, y = sparse_stream("logistic", n=60, seed=8)
    files = shards_of(tmp_path, X, y, 3)
    for path in files:
        with open(path, "a") as file:
            file.write("1 nonsense\n")
    with pytest.raises(InputError, match=r"shard 0: .*0000\.svm:\d+"):
        fit("adagrad", files, cluster="none")
    run = fit("adagrad", files, reading={"on_error": "skip", "block_rows": 7}, sync=1, cluster="none")
    assert (run.skipped, run.rows) == (3, 60)


# Remote files --------------------------------------------------------------------------------------------


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A folder behind HTTP, on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_shards_by_address(tmp_path: Path, address: str, scheme: str) -> None:
    pytest.importorskip("fsspec")
    if scheme == "http":
        pytest.importorskip("aiohttp", reason="fsspec reads HTTP with aiohttp")
    X, y = sparse_stream("logistic", n=90, seed=16)
    near = shards_of(tmp_path, X, y, 3)
    far = [f"{address}/{Path(path).name}" if scheme == "http" else f"file://{path}" for path in near]
    here, there = (fit("adagrad", files, cluster="none", reading={"block_rows": 20}) for files in (near, far))
    assert (here.learner.weights == there.learner.weights).all()
    assert there.rows == 90
    assert (
        cluster.sketch(far, "fd", 4, cluster="none").matrix == cluster.sketch(near, "fd", 4, cluster="none").matrix
    ).all()


# Rows that cannot be sketched ----------------------------------------------------------------------------


@pytest.fixture
def spoiled(tmp_path: Path) -> tuple[list[str], Any]:
    """Three shards, with a bad line, a row that float64 cannot square and nothing wrong; and the good rows."""
    X, y = sparse_stream(n=60, seed=18)
    files = shards_of(tmp_path / "data", X, y, 3)
    for path, line in zip(files, ("1 nonsense\n", "1 0:1e200 1:1e200\n"), strict=False):
        with open(path, "a") as file:
            file.write(line)
    return files, X


def test_a_sketch_skips_what_one_process_skips_and_says_how_much(spoiled: Any, tmp_path: Path) -> None:
    files, X = spoiled
    whole = ["--size", "12", "--on-error", "skip", "--save", str(tmp_path / "s")]
    skips = []
    for where in ([], ["--cluster", "none"]):
        result = program("sketch", *files, *whole, *where)
        assert result.exit_code == 0, result.output
        skips.append(re.findall(r"^.*skipped.*$", result.stdout, re.MULTILINE))
        summary = onsketch.load(tmp_path / "s")
        assert summary.n_rows == 60
        np.testing.assert_allclose(summary.covariance(), X.T @ X, atol=1e-9)  # 12 rows lose nothing of 9 features
    assert skips[0] == skips[1] == ["2 bad lines or rows were skipped"]


def test_a_sketch_refuses_what_one_process_refuses(spoiled: Any) -> None:
    files, _ = spoiled
    with pytest.raises(InputError, match=r"shard 0: .*0000\.svm:\d+"):
        cluster.sketch(files, cluster="none")
    with pytest.raises(InputError, match=r"shard 0: .*0001\.svm.*longer than"):
        cluster.sketch(files[1:], cluster="none")
    result = program("sketch", *files[1:], "--cluster", "none")
    assert (result.exit_code, "--on-error skip" in result.output) == (1, True)


def test_a_sketch_of_nothing_says_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "bad.svm").write_text("1 0:1e200\n")
    (tmp_path / "none.svm").write_text("")
    files, reading = [str(tmp_path / "bad.svm"), str(tmp_path / "none.svm")], {"format": "libsvm", "on_error": "skip"}
    with pytest.raises(InputError, match="not one row could be sketched; 1 were skipped"):
        cluster.sketch(files, reading=reading, cluster="none")
    with pytest.raises(InputError, match="not a single row"):
        cluster.sketch(files[1:], reading=reading, cluster="none")


def test_the_program_resumes_a_sketch(spoiled: Any, tmp_path: Path) -> None:
    files, _ = spoiled
    arguments = ["sketch", "--cluster", "none", *files, "--size", "4", "--on-error", "skip"]
    kept = ["--checkpoint", str(tmp_path / "c"), "--resume", "--save", str(tmp_path / "s")]
    first, again = program(*arguments, *kept), program(*arguments, *kept)
    assert first.exit_code == again.exit_code == 0, first.output + again.output
    assert "2 bad lines or rows were skipped" in again.stdout
    assert Storage(tmp_path / "c").parts() == []
    assert (onsketch.load(tmp_path / "c").matrix == onsketch.load(tmp_path / "s").matrix).all()
    other = program(*arguments, *kept, "--kind", "rfd")
    assert "another job (kind: " in other.output
    assert "--checkpoint FILE" in program(*arguments, "--resume").output
    assert "it needs --cluster" in program("sketch", *files, *kept[:2]).output
