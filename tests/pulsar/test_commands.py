"""Each builder's frame says what it was asked to say; the real broker judges the rest."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.pulsar import EARLIEST, AccessMode, Position, commands
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import split

Type = pb.BaseCommand
ids = st.integers(0, 2**64 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
positions = st.builds(Position, longs, longs)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def command(frame: bytes) -> pb.BaseCommand:
    parsed, body = split(memoryview(frame)[4:])
    assert len(body) == 0
    return parsed


@given(ids, ids, texts, texts, positions)
def test_a_subscription_says_where_it_starts(
    request: int, consumer: int, topic: str, name: str, start: Position
) -> None:
    asked = command(commands.subscribe(request, consumer, topic, name, durable=False, start=start)).subscribe
    assert (asked.request_id, asked.consumer_id, asked.topic, asked.subscription) == (request, consumer, topic, name)
    assert Position.of(asked.start_message_id) == start
    assert (asked.durable, asked.force_topic_creation, asked.sub_type) == (False, False, pb.CommandSubscribe.Exclusive)


@given(ids, ids, st.none() | ids, st.integers(1, 2**31 - 1))
def test_a_send_carries_its_numbers(producer: int, sequence: int, highest: int | None, messages: int) -> None:
    sent = pb.BaseCommand.FromString(commands.send(producer, sequence, highest, messages)).send
    assert (sent.producer_id, sent.sequence_id, sent.num_messages) == (producer, sequence, messages)
    assert (sent.highest_sequence_id if sent.HasField("highest_sequence_id") else None) == highest


@given(ids, ids, texts, texts, st.dictionaries(texts, texts, max_size=3), st.sampled_from(AccessMode), st.none() | ids)
def test_a_producer_carries_its_name_mode_and_epochs(
    request: int,
    producer: int,
    topic: str,
    name: str,
    properties: dict[str, str],
    mode: AccessMode,
    topic_epoch: int | None,
) -> None:
    frame = commands.producer(
        request,
        producer,
        topic,
        name=name,
        user_provided_name=False,
        epoch=3,
        properties=properties,
        access_mode=mode,
        topic_epoch=topic_epoch,
    )
    opened = command(frame).producer
    assert (opened.topic, opened.producer_name, opened.epoch) == (topic, name, 3)
    assert {pair.key: pair.value for pair in opened.metadata} == properties
    assert int(opened.producer_access_mode) == int(mode)
    assert (opened.topic_epoch if opened.HasField("topic_epoch") else None) == topic_epoch


@given(ids, st.lists(positions, max_size=4), st.booleans(), st.none() | ids)
def test_an_ack_names_its_entries(
    consumer: int, entries: list[Position], cumulative: bool, request: int | None
) -> None:
    sent = command(commands.ack(consumer, entries, cumulative=cumulative, request_id=request)).ack
    assert [Position.of(one) for one in sent.message_id] == entries
    assert (sent.ack_type == pb.CommandAck.Cumulative) == cumulative
    assert (sent.request_id if sent.HasField("request_id") else None) == request


@given(ids, ids, st.none() | positions, st.none() | ids)
def test_a_seek_goes_to_a_place_or_a_time(
    request: int, consumer: int, position: Position | None, timestamp: int | None
) -> None:
    sent = command(commands.seek(request, consumer, position=position, timestamp=timestamp)).seek
    assert (Position.of(sent.message_id) if sent.HasField("message_id") else None) == position
    assert (sent.message_publish_time if sent.HasField("message_publish_time") else None) == timestamp


@pytest.mark.parametrize(
    ("build", "kind", "field"),
    [
        (commands.close_producer, Type.CLOSE_PRODUCER, "close_producer"),
        (commands.close_consumer, Type.CLOSE_CONSUMER, "close_consumer"),
        (commands.last_message_id, Type.GET_LAST_MESSAGE_ID, "get_last_message_id"),
        (commands.unsubscribe, Type.UNSUBSCRIBE, "unsubscribe"),
        (commands.consumer_stats, Type.CONSUMER_STATS, "consumer_stats"),
        (commands.watch_topic_list_close, Type.WATCH_TOPIC_LIST_CLOSE, "watch_topic_list_close"),
    ],
)
@given(ids)
def test_requests_about_a_resident_carry_the_request_id(
    build: Callable[[int, int], bytes], kind: int, field: str, request: int
) -> None:
    parsed = command(build(request, 5))
    assert (parsed.type, getattr(parsed, field).request_id) == (kind, request)


def test_asking_for_partitions_never_creates_the_topic() -> None:
    asked = command(commands.partitioned_metadata(1, "t")).partition_metadata
    assert asked.HasField("metadata_auto_creation_enabled")
    assert not asked.metadata_auto_creation_enabled


def test_the_rest_says_what_it_must() -> None:
    assert command(commands.ping()).type == Type.PING
    assert command(commands.pong()).type == Type.PONG
    assert command(commands.flow(1, 9)).flow.message_permits == 9
    assert command(commands.lookup(1, "t", authoritative=True, listener="l")).lookup_topic.authoritative
    assert command(commands.topics_of_namespace(1, "a/b")).get_topics_of_namespace.namespace == "a/b"
    assert command(commands.watch_topic_list(1, 2, "a/b", ".*")).watch_topic_list.watcher_id == 2
    redelivered = command(commands.redeliver(1, [EARLIEST])).redeliver_unacknowledged_messages
    assert Position.of(redelivered.message_ids[0]) == EARLIEST
    assert command(commands.auth_response("v", "token", b"x")).auth_response.response.auth_data == b"x"
