"""Envelope: a request within a request, with whose it is (API 58, KIP-590); brokers send it, clients never do.

The tags are ours; nodes that do not know them pass over them.
"""

import ipaddress
from typing import Annotated

from bridge.kafka import message as messages
from bridge.kafka.message import Int16, Int64, message, since, tag
from bridge.kafka.primitives import DecodeError

KEY = 58
VERSION = 0
OF_A_NAMESPACE = 1
"""Ours: the request is one of a namespace's client. Nodes that know no namespaces refuse it."""
_PRINCIPAL_VERSION = 0


@message
class Request:
    """A request with its header, the principal that sent it, and the address that it came from."""

    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes
    namespace: Annotated[str, since(OF_A_NAMESPACE)] = ""
    """In which the client works; empty: the bridge's own."""
    sender: Annotated[Int64, tag(10_000, since=0)] = 0
    """The incarnation of the node that sends it, where it tells of the connection."""
    connection: Annotated[Int64, tag(10_001, since=0)] = 0
    """The number that it has given to the client's connection."""
    connected_ms: Annotated[Int64, tag(10_002, since=0)] = -1
    """For how long the client has been connected; -1: it is not told."""
    is_lost: Annotated[bool, tag(10_003, since=0)] = False
    """The client's connection is lost; there is no request."""


@message
class Response:
    """The answer with its header; without, the error says why the request was not handled."""

    response_data: bytes | None = None
    error_code: Int16


@message
class Principal:
    """Who sent the request (Kafka's `DefaultPrincipalData`)."""

    type: str
    name: str
    token_authenticated: bool = False


def encode_principal(principal: Principal) -> bytes:
    """The bytes of a principal, as Kafka's `DefaultKafkaPrincipalBuilder` writes them: its version comes first."""
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + bytes(messages.encode(principal, _PRINCIPAL_VERSION, True))


def decode_principal(data: bytes) -> Principal:
    """The principal in these bytes; DecodeError if there is none."""
    version = int.from_bytes(data[:2], "big")
    if len(data) < 2 or version != _PRINCIPAL_VERSION:
        raise DecodeError(f"a principal of version {version}")
    return messages.decode(Principal, memoryview(data)[2:], _PRINCIPAL_VERSION, True)


def encode_host(host: str) -> bytes:
    """The bytes of an IP address; none of what is no address."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return b""


def decode_host(packed: bytes) -> str:
    """The address in words; DecodeError if it is none."""
    if not packed:
        return ""
    try:
        return str(ipaddress.ip_address(packed))
    except ValueError:
        raise DecodeError(f"an address of {len(packed)} bytes") from None
