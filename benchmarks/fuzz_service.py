"""Send odd and damaged requests to a service: it answers each, with finite numbers, and continues.

    python benchmarks/fuzz_service.py --requests 20000          # to each of four services

A status of 500 or more, an answer that is no JSON or holds a number that is not finite, a closed connection, or a
traceback in the log is a fault.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import httpx

from serving import Process

SERVICES = (
    ("--learner", "auto"),
    ("--learner", "auto", "--task", "multiclass"),
    ("--learner", "adagrad", "--task", "regression", "--shadow-learner", "rfd-son"),
    ("--learner", "rfd-son", "--task", "binary"),
)
ODD = (
    None, True, "", "x", 0, -0.0, 1e308, -1e308, 5e-324, 10**400, [], {}, [[]], {"a": {}}, "nan", "inf", "1e999",
    "\ud800", "\x00", [1, "a"], {"a": [1, 2]}, [{"b": 1}], "a=b", 2**63, -1, 0.5,
)  # fmt: skip
NAMES = ("a", "b", "a.b", "a=b", "", "\x00", "é", "a" * 3000, "n:x", "|", " ", "features", "label", "1")
LINES = ("1 | a:1 b:2", "1 'tag|ns a:1", "| a:nan", "1 2 3|", "-1 1e300| a:1e300", "1 1:1 2:2", "\n\n", "", "x",
         "1 |" + " a" * 20_000, "{}\n{}", '{"features":{}}\n' * 3, "Infinity")  # fmt: skip
PATHS = (
    "/learn", "/predict", "/label", "/explain", "/promote", "/learn?format=vw", "/predict?format=vw",
    "/predict?format=libsvm", "/predict?explain=3", "/predict?kind=probability",
)  # fmt: skip
PAGES = ("/status", "/metrics", "/openapi.json", "/", "/healthz", "/weights")


def a_value(rng: random.Random, depth: int = 0) -> Any:
    """Return a value of a feature: a number, a word, something odd, or objects and lists of them."""
    kind = rng.randrange(10)
    if kind < 4 or depth > 3:
        return rng.choice(ODD)
    if kind < 7:
        return rng.gauss(0.0, 1.0) if kind < 6 else rng.choice(["red", "blue", "x y z"])
    inner = [a_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(NAMES): value for value in inner} if kind < 9 else inner


def a_row(rng: random.Random) -> dict[str, Any]:
    """Return a row with some of the fields that rows may have."""
    features = {rng.choice(NAMES): a_value(rng) for _ in range(rng.randrange(5))}
    row = {"features": features if rng.random() < 0.8 else a_value(rng)}
    fields = {"label": (0, 1, *ODD), "weight": (1, 0, -1, 1e308, 1e-320, "x", 1e51),
              "id": (1, "i", "z" * 500, 2**70, 1.5), "tag": ("t", "a b\n", "x" * 1001, 3)}  # fmt: skip
    return row | {name: rng.choice(values) for name, values in fields.items() if rng.random() < 0.4}


def a_body(rng: random.Random) -> bytes:
    """Return the body of a request: rows, a value, or text; sometimes with damaged bytes."""
    kind = rng.randrange(8)
    if kind == 7:
        return rng.choice(LINES).encode()
    thing = a_row(rng) if kind < 3 else [a_row(rng) for _ in range(rng.randrange(5))] if kind < 5 else a_value(rng)
    body = bytearray(json.dumps(thing).encode())
    if kind == 6:
        for _ in range(rng.randrange(4)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    return bytes(body)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} in an answer")


def fault(answer: httpx.Response) -> str:
    """Return what is wrong with an answer."""
    if answer.status_code >= 500 and answer.status_code != 503:
        return f"status {answer.status_code}"
    try:
        if answer.headers.get("content-type", "").startswith(("application/json", "application/x-ndjson")):
            for line in answer.text.splitlines():
                json.loads(line, parse_constant=_refuse)
    except ValueError as error:
        return str(error)
    return ""


def sweep(arguments: tuple[str, ...], requests: int, seed: int = 0) -> list[str]:
    """Send so many requests to a service; return the faults."""
    rng, statuses, faults = random.Random(seed), Counter[int](), []
    service = Process(*arguments)
    with httpx.Client(base_url=service.url, timeout=30.0) as client:
        for k in range(requests):
            body = a_body(rng)
            path = rng.choice(PATHS if rng.random() < 0.8 else PAGES)
            kind = rng.choice(["application/json", "application/x-ndjson", "text/plain", "x"])
            try:
                if path in PAGES:
                    answer = client.get(path)
                else:
                    answer = client.post(path, content=body, headers={"content-type": kind})
            except httpx.HTTPError as error:
                faults.append(f"request {k}, {path}: {error!r}")
                continue
            statuses[answer.status_code] += 1
            if found := fault(answer):
                faults.append(f"request {k}, {path}: {found}: {body[:100]!r}")
    if service.terminate() or any("Traceback" in line for line in service.lines):
        faults.append(f"the service ended with {service.lines[-3:]}")
    print(f"{' '.join(arguments)}: {requests:,} requests, {dict(sorted(statuses.items()))}, {len(faults)} faults")
    return faults


def main() -> None:
    """Send requests to each service."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="to each service")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    faults = [found for arguments in SERVICES for found in sweep(arguments, given.requests, given.seed)]
    for found in faults[:50]:
        print(found)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
