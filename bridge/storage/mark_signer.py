"""Signs the marks of entries, so that only the bridge's own word is believed of more than the entry that has it.

Any client that may produce to a topic can write any property into an entry, under any producer's name. The secret is in
Pulsar where the bridge keeps its state, and the same for all nodes.
"""

import asyncio
import secrets
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from bridge.errors import StartupError
from bridge.pulsar.admin import Admin, AdminError, Conflict, NotFound
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.storage.entries import PROPERTY, SIGNATURE
from bridge.telemetry import log

_log = log.get(__name__)

TOPIC: Final = "marks"
"""Nothing is written to it: its property is the secret, as of several nodes only one can create a topic."""
_KEY: Final = "key"
_TRIES: Final = 50
_EVERY_SECONDS: Final = 0.1
"""So often it is looked whether another node has made the topic."""
_LOST: Final = (
    "{topic} is gone, by which the bridge knows its own entries, and {transactions} is not: records of aborted "
    "transactions would be shown. Restore it with its property; or, if they may be shown, make a new one: "
    "pulsar-admin topics create-partitioned-topic {topic} -p 1 -m key=$(openssl rand -hex 32)"
)
_HAS_PRODUCER: Final = '"p":'


class MarkSecret:
    """The secret that all nodes sign marks with."""

    def __init__(self) -> None:
        self.value = secrets.token_bytes(32)
        """Until it is loaded, and where it cannot be had, this process believes no marks but its own."""
        self.is_shared = False
        """Whether it is loaded: what other nodes have signed is known."""

    async def load(self, admin: Admin, topic: str, transactions: str) -> None:
        """Take the secret that is kept with `topic`, or make it.

        StartupError where it is lost, and the topic `transactions` is there: an entry of an aborted transaction that
        nobody is known to have signed would be shown as a stranger's.
        """
        try:
            kept = await _kept(admin, topic)
            if kept is None and await _is_there(admin, transactions):
                raise StartupError(_LOST.format(topic=topic, transactions=transactions))
            self.value = bytes.fromhex(kept or await _made(admin, topic))
            self.is_shared = True
        except (AdminError, ValueError) as error:
            _log.warning("! marks of other nodes are not believed", extra={"topic": topic, "reason": repr(error)})


async def _is_there(admin: Admin, topic: str) -> bool:
    with suppress(NotFound):
        await admin.partitioned_metadata(topic)
        return True
    return False


async def _kept(admin: Admin, topic: str) -> str | None:
    """The secret that is kept with the topic; None where there is none."""
    try:
        return (await admin.partitioned_metadata(topic)).properties.get(_KEY)
    except NotFound:
        return None


async def _made(admin: Admin, topic: str) -> str:
    """Make the topic with a secret, or wait for that of another node that is making it; AdminError, ValueError."""
    with suppress(Conflict):  # another node was faster: its topic may not be there yet
        await admin.create_partitioned(topic, 1, {_KEY: secrets.token_hex(32)})
    for _ in range(_TRIES):
        kept = await _kept(admin, topic)
        if kept is not None:
            return kept
        await asyncio.sleep(_EVERY_SECONDS)
    raise ValueError("the topic has no secret")


class MarkSigner:
    """Signs and judges the marks of one partition."""

    def __init__(self, secret: MarkSecret, partition: str, topic_id: bytes = b"") -> None:
        """`partition`: its full name; `topic_id`: marks of an earlier topic of that name are not those of this one."""
        self._keyed, self._keyed_without_id = (
            blake2b(partition.encode() + b"\0" + one, key=secret.value, digest_size=8) for one in (topic_id, bytes(16))
        )
        self.knows_all_nodes = secret.is_shared
        self.has_met_own = False
        """Whether the partition has signed marks, as far as this process knows."""

    def sign(self, metadata: MessageMetadata, producer: str) -> None:
        """Sign the mark in `metadata`, which is the last property; `producer`: the name it is sent under."""
        self.has_met_own = True
        signature = _signature(self._keyed, producer, metadata.sequence_id, metadata.properties[-1].value)
        metadata.properties.add(key=SIGNATURE, value=signature)

    def has_signed(self, metadata: MessageMetadata) -> bool:
        """Whether the bridge has written the mark in it, in this partition."""
        mark = signature = ""
        for item in reversed(metadata.properties):  # the first of each is the bridge's, others are a record's headers
            if item.key == PROPERTY:
                mark = item.value
            elif item.key == SIGNATURE:
                signature = item.value
        if not signature:
            return False
        # a node that could not learn the topic's id has signed without
        for keyed in (self._keyed, self._keyed_without_id):
            expected = _signature(keyed, metadata.producer_name, metadata.sequence_id, mark)
            if secrets.compare_digest(signature.encode(), expected.encode()):
                self.has_met_own = True
                return True
        return False


def _signature(keyed: blake2b, producer: str, sequence_id: int, mark: str) -> str:
    """The sequence id counts for idempotent producers alone, whose deduplication makes it theirs: a copy of a mark
    elsewhere says nothing. Others' is not known yet; their marks are true wherever they stand."""
    keyed = keyed.copy()
    keyed.update(f"{producer}\0{sequence_id if _HAS_PRODUCER in mark else 0}\0{mark}".encode())
    return keyed.hexdigest()
