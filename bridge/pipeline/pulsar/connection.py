"""One connection to a Pulsar broker, with blocking calls."""

import contextlib
import socket
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urlsplit

from bridge.pipeline.errors import Endpoint, Usage
from bridge.pipeline.pulsar import wire

TIMEOUT = 30.0
_LARGEST_FRAME = 128 * 1024 * 1024
_REDIRECT, _CONNECT = 0, 1
_MAX_REDIRECTS = 20
# Broker entry metadata are only sent to clients that know of them; without topics being made by asking
_FEATURES = wire.message({2: 1, 5: 1})
_PROTOCOL_VERSION = 20


class Address(NamedTuple):
    """`pulsar://host:port/tenant/namespace`, and the token to show there."""

    scheme: str
    host: str
    port: int
    namespace: str
    token: str = ""

    def at(self, url: str) -> "Address":
        """Another broker of the same cluster."""
        parts = urlsplit(url)
        return self._replace(scheme=parts.scheme, host=parts.hostname or "", port=parts.port or 6650)

    def topic(self, name: str) -> str:
        """The full name of a topic."""
        return f"persistent://{self.namespace}/{name}"


class Disconnected(Endpoint):
    """The broker is gone, or has moved the topic: to be asked again."""


def address(url: str, token: str = "") -> Address:
    """Read a service URL; the namespace is public/default where none is named."""
    parts = urlsplit(url)
    namespace = parts.path.strip("/") or "public/default"
    try:
        port = parts.port or (6651 if parts.scheme == "pulsar+ssl" else 6650)
    except ValueError:
        port = 0
    if parts.scheme not in ("pulsar", "pulsar+ssl") or not parts.hostname or not port or namespace.count("/") != 1:
        raise Usage(f"{url}: expected pulsar://host:port[/tenant/namespace] or pulsar+ssl://…")
    return Address(parts.scheme, parts.hostname, port, namespace, token)


class Connection:
    """A session; `proxy_to` asks a Pulsar proxy for that broker."""

    def __init__(self, address: Address, proxy_to: str = "") -> None:
        self.address = address
        self._requests = 0
        try:
            self._socket = _open(address)
        except OSError as error:
            raise Disconnected(f"Pulsar at {address.host}:{address.port}: {error}") from error
        self._stream = self._socket.makefile("rb", 1 << 18)
        try:
            self._greet(proxy_to)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self._stream.close()
        self._socket.close()

    def send(self, command: int, fields: Mapping[int, int | bytes | str | None]) -> None:
        """Send a command."""
        try:
            self._socket.sendall(wire.frame(command, fields))
        except OSError as error:
            raise Disconnected(f"Pulsar at {self.address.host}:{self.address.port}: {error}") from error

    def receive(self) -> tuple[int, wire.Fields, bytes]:
        """The next command, with what follows it; pings are answered here, errors raised."""
        while True:
            kind, fields, body = self._command()
            if kind == wire.PING:
                self.send(wire.PONG, {})
            elif kind == wire.AUTH_CHALLENGE:
                self.send(wire.AUTH_RESPONSE, {1: "pipeline", 2: wire.message({1: "token", 2: self.address.token})})
            elif kind == wire.ERROR:
                raise _refusal(wire.number(fields, 2), wire.text(fields, 3))
            elif kind == wire.CLOSE_CONSUMER:
                raise Disconnected("the topic has moved")
            else:
                return kind, fields, body

    def ask(self, command: int, answer: int, field: int, fields: Mapping[int, int | bytes | str | None]) -> wire.Fields:
        """Send a request, its id in `field`, and return the answer's fields."""
        self._requests += 1
        self.send(command, {**fields, field: self._requests})
        while True:
            kind, found, _ = self.receive()
            if kind == answer:
                return found

    def _greet(self, proxy_to: str) -> None:
        token = self.address.token
        self.send(
            wire.CONNECT,
            {1: "pipeline", 3: token or None, 4: _PROTOCOL_VERSION, 5: "token" if token else "none",
             6: proxy_to or None, 10: _FEATURES},
        )  # fmt: skip
        kind, _, _ = self.receive()
        if kind != wire.CONNECTED:
            raise Endpoint(f"Pulsar at {self.address.host}:{self.address.port} greets with command {kind}")

    def _command(self) -> tuple[int, wire.Fields, bytes]:
        try:
            return wire.split(self._frame())
        except wire.DAMAGE as error:
            raise Endpoint(f"{self.address.host}:{self.address.port} does not speak Pulsar's protocol") from error

    def _frame(self) -> bytes:
        try:
            size = int.from_bytes(self._exactly(4), "big")
            if not 4 <= size <= _LARGEST_FRAME:
                raise Endpoint(f"{self.address.host}:{self.address.port} does not speak Pulsar's protocol")
            return self._exactly(size)
        except OSError as error:
            raise Disconnected(f"Pulsar at {self.address.host}:{self.address.port}: {error}") from error

    def _exactly(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        if len(data) < size:
            raise Disconnected(f"Pulsar at {self.address.host}:{self.address.port} has closed the connection")
        return data


def _open(address: Address) -> socket.socket:
    opened = socket.create_connection((address.host, address.port), TIMEOUT)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if address.scheme == "pulsar":
        return opened
    try:
        return ssl.create_default_context().wrap_socket(opened, server_hostname=address.host)
    except OSError:
        opened.close()
        raise


# ServerError: what passes when a broker or a topic's owner has just changed
_PASSING = {1, 2, 5, 6, 15}
_NOT_FOUND = 11


class TopicNotFound(Endpoint):
    """There is no such topic."""


def _refusal(code: int, text: str) -> Endpoint:
    message = f"Pulsar refuses: {text.splitlines()[0] if text else f'error {code}'}"
    if code == _NOT_FOUND:
        return TopicNotFound(message)
    return Disconnected(message) if code in _PASSING else Endpoint(message)


def partitions(connection: Connection, name: str) -> int:
    """How many partitions a topic has; 0 for one that is not partitioned, TopicNotFound for none."""
    topic = connection.address.topic(name)
    answer = connection.ask(wire.PARTITIONS, wire.PARTITIONS_ANSWER, 2, {1: topic, 6: 0})
    if wire.number(answer, 3) != 0:
        raise _refusal(wire.number(answer, 4), wire.text(answer, 5))
    return wire.number(answer, 1)


def owner(address: Address, topic: str) -> Connection:
    """A connection to the broker that serves a topic, on which it was looked up (it is refused otherwise)."""
    connection, at, proxy_to, authoritative = Connection(address), address, "", False
    for _ in range(_MAX_REDIRECTS):
        try:
            answer = connection.ask(wire.LOOKUP, wire.LOOKUP_ANSWER, 2, {1: topic, 3: int(authoritative)})
            kind = wire.number(answer, 3)
            if kind not in (_REDIRECT, _CONNECT):
                raise _refusal(wire.number(answer, 6), wire.text(answer, 7))
            named = wire.text(answer, 2) if address.scheme == "pulsar+ssl" else wire.text(answer, 1)
            through = wire.number(answer, 8) != 0
            target = address if through else address.at(named)
            proxied = urlsplit(named).netloc if through else ""
            if kind == _CONNECT and (target, proxied) == (at, proxy_to):
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        connection, at, proxy_to = Connection(target, proxied), target, proxied
        authoritative = wire.number(answer, 5) != 0
    connection.close()
    raise Endpoint(f"{topic}: the brokers send each other in circles")
