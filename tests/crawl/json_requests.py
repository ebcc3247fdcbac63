"""Serializes requests as JSON: a module for ``SCHEDULER_SERIALIZER``."""

from __future__ import annotations

import json
from typing import Any


def dumps(request: dict[str, Any]) -> str:
    headers = {
        name.decode("latin-1"): [value.decode("latin-1") for value in values]
        for name, values in request["headers"].items()
    }
    body = request["body"].decode("latin-1")
    return json.dumps({**request, "headers": headers, "body": body})


def loads(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return {**found, "body": found["body"].encode("latin-1")}
