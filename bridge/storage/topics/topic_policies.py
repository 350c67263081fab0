"""Topics' own policies in Pulsar, with Pulsar's topic of changes to tell which topics have any (PIP-39).

Each namespace has a compacted topic `__change_events`. Brokers write every change of a topic's policies to it, with the
topic's name as its key. A topic that is not in there has no policies, and need not be asked about. That matters because
a question to the admin API takes a broker 2 ms, and Kafka's tools ask for the configs of all topics at once. If the
login may not read `__change_events`, every topic is asked about.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.pulsar.admin import Admin, AdminError, Forbidden
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, Entry, PulsarError
from bridge.runtime.futures import Cached, loop_time
from bridge.storage.topics.configs import Policies
from bridge.telemetry import log

_log = log.get(__name__)

_TOPIC: Final = "__change_events"
_ABSENT_SECONDS: Final = 2.0  # before it is looked again whether a first policy was set in the namespace
_REFUSED_SECONDS: Final = 60.0
_SILENCE_SECONDS: Final = 5.0
_SETTLING_SECONDS: Final = 10.0  # for which a broker may still answer as before a change
_DISABLED: Final = 405  # Pulsar's answer where topics cannot have policies of their own


@dataclass(frozen=True, slots=True)
class OwnPolicies:
    """A topic's own policies; None: those of the namespace or the broker apply."""

    policies: Policies
    ack_quorum: int | None = None
    deduplication: bool | None = None


NONE: Final = OwnPolicies(Policies())


class TopicPolicyCache:
    """The policies of one namespace's topics."""

    def __init__(self, client: PulsarClient, admin: Admin, namespace: str) -> None:
        self._client = client
        self._admin = admin
        self._topic = f"persistent://{namespace}/{_TOPIC}"
        self._reader: Reader | None = None
        self._following: asyncio.Task[None] | None = None
        self._changed_at: dict[str, float] = {}  # the topics with policies of their own; loop time of the last change
        self._known: dict[str, tuple[float, OwnPolicies]] = {}  # with the time at which they were asked for
        self._opening = Cached(self._open, _ABSENT_SECONDS)
        self._refused_until = float("-inf")

    async def close(self) -> None:
        """Stop following changes."""
        if self._following is not None:
            self._following.cancel()
        if self._reader is not None:
            await self._reader.close()

    async def get(self, topic: str) -> OwnPolicies:
        """A topic's own policies; raises AdminError."""
        if not await self._is_told():
            return await self.ask(topic)
        changed_at = self._changed_at.get(topic)
        if changed_at is None:
            return NONE
        known = self._known.get(topic)
        if known is not None and known[0] > changed_at + _SETTLING_SECONDS:
            return known[1]
        asked_at = loop_time()
        found = await self.ask(topic)
        if self._changed_at.get(topic) == changed_at:
            self._known[topic] = asked_at, found
        return found

    def changed(self, topic: str) -> None:
        """Its policies were changed here: for a while Pulsar is asked for them each time."""
        self._changed_at[topic] = loop_time()
        self._known.pop(topic, None)

    async def _is_told(self) -> bool:
        """Whether every change is known here: there was none, or the reader has read them all and is attached."""
        reader = self._reader
        if reader is not None:
            return reader.attached
        if loop_time() < self._refused_until:
            return False
        try:
            return await self._opening.get()
        except (BridgeError, TimeoutError) as error:
            self._refused_until = loop_time() + _REFUSED_SECONDS
            _log.warning("! topic policies not followed", extra={"topic": self._topic, "reason": str(error)})
            return False

    async def _open(self) -> bool:
        """Read the changes so far, and follow the next ones."""
        try:
            partitions = await self._client.partitions(self._topic)
        except PulsarError as error:
            if error.code == pb.TopicNotFound:
                return True  # no policy has been set yet
            raise
        if partitions:  # created automatically by a broker that creates partitioned topics
            return False
        reader = await self._client.reader(self._topic, EARLIEST, read_compacted=True)
        try:
            last = await reader.last_position()
            position = EARLIEST
            while position < last:
                async with asyncio.timeout(_SILENCE_SECONDS):
                    entry = await reader.receive()
                position = entry.position
                self._note(entry)
        except BaseException:
            await reader.close()
            raise
        self._reader = reader
        self._following = asyncio.get_running_loop().create_task(self._follow(reader))
        return True

    async def _follow(self, reader: Reader) -> None:
        with suppress(BridgeError):
            while True:
                self._note(await reader.receive())
        self._reader = None
        self._changed_at.clear()
        self._known.clear()
        self._opening.forget()
        await reader.close()

    def _note(self, entry: Entry) -> None:
        topic = entry.metadata.partition_key
        self._known.pop(topic, None)
        if entry.metadata.null_value:
            self._changed_at.pop(topic, None)
        else:
            age = time.time() - entry.metadata.publish_time / 1000
            self._changed_at[topic] = loop_time() - max(age, 0.0)

    async def ask(self, topic: str) -> OwnPolicies:
        """A topic's own policies as the broker has them now; raises AdminError."""
        retention, threshold, persistence, deduplication = await asyncio.gather(
            self._allowed(lambda: self._admin.topic_retention(topic)),
            self._allowed(lambda: self._admin.topic_policy(topic, "compactionThreshold")),
            self._allowed(lambda: self._admin.topic_policy(topic, "persistence")),
            self._allowed(lambda: self._admin.topic_deduplication(topic)),
        )
        quorum = (persistence or {}).get("bookkeeperAckQuorum")
        return OwnPolicies(
            Policies(retention, int(threshold) if threshold else None),
            None if quorum is None else int(quorum),
            deduplication,
        )

    async def _allowed(self, ask: Callable[[], Any]) -> Any:
        """The answer; None if topics cannot have policies of their own, or the login may not ask."""
        try:
            return await ask()
        except AdminError as error:
            if error.status == _DISABLED or isinstance(error, Forbidden):
                return None
            raise
