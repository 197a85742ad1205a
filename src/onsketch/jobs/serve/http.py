"""The HTTP service: routes, access, limits, and answers in the form of the request."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from onsketch.core.errors import InputError, OnsketchError
from onsketch.jobs.predictions import lines
from onsketch.jobs.serve.access import LEARN, READ, Access
from onsketch.jobs.serve.learn_requests import Broken, Busy, DiskFull, Stopping
from onsketch.jobs.serve.metrics import Metrics
from onsketch.jobs.serve.openapi import description
from onsketch.jobs.serve.page import PAGE, figures
from onsketch.jobs.serve.requests import Bad, labels_of_body, rows_of_body
from onsketch.jobs.serve.rows import FORMATS as LINES
from onsketch.jobs.serve.service import Asked, Service

_JSON = msgspec.json.Encoder()
_LOGGER = logging.getLogger(__name__)
_EVERY = 1.0
"""Seconds between events of the live page."""

Endpoint = Callable[[Request], Awaitable[Response]]


class TooLarge(OnsketchError):
    """A body beyond the limit."""


_ANSWERS: dict[type, tuple[int, Mapping[str, str]]] = {
    Bad: (400, {}),
    TooLarge: (413, {"connection": "close"}),
    InputError: (422, {}),
    Broken: (500, {"retry-after": "5"}),
    Busy: (503, {"retry-after": "1"}),
    Stopping: (503, {"retry-after": "5"}),
    DiskFull: (507, {"retry-after": "5"}),
}
"""Status and headers of the answers to errors. All others are logged, and answered with 500 and no details."""

_KINDS = {
    "application/x-ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/ndjson": "ndjson",
    "text/x-vw": "vw",
    "text/plain": "vw",
    "text/x-libsvm": "libsvm",
}
"""Content types of bodies that are not JSON."""

_HELD = "onsketch.bytes"
"""Key in the scope of a request: the bytes of its body that are held."""


class HttpApi:
    """The routes of a service."""

    def __init__(self, service: Service, access: Access) -> None:
        self.service, self.access = service, access
        self.metrics = Metrics(service)
        self.stopping = False
        self._bodies = 0
        """Bytes of all bodies that are held."""
        self._listeners = 0
        self._event = b""
        self._event_number, self._event_time = 0, -math.inf
        self._inside: Any = None

    def app(self) -> Router:
        """Return the application for uvicorn."""
        routes = [
            self._route("/predict", self.predict, READ, "POST"),
            self._route("/learn", self.learn, LEARN, "POST"),
            self._route("/label", self.label, LEARN, "POST"),
            self._route("/promote", self.promote, LEARN, "POST"),
            self._route("/status", self.status, READ),
            self._route("/model", self.model, READ),
            self._route("/metrics", self.prometheus, READ),
            self._route("/openapi.json", self.openapi, READ),
            self._route("/events", self.events, READ),
            self._route("/", self.page, READ),
            self._route("/healthz", self.healthz, None),
            self._route("/readyz", self.readyz, None),
        ]
        return Router(routes)

    def _route(self, path: str, endpoint: Endpoint, right: str | None, method: str = "GET") -> Route:
        """An endpoint with what all have in common: access, errors as JSON, figures."""

        async def guarded(request: Request) -> Response:
            began = time.perf_counter()
            response = await self._answer(request, endpoint, right)
            self.metrics.observe(path, response.status_code, time.perf_counter() - began)
            return response

        return Route(path, guarded, methods=[method])

    async def _answer(self, request: Request, endpoint: Endpoint, right: str | None) -> Response:
        if right is not None:
            refusal = self.access.refusal(right, dict(request.scope["headers"]))
            if refusal is not None:
                status, why = refusal
                extra = {"www-authenticate": 'Bearer, Basic realm="onsketch"'} if status == 401 else None
                return _error(status, why, extra)
        try:
            return await endpoint(request)
        except Exception as error:
            answer = next((_ANSWERS[kind] for kind in type(error).__mro__ if kind in _ANSWERS), None)
            if answer is not None:
                return _error(answer[0], str(error), answer[1])
            _LOGGER.exception("%s %s failed", request.method, request.url.path)
            return _error(500, f"the service failed at this request ({type(error).__name__})")  # no details
        finally:
            self._bodies -= request.scope.get(_HELD, 0)

    async def _body(self, request: Request) -> bytes:
        most, scope = self.service.limits.body, request.scope
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > most:
            raise TooLarge(f"the body has {int(length):,} bytes; the limit is {most:,}")
        parts = []
        async for part in request.stream():
            self._bodies += len(part)
            scope[_HELD] = scope.get(_HELD, 0) + len(part)
            if scope[_HELD] > most:
                raise TooLarge(f"the body has more than {most:,} bytes")
            if self._bodies > self.service.limits.bodies:
                raise Busy("the bodies of all requests together are too large; try again in a second")
            parts.append(part)
        return b"".join(parts)

    # Rows -------------------------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        """POST /predict."""
        form, asked, single = await self._asked(request)
        if _wants_text(request, form):
            return _text(self.service.engine.predict(asked.rows), asked)
        explain = request.query_params.get("explain", "") in ("1", "true", "yes")
        return _formed(self.service.predict(asked, explain), single, form)

    async def learn(self, request: Request) -> Response:
        """POST /learn."""
        form, asked, single = await self._asked(request)
        if _wants_text(request, form):
            return _text((await self.service.outcome(asked)).margins, asked)
        found = await self.service.learn(asked)
        return _formed(found, single, form, 422 if all("error" in answer for answer in found) else 200)

    async def _asked(self, request: Request) -> tuple[str, Asked, bool]:
        """Return the form of a body, its rows, and True if it is one row and not a list."""
        body, form = await self._body(request), _form(request)
        if form in LINES:
            return form, self.service.asked_lines(body, form), False
        rows, single = rows_of_body(body, form == "ndjson")
        return form, self.service.asked(rows), single

    async def label(self, request: Request) -> Response:
        """POST /label."""
        labels, single = labels_of_body(await self._body(request))
        found = await self.service.label(labels)
        if single:
            return _json(found[0][1], found[0][0])
        status = found[0][0] if found and all(status != 200 for status, _ in found) else 200
        return _json([answer for _, answer in found], status)

    async def promote(self, request: Request) -> Response:
        """POST /promote."""
        return _json(await self.service.promote())

    # The service ------------------------------------------------------------------------------------------

    async def status(self, request: Request) -> Response:
        """GET /status."""
        return _json({**self.service.status(), "latency": self._latency()})

    def _latency(self) -> dict[str, Any]:
        return {path.strip("/"): self.metrics.quantiles(path) for path in ("/predict", "/learn")}

    async def model(self, request: Request) -> Response:
        """GET /model: the current model file.

        It is sent from an unlinked file, so that no file remains after an error.
        """
        with tempfile.TemporaryDirectory() as folder:  # which other users cannot read
            path = Path(folder) / "onsketch.model"
            await asyncio.to_thread(self.service.engine.save, path)
            file = path.open("rb")
        headers = {
            "x-onsketch-rows": str(self.service.engine.model.rows),
            "content-length": str(os.fstat(file.fileno()).st_size),
            "content-disposition": 'attachment; filename="onsketch.model"',
        }

        def parts() -> Iterator[bytes]:
            with file:
                yield from iter(lambda: file.read(1 << 18), b"")

        return StreamingResponse(parts(), media_type="application/octet-stream", headers=headers)

    async def prometheus(self, request: Request) -> Response:
        """GET /metrics."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """GET /openapi.json."""
        return _json(description())

    async def healthz(self, request: Request) -> Response:
        """GET /healthz: whether the process is alive and not broken."""
        broken = self.service.engine.failure is not None
        return _json({"ok": not broken}, 500 if broken else 200)

    async def readyz(self, request: Request) -> Response:
        """GET /readyz: whether rows are taken."""
        ready = self.service.engine.ready and not self.service.engine.disk_full
        return _json({"ready": ready}, 200 if ready else 503)

    async def page(self, request: Request) -> Response:
        """GET /: the live page."""
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
        return HTMLResponse(PAGE, headers={"content-security-policy": policy, "cache-control": "no-store"})

    async def events(self, request: Request) -> Response:
        """GET /events: figures for the live page, as server-sent events."""
        if self._listeners >= self.service.limits.listeners:
            raise Busy(f"{self._listeners} live pages are open, which is the limit")

        async def flow() -> AsyncIterator[bytes]:
            self._listeners += 1
            try:
                while not self.stopping:
                    yield self._newest_event()
                    await asyncio.sleep(_EVERY)
            finally:
                self._listeners -= 1

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(flow(), media_type="text/event-stream", headers=headers)

    def _newest_event(self) -> bytes:
        """The figures of this second, which all listeners share."""
        now = time.monotonic()
        if now - self._event_time >= 0.9 * _EVERY:
            found = figures(self.service, self._event_number)
            self._inside = found.pop("inside", self._inside)
            state = {**self.service.status(), "latency": self._latency(), **found, "inside": self._inside}
            self._event = b"data: " + _JSON.encode(state) + b"\n\n"
            self._event_number, self._event_time = self._event_number + 1, now
        return self._event


def _form(request: Request) -> str:
    """Return the form of a request's body: json, ndjson, vw or libsvm."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    found = request.query_params.get("format") or _KINDS.get(kind, "json")
    if found not in ("json", "ndjson", *LINES):
        raise Bad("format: expected json, ndjson, vw or libsvm.")
    return found


def _wants_text(request: Request, form: str) -> bool:
    return form in LINES and request.headers.get("accept", "").startswith("text/plain")


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_JSON.encode(content), status, headers, "application/json")


def _error(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    return _json({"error": why}, status, headers)


def _formed(found: list[dict[str, Any]], single: bool, form: str, status: int = 200) -> Response:
    if form == "ndjson":
        return Response(_JSON.encode_lines(found), status, media_type="application/x-ndjson")
    return _json(found[0] if single else found, status)


def _text(margins: Any, asked: Asked) -> Response:
    """A line for each row, as ``onsketch predict`` writes them."""
    if margins.ndim != 1:
        raise InputError("lines as answers are for two labels and for numbers; ask for JSON.")
    tags = [note.get("tag", "") for note in asked.notes]
    return Response(lines(margins, tags if any(tags) else None), media_type="text/plain")
