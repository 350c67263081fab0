"""`bridge ready`: what a health check of a container is told."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.config import HttpSettings
from bridge.http import ready
from bridge.http.server import HttpServer
from bridge.telemetry.metrics import Metrics
from tests.support.certificates import Authority


async def well() -> str | None:
    return None


async def unwell() -> str | None:
    return "no broker"


@asynccontextmanager
async def serving(settings: HttpSettings, *, is_well: bool) -> AsyncIterator[HttpSettings]:
    """A server with one check that holds and one that may not; where it is."""
    server = HttpServer(settings, Metrics(), {"index": well, "pulsar": well if is_well else unwell})
    await server.start()
    try:
        yield replace(settings, listen=settings.listen.replace(":0", f":{server.port}"))
    finally:
        await server.stop()


async def shown(settings: HttpSettings, *, as_json: bool = False) -> tuple[int, str]:
    out = io.StringIO()
    code = await asyncio.to_thread(ready.show, settings, out, as_json=as_json)
    return code, out.getvalue()


async def test_a_script_is_told_whether_and_why_not() -> None:
    async with serving(HttpSettings(listen="127.0.0.1:0"), is_well=True) as where:
        code, told = await shown(where, as_json=True)
        assert (code, json.loads(told)) == (0, {"ready": True, "problem": None})
    async with serving(HttpSettings(listen="127.0.0.1:0"), is_well=False) as where:
        code, told = await shown(where, as_json=True)
        assert (code, json.loads(told)) == (1, {"ready": False, "problem": "pulsar: no broker"})


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - every interface is asked for on loopback
async def test_it_says_whether_the_node_is_ready_and_why_not(host: str) -> None:
    async with serving(HttpSettings(listen=f"{host}:0"), is_well=True) as where:
        assert await shown(where) == (0, "ready\n")
    async with serving(HttpSettings(listen=f"{host}:0"), is_well=False) as where:
        assert await shown(where) == (1, "not ready: pulsar: no broker\n")
    assert (await shown(where))[0] == 1


async def test_it_needs_neither_the_token_nor_to_trust_the_certificate(tmp_path: Path) -> None:
    files = Authority(tmp_path).sign("server")
    tls = HttpSettings(listen="127.0.0.1:0", ssl_certificate_file=files.certificate, ssl_key_file=files.key)
    settings = replace(tls, token="s3cret")  # noqa: S106
    async with serving(settings, is_well=True) as where:
        assert await shown(where) == (0, "ready\n")
    async with serving(settings, is_well=False) as where:
        code, said = await shown(where)
        assert code == 1
        assert said == "not ready: pulsar: failed: the reason is told to those with the token\n"
        assert "CERTIFICATE" not in said


async def test_what_is_no_bridge_is_not_ready() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\n[1]")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await shown(HttpSettings(listen=f"127.0.0.1:{port}")) == (1, "not ready: [1]\n")
