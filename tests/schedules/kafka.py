"""Kafka clients for scenarios: requests to the bridge's handlers, and what a client knows of what it was told.

A Produce is handled as a connection of the bridge does it (`connection/client.py`): one after another until a handler
has returned a `DeferredResponse`. A client that waits no longer has hung up: long polls are cancelled then, all else
goes on. With two of four seeds two of three requests go straight, if they can.
"""

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from bridge import codec
from bridge.apis import create_topics, delete_topics, fetch, list_offsets, metadata, produce
from bridge.codec import NO_PRODUCER, Rebuild, Record
from bridge.connection.straight import StraightRequest
from bridge.errors import KafkaError
from bridge.kafka import fetch_wire, frames, message, produce_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.protocol import parse_body
from bridge.pulsar.types import Entry
from bridge.requests.api import Api
from bridge.requests.encoded import EncodedBody
from bridge.requests.responses import DeferredResponse
from bridge.requests.session import Session
from bridge.storage import entries
from bridge.storage.read.chunks import ChunkAssembler, is_chunk
from tests.schedules.chance import WALL
from tests.schedules.straight import StraightConnection
from tests.schedules.world import Bridge, World
from tests.support.versions import newest

NOW_MS: Final = int(WALL * 1000)
NO_ANSWER: Final = -1000
"""In place of an error code: the client has waited long enough and hung up."""


def error_name(code: int) -> str:
    """What an error code is called."""
    return "NO_ANSWER" if code == NO_ANSWER else ErrorCode(code).name


def batch(values: list[bytes], timestamps: list[int], producer: tuple[int, int, int] = NO_PRODUCER) -> bytes:
    """A record batch."""
    records = [Record(i, timestamps[i], b"k", value, ()) for i, value in enumerate(values)]
    return codec.build_batch(records, Rebuild(0, len(values), 0, producer=producer))


@dataclass(frozen=True, slots=True)
class Produced:
    """What a Produce was answered for its one partition."""

    error: int
    offset: int
    at: float
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a Fetch was answered for its one partition."""

    error: int
    records: list[Record]
    high_watermark: int
    at: float
    next: int = -1
    """The offset after all that was answered, records or none."""


_numbers = itertools.count(1)


@dataclass(eq=False)
class Client:
    """One client, connected to one bridge."""

    world: World
    bridge: Bridge
    name: str = "client"
    request_seconds: float = 40.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _straight: StraightConnection | None = None
    _asked: int = 0
    _session: Session = field(init=False)
    _hung_up: "asyncio.Future[None] | None" = None

    def __post_init__(self) -> None:
        self._session = Session(next(_numbers), "/10.0.0.9:1", "PLAINTEXT", client_id=self.name)

    def hang_up(self) -> None:
        """Close the connection: nothing on it is answered any more."""
        closed = self._closed()
        if not closed.done():
            closed.set_result(None)
            self._session.closed()

    def _closed(self) -> "asyncio.Future[None]":
        if self._hung_up is None:
            self._hung_up = asyncio.get_running_loop().create_future()
        return self._hung_up

    async def ask(self, api: Api, request: Any, version: int | None = None, seconds: float | None = None) -> Any:
        """The answer, or None when the client has hung up before."""
        session = self._session
        received = asyncio.get_running_loop().time()
        handled = self._run(self._handle(api, request, session, version, received))
        await asyncio.wait(
            (handled, self._closed()),
            timeout=self.request_seconds if seconds is None else seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if handled.done():
            return handled.result()
        self.world.trace(self.name, "! no answer to %s, hangs up", api.name)
        self.world.after_all(handled, api.name)
        if api.read_only:
            handled.cancel()
        return None

    def _run(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Future[Any]":
        return asyncio.ensure_future(work)

    async def _handle(self, api: Api, request: Any, session: Session, version: int | None, received: float) -> Any:
        version = newest(api) if version is None else version
        async with self._turn if api.key == produce.API.key else _NoTurn():
            straight = self._gone_straight(api, request, version, received)
            if straight is None:
                session.api_version, session.received_at = version, received
                answer = await api.handle(request, self.bridge.handlers, session)
        if straight is not None:
            connection, taken = straight
            answer, rest = await connection.answer_to(taken)
            if rest is None:
                return answer if not isinstance(answer, EncodedBody) else self._decoded(api, answer, version)
            header = frames.parse_header(rest, api.is_flexible(version))
            session.api_version, session.received_at = version, received
            answer = await api.handle(api.decode(rest[header.body_offset :], version), self.bridge.handlers, session)
        if isinstance(answer, DeferredResponse):
            found = await answer.future
            answer = found if answer.make is None else answer.make(found)
        return self._decoded(api, answer, version) if isinstance(answer, EncodedBody) else answer

    @staticmethod
    def _decoded(api: Api, answer: EncodedBody, version: int) -> Any:
        return message.decode(api.response, b"".join(answer.body), version, api.is_flexible(version))

    def _gone_straight(
        self, api: Api, request: Any, version: int, received: float
    ) -> tuple[StraightConnection, StraightRequest] | None:
        """The request on its straight way; None where it goes the general way."""
        self._asked += 1
        if api.key not in (produce.API.key, fetch.API.key) or self.world.chance.number & 2 or self._asked % 3 == 0:
            return None
        if self._straight is None or self._straight.handlers is not self.bridge.handlers:
            self._straight = StraightConnection(self.bridge.handlers, self._session)
        taken = self._straight.take(api, request, version, received)
        return None if taken is None else (self._straight, taken)

    # --- records ----------------------------------------------------------------------------------------------------

    async def produce(
        self, topic: str, data: bytes, *, partition: int = 0, timeout_ms: int = 30_000, seconds: float | None = None
    ) -> Produced:
        """Append one batch."""
        one = produce_wire.RequestPartition(index=partition, records=memoryview(data))
        request = produce_wire.Request(
            acks=-1, timeout_ms=timeout_ms, topic_data=[produce_wire.RequestTopic(name=topic, partition_data=[one])]
        )
        answer = await self.ask(produce.API, request, seconds=seconds)
        if answer is None:
            return Produced(NO_ANSWER, -1, self.world.now)
        found = answer.responses[0].partition_responses[0]
        self.world.trace(self.name, "> produced %s-%d: %d at %d %s", topic, partition, found.error_code,
                         found.base_offset, found.error_message or "")  # fmt: skip
        return Produced(found.error_code, found.base_offset, self.world.now, found.error_message)

    async def fetch(
        self, topic: str, offset: int, *, partition: int = 0, max_wait: float = 30.0, max_bytes: int = 1 << 20
    ) -> Fetched:
        """Read from an offset on, waiting so many seconds for the first record."""
        wanted = fetch_wire.RequestPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = fetch_wire.Request(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=1,
            topics=[fetch_wire.RequestTopic(topic=topic, partitions=[wanted])],
        )
        answer = await self.ask(fetch.API, request, seconds=max_wait + self.request_seconds)
        if answer is None:
            return Fetched(NO_ANSWER, [], -1, self.world.now)
        found = answer.responses[0].partitions[0]
        batches = [one for data in found.records or () for one in entries.split(memoryview(data))]
        last = codec.read_header(batches[-1]) if batches else None
        behind = -1 if last is None else last.base_offset + last.last_offset_delta + 1
        plain = [bytes(one) for one in batches if not entries.is_control(bytes(one))]
        records = [record for one in plain for record in entries.records_of(one)]
        self.world.trace(self.name, "> fetched %s-%d from %d: %d, %d records, end %d", topic, partition, offset,
                         found.error_code, len(records), found.high_watermark)  # fmt: skip
        return Fetched(found.error_code, [one for one in records if one.offset >= offset], found.high_watermark,
                       self.world.now, behind)  # fmt: skip

    async def offset(self, topic: str, timestamp: int = list_offsets.LATEST, partition: int = 0) -> tuple[int, int]:
        """ListOffsets for one partition: error and offset."""
        wanted = list_offsets.RequestPartition(partition_index=partition, timestamp=timestamp)
        request = list_offsets.Request(
            replica_id=-1, topics=[list_offsets.RequestTopic(name=topic, partitions=[wanted])]
        )
        answer = await self.ask(list_offsets.API, request)
        if answer is None:
            return NO_ANSWER, -1
        found = answer.topics[0].partitions[0]
        self.world.trace(self.name, "> offset of %s at %d: %d %d", topic, timestamp, found.error_code, found.offset)
        return found.error_code, found.offset

    # --- topics -----------------------------------------------------------------------------------------------------

    async def create(self, topic: str, partitions: int = 1, timeout_ms: int = 30_000) -> int:
        """CreateTopics: its error."""
        wanted = create_topics.RequestTopic(
            name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        answer = await self.ask(create_topics.API, create_topics.Request(topics=[wanted], timeout_ms=timeout_ms))
        error = NO_ANSWER if answer is None else answer.topics[0].error_code
        self.world.trace(self.name, "> created %s: %d", topic, error)
        return error

    async def delete(self, topic: str) -> int:
        """DeleteTopics: its error."""
        request = delete_topics.Request(topics=[delete_topics.RequestTopic(name=topic)], timeout_ms=30_000)
        answer = await self.ask(delete_topics.API, request)
        error = NO_ANSWER if answer is None else answer.responses[0].error_code
        self.world.trace(self.name, "> deleted %s: %d", topic, error)
        return error

    async def topics(self, *names: str, create: bool = False) -> dict[str, int] | None:
        """Metadata of these topics, of all if none is named: the error of each; None where it failed altogether."""
        wanted = [metadata.RequestTopic(name=name) for name in names] if names else None
        request = metadata.Request(topics=wanted, allow_auto_topic_creation=create)
        try:
            answer = await self.ask(metadata.API, request)
        except KafkaError as error:
            self.world.trace(self.name, "> metadata failed: %s", error)
            return None
        if answer is None:
            return None
        found = {topic.name: topic.error_code for topic in answer.topics}
        self.world.trace(self.name, "> metadata: %s", found)
        return found


class _NoTurn:
    """For requests that wait for nothing."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as the model broker holds it."""

    offset: int
    timestamp: int
    value: bytes
    sequence: int
    """Pulsar's, of its entry."""


def log_of(world: World, topic: str) -> list[LogRecord]:
    """Every record that a partition holds, by its full name in Pulsar."""
    found: list[LogRecord] = []
    chunks = ChunkAssembler(1 << 26)
    if topic not in world.broker.namespace.topics:
        return found
    for stored in world.broker.topic(topic).log.entries:
        payload: bytes | memoryview = parse_body(memoryview(stored.body)).payload
        entry = Entry(
            stored.position, stored.index, stored.at_ms, stored.metadata, memoryview(payload), len(stored.body)
        )
        if is_chunk(stored.metadata):
            whole = chunks.feed(entry)
            if whole is None:
                continue
            payload = whole
        data = entries.to_kafka(entry, stored.base, payload, 1 << 26)
        found += [
            LogRecord(record.offset, record.timestamp, bytes(record.value or b""), stored.sequence)
            for record in entries.records_of(data)
        ]
    return found
