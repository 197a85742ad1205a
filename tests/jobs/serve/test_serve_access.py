"""Who gets in: loopback by default, tokens elsewhere, and no page of another site."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from pathlib import Path

import pytest

for needed in ("starlette", "uvicorn", "msgspec", "prometheus_client", "httpx", "httptools"):
    pytest.importorskip(needed, reason="the service needs the extra 'serve'")

import httpx

from checkout import ROOT
from onsketch.core.errors import OptionError
from onsketch.jobs.serve.access import Access, read_tokens
from onsketch.jobs.serve.run import Wish
from program import check_message, run
from serving import Process, objects, served

READ, LEARN = "read-" + "r" * 16, "learn-" + "l" * 16
PAIRS = ((("read"), READ.encode()), ("learn", LEARN.encode()))


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# who may what\nread {READ}\nlearn {LEARN}\n")
    path.chmod(0o600)
    return path


def test_another_address_needs_tokens_or_an_explicit_word(tokens, tmp_path):
    check_message(run("serve", "--host", "0.0.0.0", "--port", "0"), 1, "other machines could reach this service")
    with pytest.raises(OptionError, match="knows no tokens"):
        Wish(host="0.0.0.0", tokens=tokens, vw_port=0).check()
    Wish(host="0.0.0.0", tokens=tokens).check()
    Wish(host="0.0.0.0", insecure=True).check()
    Wish(host="::1").check()


def test_tokens_are_for_reading_or_for_learning(tokens):
    row = objects(1)[0]
    with served(tokens=tokens) as (client, _):
        assert client.get("/status").status_code == 401
        assert "www-authenticate" in client.get("/").headers
        assert client.post("/learn", json=row).status_code == 401
        assert client.get("/status", headers={"authorization": "Bearer wrong"}).status_code == 401
        reading, learning = {"authorization": f"Bearer {READ}"}, {"authorization": f"Bearer {LEARN}"}
        assert client.get("/status", headers=reading).status_code == 200
        assert client.post("/predict", json={"features": {}}, headers=reading).status_code == 200
        assert client.post("/learn", json=row, headers=reading).status_code == 403
        assert client.post("/promote", headers=reading).status_code == 403
        assert client.post("/learn", json=row, headers=learning).status_code == 200
        assert client.get("/status", headers=learning).json()["rows"] == 1
        basic = base64.b64encode(b"me:" + READ.encode()).decode()
        assert client.get("/", headers={"authorization": f"Basic {basic}"}).status_code == 200
        assert client.get("/", headers={"authorization": "Basic ???"}).status_code == 401
        assert client.get("/healthz").status_code == 200  # for whoever watches the process


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("read short\n", "16 characters"),
        ("write " + READ, "line 1"),
        ("# nothing\n", "no token"),
        ("read\n", "expected"),
    ],
)
def test_a_bad_file_of_tokens_is_refused(tmp_path, text, words):
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(OptionError, match=words):
        read_tokens(path)


def test_the_container_s_user_can_read_its_token_file(tokens, monkeypatch):
    image = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    user = int(re.search(r"useradd .*--uid (\d+)", image)[1])
    owner, mode = re.search(r"install -o (\d+) -m (\d+) tokens", image).groups()
    assert int(owner) == user
    tokens.chmod(int(mode, 8))
    assert read_tokens(tokens)
    monkeypatch.setattr(Path, "read_text", _refused)
    with pytest.raises(OptionError, match=rf"user {os.geteuid()} .* cannot read it; chown"):
        read_tokens(tokens)


def _refused(*arguments):
    raise PermissionError


def test_tokens_that_everyone_can_read_are_refused(tokens):
    tokens.chmod(0o644)
    with pytest.raises(OptionError, match="chmod 600"):
        read_tokens(tokens)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({b"host": b"127.0.0.1:8000"}, None),
        ({b"host": b"localhost:8000", b"origin": b"http://localhost:8000"}, None),
        ({b"host": b"[::1]:8000"}, None),
        ({b"host": b"evil.example:8000"}, 403),
        ({b"host": b"localhost:8000", b"origin": b"https://evil.example"}, 403),
        ({b"host": b"localhost:8000", b"origin": b"null"}, 403),
        ({}, 403),
    ],
)
def test_a_page_of_another_site_gets_nothing(headers, status):
    refusal = Access().refusal("learn", headers)
    assert (None if refusal is None else refusal[0]) == status


@pytest.mark.slow
def test_tls_by_file(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
            check=True, capture_output=True,
        )  # fmt: skip
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no openssl to make a certificate with")
    service = Process("--learner", "adagrad", "--tls-cert", str(cert), "--tls-key", str(key))
    try:
        import ssl

        context = ssl.create_default_context(cafile=str(cert))
        assert httpx.get(service.url + "/healthz", verify=context).json() == {"ok": True}
    finally:
        assert service.terminate() == 0
