"""Ids for idempotent producers: unique in the Pulsar cluster and for ever, over nodes, restarts and deleted topics.

An id is the place of an entry written for it: Pulsar gives no ledger id twice, and no entry's number within a ledger.
"""

import asyncio
import secrets
from contextlib import suppress

from bridge import log
from bridge.pulsar.admin import Admin, Conflict, Forbidden
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import Position, PulsarError
from bridge.storage.error_mapping import translated
from bridge.storage.names import HIDDEN_PREFIX, Names

_log = log.get(__name__)

TOPIC = f"{HIDDEN_PREFIX}producer_ids"
_LEDGER_BITS, _ENTRY_BITS = 38, 24
_RANDOM = 1 << (_LEDGER_BITS + _ENTRY_BITS)  # and above: for places that no number of 62 bits holds


class ProducerIds:
    """Gives them out."""

    def __init__(self, client: PulsarClient, admin: Admin, names: Names) -> None:
        self._client = client
        self._admin = admin
        self._topic = names.pulsar(TOPIC)
        self._producer: Producer | None = None
        self._opening = asyncio.Lock()

    async def next(self) -> int:
        """An id that nobody has had; raises KafkaError."""
        with translated():
            while True:
                producer = await self._open()
                try:
                    receipt = await producer.send(MessageMetadata(), b"", 1)
                except PulsarError:  # for good, as where the topic is gone: the next one asks anew
                    await self._drop(producer)
                    raise
                if not receipt.duplicate:  # else its place was lost with a connection
                    return id_of(receipt.position)

    async def close(self) -> None:
        """Give the producer back."""
        if self._producer is not None:
            await self._drop(self._producer)

    async def _open(self) -> Producer:
        async with self._opening:
            if self._producer is None:
                with suppress(Conflict, Forbidden):  # there already; or the broker may make it for its producer
                    await self._admin.create_non_partitioned(self._topic)
                self._producer = self._client.producer(self._topic)
            return self._producer

    async def _drop(self, producer: Producer) -> None:
        if self._producer is producer:
            self._producer = None
        await producer.close(flush=False)


def id_of(position: Position) -> int:
    """The id that stands for an entry's place; a random one in the unheard-of case that it is out of all bounds."""
    if position.ledger >> _LEDGER_BITS or position.entry >> _ENTRY_BITS:
        _log.warning("! producer id by chance", extra={"position": position})
        return _RANDOM | secrets.randbits(_LEDGER_BITS + _ENTRY_BITS)
    return position.ledger << _ENTRY_BITS | position.entry
