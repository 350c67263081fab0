"""The paths of the status page: its files as they are installed, and the answers that its script asks for."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from typing import Final

import h11

from bridge.http.response import Response, Serve
from bridge.http.status.query import BadQuery, Query, parse

Answer = Callable[[Query], Awaitable[object]]
"""What JSON a question has; BadQuery."""

_FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/page/views.js": ("views.js", "text/javascript; charset=utf-8"),
    "/page/records.js": ("records.js", "text/javascript; charset=utf-8"),
    "/page/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/page/style.css": ("style.css", "text/css; charset=utf-8"),
    "/page/uPlot.js": ("vendor/uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    "/page/uPlot.css": ("vendor/uPlot.min.css", "text/css; charset=utf-8"),
    "/page/LICENSE-uPlot.txt": ("vendor/LICENSE-uPlot.txt", "text/plain; charset=utf-8"),
}
_POLICY: Final = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:",
    "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'",
))  # fmt: skip
HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""Of every answer here: nothing runs but our own files, nothing is shown in others' pages, nothing is kept."""


def pages(answer: Answer) -> dict[str, Serve]:
    """What is served, by path."""
    return {**{path: partial(_file, *what) for path, what in _FILES.items()}, "/api/state": partial(_state, answer)}


async def _file(name: str, content_type: str, request: h11.Request) -> Response:
    return Response(200, "OK", content_type, _content(name), HEADERS)


_contents: dict[str, bytes] = {}


def _content(name: str) -> bytes:
    """Read once: some KB on the local disk."""
    if name not in _contents:
        _contents[name] = files("bridge.http.status").joinpath("page", name).read_bytes()
    return _contents[name]


async def _state(answer: Answer, request: h11.Request) -> Response:
    try:
        query = parse(request.target)
        if query.view == "records" and _is_of_another_site(request):
            raise BadQuery("records are read by this page alone, not by other sites")
        found = await answer(query)
    except BadQuery as error:
        return _json(400, "Bad Request", {"error": str(error)})
    return _json(200, "OK", found)


def _is_of_another_site(request: h11.Request) -> bool:
    """Whether a browser asks because of a page of someone else's, with the token that it has for this one.

    Such a page gets no answer to read. But each look at records is work, and a line of the audit log.
    """
    said = [value for name, value in request.headers if name == b"sec-fetch-site"]
    return any(value not in (b"same-origin", b"none") for value in said)


def _json(status: int, reason: str, content: object) -> Response:
    body = json.dumps(content, separators=(",", ":")).encode()
    return Response(status, reason, "application/json; charset=utf-8", body, HEADERS)
