"""Ids of idempotent producers: unique in the Pulsar cluster forever, across nodes, restarts and deleted topics.

An id is the position of an entry written for it: Pulsar assigns no ledger id twice, and no entry id within a ledger.
"""

import asyncio
import secrets
from contextlib import suppress
from typing import Final

from bridge.config import PulsarSettings
from bridge.pulsar.admin import Admin, Conflict, Forbidden
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import Position, PulsarError
from bridge.storage.error_mapping import translated
from bridge.telemetry import log

_log = log.get(__name__)

TOPIC: Final = "producer_ids"
_LEDGER_BITS, _ENTRY_BITS = 38, 24
_RANDOM = 1 << (_LEDGER_BITS + _ENTRY_BITS)  # and above: for positions that do not fit in 62 bits


class ProducerIds:
    """The ids for idempotent producers, taken from Pulsar in blocks."""

    def __init__(self, client: PulsarClient, admin: Admin, pulsar: PulsarSettings) -> None:
        self._client = client
        self._admin = admin
        self._topic = pulsar.state_topic(TOPIC)
        self._producer: Producer | None = None
        self._opening = asyncio.Lock()

    async def next(self) -> int:
        """An id that no producer has had; raises KafkaError."""
        with translated():
            while True:
                producer = await self._open()
                try:
                    receipt = await producer.send(MessageMetadata(), b"", 1)
                except PulsarError:  # permanent, as if the topic is deleted: the next call opens another producer
                    await self._drop(producer)
                    raise
                if not receipt.duplicate:  # else its position was lost with a connection
                    return id_of(receipt.position)

    async def close(self) -> None:
        """Close the producer."""
        if self._producer is not None:
            await self._drop(self._producer)

    async def _open(self) -> Producer:
        async with self._opening:
            if self._producer is None:
                with suppress(Conflict, Forbidden):  # it exists; or the broker may create it for the producer
                    await self._admin.create_non_partitioned(self._topic)
                self._producer = self._client.producer(self._topic)
            return self._producer

    async def _drop(self, producer: Producer) -> None:
        if self._producer is producer:
            self._producer = None
        await producer.close(flush=False)


def id_of(position: Position) -> int:
    """The id of an entry's position; a random one in the unlikely case that the position does not fit."""
    if position.ledger >> _LEDGER_BITS or position.entry >> _ENTRY_BITS:
        _log.warning("! random producer id", extra={"position": position})
        return _RANDOM | secrets.randbits(_LEDGER_BITS + _ENTRY_BITS)
    return position.ledger << _ENTRY_BITS | position.entry
