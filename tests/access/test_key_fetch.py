from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bridge.access.key_sets import HttpsFetch, UrlKeySet
from bridge.net.http1 import HttpError
from tests.security.certificates import certificate, key_pem
from tests.security.issuer import key_set, public_jwk

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


def certificate_of(host: str) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    return bytes(certificate(name, host).public_bytes(Encoding.PEM))


@asynccontextmanager
async def issuer(directory: Path, answer: bytes, host: str = "localhost") -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """The URL of a server with a certificate for the host, and what a client trusts."""
    files = directory / "cert.pem", directory / "key.pem"
    files[0].write_bytes(certificate_of(host))
    files[1].write_bytes(key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "localhost", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"https://localhost:{port}/keys?version=1", ssl.create_default_context(cafile=str(files[0]))


async def test_the_document_is_fetched_and_its_keys_are_used(tmp_path: Path) -> None:
    document = key_set(public_jwk("ES256", kid="one"))
    async with issuer(tmp_path, OK % (len(document), document)) as (url, tls):
        keys = UrlKeySet(HttpsFetch(url, tls))
        assert [key.key_id for key in await keys.find("one", "ES256")] == ["one"]
        await keys.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
        b"SSH-2.0\r\n\r\n",
    ],
)
async def test_anything_but_a_whole_answer_of_200_is_an_error(tmp_path: Path, answer: bytes) -> None:
    async with issuer(tmp_path, answer) as (url, tls):
        with pytest.raises(HttpError):
            await HttpsFetch(url, tls)()


async def test_a_certificate_for_another_host_or_of_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    async with issuer(tmp_path, OK % (2, b"{}"), "elsewhere") as (url, tls):
        with pytest.raises(OSError, match=r"(?i)certificate verify failed"):
            await HttpsFetch(url, tls)()
        with pytest.raises(OSError, match=r"(?i)certificate verify failed"):
            await HttpsFetch(url)()


@pytest.mark.parametrize("url", ["http://issuer/keys", "file:///etc/passwd", "https:///keys", "issuer/keys", ""])
def test_only_https_is_taken(url: str) -> None:
    with pytest.raises(ValueError, match="https://"):
        HttpsFetch(url)
