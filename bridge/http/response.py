"""What the HTTP side answers with, and what serves a path."""

import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import NamedTuple, TypeAlias

import h11


class Response(NamedTuple):
    """One HTTP answer; Content-Length and Connection are added when it is sent."""

    status: int
    reason: str
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


ASKED_BY: ContextVar[str] = ContextVar("asked_by", default="")
"""The address of the client whose request is served."""

Serve: TypeAlias = Callable[[h11.Request], Awaitable[Response]]
"""Answers the requests for one path; what it raises becomes a 500 and a line of the log."""


def json_response(status: int, reason: str, content: object) -> Response:
    """The content as JSON."""
    return Response(status, reason, "application/json; charset=utf-8", json.dumps(content).encode())
