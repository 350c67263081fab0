"""The page's files and answers over HTTP: their size, their headers, and who gets them."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from bridge.config import HttpSettings
from bridge.http.server import HttpServer
from bridge.http.status import BadQuery, Query, pages
from bridge.telemetry.metrics import Metrics
from tests.support.sources import ROOT

FOLDER = ROOT / "bridge" / "http" / "status" / "page"
MOST_BYTES = 150_000
TOKEN = "YWxpY2U.s3cret-~+/=="  # noqa: S105
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


async def answer(query: Query) -> object:
    if query.view == "none":
        raise BadQuery("there is no such view")
    return {"asked": query._asdict()}


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[aiohttp.ClientSession, HttpServer]]:
    server = HttpServer(HttpSettings(listen="127.0.0.1:0", **settings), Metrics(), {}, pages=pages(answer))
    await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        try:
            yield session, server
        finally:
            await server.stop()


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def test_all_of_it_is_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) < MOST_BYTES


async def test_every_file_is_served_with_the_headers_that_keep_others_out() -> None:
    async with serving() as (session, _):
        paths = [
            "/",
            *(f"/page/{name}" for name in ("app.js", "views.js", "charts.js", "records.js", "style.css", "uPlot.js")),
        ]
        for path in [*paths, "/page/uPlot.css", "/page/LICENSE-uPlot.txt", "/api/state", "/api/state?view=none"]:
            async with session.get(path) as response:
                assert response.status == (400 if "none" in path else 200)
                assert await response.read()
                assert response.headers["Content-Security-Policy"] == POLICY
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert response.headers["Referrer-Policy"] == "no-referrer"
                assert response.headers["Cache-Control"] == "no-store"
            async with session.head(path) as response:
                assert (await response.read(), int(response.headers["Content-Length"]) > 0) == (b"", True)
            async with session.post(path) as response:
                assert response.status == 405


async def test_only_the_files_of_the_list_are_served() -> None:
    async with serving() as (session, _):
        for path in ("/page/", "/page/../node.py", "/page/%2e%2e/node.py", "/page/vendor/uPlot.min.css", "/index.html"):
            async with session.get(path) as response:
                assert response.status == 404


async def test_nothing_in_the_files_comes_from_elsewhere_or_is_written_as_markup() -> None:
    own = [file for file in FOLDER.iterdir() if file.is_file()]
    assert len(own) == 6
    for file in own:
        text = file.read_text(encoding="utf-8")
        assert "http://" not in text
        assert "https://" not in text
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="):
            assert way not in text


async def test_what_is_asked_is_answered_or_refused_in_words() -> None:
    async with serving() as (session, _):
        async with session.get("/api/state?view=topics&page=2") as response:
            assert (await response.json())["asked"]["page"] == 2
        async with session.get("/api/state?view=none") as response:
            assert await response.json() == {"error": "there is no such view"}


@pytest.mark.parametrize("name", ["", "admin", "any name"])
async def test_a_browser_shows_the_token_as_a_password(name: str) -> None:
    async with serving(token=TOKEN) as (session, server):
        for path in ("/", "/api/state", "/page/app.js"):
            async with session.get(path) as response:
                assert response.status == 401
                challenges = response.headers.getall("WWW-Authenticate")
                assert challenges == ['Bearer realm="bridge"', 'Basic realm="bridge", charset="UTF-8"']
            async with session.get(path, headers=basic(name, TOKEN)) as response:
                assert response.status == 200
        assert server._metrics.http_unauthorized.value == 3


@pytest.mark.parametrize(
    "authorization",
    [
        basic("admin", "wrong")["Authorization"],
        basic(TOKEN, "")["Authorization"],
        f"Basic {base64.b64encode(TOKEN.encode()).decode()}",
        f"Basic {TOKEN}",
        "Basic",
        "Basic ===",
        "Basic " + "QUFB" * 2000,
    ],
)
async def test_nothing_else_lets_a_browser_in(authorization: str) -> None:
    async with serving(token=TOKEN) as (session, _), session.get("/", headers={"Authorization": authorization}) as got:
        assert got.status == 401
