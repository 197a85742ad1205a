"""The live page in a real browser: it draws what the service learns, without a network and without an error."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
import urllib.request

import pytest

for needed in ("starlette", "uvicorn", "msgspec", "prometheus_client", "httpx", "httptools"):
    pytest.importorskip(needed, reason="the service needs the extra 'serve'")

from onsketch.learners.auto.state import EXPERT_NAMES
from serving import objects, served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def test_the_live_page_names_the_experts():
    with served(method="auto") as (client, _):
        client.post("/learn", json=objects(50))
        with client.stream("GET", "/events") as stream:
            first = next(line for line in stream.iter_lines() if line.startswith("data: "))
    assert [name for name, _ in json.loads(first[6:])["inside"]["experts"]] == list(EXPERT_NAMES)


def test_events_carry_what_the_page_draws():
    with served(method="oja-son") as (client, _):
        client.post("/learn", json=objects(50))
        with client.stream("GET", "/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            first = next(line for line in stream.iter_lines() if line.startswith("data: "))
        state = json.loads(first[6:])
        assert state["rows"] == 50
        assert len(state["curve"]) >= 1
        assert state["inside"]["weights"][0][0] in {"a", "n^b", "n^c", "colour:red", "colour:green", "colour:blue"}
        assert state["inside"]["spectrum"]
        page = client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"https?://(?!www\.w3\.org)", page.text)  # nothing is fetched from elsewhere


class Browser:
    """Chromium's debugging protocol, as much of it as this test needs."""

    def __init__(self, folder) -> None:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"]
        self.process = subprocess.Popen(
            [CHROMIUM, *options, f"--user-data-dir={folder}", "about:blank"],
            stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
        until = time.monotonic() + 60
        while not (folder / "DevToolsActivePort").exists():
            assert time.monotonic() < until, "Chromium did not start"
            time.sleep(0.1)
        port = int((folder / "DevToolsActivePort").read_text().split()[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            path = next(page for page in json.load(answer) if page["type"] == "page")["webSocketDebuggerUrl"]
        path = path.partition(f":{port}")[2]
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.file = self.socket.makefile("rb")
        while self.file.readline().strip():
            pass
        self.number, self.events = 0, []

    def ask(self, method, **parameters):
        self.number += 1
        body = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        size = bytes([len(body)]) if len(body) < 126 else b"~" + struct.pack(">H", len(body))
        self.socket.sendall(b"\x81" + bytes([size[0] | 0x80]) + size[1:] + b"\0\0\0\0" + body)
        while True:
            message = self._message()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def _message(self):
        whole = b""
        while True:
            head = self.file.read(2)
            size = head[1] & 0x7F
            if size == 126:
                size = struct.unpack(">H", self.file.read(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.file.read(8))[0]
            whole += self.file.read(size)
            if head[0] & 0x80:
                return json.loads(whole)

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + 60
        while not (found := self.value(expression)):
            assert time.monotonic() < end, (expression, self.events[-3:])
            time.sleep(0.2)
        return found

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait(30)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to look with")
def test_the_page_draws_in_a_browser_light_and_dark_narrow_and_wide(tmp_path):
    with served(method="oja-son") as (client, running):
        client.post("/learn", json=objects(300))
        browser = Browser(tmp_path / "profile" if (tmp_path / "profile").mkdir() is None else None)
        try:
            browser.ask("Runtime.enable")
            browser.ask("Log.enable")
            browser.ask("Page.enable")
            for scheme, width in (("light", 1200), ("dark", 400)):
                media = [{"name": "prefers-color-scheme", "value": scheme}]
                browser.ask("Emulation.setEmulatedMedia", features=media)
                browser.ask(
                    "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
                )
                browser.ask("Page.navigate", url=f"http://127.0.0.1:{running.port}/")
                browser.until("document.body && document.body.dataset.rows === '300'")
                assert browser.value("document.querySelectorAll('#loss path').length") >= 3
                assert browser.value("document.querySelectorAll('#error path').length") >= 3
                assert browser.value("document.querySelectorAll('#spectrum rect').length") > 0
                assert browser.value("document.querySelectorAll('#weights tr').length") >= 4
                assert "oja-son, binary" in browser.value("document.getElementById('about').textContent")
                assert browser.value("document.documentElement.scrollWidth") <= width
                dark = browser.value("getComputedStyle(document.body).backgroundColor")
                assert (dark == "rgb(18, 21, 27)") == (scheme == "dark")
                if folder := os.environ.get("ONSKETCH_SCREENSHOTS"):
                    import base64

                    shot = browser.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
                    with open(f"{folder}/serve-{scheme}.png", "wb") as file:
                        file.write(base64.b64decode(shot))
            client.post("/learn", json=objects(10))
            browser.until("document.body.dataset.rows === '310'")
            browser.value("document.getElementById('axis').click()")
            assert browser.value("document.querySelector('#loss').textContent.includes(' s')")
            bad = [e for e in browser.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
                   and "favicon" not in json.dumps(e)]  # fmt: skip
            assert bad == []
        finally:
            browser.close()
