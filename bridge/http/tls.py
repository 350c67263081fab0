"""TLS of the operator's side, with what the listeners of clients use: handshakes in turns, certificates that change."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from bridge.config import Address, HttpSettings, ListenerSettings
from bridge.connection.listeners.acceptor import Acceptor
from bridge.connection.listeners.certificates import REFRESH_SECONDS, ServerTls
from bridge.connection.listeners.handshakes import Handshakes
from bridge.connection.listeners.tls import TlsTransport
from bridge.connection.parts import address_of
from bridge.net.listening import listen
from bridge.telemetry import log
from bridge.telemetry.metrics import TlsMetrics

NAME: Final = "http"
"""Its label in the metrics and in the log; listeners of clients have names in capitals."""
_BUFFER_BYTES: Final = 64 * 1024
_log = log.get(__name__)


class HttpTls:
    """TLS for the operators' server: it makes encrypted connections of sockets (`TlsOwner`)."""

    def __init__(self, settings: HttpSettings, metrics: TlsMetrics) -> None:
        """StartupError where the files are unfit."""
        files = ListenerSettings(
            ssl_certificate_file=settings.ssl_certificate_file,
            ssl_key_file=settings.ssl_key_file,
            ssl_keystore_file=settings.ssl_keystore_file,
            ssl_key_password_file=settings.ssl_key_password_file,
            ssl_enabled_protocols=settings.ssl_enabled_protocols,
            ssl_cipher_suites=settings.ssl_cipher_suites,
        )
        self._server = ServerTls(NAME, NAME, files, metrics)
        self._metrics = metrics
        self.handshakes = Handshakes(metrics, settings.max_connections)
        self.ciphertext = memoryview(bytearray(_BUFFER_BYTES))
        self._plaintext = memoryview(bytearray(_BUFFER_BYTES))
        self._acceptors: list[Acceptor] = []

    def serve(self, address: Address, protocol: Callable[[], asyncio.BaseProtocol]) -> int:
        """Accept connections, not while many wait for their turn to shake hands; the port. StartupError where it is
        not to be had."""
        sockets = listen(address, "http.listen")
        self._acceptors = [Acceptor(one, protocol, lambda: self.handshakes.is_behind) for one in sockets]
        return int(sockets[0].getsockname()[1])

    def close(self) -> None:
        """Accept no more."""
        while self._acceptors:
            self._acceptors.pop().close()

    def tls_context(self) -> ssl.SSLContext:
        """The newest one."""
        return self._server.context

    def protocol(self, streams: asyncio.StreamReaderProtocol) -> TlsTransport:
        """The protocol of a socket; `streams` gets what is decrypted."""
        return TlsTransport(self, _Buffered(streams, self._plaintext), self._not_established)

    async def follow(self) -> None:
        """Take what changes in the files, until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            self._server.refresh()

    def _not_established(self, transport: TlsTransport, outcome: str, reason: str) -> None:
        self._metrics.handshakes[outcome].inc()
        fields = {"listener": NAME, "peer": address_of(transport.get_extra_info("peername"))}
        # probes that connect and hang up are usual, and these connections are no clients'
        _log.debug("! no TLS handshake", extra={**fields, "outcome": outcome, "reason": reason})


class _Buffered(asyncio.BufferedProtocol):
    """Passes on to a protocol of asyncio's streams, which keeps what it gets."""

    def __init__(self, streams: asyncio.StreamReaderProtocol, buffer: memoryview) -> None:
        self._streams, self._buffer = streams, buffer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._streams.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._streams.data_received(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._streams.eof_received()

    def pause_writing(self) -> None:
        self._streams.pause_writing()

    def resume_writing(self) -> None:
        self._streams.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._streams.connection_lost(exc)
