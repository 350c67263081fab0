"""Who may read the metrics: with a token and without, changed while it runs, and what is said of those refused."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import h11
import pytest
from multidict import CIMultiDictProxy

from bridge.config import HttpSettings
from bridge.errors import SettingsError, StartupError
from bridge.http import access
from bridge.http.access import HttpAccess, parse
from bridge.http.server import Check, HttpServer
from bridge.telemetry.instruments import Counter
from bridge.telemetry.metrics import Metrics
from tests.support.waiting import until

TOKEN = "YWxpY2U.s3cret-~+/=="  # noqa: S105
PATHS = ("/metrics", "/cluster", "/", "/no/such")


async def unwell() -> str | None:
    return "persistent://acme/orders is gone"


class Asked:
    """A server, and what it answers."""

    def __init__(self, server: HttpServer, session: aiohttp.ClientSession) -> None:
        self.server, self._session = server, session

    async def get(
        self, path: str, authorization: str = "", method: str = "GET"
    ) -> tuple[int, str, CIMultiDictProxy[str]]:
        headers = {"Authorization": authorization} if authorization else {}
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with self._session.request(method, url, headers=headers) as response:
            return response.status, await response.text(), response.headers


@asynccontextmanager
async def serving(metrics: Metrics | None = None, check: Check | None = None, **settings: Any) -> AsyncIterator[Asked]:
    checks = {"pulsar": check} if check is not None else {}
    server = HttpServer(
        HttpSettings(listen="127.0.0.1:0", **settings), metrics or Metrics(), checks, {"/cluster": dict}
    )
    await server.start()
    async with aiohttp.ClientSession() as session:
        try:
            yield Asked(server, session)
        finally:
            await server.stop()


@pytest.mark.parametrize("authorization", ["", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer x", f"Bearer {TOKEN}x"])
async def test_without_the_token_nothing_is_told(authorization: str) -> None:
    metrics = Metrics()
    async with serving(metrics, token=TOKEN) as asked:
        for path in PATHS:
            for method in ("GET", "POST"):
                status, text, headers = await asked.get(path, authorization, method)
                assert (status, text) == (401, "a token is needed, as a bearer token or as a password\n")
                wrong = authorization.startswith("Bearer")
                bearer, basic = headers.getall("WWW-Authenticate")
                assert bearer == 'Bearer realm="bridge"' + ', error="invalid_token"' * wrong
                assert basic == 'Basic realm="bridge", charset="UTF-8"'
    assert metrics.http_unauthorized.value == 2 * len(PATHS)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_with_the_token_everything_is_served(scheme: str) -> None:
    async with serving(token=TOKEN) as asked:
        answers = [(await asked.get(path, f"{scheme} {TOKEN}"))[0] for path in PATHS]
        assert answers == [200, 200, 404, 404]


async def test_two_tokens_in_one_request_are_none() -> None:
    judge = HttpAccess(HttpSettings(token=TOKEN), Counter())
    assert judge.allows(bearer(TOKEN))
    assert not judge.allows(bearer(TOKEN) * 2)


async def test_probes_show_no_token_and_are_told_no_reasons() -> None:
    async with serving(check=unwell, token=TOKEN) as asked:
        assert (await asked.get("/healthz"))[0] == 200
        status, text, _ = await asked.get("/readyz")
        assert status == 503
        assert text == ('{"ready": false, "checks": {"pulsar": "failed: the reason is told to those with the token"}}')
        assert "persistent://acme/orders is gone" in (await asked.get("/readyz", f"Bearer {TOKEN}"))[1]


async def test_a_new_token_in_the_file_counts_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(access, "REFRESH_SECONDS", 0.001)
    caplog.set_level("INFO")
    file = tmp_path / "token"
    file.write_text("former\n")
    async with serving(token_file=str(file)) as asked:
        judge = asked.server._access
        assert (await asked.get("/metrics", "Bearer former"))[0] == 200
        replace(file, "former\nnewer\n")
        await until(lambda: judge.allows(bearer("newer")))
        assert judge.allows(bearer("former"))
        replace(file, "newer\n")
        await until(lambda: not judge.allows(bearer("former")))
        replace(file, "")
        await until(lambda: "file refused" in caplog.text)
        assert (await asked.get("/metrics", "Bearer newer"))[0] == 200
        assert (await asked.get("/metrics", "Bearer former"))[0] == 401
    assert "Bearer" not in caplog.text
    assert "newer" not in caplog.text


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode())]


def replace(file: Path, content: str) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(content)
    os.replace(fresh, file)


async def test_the_log_has_one_line_of_those_refused_in_a_second_and_no_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    judge = HttpAccess(HttpSettings(token=TOKEN), Counter())
    shown = {"none": [("Host", "x")], "wrong": [("Host", "x"), ("Authorization", "Bearer gu3ss")]}
    for now, what in ((10.0, "none"), (10.5, "wrong"), (10.9, "none"), (11.0, "wrong")):
        request = h11.Request(method="GET", target="/metrics", headers=shown[what])
        judge.refuse(request, "192.0.2.1", now)
    said = [vars(one)["fields"] for one in caplog.records]
    assert said == [
        {"listener": "http", "peer": "192.0.2.1", "reason": "no token", "refused": 1},
        {"listener": "http", "peer": "192.0.2.1", "reason": "wrong token", "refused": 3},
    ]


async def test_a_token_that_can_be_read_on_the_way_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    for listen, warns in (("127.0.0.1:0", False), ("0.0.0.0:0", True)):
        server = HttpServer(HttpSettings(listen=listen, token=TOKEN), Metrics(), {})
        await server.start()
        await server.stop()
        assert ("can be read on the way" in caplog.text) is warns
        assert TOKEN not in caplog.text


def test_a_file_has_a_token_a_line() -> None:
    assert len(parse(b"\n one \r\ntwo\n\n")) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it has 0 tokens"),
        (b"\n \n", "it has 0 tokens"),
        (b"t\n" * 17, "it has 17 tokens"),
        (b"good\ns3 cret\n", "line 2 is no token"),
        (b"Bearer=x=y\n", "line 1 is no token"),
        ("schlüssel".encode(), "it is not ASCII text"),
    ],
)
def test_what_is_no_token_is_refused_and_not_shown(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        parse(content)
    assert "cret" not in str(refused.value)


async def test_an_unfit_file_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("not one")
    server = HttpServer(HttpSettings(listen="127.0.0.1:0", token_file=str(file)), Metrics(), {})
    with pytest.raises(StartupError, match=r"http.token_file .*token: line 1 is no token"):
        await server.start()


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"token": "x", "token_file": str(file)}, "keep one of them"),
        ({"token": "s3 cret"}, "http.token: must be"),
        ({"ssl_key_file": str(file)}, "without http.ssl_certificate_file"),
        ({"ssl_certificate_file": str(file)}, "without http.ssl_key_file"),
    )
    for values, said in wrong:
        with pytest.raises(SettingsError, match=said) as refused:
            HttpSettings(**values)
        assert "cret" not in str(refused.value)
    assert "s3cret" not in repr(HttpSettings(token="s3cret"))  # noqa: S106
