"""Connections that cost their client nothing: claims, silence, single bytes, resets, answers that are not read."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from tests.faults.processes import let_pass
from tests.fuzz import wire
from tests.hostile.scene import Seen, Target, again

CLAIMS, SLOW, RESETS, NON_READERS = 60, 1000, 400, 20
_SOURCES = [f"127.0.0.{number}" for number in range(10, 14)]
"""Of many connections: no address may have too many."""
_CROWD, _BETWEEN_BYTES = 50, 0.2
_THREADS = 4
_SECONDS = 30.0


def _connect(address: str, source: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    opened = socket.create_connection((host, int(port)), _SECONDS, (source, 0))
    opened.settimeout(_SECONDS)
    return opened


def _asked(opened: socket.socket) -> bool:
    """Whether it is served."""
    with suppress(OSError):
        opened.sendall(wire.api_versions_request())
        return wire.receive(opened) is not None
    return False


def claims(target: Target) -> Seen:
    """Each claims a request of 100 MiB, and sends 1 KB of it."""
    with ExitStack() as opened:
        for number in range(CLAIMS):
            stranger = opened.enter_context(_connect(target.plaintext, _SOURCES[number % len(_SOURCES)]))
            stranger.sendall(struct.pack(">i", 100 << 20) + bytes(1024))
        let_pass(target.seconds)
        other = opened.enter_context(_connect(target.plaintext, _SOURCES[0]))
        served = _asked(other)
    return Seen(f"{CLAIMS} claims held; another client {'served' if served else 'not served'}", served)


def _idle(target: Target, context: ssl.SSLContext | None) -> Seen:
    address = target.plaintext if context is None else target.tls

    def connect(number: int) -> socket.socket:
        opened = _connect(address, _SOURCES[number % len(_SOURCES)])
        if context is not None:
            opened = context.wrap_socket(opened)
        if not _asked(opened):
            raise ConnectionError("the bridge hung up")
        return opened

    with ExitStack() as opened:
        began = time.monotonic()
        with ThreadPoolExecutor(_THREADS) as threads:
            for one in threads.map(connect, range(target.connections)):
                opened.enter_context(one)
        seconds = time.monotonic() - began
        let_pass(target.seconds)
        served = sum(_asked(opened.enter_context(connect(number))) for number in range(10))
    text = f"{target.connections:,} connected in {seconds:.0f} s and idle; {served} of 10 more served"
    return Seen(text, served == 10)


def idle(target: Target) -> Seen:
    """As many as there may be: each asks for ApiVersions and nothing more."""
    return _idle(target, None)


def idle_tls(target: Target) -> Seen:
    """The same over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return _idle(target, context)


def slow(target: Target) -> Seen:
    """A request in single bytes, five a second, by many at once."""
    request = wire.api_versions_request()
    answered = 0
    with ExitStack() as opened:
        count = min(SLOW, target.connections)
        slow = [opened.enter_context(_connect(target.plaintext, _SOURCES[n % len(_SOURCES)])) for n in range(count)]
        rounds = 0
        for _ in again(target):
            rounds += 1
            for at in range(len(request)):
                for number, one in enumerate(slow):
                    one.sendall(request[at : at + 1])
                    if number % _CROWD == _CROWD - 1 and target.connections > SLOW:
                        let_pass(_BETWEEN_BYTES * _CROWD / SLOW)
            answered += sum(wire.receive(one) is not None for one in slow)
    return Seen(f"{answered:,} of {count * rounds:,} requests answered", answered == count * rounds)


def resets(target: Target) -> Seen:
    """Reset at any place in a request."""
    request, done = wire.api_versions_request(), 0
    for _ in again(target):
        for number in range(RESETS):
            with _connect(target.plaintext, _SOURCES[number % len(_SOURCES)]) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with suppress(ConnectionError):
                    one.sendall(request[: number % len(request)])
            done += 1
    with _connect(target.plaintext, _SOURCES[0]) as other:
        served = _asked(other)
    return Seen(f"{done:,} resets; another client {'served' if served else 'not served'}", served)


def half_closed(target: Target) -> Seen:
    """Clients that end their half of the socket after a request."""
    asked = answered = ended = 0
    for _ in again(target):
        with _connect(target.plaintext, _SOURCES[0]) as one:
            one.sendall(wire.api_versions_request())
            one.shutdown(socket.SHUT_WR)
            asked += 1
            answered += wire.receive(one) is not None
            ended += wire.receive(one) is None
    return Seen(f"{answered:,} of {asked:,} answered, then closed", asked == answered == ended)


def non_readers(target: Target) -> Seen:
    """Each asks 50 times for 10 MB, and reads nothing."""
    for _ in range(12):
        wire.ask(target.plaintext, wire.produce(target.topic.encode(), wire.batch([bytes(900_000)])))
    one = wire.fetch_request(target.topic, size=10 << 20)
    with ExitStack() as opened:
        for number in range(NON_READERS):
            stranger = opened.enter_context(_connect(target.plaintext, _SOURCES[number % len(_SOURCES)]))
            stranger.settimeout(0.1)
            with suppress(TimeoutError):
                stranger.sendall(one * 50)
        let_pass(target.seconds)
        other = opened.enter_context(_connect(target.plaintext, _SOURCES[0]))
        served = _asked(other)
    return Seen(f"{NON_READERS} asked for 10 GB in all; another client {'served' if served else 'not served'}", served)
