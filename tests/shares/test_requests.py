"""ShareFetch and ShareAcknowledge by their raw requests, on a real Pulsar: sessions, errors, restarts, other nodes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Producer

from bridge.apis import alter_client_quotas as quotas
from bridge.apis import alter_share_group_offsets as alter
from bridge.apis import api_versions, create_topics, share_acknowledge, share_fetch, share_group_heartbeat
from bridge.apis import describe_share_group_offsets as describe
from bridge.apis.describe_client_quotas import Entity
from bridge.codec import read_header
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.requests.share import MOST_RANGES, SHARE_APIS
from bridge.shares.state import ACCEPT, REJECT, RELEASE, RENEW
from tests.apis.configs import configure_group
from tests.apis.wire import Connection, ask_at, unique
from tests.support.bridges import BridgeChild, BridgeThread, settings_for
from tests.support.group_slots import wait_until_shared
from tests.support.pulsar import PulsarAddress

Said = tuple[int, int, Sequence[int]]
_WAIT_MS = 20_000
"""What a fetch waits for comes at once, or when a busy machine has come to it."""


class Group:
    """A share group that begins at the beginning of a topic with one partition and some records."""

    def __init__(self, address: str, count: int = 10) -> None:
        self.address = address
        self.name, self.topic = unique("share"), unique("shared")
        wanted = create_topics.RequestTopic(
            name=self.topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (made,) = ask_at(address, create_topics.API, create_topics.Request(topics=[wanted])).topics
        self.topic_id: uuid.UUID = made.topic_id
        self.configure("share.auto.offset.reset", "earliest")
        if count:
            self.produce(count)
        self.beat(0)

    def configure(self, name: str, value: str) -> None:
        configure_group(self.address, self.name, {name: value})

    def lag(self, version: int) -> tuple[int, int]:
        """Where it begins, and how many records are not done."""
        asked = describe.RequestGroup(group_id=self.name, topics=None)
        (told,) = ask_at(self.address, describe.API, describe.Request(groups=[asked]), version).groups
        ((part,),) = ([one for one in topic.partitions] for topic in told.topics)
        return part.start_offset, part.lag

    def produce(self, count: int) -> None:
        """Store so many records as one batch."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 10_000})  # `flush` waits for no more
        for number in range(count):
            producer.produce(self.topic, str(number))
        assert producer.flush(30) == 0

    def beat(self, epoch: int) -> None:
        request = share_group_heartbeat.Request(
            group_id=self.name,
            member_id="m",
            member_epoch=epoch,
            subscribed_topic_names=None if epoch else [self.topic],
        )
        assert ask_at(self.address, share_group_heartbeat.API, request).error_code == 0


class Session:
    """A share session over a connection of its own."""

    def __init__(self, group: Group, member: str = "m") -> None:
        self._group, self._member = group, member
        self.connection = Connection(group.address)

    def fetch(
        self, epoch: int, *said: Said, topic_id: uuid.UUID | None = None, version: int | None = None, **fields: Any
    ) -> Any:
        one = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=_batches(said))
        topic = share_fetch.FetchTopic(topic_id=topic_id or self._group.topic_id, partitions=[one])
        limits = {"max_wait_ms": _WAIT_MS, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        request = share_fetch.Request(
            group_id=self._group.name, member_id=self._member, share_session_epoch=epoch, topics=[topic],
            forgotten_topics_data=[], **(limits | fields),
        )  # fmt: skip
        return self.connection.ask(share_fetch.API, request, version)

    def acquired(self, epoch: int, *said: Said, **fields: Any) -> list[tuple[int, int, int]]:
        """Of a request without errors."""
        answer = self.fetch(epoch, *said, **fields)
        assert answer.error_code == 0
        parts = [part for topic in answer.responses for part in topic.partitions]
        assert {(part.error_code, part.acknowledge_error_code) for part in parts} <= {(0, 0)}
        return [
            (one.first_offset, one.last_offset, one.delivery_count) for part in parts for one in part.acquired_records
        ]

    def acknowledge(self, epoch: int, *said: Said, version: int | None = None, **fields: Any) -> Any:
        one = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=_batches(said))
        topic = share_acknowledge.AcknowledgeTopic(topic_id=self._group.topic_id, partitions=[one])
        request = share_acknowledge.Request(
            group_id=self._group.name, member_id=self._member, share_session_epoch=epoch, topics=[topic], **fields
        )
        return self.connection.ask(share_acknowledge.API, request, version)

    def error(self, epoch: int, *said: Said, **fields: Any) -> int:
        """Of an acknowledgement, of the whole or of its partition."""
        answer = self.acknowledge(epoch, *said, **fields)
        codes = [answer.error_code, *(part.error_code for topic in answer.responses for part in topic.partitions)]
        return int(max(codes))


def _batches(said: Sequence[Said]) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first_offset=one, last_offset=last, acknowledge_types=list(types))
            for one, last, types in said]  # fmt: skip


Open = Callable[..., Session]


@pytest.fixture
def session_of() -> Iterator[Open]:
    """Makes sessions whose connections end with the test."""
    with ExitStack() as connections:

        def made(group: Group, member: str = "m") -> Session:
            session = Session(group, member)
            connections.callback(session.connection.close)
            return session

        yield made


@pytest.fixture
def group(bridge: BridgeThread) -> Group:
    return Group(bridge.kafka)


def test_a_session_from_its_beginning_to_its_end(group: Group, session_of: Open) -> None:
    session = session_of(group)
    answer = session.fetch(0)
    assert (answer.error_code, answer.acquisition_lock_timeout_ms) == (0, 30_000)
    (part,) = answer.responses[0].partitions
    assert [(one.first_offset, one.last_offset, one.delivery_count) for one in part.acquired_records] == [(0, 9, 1)]
    assert read_header(b"".join(part.records)).base_offset == 0
    assert session.acquired(1, (0, 3, [ACCEPT]), (4, 5, [REJECT, RELEASE])) == [(5, 5, 2)]
    assert session.error(2, (5, 9, [ACCEPT])) == 0
    group.produce(2)
    assert session.acquired(3) == [(10, 11, 1)]
    assert session.error(-1, (10, 10, [ACCEPT])) == 0
    assert session.error(4) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert session.acquired(0) == [(11, 11, 1)]  # it was given back in order


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ((0, 10, [ACCEPT]), ErrorCode.INVALID_RECORD_STATE),
        ((3, 2, [ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((-1, 2, [ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((0, 2, [ACCEPT, ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((0, 2, []), ErrorCode.INVALID_REQUEST),
        ((0, 2, [4]), ErrorCode.INVALID_REQUEST),
        ((0, 2, [-1]), ErrorCode.INVALID_REQUEST),
    ],
)
def test_acknowledgements_that_are_refused(group: Group, said: Said, error: ErrorCode, session_of: Open) -> None:
    session = session_of(group)
    assert session.acquired(0) == [(0, 9, 1)]
    assert session.error(1, said) == error
    assert session.error(2, (0, 4, [ACCEPT]), (4, 9, [ACCEPT])) == ErrorCode.INVALID_REQUEST
    assert session.error(3, (0, 9, [ACCEPT])) == 0
    assert session.error(4, (0, 9, [ACCEPT])) == 0  # below the start: ignored


_NOTHING: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "is_renew_ack": True}
"""What a request asks for that renews locks."""


def test_what_renews_locks_brings_no_records(group: Group, session_of: Open) -> None:
    session = session_of(group)
    assert session.acquired(0, share_acquire_mode=share_fetch.RECORD_LIMIT, max_records=4) == [(0, 3, 1)]
    answer = session.fetch(1, (0, 1, [RENEW, ACCEPT]), **_NOTHING)
    assert (answer.error_code, answer.acquisition_lock_timeout_ms) == (0, 30_000)
    (part,) = answer.responses[0].partitions
    assert (part.error_code, part.acknowledge_error_code, part.acquired_records) == (0, 0, [])
    assert b"".join(part.records) == b""
    answer = session.acknowledge(2, (0, 0, [RENEW]), (2, 3, [RELEASE, RENEW]), is_renew_ack=True)
    assert (answer.error_code, answer.acquisition_lock_timeout_ms) == (0, 30_000)
    assert [part.error_code for part in answer.responses[0].partitions] == [0]
    assert session.error(3, (1, 1, [RENEW]), is_renew_ack=True) == ErrorCode.INVALID_RECORD_STATE
    assert session.error(4, (0, 0, [ACCEPT]), (3, 3, [ACCEPT])) == 0
    assert session.acquired(5) == [(2, 2, 2), (4, 9, 1)]


@pytest.mark.parametrize("version", [1, 2])
def test_locks_are_renewed_only_where_the_request_says_so(group: Group, session_of: Open, version: int) -> None:
    session = session_of(group)
    answer = session.fetch(0, version=version)
    assert answer.acquisition_lock_timeout_ms == 30_000
    assert session.error(1, (0, 9, [RENEW]), version=version) == ErrorCode.INVALID_REQUEST
    answer = session.acknowledge(2, (0, 9, [ACCEPT]), version=version)
    assert answer.acquisition_lock_timeout_ms == (30_000 if version == 2 else 0)


def test_a_group_that_lets_no_locks_be_renewed(group: Group, session_of: Open) -> None:
    session = session_of(group)
    group.configure("share.renew.acknowledge.enable", "false")
    assert session.acquired(0) == [(0, 9, 1)]
    assert session.error(1, (0, 3, [ACCEPT]), (4, 9, [RENEW]), is_renew_ack=True) == ErrorCode.INVALID_RECORD_STATE
    group.configure("share.renew.acknowledge.enable", "true")
    assert session.error(2, (0, 3, [ACCEPT]), (4, 9, [RENEW]), is_renew_ack=True) == 0


@pytest.mark.parametrize(
    "fields",
    [{"share_acquire_mode": 2}, {"share_acquire_mode": -1}]  # Kafka 4.3 answers UNKNOWN_SERVER_ERROR to these
    + [_NOTHING | {name: 1} for name in ("max_wait_ms", "min_bytes", "max_bytes", "max_records")],
)
def test_fetches_that_are_refused(group: Group, session_of: Open, fields: dict[str, Any]) -> None:
    session = session_of(group)
    assert session.acquired(0) == [(0, 9, 1)]
    assert session.fetch(1, **fields).error_code == ErrorCode.INVALID_REQUEST
    assert session.error(1, (0, 9, [ACCEPT])) == 0  # the session is where it was


def test_the_number_of_records_is_kept_where_that_is_asked_for(group: Group, session_of: Open) -> None:
    session, other = session_of(group), session_of(group, "n")
    limits = {"share_acquire_mode": share_fetch.RECORD_LIMIT, "max_records": 4}
    assert session.acquired(0, **limits) == [(0, 3, 1)]
    assert other.acquired(0, **limits) == [(4, 7, 1)]
    assert session.acquired(1, (1, 2, [RELEASE]), **limits) == [(1, 2, 2), (8, 9, 1)]


def test_how_far_a_group_is_behind(group: Group, session_of: Open) -> None:
    assert group.lag(1) == (-1, -1)
    session = session_of(group)
    assert session.acquired(0) == [(0, 9, 1)]
    assert group.lag(1) == (0, 10)
    assert session.error(1, (0, 2, [ACCEPT]), (6, 7, [REJECT])) == 0
    assert group.lag(1) == (3, 5)
    group.produce(2)
    assert group.lag(1) == (3, 7)
    assert group.lag(0) == (3, -1)


def test_sessions_that_are_refused(group: Group, session_of: Open) -> None:
    session = session_of(group)
    assert session.fetch(1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert session.fetch(-1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert session.fetch(0, (0, 0, [ACCEPT])).error_code == ErrorCode.INVALID_REQUEST
    assert session.acquired(0) == [(0, 9, 1)]
    assert session.fetch(2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert session.error(0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert session.fetch(1, *[(0, 0, [ACCEPT])] * (MOST_RANGES + 1)).error_code == ErrorCode.INVALID_REQUEST
    assert session_of(group, "").fetch(0).error_code == ErrorCode.INVALID_REQUEST


def test_partitions_that_are_refused(group: Group, session_of: Open) -> None:
    (part,) = session_of(group).fetch(0, topic_id=uuid.uuid4()).responses[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    other = Group(group.address)
    # no member of this group has been given a partition of that topic
    (part,) = session_of(group).fetch(0, topic_id=other.topic_id).responses[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_a_lost_connection_had_goes_to_who_waits(group: Group, session_of: Open) -> None:
    lost, other = session_of(group, "lost"), session_of(group)
    assert lost.acquired(0) == [(0, 9, 1)]
    assert other.acquired(0, max_wait_ms=0) == []
    lost.connection.reset()
    assert _first(other, 1) == [(0, 9, 2)]


def _first(session: Session, epoch: int) -> list[tuple[int, int, int]]:
    """What the first fetch brings that brings any: while a coordinator is away there is none."""
    for following in range(epoch, epoch + 60):
        found = session.acquired(following, max_wait_ms=500)
        if found:
            return found
    raise AssertionError("nothing came")


def test_offsets_that_are_altered(group: Group, session_of: Open) -> None:
    session = session_of(group)
    assert session.acquired(0) == [(0, 9, 1)]
    assert session.error(1, (0, 9, [ACCEPT])) == 0
    group.beat(-1)
    place = alter.RequestPartition(partition_index=0, start_offset=4)
    topic = alter.RequestTopic(topic_name=group.topic, partitions=[place])
    assert ask_at(group.address, alter.API, alter.Request(group_id=group.name, topics=[topic])).error_code == 0
    assert session.acquired(0) == [(4, 9, 1)]


def test_a_bridge_that_is_killed(bridge_process: Callable[..., BridgeChild], session_of: Open) -> None:
    """What was acknowledged does not come again, all else does."""
    first = bridge_process()
    group = Group(first.kafka)
    session = session_of(group)
    assert session.acquired(0) == [(0, 9, 1)]
    assert session.error(1, (2, 3, [ACCEPT]), (5, 5, [RELEASE]), (7, 9, [REJECT])) == 0
    first.kill()
    group.address = bridge_process().kafka
    assert _first(session_of(group), 0) == [(0, 1, 1), (4, 4, 1), (5, 5, 2), (6, 6, 1)]


def _told(address: str) -> tuple[set[int], bool]:
    """The APIs of share groups, and whether they are a feature."""
    request = api_versions.Request(client_software_name="test", client_software_version="1")
    answer = ask_at(address, api_versions.API, request)
    return {one.api_key for one in answer.api_keys} & SHARE_APIS, any(
        one.name == "share.version" for one in answer.finalized_features
    )


def test_where_clients_are_told_of_share_groups(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    assert _told(bridge.kafka) == (set(SHARE_APIS), True)
    namespace = pulsar.create_namespace()
    with ExitStack() as running:
        bridges = BridgeThread(settings_for(pulsar, namespace)), BridgeThread(settings_for(pulsar, namespace))
        for one in bridges:
            one.start()
            running.callback(one.stop)
        wait_until_shared(*bridges)
        for one in bridges:
            assert _told(one.kafka) == (set(), False)
        request = share_acknowledge.Request(group_id="g", member_id="m", share_session_epoch=1, topics=[])
        assert ask_at(bridges[0].kafka, share_acknowledge.API, request).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_records_count_for_the_quota_of_fetches(bridge_with: Callable[..., BridgeThread], session_of: Open) -> None:
    running = bridge_with()
    wait_until_shared(running)
    group = Group(running.kafka)
    entry = quotas.RequestEntry(
        entity=[Entity(entity_type="client-id", entity_name=None)],
        ops=[quotas.Operation(key="consumer_byte_rate", value=1.0, remove=False)],
    )
    answer = ask_at(running.kafka, quotas.API, quotas.Request(entries=[entry], validate_only=False))
    assert [one.error_code for one in answer.entries] == [0]
    answer = session_of(group).fetch(0)
    assert answer.throttle_time_ms > 0
    assert answer.responses[0].partitions[0].acquired_records


def test_who_leaves_the_group_gives_back_what_it_had(group: Group, session_of: Open) -> None:
    session = session_of(group)
    assert session.acquired(0) == [(0, 9, 1)]
    group.beat(-1)
    assert session.error(1, (0, 9, [ACCEPT])) == ErrorCode.SHARE_SESSION_NOT_FOUND
    group.beat(0)
    assert session.acquired(0) == [(0, 9, 2)]
