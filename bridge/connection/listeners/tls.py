"""TLS between a socket and its connection: it ends each half when the other side does, and no sooner.

asyncio's TLS closes a connection as soon as its client has ended its half, so answers to what it had sent were lost. It
also keeps 256 KiB for each connection. Here what is received passes through memory that all connections share.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from bridge.connection.listeners.handshakes import Handshakes

SLICE: Final = 64 * 1024
"""Encrypted at a time: OpenSSL keeps the memory of the largest for each connection."""
_HANDSHAKE: Final = 0x16
"""The first byte of every TLS connection (RFC 8446, 5.1)."""


class TlsOwner(Protocol):
    """The listener that a TLS connection belongs to."""

    handshakes: Handshakes
    ciphertext: memoryview
    """Where all connections receive; nothing stays in it."""

    def tls_context(self) -> ssl.SSLContext:
        """The newest one."""


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The transport of a connection, and the protocol of its socket's transport."""

    def __init__(
        self,
        owner: TlsOwner,
        protocol: asyncio.BufferedProtocol,
        refused: Callable[["TlsTransport", str, str], None],
    ) -> None:
        """`refused` is told of a handshake that failed: its outcome and why."""
        super().__init__()
        self._owner = owner
        self._protocol = protocol
        self._refused = refused
        self._raw: asyncio.Transport
        self._tls: ssl.SSLObject
        self._received, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._established = False
        self._begun = False  # something has come
        self._paused = False  # by the connection
        self._delivering = False
        self._raw_ended = False  # the client has ended its half of the socket
        self._ended = False  # the connection has been told so
        self._closed = False

    # ---- the socket's protocol ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._raw = cast(asyncio.Transport, transport)
        self._tls = self._owner.tls_context().wrap_bio(self._received, self._outgoing, server_side=True)
        self._owner.handshakes.begin(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes shall go."""
        return self._owner.ciphertext

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self._closed or self._ended:  # after its end a client has nothing to say
            return
        received = self._owner.ciphertext[:nbytes]
        if not self._begun:
            self._begun = True
            if received[0] != _HANDSHAKE:
                return self.fail(
                    "plaintext", "the client does not speak TLS: set its security.protocol to the listener's"
                )
        self._received.write(received)
        if self._established:
            self._deliver()
        else:  # handshakes take turns
            self._raw.pause_reading()
            self._owner.handshakes.ready(self)

    def eof_received(self) -> bool:
        """The client has ended its half of the socket, perhaps without saying so in TLS; requests have lengths."""
        if not self._established:
            return False
        self._raw_ended = True
        self._deliver()
        return True

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._established:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The client has read."""
        if self._established:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if not self._established and not self._closed:
            self._refused(self, "lost", "the client hung up" if exc is None else str(exc))
        self._closed = True
        self._owner.handshakes.end(self)
        if self._established:
            self._protocol.connection_lost(exc)

    # ---- the handshake -----------------------------------------------------------------------------------------------

    def shake(self) -> None:
        """Go on with the handshake, with what has come."""
        if self._closed or self._established:
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            self._raw.resume_reading()
            return
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "")  # what is wrong with the client's certificate
            return self.fail("failed", f"{error.reason or error}{why and f': {why}'}")
        self._established = True
        self._owner.handshakes.established(self)
        self._flush()
        self._protocol.connection_made(self)
        self._raw.resume_reading()
        self._deliver()

    def fail(self, outcome: str, reason: str) -> None:
        """Close what has not shaken hands, with what TLS has to say to that."""
        if self._closed:
            return
        self._closed = True
        self._refused(self, outcome, reason)
        self._flush()
        self._raw.close()

    # ---- decrypting --------------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Hand over what has come, as far as the connection reads."""
        if self._delivering:
            return
        self._delivering = True
        try:
            while not (self._paused or self._closed or self._ended):
                if not self._receive():
                    break
        finally:
            self._delivering = False
        self._flush()  # what TLS answers by itself

    def _receive(self) -> bool:
        """Hand over one piece; False when there is no whole one."""
        if not (self._received.pending or self._tls.pending()):
            return self._at_end()
        buffer = cast(memoryview, self._protocol.get_buffer(-1))
        try:
            count = cast(int, self._tls.read(len(buffer), buffer))
        except ssl.SSLWantReadError:
            return self._at_end()
        except ssl.SSLZeroReturnError:
            count = 0
        except ssl.SSLError:  # forged or damaged
            self.abort()
            return False
        if not count:
            self._raw_ended = True
            return self._at_end()
        self._protocol.buffer_updated(count)
        return True

    def _at_end(self) -> bool:
        """Tell of the end, if it has come."""
        if self._raw_ended and not self._ended:
            self._ended = True
            if not self._protocol.eof_received():
                self.close()
        return False

    # ---- the connection's transport ----------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        if self._closed:
            return
        view = memoryview(data)
        try:
            for at in range(0, len(view), SLICE):
                self._tls.write(view[at : at + SLICE])
                self._flush()
        except ssl.SSLError:
            self.abort()

    def write_eof(self) -> None:
        """Send the end of this half."""
        self._say_end()
        self._raw.write_eof()

    def can_write_eof(self) -> bool:
        """It can."""
        return True

    def close(self) -> None:
        """Close when all is sent."""
        if not self._closed:
            self._say_end()
            self._closed = True
            self._raw.close()

    def abort(self) -> None:
        """Close at once."""
        self._closed = True
        self._raw.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closed or self._raw.is_closing()

    def pause_reading(self) -> None:
        """Hand over nothing more."""
        self._paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Hand over again, later in this iteration of the loop."""
        if not self._paused:
            return
        self._paused = False
        if self._received.pending or self._tls.pending() or self._raw_ended:
            asyncio.get_running_loop().call_soon(self._deliver)
        if not (self._raw_ended or self._closed):
            self._raw.resume_reading()

    def is_reading(self) -> bool:
        """Whether it hands over."""
        return not (self._paused or self._closed or self._ended)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """How much may wait to be sent."""
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """How much waits to be sent."""
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of TLS, and of the socket."""
        return self._tls if name == "ssl_object" else self._raw.get_extra_info(name, default)

    def _say_end(self) -> None:
        """Send close_notify (RFC 8446, 6.1)."""
        if self._established and not self._closed:
            with suppress(ssl.SSLError):  # the other side has not said so yet, and need not
                self._tls.unwrap()
            self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._raw.write(self._outgoing.read())
