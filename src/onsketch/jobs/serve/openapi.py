"""Description of the API in OpenAPI 3.1, complete enough for generators of clients.

The schemas of bodies and answers are those of msgspec records. A test converts real answers to them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

import onsketch
from onsketch.jobs.serve.requests import Label, Row

Task = Literal["binary", "multiclass", "regression"]


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Prediction for a row, made before it is learned; or the reason why it was not learned."""

    prediction: str | float | None = None
    """The class or number predicted."""
    probability: float | None = None
    """Of the positive class, or of the predicted one of many."""
    probabilities: dict[str, float] | None = None
    margin: float | None = None
    margins: dict[str, float] | None = None
    contributions: Contributions | None = None
    """With ``?explain=1``."""
    predicted: Answer | None = None
    """After ``/label``: the answer that was given under this id."""
    id: str | int | None = None
    tag: str | None = None
    ignored: list[str] | None = None
    """Names that the model's table does not have; they were left out."""
    error: str | None = None


class Contributions(msgspec.Struct, forbid_unknown_fields=True):
    """Share of each feature in a margin, by name."""

    features: dict[str, float]
    intercept: float | None = None
    left_out: bool = False
    """True if a share is what the margin loses without the feature, and the shares do not add up."""


class Error(msgspec.Struct, forbid_unknown_fields=True):
    """Reason for which a request was refused."""

    error: str


class Average(msgspec.Struct, forbid_unknown_fields=True):
    """Mean loss, and share of mistakes if labels are classes; of a window, the number of its rows too."""

    loss: float | None
    error: float | None
    rows: int | None = None


class Figures(msgspec.Struct, forbid_unknown_fields=True):
    """Quality since the service started."""

    rows: int
    loss: float
    error: float | None
    recent: Average
    baseline: Average
    """Of the best constant prediction."""
    rows_a_second: float
    drift: float
    """Standard errors by which the recent loss exceeds the long-run loss."""


class Labels(msgspec.Struct, forbid_unknown_fields=True):
    """Rows that wait for labels, and labels so far by outcome."""

    waiting: int
    labelled: int
    expired: int
    evicted: int
    unknown: int
    repeated: int
    late: int


class Shadow(msgspec.Struct, forbid_unknown_fields=True):
    """The second model."""

    rows: int
    average: Average
    since_start: Figures


class Stream(msgspec.Struct, forbid_unknown_fields=True):
    """The live stream that is consumed."""

    address: str
    bad_messages: int
    problem: str | None


class Status(msgspec.Struct, forbid_unknown_fields=True):
    """State of the service."""

    rows: int
    """Rows learned since the model began."""
    version: str
    learner: str
    task: Task
    ready: bool
    average: Average
    since_start: Figures
    queue: int
    durability: str
    disk_full: bool
    failure: str | None
    unsaved_rows: int
    labels: Labels
    seconds: float
    features: int
    classes: list[str] | None = None
    shadow: Shadow | None = None
    position: dict[str, Any] | None = None
    stream: Stream | None = None
    latency: dict[str, dict[str, float]] | None = None


class Health(msgspec.Struct, forbid_unknown_fields=True):
    """Answer of ``/healthz``: the process is well."""

    ok: bool


class Readiness(msgspec.Struct, forbid_unknown_fields=True):
    """Answer of ``/readyz``: rows are taken."""

    ready: bool


_REASONS = {
    "400": "The body is not of its kind.",
    "401": "A token is needed.",
    "403": "The token may not do this.",
    "404": "No row waits under this id.",
    "409": "The label of this id has come already.",
    "410": "The row of this id is no longer kept.",
    "413": "The body is too large.",
    "422": "A row cannot be used; nothing was learned.",
    "500": "The service is broken; restart it.",
    "503": "The queue is full or the service is stopping; see Retry-After.",
    "507": "The disk is full: nothing was learned; predictions continue.",
}
_ACCESS = ("401", "403", "500")
_BODY = ("400", "413", "422", "503")


def description() -> dict[str, Any]:
    """Return the whole description."""
    paths = {
        "/predict": {"post": _rows("predict", "Predict rows; those with an id wait for their labels.", _BODY)},
        "/learn": {"post": _rows("learn", "Learn rows; answers with predictions made before.", (*_BODY, "507"))},
        "/label": {
            "post": _operation(
                "label", "Give the label of a row that was predicted under an id.", _json(_one_or_more("Answer")),
                (*_BODY, "404", "409", "410", "507"), _json(_one_or_more("Label")),
            )
        },
        "/promote": {
            "post": _operation("promote", "Let the second model answer from now on.", _json(_ref("Status")),
                               ("422", "503", "507"))
        },
        "/status": {"get": _operation("status", "State of the service.", _json(_ref("Status")))},
        "/model": {
            "get": _operation("model", "The current model file.", _text("application/octet-stream", "binary"))
        },
        "/healthz": {"get": _health("healthz", "Health", "500")},
        "/readyz": {"get": _health("readyz", "Readiness", "503")},
        "/metrics": {"get": _operation("metrics", "Figures for Prometheus.", _text("text/plain"))},
        "/openapi.json": {"get": _operation("openapi", "This description.", _json({"type": "object"}))},
        "/events": {"get": _operation("events", "Figures of the live page.", _text("text/event-stream"), ("503",))},
        "/": {"get": _operation("page", "The live page.", _text("text/html"))},
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "onsketch",
            "version": onsketch.__version__,
            "description": "A model that learns while it answers.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _schemas() -> dict[str, Any]:
    """Return the JSON Schema of the records; lists of features hold numbers."""
    records = (Row, Label, Answer, Error, Status, Health, Readiness)
    _, found = msgspec.json.schema_components(records, ref_template="#/components/schemas/{name}")
    for kind in found["Row"]["properties"]["features"]["anyOf"]:
        if kind.get("type") == "array":
            kind["items"] = {"type": "number"}
    return dict(found)


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _one_or_more(name: str) -> dict[str, Any]:
    return {"anyOf": [_ref(name), {"type": "array", "items": _ref(name)}]}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _text(kind: str, form: str | None = None) -> dict[str, Any]:
    return {kind: {"schema": {"type": "string", **({"format": form} if form else {})}}}


def _rows(name: str, words: str, errors: tuple[str, ...]) -> dict[str, Any]:
    found = _operation(name, words, _json(_one_or_more("Answer")), errors, _json(_one_or_more("Row")))
    found["description"] = (  # not as content types: generators of clients leave out requests with unknown ones
        "Bodies may also be NDJSON (application/x-ndjson), lines of Vowpal Wabbit (text/x-vw or ?format=vw) or of "
        "LIBSVM (text/x-libsvm or ?format=libsvm). With Accept: text/plain the answer to lines is a margin a line."
    )
    found["parameters"] = [
        {"name": "format", "in": "query", "schema": {"type": "string", "enum": ["json", "ndjson", "vw", "libsvm"]}},
        {"name": "explain", "in": "query", "schema": {"type": "string", "enum": ["0", "1"]}},
    ]
    return found


def _operation(
    name: str, words: str, answer: dict[str, Any], errors: tuple[str, ...] = (), body: dict[str, Any] | None = None
) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": answer}}
    for status in sorted({*errors, *_ACCESS}):
        responses[status] = {"description": _REASONS[status], "content": _json(_ref("Error"))}
    found: dict[str, Any] = {"operationId": name, "summary": words, "responses": responses}
    return found if body is None else {**found, "requestBody": {"required": True, "content": body}}


def _health(name: str, record: str, unwell: str) -> dict[str, Any]:
    found = _operation(name, f"Answer of /{name}.", _json(_ref(record)))
    well = found["responses"]["200"]
    return {**found, "responses": {"200": well, unwell: {**well, "description": "Not well."}}}
