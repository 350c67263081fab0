"""A TLS client with the halves of a socket: asyncio's own can neither end its half nor read on after it."""

import asyncio
import contextlib
import ssl
from typing import Any


class TlsWriter:
    """Writes to a server as `asyncio.StreamWriter` does, and feeds a reader with what comes."""

    def __init__(self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._received, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._received, self._outgoing, server_hostname="localhost")
        self.decrypted = asyncio.StreamReader()
        self.transport = writer.transport
        self._reading: asyncio.Task[None] | None = None
        self.said_end = False
        """Whether the server said that nothing more comes."""

    async def shake(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                data = await self._reader.read(65_536)
                if not data:
                    raise ConnectionResetError("no handshake") from None
                self._received.write(data)
        self._flush()
        self._reading = asyncio.ensure_future(self._read())

    def write(self, data: bytes) -> None:
        if data:
            self.tls.write(data)
            self._flush()

    async def drain(self) -> None:
        await self._writer.drain()

    def write_eof(self) -> None:
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()
        self._flush()
        self._writer.write_eof()

    def end_without_a_word(self) -> None:
        """End this half of the socket, not that of TLS."""
        self._writer.write_eof()

    def get_extra_info(self, name: str) -> Any:
        return self._writer.get_extra_info(name)

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()

    async def wait_closed(self) -> None:
        await self._writer.wait_closed()

    def _flush(self) -> None:
        self._writer.write(self._outgoing.read())

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(65_536):
                self._received.write(data)
                self._decrypt()
        except ssl.SSLError as error:
            self.decrypted.set_exception(error)
        except ConnectionError as error:
            self.decrypted.set_exception(error)
        else:
            self.decrypted.feed_eof()

    def _decrypt(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            while True:
                try:
                    data = self.tls.read(65_536)
                except ssl.SSLZeroReturnError:
                    data = b""
                if not data:
                    self.said_end = True
                    return
                self.decrypted.feed_data(data)


async def open_tls(port: int, context: ssl.SSLContext, **options: Any) -> tuple[asyncio.StreamReader, TlsWriter]:
    """Connect and shake hands."""
    writer = TlsWriter(context, *await asyncio.open_connection("127.0.0.1", port, **options))
    try:
        await writer.shake()
    except BaseException:
        writer.close()
        raise
    return writer.decrypted, writer


def client_context(authority: str) -> ssl.SSLContext:
    """One that trusts this authority."""
    return ssl.create_default_context(cafile=authority)
