"""What a script of `contract` is given: a Pulsar, real or not, and how to ask it."""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import Admin, Producer, PulsarClient, PulsarError, Receipt
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.telemetry.metrics import Metrics


@dataclass
class Site:
    """A Pulsar, real or not."""

    namespace: str
    settings: PulsarSettings
    admin: Admin
    clients: list[PulsarClient]

    async def client(self) -> PulsarClient:
        """Another client, with connections of its own."""
        client = PulsarClient(self.settings, Metrics().pulsar)
        self.clients.append(client)
        await client.start()
        return client

    def name(self) -> str:
        """A name that no topic has."""
        return f"persistent://{self.namespace}/contract-{uuid.uuid4().hex[:8]}"

    async def topic(self) -> str:
        """A fresh topic without partitions."""
        name = self.name()
        await self.admin.create_non_partitioned(name)
        return name


Script = Callable[[Site], Awaitable[None]]
SCRIPTS: list[Script] = []


def script(function: Script) -> Script:
    SCRIPTS.append(function)
    return function


async def send(producer: Producer, sequence: int | None = None, count: int = 1) -> Receipt:
    metadata = pb.MessageMetadata(num_messages_in_batch=count)
    if sequence is not None:
        metadata.sequence_id, metadata.highest_sequence_id = sequence, sequence + count - 1
    return await producer.send(metadata, b"payload", count)


async def code_of(work: Awaitable[object]) -> int:
    """The error that it must end with."""
    with pytest.raises(PulsarError) as raised:
        await work
    return raised.value.code
