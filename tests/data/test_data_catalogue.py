"""The catalogue finds and reads sets; downloads go on where they stopped and are checked."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import re
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from checkout import DATA
from onsketch.data.catalogue import CATALOGUE, File, entry, found, is_at_hand, load
from onsketch.data.download import DownloadError, content_digest, fetch
from onsketch.data.sets import gisette_like, rows_digest
from onsketch.errors import InputError, OptionError
from program import run


@pytest.fixture(autouse=True)
def nothing_at_hand(monkeypatch, tmp_path):
    monkeypatch.delenv("ONSKETCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


CONTENT = bytes(range(256)) * 4096
VERSION = {"now": 1}
"""Of the file, as its ETag tells where the address has "version" in it."""


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT, in ranges; the first reply to an address with "cut" in it breaks off half-way."""

    def __init__(self, asked, *arguments):
        self.asked = asked
        super().__init__(*arguments)

    def do_GET(self):
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        version = '"{now}"'.format(**VERSION) if "version" in self.path else None
        if self.headers.get("If-Range") not in (None, version):
            start = 0
        self.asked.append(start)
        if "missing" in self.path:
            self.send_error(404)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        if version is not None:
            self.send_header("ETag", version)
        self.end_headers()
        self.wfile.write(CONTENT[start : len(CONTENT) // 2 if "cut" in self.path and start == 0 else None])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, asked)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", asked
        running.shutdown()
        thread.join()


SHA = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def test_an_interrupted_download_resumes(server, tmp_path):
    address, asked = server
    with pytest.raises(DownloadError, match=r"try again|cannot be reached"):
        fetch(f"{address}/cut", tmp_path / "set", SHA)
    assert not (tmp_path / "set").exists()
    seen = []
    assert fetch(f"{address}/cut", tmp_path / "set", SHA, lambda done, size: seen.append((done, size)))
    assert (tmp_path / "set").read_bytes() == CONTENT
    assert asked == [0, len(CONTENT) // 2]
    assert seen[0][0] == len(CONTENT) // 2
    assert seen[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize(("changed", "goes_on"), [(False, True), (True, False)])
def test_a_file_that_has_changed_meanwhile_is_not_spliced(server, tmp_path, monkeypatch, changed, goes_on):
    address, asked = server
    with pytest.raises(DownloadError):
        fetch(f"{address}/cut-version", tmp_path / "set")
    if changed:
        monkeypatch.setitem(VERSION, "now", 2)
        with pytest.raises(DownloadError):  # it begins anew, and this server cuts whatever does
            fetch(f"{address}/cut-version", tmp_path / "set")
    assert fetch(f"{address}/cut-version", tmp_path / "set").read_bytes() == CONTENT
    assert asked == ([0, len(CONTENT) // 2] if goes_on else [0, 0, len(CONTENT) // 2])
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_without_version_and_checksum_a_download_restarts(server, tmp_path):
    address, asked = server
    for _ in range(2):
        with pytest.raises(DownloadError):
            fetch(f"{address}/cut", tmp_path / "set")
    assert asked == [0, 0]


def test_what_is_too_long_is_thrown_away(server, tmp_path):
    (tmp_path / "set.part").write_bytes(CONTENT + b"more")
    with pytest.raises(DownloadError):
        fetch(f"{server[0]}/set", tmp_path / "set", SHA)
    assert not (tmp_path / "set").exists()


def test_what_has_the_wrong_checksum_is_thrown_away(server, tmp_path):
    with pytest.raises(DownloadError, match="checksum"):
        fetch(f"{server[0]}/set", tmp_path / "set", "sha256:" + "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_what_has_another_length_is_not_taken(server, tmp_path):
    with pytest.raises(DownloadError, match="1,048,575 were to come"):
        fetch(f"{server[0]}/set", tmp_path / "set", SHA, length=len(CONTENT) - 1)
    assert fetch(f"{server[0]}/set", tmp_path / "set", SHA, length=len(CONTENT)).read_bytes() == CONTENT


def test_only_https_is_fetched_from_elsewhere(tmp_path):
    with pytest.raises(DownloadError, match="https"):
        fetch("http://example.org/set", tmp_path / "set", SHA)


def test_no_network_is_said_plainly(server, tmp_path):
    with pytest.raises(DownloadError, match="404"):
        fetch(f"{server[0]}/missing", tmp_path / "set")
    with pytest.raises(DownloadError, match="--data"):
        fetch("http://127.0.0.1:9/set", tmp_path / "set")


def test_sets_are_found_and_read_compressed_or_not(tmp_path):
    text = b"+1 1:1 3:0.5\n-1 2:2\n"
    (tmp_path / "a9a").write_bytes(text)
    (tmp_path / "ijcnn1.bz2").write_bytes(bz2.compress(text))
    for name, width in (("a9a", 123), ("ijcnn1", 22)):
        X, y = load(name, tmp_path)
        assert X.shape == (2, width)
        assert X.toarray()[:, :3].tolist() == [[1.0, 0.0, 0.5], [0.0, 2.0, 0.0]]
        assert y.tolist() == [1.0, -1.0]
    assert not is_at_hand("real-sim", tmp_path)
    with pytest.raises(InputError, match="onsketch data get real-sim"):
        load("real-sim", tmp_path)
    with pytest.raises(OptionError, match="Did you mean 'a9a'"):
        entry("a9")


def test_classes_become_signs(tmp_path):
    (tmp_path / "letter.scale").write_text("1 1:1\n13 1:1\n14 1:1\n")
    assert load("letter", tmp_path)[1].tolist() == [1.0, 1.0, -1.0]
    (tmp_path / "mlbench_Ionosphere.csv").write_text("V1,Class\n" + ",".join(["0.5"] * 34) + ',"good"\n')
    X, y = load("ionosphere", tmp_path)
    assert (X.shape, y.tolist()) == ((1, 34), [1.0])


def test_images_are_read(tmp_path):
    pixels = np.arange(2 * 784, dtype=np.uint8)
    head = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (2, 28, 28))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + pixels.tobytes()))
    head = bytes([0, 0, 8, 1]) + (2).to_bytes(4, "big")
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(head + bytes([3, 7])))
    X, y = load("mnist", tmp_path)
    assert X.shape == (2, 784)
    assert (X[1, 1] * 255).round() == pixels[785]
    assert y.tolist() == [1.0, -1.0]


def test_the_stand_in_is_half_noise_and_learnable_and_its_parts_are_disjoint():
    rng = np.random.default_rng(0)
    labels = rng.choice([4, 9], size=8000).astype(np.uint8)
    images = rng.integers(0, 256, size=(8000, 20)).astype(np.uint8)
    images[:, :5] = np.where(labels[:, None] == 4, 200, 50) + images[:, :5] // 8
    X, y = gisette_like(images, labels, features=100)
    correlations = np.abs(np.corrcoef(X.T, y)[-1, :-1])
    assert 10 <= (correlations > 0.1).sum() <= 50
    test_X, _ = gisette_like(images, labels, test=True, features=100)
    assert test_X.shape == (1000, 100)
    assert not {row.tobytes() for row in X} & {row.tobytes() for row in test_X}


def test_every_entry_is_whole():
    for name, known in CATALOGUE.items():
        assert known.rows > 0
        assert known.files or known.form == "made", name
        for file in known.files:
            assert file.address.startswith("https://")
            assert file.checksum is None or re.fullmatch("sha256:[0-9a-f]{64}", file.checksum)
            assert known.digest is None or re.fullmatch("[0-9a-f]{64}", known.digest)
            assert file.content is None or re.fullmatch("[0-9a-f]{64}", file.content)
            assert file.checksum or known.form != "images"


def test_the_program_lists_and_describes(tmp_path):
    listed = run("data", "list", "--data", str(tmp_path))
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in CATALOGUE)
    output = run("data", "info", "a9a").stdout
    assert "123 features" in output
    assert "stored locally: no" in output
    assert run("data", "info", "nonsense").exit_code == 1


def test_the_program_fetches(server, tmp_path, monkeypatch):
    address, asked = server
    file = File(f"{address}/somewhere/set", checksum=SHA)
    monkeypatch.setitem(CATALOGUE, "a9a", type(entry("a9a"))("a9a", 1, 1, "libsvm", (file,), ()))
    for _ in range(2):
        result = run("data", "get", "a9a", "--to", str(tmp_path))
        assert result.exit_code == 0
    assert "stored locally" in result.stdout
    assert asked == [0]
    assert found(file, tmp_path).read_bytes() == CONTENT
    refused = run("data", "get", "gisette-like")
    assert refused.exit_code == 1
    assert "mnist" in refused.stderr


def test_a_checksum_that_nobody_publishes_is_noted_at_the_first_download(server, tmp_path, monkeypatch):
    file = File(f"{server[0]}/somewhere/set")
    monkeypatch.setitem(CATALOGUE, "a9a", type(entry("a9a"))("a9a", 1, 1, "libsvm", (file,), ()))
    assert run("data", "get", "a9a", "--to", str(tmp_path)).exit_code == 0
    assert (tmp_path / "set.sha256").read_text().strip() == SHA
    assert "as it was first fetched" in run("data", "info", "a9a", "--data", str(tmp_path)).stdout
    assert run("data", "get", "a9a", "--to", str(tmp_path), "--again").exit_code == 0
    (tmp_path / "set").write_bytes(b"other")
    assert "changed since" in run("data", "info", "a9a", "--data", str(tmp_path)).stdout
    (tmp_path / "set.sha256").write_text("sha256:" + "0" * 64 + "\n")
    refused = run("data", "get", "a9a", "--to", str(tmp_path), "--again")
    assert refused.exit_code == 1
    assert "checksum" in refused.stderr


@pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is missing; set ONSKETCH_DATA")
def test_contents_of_the_copies_at_hand_are_those_listed():
    compared = 0
    for known in CATALOGUE.values():
        for file in known.files:
            path = found(file, DATA)
            if path is not None and file.content is not None:
                assert content_digest(path) == file.content, known.name
                compared += 1
        if known.digest is not None and known.rows < 20_000 and all(found(file, DATA) for file in known.files):
            assert rows_digest(*load(known.name, DATA)) == known.digest, known.name
            compared += 1
    assert compared > 0


@pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is missing; set ONSKETCH_DATA")
@pytest.mark.parametrize("name", ["heart", "a9a", "farm-ads", "ionosphere", "mushrooms", "letter"])
def test_real_sets_have_the_size_they_should(name):
    X, y = load(name, DATA)
    assert X.shape == (entry(name).rows, entry(name).features)
    assert set(np.unique(y)) == {-1.0, 1.0}
