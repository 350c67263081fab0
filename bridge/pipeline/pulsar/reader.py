"""Reads a topic from Pulsar with true offsets, from the broker that serves it."""

import secrets
import time
from collections.abc import Iterator
from typing import NamedTuple

from bridge.pipeline.errors import Endpoint
from bridge.pipeline.pulsar import wire
from bridge.pipeline.pulsar.connection import Address, Connection, Disconnected, owner, partitions
from bridge.pipeline.pulsar.entries import Chunks, Row, Unreadable, count, is_chunk, rows

_NONE = (1 << 64) - 1  # -1, as Java's longs travel
_PERMITS = 20_000  # messages on their way; half of them are asked for at once
_ATTEMPTS = 8  # with no entry in between: about half a minute


class Position(NamedTuple):
    """Where an entry lies."""

    ledger: int
    entry: int


_EARLIEST = Position(_NONE, _NONE)


class Ends(NamedTuple):
    """The offset of the first record and the one after the last."""

    earliest: int
    latest: int


def topics_of(address: Address, name: str) -> list[str]:
    """The Pulsar topics that hold a Kafka topic's partitions, in order; TopicNotFound for none."""
    with Connection(address) as connection:
        found = partitions(connection, name)
    return [address.topic(f"{name}-partition-{index}") for index in range(found)] or [address.topic(name)]


def ends(address: Address, topic: str) -> Ends:
    """The ends of a topic as Pulsar tells them; 0, 0 where it holds nothing."""
    first = next(_entries(address, topic, _EARLIEST), None)
    if first is None:
        return Ends(0, 0)
    with owner(address, topic) as connection:
        last = _subscribe(connection, topic, _EARLIEST) or Position(first.ledger, first.entry)
    newest = next(_entries(address, topic, last), first)
    return Ends(_last_offset(first) - count(first) + 1, _last_offset(newest) + 1)


def read(address: Address, topic: str, start: int, until: int) -> Iterator[Row]:
    """The records from offset `start` up to and without `until`, in order.

    All entries before them pass by too: Pulsar finds entries by position, not by offset.
    """
    chunks = Chunks()
    for entry in _entries(address, topic, _EARLIEST):
        try:
            last = _last_offset(entry)
            if last >= start or is_chunk(entry):  # of a message that may end behind `start`
                yield from (row for row in rows(entry, chunks) if start <= row.offset < until)
        except Unreadable as error:
            raise Endpoint(f"{topic}: {error}") from error
        if last >= until - 1:
            return


def _last_offset(entry: wire.Entry) -> int:
    if entry.last_offset is None:
        raise Endpoint("the broker tells no offsets: it needs exposingBrokerEntryMetadataToClientEnabled=true")
    return entry.last_offset


def _entries(address: Address, topic: str, start: Position) -> Iterator[wire.Entry]:
    """The entries from a position up to what is the last one now."""
    after: Position | None = None
    end: Position | None = None
    attempts = 0
    while True:
        try:
            with owner(address, topic) as connection:
                last = _subscribe(connection, topic, after or start)
                end = end or last
                if end is None:
                    return
                for entry in _delivered(connection):
                    at = Position(entry.ledger, entry.entry)
                    if after is None or at > after:
                        after, attempts = at, 0
                        yield entry
                    if at >= end:
                        return
        except Disconnected:
            attempts += 1
            if attempts == _ATTEMPTS:
                raise
            time.sleep(min(0.1 * 2**attempts, 10.0))


def _subscribe(connection: Connection, topic: str, start: Position) -> Position | None:
    """Open a reader at an entry; the topic's last entry, None where it has none."""
    fields: dict[int, int | bytes | str | None] = {
        1: topic, 2: f"pipeline-{secrets.token_hex(8)}", 3: 0, 4: 0, 8: 0,
        9: wire.message({1: start.ledger, 2: start.entry}), 13: 1, 15: 0,
    }  # fmt: skip
    connection.ask(wire.SUBSCRIBE, wire.SUCCESS, 5, fields)
    answer = connection.ask(wire.LAST_ID, wire.LAST_ID_ANSWER, 2, {1: 0})
    found = wire.fields(wire.data(answer, 1))
    last = Position(wire.number(found, 1), wire.number(found, 2))
    return None if _NONE in last else last


def _delivered(connection: Connection) -> Iterator[wire.Entry]:
    connection.send(wire.FLOW, {1: 0, 2: _PERMITS})
    used = 0
    while True:
        kind, fields, body = connection.receive()
        if kind != wire.MESSAGE:
            continue
        try:
            entry = wire.entry(fields, body)
        except wire.DAMAGE as error:
            raise Endpoint(f"not an entry: {error}") from error
        yield entry
        used += count(entry)
        if used >= _PERMITS // 2:
            connection.send(wire.FLOW, {1: 0, 2: used})
            used = 0
