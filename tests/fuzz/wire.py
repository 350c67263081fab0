"""Frames and sockets of a hostile client."""

from __future__ import annotations

import socket
import struct
from contextlib import closing, suppress

from bridge.apis import api_versions, list_offsets, metadata
from bridge.codec import Rebuild, Record, build_batch
from bridge.kafka import fetch_wire, message

ANSWER_SECONDS = 5.0


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, correlation_id: int = 1, client: bytes = b"fuzz", *, flexible: bool) -> bytes:
    start = struct.pack(">hhih", key, version, correlation_id, len(client)) + client
    return start + (b"\0" if flexible else b"")


def batch(values: list[bytes] | None = None) -> bytes:
    """A sound record batch."""
    records = [
        Record(n, 1_700_000_000_000, b"k", v, [(b"h", b"x")]) for n, v in enumerate(values or [b"a", b"b", b"c"])
    ]
    return bytes(build_batch(records, Rebuild(0, len(records), 0, own=True)))


def produce(topic: bytes, records: bytes, *, partition: int = 0, acks: int = -1, correlation_id: int = 1) -> bytes:
    """Produce v3."""
    body = struct.pack(">hhii", -1, acks, 5000, 1) + struct.pack(">h", len(topic)) + topic
    body += struct.pack(">iii", 1, partition, len(records)) + records
    return framed(header(0, 3, correlation_id, flexible=False) + body)


def produce_answer(answer: bytes) -> tuple[int, int]:
    """Error code and base offset of a Produce v3 answer for one partition."""
    (length,) = struct.unpack_from(">h", answer, 8)
    error, offset = struct.unpack_from(">hq", answer, 10 + length + 8)
    return error, offset


def api_versions_request(version: int = 0, correlation_id: int = 1) -> bytes:
    flexible = version >= 3
    request = api_versions.Request(client_software_name="fuzz", client_software_version="1")
    body = bytes(message.encode(request, version, flexible)) if version <= 4 else b""
    return framed(header(18, version, correlation_id, flexible=flexible) + body)


def metadata_request(*names: str, version: int = 9, correlation_id: int = 1) -> bytes:
    request = metadata.Request(
        topics=[metadata.RequestTopic(name=name) for name in names], allow_auto_topic_creation=True
    )
    body = bytes(message.encode(request, version, version >= 9))
    return framed(header(3, version, correlation_id, flexible=version >= 9) + body)


def list_offsets_request(topic: str, timestamp: int = -1, correlation_id: int = 1) -> bytes:
    partition = list_offsets.RequestPartition(partition_index=0, timestamp=timestamp)
    request = list_offsets.Request(
        replica_id=-1, topics=[list_offsets.RequestTopic(name=topic, partitions=[partition])]
    )
    return framed(header(2, 1, correlation_id, flexible=False) + bytes(message.encode(request, 1, False)))


def fetch_request(topic: str, wait_ms: int = 0, offset: int = 0, correlation_id: int = 1, size: int = 1 << 20) -> bytes:
    partition = fetch_wire.RequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    request = fetch_wire.Request(
        replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=size,
        topics=[fetch_wire.RequestTopic(topic=topic, partitions=[partition])],
    )  # fmt: skip
    return framed(header(1, 4, correlation_id, flexible=False) + bytes(message.encode(request, 4, False)))


def connect(address: str, seconds: float = ANSWER_SECONDS) -> socket.socket:
    host, port = address.split(":")
    opened = socket.create_connection((host, int(port)), seconds)
    opened.settimeout(seconds)
    return opened


def receive(opened: socket.socket) -> bytes | None:
    """One answer without its length; None when the other side has closed. TimeoutError when neither comes."""
    head = _exactly(opened, 4)
    return None if head is None else _exactly(opened, int.from_bytes(head, "big"))


def _exactly(opened: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        try:
            piece = opened.recv(count - len(found))
        except ConnectionError:
            return None
        if not piece:
            return None
        found += piece
    return bytes(found)


def ask(address: str, data: bytes) -> bytes | None:
    """Send some bytes, and the answer (None: closed)."""
    with closing(connect(address)) as opened:
        with suppress(ConnectionError):
            opened.sendall(data)
        return receive(opened)
