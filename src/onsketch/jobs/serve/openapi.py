"""Description of the API in OpenAPI format."""

from __future__ import annotations

from typing import Any

import onsketch
from onsketch.jobs.serve.requests import schemas

_ANSWER = {
    "type": "object",
    "properties": {
        "prediction": {"description": "The label or number predicted; before learning, for rows that are learned."},
        "label": {"description": "The likelier label."},
        "probability": {"type": "number", "description": "Of the positive label, or of the class predicted."},
        "probabilities": {"type": "object", "additionalProperties": {"type": "number"}},
        "margin": {"type": "number"},
        "margins": {"type": "object", "additionalProperties": {"type": "number"}},
        "contributions": {"type": "object", "description": "With ?explain=1: what each feature adds to the margin."},
        "ignored": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Features of the row that the model's table does not have.",
        },
        "id": {},
        "tag": {"type": "string"},
        "error": {"type": "string", "description": "Why this row was not learned."},
    },
}
_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_STATUS = {
    "type": "object",
    "properties": {"rows": {"type": "integer", "description": "Learned since the model began."}},
}

_REASONS = {
    "400": "The body is not of its kind.",
    "401": "A token is needed.",
    "403": "The token may not do this.",
    "413": "The body is too large.",
    "422": "A row cannot be used; nothing was learned.",
    "500": "The service is broken; restart it.",
    "503": "The queue is full or the service is stopping; see Retry-After.",
    "507": "The disk is full: nothing was learned; predictions go on.",
}


def description() -> dict[str, Any]:
    """The whole description."""
    paths = {
        "/predict": {"post": _rows("Predict rows; those with an id wait for their labels.", ("400", "413", "422"))},
        "/learn": {"post": _rows("Learn rows; answers with predictions made before.", tuple(_REASONS))},
        "/label": {
            "post": _operation(
                "Give the label of a row that was predicted under an id.", _json(_one_or_more("Label")), _answer_list()
            )
        },
        "/promote": {"post": _operation("Let the second model answer from now on.", None, _ref("Status"))},
        "/status": {"get": _operation("How it goes.", None, _ref("Status"), ())},
        "/model": {"get": _binary("The current model file, which the program takes.")},
        "/healthz": {"get": _operation("Whether the process is well.", None, {"type": "object"}, ("500",))},
        "/readyz": {"get": _operation("Whether rows are taken.", None, {"type": "object"}, ("503",))},
        "/metrics": {"get": _text("Figures for Prometheus.")},
        "/": {"get": _text("The live page.")},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "onsketch",
            "version": onsketch.__version__,
            "description": "A model that learns while it answers.",
        },
        "paths": paths,
        "components": {
            "schemas": {**schemas(), "Answer": _ANSWER, "Error": _ERROR, "Status": _STATUS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _one_or_more(name: str) -> dict[str, Any]:
    return {"anyOf": [_ref(name), {"type": "array", "items": _ref(name)}]}


def _answer_list() -> dict[str, Any]:
    return _one_or_more("Answer")


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _rows(words: str, errors: tuple[str, ...]) -> dict[str, Any]:
    lines = {"schema": {"type": "string"}}
    body = {**_json(_one_or_more("Row")), "application/x-ndjson": lines, "text/x-vw": lines, "text/x-libsvm": lines}
    found = _operation(words, body, _answer_list(), errors)
    found["parameters"] = [
        {"name": "format", "in": "query", "schema": {"enum": ["json", "ndjson", "vw", "libsvm"]}},
        {"name": "explain", "in": "query", "schema": {"enum": ["0", "1"]}},
    ]
    return found


def _operation(
    words: str, body: dict[str, Any] | None, answer: dict[str, Any], errors: tuple[str, ...] = tuple(_REASONS)
) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": _json(answer)}}
    for status in errors:
        responses[status] = {"description": _REASONS[status], "content": _json(_ref("Error"))}
    found: dict[str, Any] = {"summary": words, "responses": responses}
    if body is not None:
        found["requestBody"] = {"required": True, "content": body}
    return found


def _binary(words: str) -> dict[str, Any]:
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"summary": words, "responses": {"200": {"description": "Done.", "content": content}}}


def _text(words: str) -> dict[str, Any]:
    return {"summary": words, "responses": {"200": {"description": "Done.", "content": {"text/plain": {}}}}}
