"""A topic that was made past the bridge gets its id from the first node that finds it, or from two at a time.

Entries are signed with the id. What is signed with another one is a stranger's, and is of no transaction: readers of
committed records get it, though its transaction is open or was aborted.
"""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, cast

import pytest

from bridge.pulsar.admin import AdminError
from bridge.pulsar.admin.admin import LedgerInfo, PartitionedMetadata
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry, Position
from bridge.storage.entries import PROPERTY
from bridge.storage.mark_signer import MarkSecret, MarkSigner
from bridge.storage.names import Names
from bridge.storage.read.batches import Batch, ForeignEntries
from bridge.storage.topics.topic_finder import TopicLookup
from bridge.storage.visibility import Identity, Transaction

TOPIC = "persistent://public/default/t-partition-0"


class Pulsar:
    """The properties of one topic; the test says when a write of each node is done."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.fails = False


class Admin:
    """One node's."""

    def __init__(self, pulsar: Pulsar) -> None:
        self.pulsar = pulsar
        self.may_write = asyncio.Event()

    async def update_topic_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        await self.may_write.wait()
        if self.pulsar.fails:
            raise AdminError(500, "as told")
        self.pulsar.properties |= properties

    async def partitioned_metadata(self, topic: str) -> PartitionedMetadata:
        return PartitionedMetadata(1, dict(self.pulsar.properties))

    async def ledgers(self, topic: str) -> list[LedgerInfo]:
        return [LedgerInfo(7, 3, 100, offloaded=False)]


def lookup(admin: Admin) -> TopicLookup:
    return TopicLookup(cast(Any, None), cast(Any, admin), Names("public/default"))


async def test_two_nodes_that_find_a_topic_at_a_time_give_it_one_id() -> None:
    """The second write is stored after the first node has read its own one back."""
    pulsar = Pulsar()
    admins = [Admin(pulsar), Admin(pulsar)]
    finding = [asyncio.ensure_future(lookup(admin).id_of("t", 1, {})) for admin in admins]
    await asyncio.sleep(0)
    admins[0].may_write.set()
    await asyncio.sleep(0.01)
    admins[1].may_write.set()
    one, other = await asyncio.gather(*finding)
    assert one == other, "each node signs, and names partitions of transactions, by an id of its own"


def signed(secret: MarkSecret, topic_id: uuid.UUID) -> Entry:
    """An entry of a transaction, as a node stores it."""
    metadata = MessageMetadata(producer_name="kafka-producer-7", sequence_id=5, publish_time=1, num_messages_in_batch=1)
    metadata.properties.add(key=PROPERTY, value='{"v":1,"t":1,"b":0,"p":[7,0,0],"x":[0,1]}')
    MarkSigner(secret, TOPIC, topic_id.bytes).sign(metadata, metadata.producer_name)
    return Entry(Position(1, 0), 0, None, metadata, memoryview(b""), 100)


def read(secret: MarkSecret, topic_id: uuid.UUID, entry: Entry) -> Batch:
    signer = MarkSigner(secret, TOPIC, topic_id.bytes)
    return Batch(entry, entry.payload, 1 << 20, strangers=ForeignEntries(TOPIC, signer, lambda: None))


@pytest.mark.parametrize("fails", [False, True], ids=["two at a time", "no id at first"])
async def test_what_a_node_stores_of_a_transaction_is_of_it_for_every_other(fails: bool) -> None:
    """The first one leads the partition, and stores; the second one reads it, also after the first has gone."""
    pulsar, secret = Pulsar(), MarkSecret()
    secret.is_shared = True
    first, second = Admin(pulsar), Admin(pulsar)
    pulsar.fails = fails  # Pulsar's administration does not answer for a moment
    finding = [asyncio.ensure_future(lookup(admin).id_of("t", 1, {})) for admin in (first, second)]
    first.may_write.set()
    await asyncio.sleep(0.01)
    pulsar.fails = False
    second.may_write.set()
    ids = await asyncio.gather(*finding)
    entry = signed(secret, ids[0])
    assert read(secret, ids[0], entry).transaction == Transaction(0, Identity(7, 0, 1))
    assert read(secret, ids[1], entry).transaction == Transaction(0, Identity(7, 0, 1))
