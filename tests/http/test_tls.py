"""TLS of the metrics: as Prometheus verifies it, a certificate that changes, and strangers who only connect."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from bridge.config import HttpSettings
from bridge.connection.listeners import handshakes
from bridge.connection.listeners.acceptor import MAX_ACCEPTS
from bridge.connection.listeners.certificates import REFRESH_SECONDS
from bridge.errors import StartupError
from bridge.http import tls
from bridge.http.server import HttpServer
from bridge.telemetry.metrics import Lag, Metrics
from tests.support.certificates import COMMON_NAME, Authority, CertificateFiles
from tests.support.waiting import until


@asynccontextmanager
async def serving(directory: Path, metrics: Metrics | None = None, **settings: Any) -> AsyncIterator[HttpServer]:
    files = Authority(directory).sign("server", {COMMON_NAME: "first"})
    values = {"ssl_certificate_file": files.certificate, "ssl_key_file": files.key, **settings}
    server = HttpServer(HttpSettings(listen="127.0.0.1:0", **values), metrics or Metrics(), {})
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def trusting(directory: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(directory / "authority.pem"))


async def get(server: HttpServer, context: ssl.SSLContext, path: str = "/metrics") -> tuple[int, str]:
    url = f"https://localhost:{server.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as response:
        return response.status, await response.text()


async def test_metrics_are_served_by_tls_and_say_when_the_certificate_ends(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        status, text = await get(server, trusting(tmp_path))
    assert status == 200
    assert 'bridge_tls_certificate_expires_seconds{listener="http"}' in text


async def test_a_long_answer_comes_whole(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.groups.lags = [Lag("g" * 100, "t" * 100, at, at, at, 1.0) for at in range(10_000)]
    async with serving(tmp_path, metrics) as server:
        status, text = await get(server, trusting(tmp_path))
    assert status == 200
    assert len(text) > 4 << 20
    assert text.endswith("\n")


async def test_who_does_not_trust_the_authority_does_not_connect(tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    async with serving(tmp_path) as server:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await get(server, ssl.create_default_context(cafile=other.file))


def key_store(files: CertificateFiles, path: Path, password: bytes) -> str:
    key = load_pem_private_key(Path(files.key).read_bytes(), None)
    certificate = load_pem_x509_certificate(Path(files.certificate).read_bytes())
    assert isinstance(key, EllipticCurvePrivateKey)
    store = pkcs12.serialize_key_and_certificates(b"x", key, certificate, None, BestAvailableEncryption(password))
    path.write_bytes(store)
    return str(path)


async def test_a_key_store_serves_and_old_versions_do_not(tmp_path: Path) -> None:
    store = key_store(Authority(tmp_path).sign("server"), tmp_path / "server.p12", b"secret")
    (tmp_path / "password").write_text("secret\n")
    settings = HttpSettings(
        listen="127.0.0.1:0",
        ssl_keystore_file=store,
        ssl_key_password_file=str(tmp_path / "password"),
        ssl_enabled_protocols="TLSv1.3",
    )
    server = HttpServer(settings, Metrics(), {})
    await server.start()
    try:
        context = trusting(tmp_path)
        assert (await get(server, context))[0] == 200
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(aiohttp.ClientConnectorSSLError):
            await get(server, context)
    finally:
        await server.stop()


async def test_a_new_certificate_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "REFRESH_SECONDS", 0.001)
    metrics = Metrics()
    async with serving(tmp_path, metrics) as server:
        Authority(tmp_path).sign("server", {COMMON_NAME: "second"})
        context = trusting(tmp_path)

        async def name() -> str:
            _, writer = await asyncio.open_connection("localhost", server.port, ssl=context)
            subject = writer.get_extra_info("peercert")["subject"]
            writer.close()
            return str(dict(pair for (pair,) in subject)["commonName"])

        await until(lambda: metrics.tls.reloads.value > 0)
        assert await name() == "second"
    assert REFRESH_SECONDS <= 5


async def test_what_is_no_tls_is_closed_and_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    async with serving(tmp_path, metrics) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        assert metrics.tls.handshakes["plaintext"].value == 1


async def test_strangers_who_say_nothing_keep_no_client_out(tmp_path: Path) -> None:
    metrics = Metrics()
    async with serving(tmp_path, metrics, max_connections=2) as server:
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
        assert (await get(server, trusting(tmp_path), "/healthz"))[0] == 200
        assert metrics.tls.handshakes["displaced"].value >= 3
        for _, writer in silent:
            writer.close()


async def test_unfit_files_stop_the_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.sign("one"), authority.sign("other")
    settings = HttpSettings(listen="127.0.0.1:0", ssl_certificate_file=one.certificate, ssl_key_file=other.key)
    with pytest.raises(StartupError, match=r"^http: .*KEY_VALUES_MISMATCH"):
        await HttpServer(settings, Metrics(), {}).start()


async def test_a_flood_of_handshakes_waits_to_be_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "_MOST_READY", 4)
    metrics, flood, most = Metrics(), 200, 0
    async with serving(tmp_path, metrics) as server:
        assert server._tls is not None
        under_way = server._tls.handshakes
        hello = _hello(trusting(tmp_path))
        with ExitStack() as clients:
            for _ in range(flood):
                clients.enter_context(socket.create_connection(("127.0.0.1", server.port))).sendall(hello)
            async with asyncio.timeout(20):
                while metrics.tls.handshakes["displaced"].value + len(under_way) < flood:
                    await asyncio.sleep(0)
                    most = max(most, len(under_way._ready))
            assert most <= 4 + 4 * MAX_ACCEPTS, "what is accepted is memory"
            assert (await get(server, trusting(tmp_path), "/healthz"))[0] == 200


def _hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()
