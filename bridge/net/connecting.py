"""TCP connections, with TLS or without, to the first of a host's addresses that takes one."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar, cast

_Protocol = TypeVar("_Protocol", bound=asyncio.BaseProtocol)


async def connect(
    make: Callable[[], _Protocol], hosts: Sequence[str], port: int, tls: ssl.SSLContext | None = None, name: str = ""
) -> tuple[asyncio.Transport, _Protocol]:
    """As the loop's `create_connection`; `name` is what a certificate has to be for.

    Who is cancelled leaves nothing open. With TLS, `create_connection` does: where the handshake has just ended, it
    waits half a minute for the other side's farewell.
    """
    for host in hosts[:-1]:
        with suppress(OSError):
            return await _connect(make, host, port, tls, name)
    return await _connect(make, hosts[-1], port, tls, name)


async def _connect(
    make: Callable[[], _Protocol], host: str, port: int, tls: ssl.SSLContext | None, name: str
) -> tuple[asyncio.Transport, _Protocol]:
    loop = asyncio.get_running_loop()
    if tls is None:
        return await loop.create_connection(make, host, port)
    plain, _ = await loop.create_connection(_Unread, host, port)
    transport = await loop.start_tls(plain, asyncio.Protocol(), tls, server_hostname=name)
    if transport is None:
        raise ConnectionResetError("the connection was closed during the handshake")
    protocol = make()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    return transport, protocol


class _Unread(asyncio.Protocol):
    """Leaves to TLS whatever comes, also the end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.ReadTransport, transport).pause_reading()
