"""Builders of the commands a client sends, each a complete frame."""

from collections.abc import Iterable, Mapping
from typing import Final

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import simple_frame
from bridge.pulsar.types import AccessMode, Position, SubscriptionType

# v20 is what a broker needs to see to send partial-producer and topic-watch commands; nothing above it matters here.
PROTOCOL_VERSION: Final = 20
_U64: Final = (1 << 64) - 1

Type = pb.BaseCommand
_PING: Final = simple_frame(pb.BaseCommand(type=Type.PING, ping=pb.CommandPing()).SerializeToString())
_PONG: Final = simple_frame(pb.BaseCommand(type=Type.PONG, pong=pb.CommandPong()).SerializeToString())


def _frame(command: pb.BaseCommand) -> bytes:
    return simple_frame(command.SerializeToString())


def message_id(position: Position, ack_set: Iterable[int] = ()) -> pb.MessageIdData:
    """A position as it travels: Java's longs as unsigned fields."""
    return pb.MessageIdData(ledger_id=position.ledger & _U64, entry_id=position.entry & _U64, ack_set=ack_set)


def _pairs(pairs: Mapping[str, str]) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=key, value=value) for key, value in pairs.items()]


# --- session ---------------------------------------------------------------------------------------------------------


def connect(
    client_version: str,
    auth_method: str,
    auth_data: bytes,
    proxy_to: str | None = None,
    original_principal: str | None = None,
) -> bytes:
    """Open the session; `proxy_to` (host:port) asks a Pulsar proxy for a connection to that broker.

    `original_principal`: the role that is spoken for, by one of the broker's `proxyRoles`.
    """
    command = pb.CommandConnect(
        client_version=client_version,
        auth_method_name=auth_method,
        auth_data=auth_data,
        protocol_version=PROTOCOL_VERSION,
        proxy_to_broker_url=proxy_to,
        original_principal=original_principal,
        feature_flags=pb.FeatureFlags(
            supports_auth_refresh=True,
            # Without it the broker keeps each entry's index to itself.
            supports_broker_entry_metadata=True,
            supports_partial_producer=False,
            supports_topic_watchers=True,
            supports_get_partitioned_metadata_without_auto_creation=True,
        ),
    )
    return _frame(pb.BaseCommand(type=Type.CONNECT, connect=command))


def auth_response(client_version: str, auth_method: str, auth_data: bytes) -> bytes:
    """Answer an AuthChallenge."""
    command = pb.CommandAuthResponse(
        client_version=client_version,
        response=pb.AuthData(auth_method_name=auth_method, auth_data=auth_data),
        protocol_version=PROTOCOL_VERSION,
    )
    return _frame(pb.BaseCommand(type=Type.AUTH_RESPONSE, auth_response=command))


def ping() -> bytes:
    """Ask the broker whether it is alive."""
    return _PING


def pong() -> bytes:
    """Say that this client is."""
    return _PONG


# --- discovery -------------------------------------------------------------------------------------------------------


def lookup(request_id: int, topic: str, *, authoritative: bool = False, listener: str = "") -> bytes:
    """Ask which broker serves the topic."""
    command = pb.CommandLookupTopic(
        topic=topic, request_id=request_id, authoritative=authoritative, advertised_listener_name=listener or None
    )
    return _frame(pb.BaseCommand(type=Type.LOOKUP, lookup_topic=command))


def partitioned_metadata(request_id: int, topic: str) -> bytes:
    """Ask how many partitions a topic has, without bringing it into being (PIP-344)."""
    command = pb.CommandPartitionedTopicMetadata(
        topic=topic, request_id=request_id, metadata_auto_creation_enabled=False
    )
    return _frame(pb.BaseCommand(type=Type.PARTITIONED_METADATA, partition_metadata=command))


def topics_of_namespace(request_id: int, namespace: str) -> bytes:
    """Ask for the namespace's persistent topics."""
    command = pb.CommandGetTopicsOfNamespace(
        request_id=request_id, namespace=namespace, mode=pb.CommandGetTopicsOfNamespace.PERSISTENT
    )
    return _frame(pb.BaseCommand(type=Type.GET_TOPICS_OF_NAMESPACE, get_topics_of_namespace=command))


def watch_topic_list(request_id: int, watcher_id: int, namespace: str, pattern: str) -> bytes:
    """Ask to be told of topics that come and go (PIP-145)."""
    command = pb.CommandWatchTopicList(
        request_id=request_id, watcher_id=watcher_id, namespace=namespace, topics_pattern=pattern
    )
    return _frame(pb.BaseCommand(type=Type.WATCH_TOPIC_LIST, watch_topic_list=command))


def watch_topic_list_close(request_id: int, watcher_id: int) -> bytes:
    """End such a watch."""
    command = pb.CommandWatchTopicListClose(request_id=request_id, watcher_id=watcher_id)
    return _frame(pb.BaseCommand(type=Type.WATCH_TOPIC_LIST_CLOSE, watch_topic_list_close=command))


# --- producing -------------------------------------------------------------------------------------------------------


def producer(
    request_id: int,
    producer_id: int,
    topic: str,
    *,
    name: str,
    user_provided_name: bool,
    epoch: int,
    properties: Mapping[str, str],
    access_mode: AccessMode,
    topic_epoch: int | None = None,
) -> bytes:
    """Open a producer; `epoch` grows with each attempt, `topic_epoch` is what an exclusive producer was granted."""
    command = pb.CommandProducer(
        topic=topic,
        producer_id=producer_id,
        request_id=request_id,
        producer_name=name,
        user_provided_producer_name=user_provided_name,
        epoch=epoch,
        metadata=_pairs(properties),
        producer_access_mode=pb.ProducerAccessMode.ValueType(access_mode),
        topic_epoch=topic_epoch,
    )
    return _frame(pb.BaseCommand(type=Type.PRODUCER, producer=command))


def send(producer_id: int, sequence_id: int, highest_sequence_id: int | None, num_messages: int) -> bytes:
    """The command of an entry's frame, without its framing."""
    command = pb.BaseCommand(type=Type.SEND)
    body = command.send
    body.producer_id = producer_id
    body.sequence_id = sequence_id
    if num_messages != 1:
        body.num_messages = num_messages
    if highest_sequence_id is not None:
        body.highest_sequence_id = highest_sequence_id
    return command.SerializeToString()


def close_producer(request_id: int, producer_id: int) -> bytes:
    """Close a producer; also sent before a second attempt when the first had no answer."""
    command = pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id)
    return _frame(pb.BaseCommand(type=Type.CLOSE_PRODUCER, close_producer=command))


# --- consuming -------------------------------------------------------------------------------------------------------


def subscribe(
    request_id: int,
    consumer_id: int,
    topic: str,
    subscription: str,
    *,
    durable: bool,
    subscription_type: SubscriptionType = SubscriptionType.EXCLUSIVE,
    consumer_name: str | None = None,
    start: Position | None = None,
    earliest: bool = False,
    read_compacted: bool = False,
    properties: Mapping[str, str] | None = None,
) -> bytes:
    """Open a consumer.

    `start` is the first entry wanted, for non-durable subscriptions (the broker's NonDurableCursorImpl takes it so as
    long as it has no batch index). `earliest` is where a durable subscription begins when it is new. The topic must
    exist: subscribing never creates it. `properties` are the consumer's, and those of a durable subscription that is
    new. A failover subscription orders its consumers by `consumer_name`.
    """
    types = pb.CommandSubscribe
    command = pb.CommandSubscribe(
        topic=topic,
        subscription=subscription,
        sub_type=types.SubType.ValueType(subscription_type),
        consumer_id=consumer_id,
        request_id=request_id,
        consumer_name=consumer_name,
        durable=durable,
        start_message_id=None if start is None else message_id(start),
        initial_position=types.Earliest if earliest else types.Latest,
        read_compacted=read_compacted,
        force_topic_creation=False,
        metadata=_pairs(properties or {}),
        subscription_properties=_pairs(properties or {}) if durable else (),
    )
    return _frame(pb.BaseCommand(type=Type.SUBSCRIBE, subscribe=command))


def flow(consumer_id: int, permits: int) -> bytes:
    """Allow so many more messages (not entries)."""
    command = pb.CommandFlow(consumer_id=consumer_id, message_permits=permits)
    return _frame(pb.BaseCommand(type=Type.FLOW, flow=command))


def ack(
    consumer_id: int,
    positions: Iterable[Position],
    *,
    cumulative: bool = False,
    ack_set: Iterable[int] = (),
    validation_error: pb.CommandAck.ValidationError.ValueType | None = None,
    request_id: int | None = None,
) -> bytes:
    """Acknowledge entries; with an ack set only its messages of each; with a request id the broker answers."""
    command = pb.CommandAck(
        consumer_id=consumer_id,
        ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
        message_id=[message_id(position, ack_set) for position in positions],
        validation_error=validation_error,
        request_id=request_id,
    )
    return _frame(pb.BaseCommand(type=Type.ACK, ack=command))


def redeliver(consumer_id: int, positions: Iterable[Position]) -> bytes:
    """Have these entries delivered again; none named = all that are unacknowledged."""
    command = pb.CommandRedeliverUnacknowledgedMessages(
        consumer_id=consumer_id, message_ids=[message_id(position) for position in positions]
    )
    return _frame(
        pb.BaseCommand(type=Type.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=command)
    )


def seek(request_id: int, consumer_id: int, *, position: Position | None = None, timestamp: int | None = None) -> bytes:
    """Move the subscription's cursor so that this entry, or the first published at or after the time, comes next."""
    command = pb.CommandSeek(
        consumer_id=consumer_id,
        request_id=request_id,
        message_id=None if position is None else message_id(position),
        message_publish_time=timestamp,
    )
    return _frame(pb.BaseCommand(type=Type.SEEK, seek=command))


def last_message_id(request_id: int, consumer_id: int) -> bytes:
    """Ask for the last readable entry of the consumer's topic."""
    command = pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id)
    return _frame(pb.BaseCommand(type=Type.GET_LAST_MESSAGE_ID, get_last_message_id=command))


def unsubscribe(request_id: int, consumer_id: int) -> bytes:
    """Delete the consumer's subscription."""
    command = pb.CommandUnsubscribe(consumer_id=consumer_id, request_id=request_id)
    return _frame(pb.BaseCommand(type=Type.UNSUBSCRIBE, unsubscribe=command))


def consumer_stats(request_id: int, consumer_id: int) -> bytes:
    """Ask for what the broker counts."""
    command = pb.CommandConsumerStats(request_id=request_id, consumer_id=consumer_id)
    return _frame(pb.BaseCommand(type=Type.CONSUMER_STATS, consumer_stats=command))


def close_consumer(request_id: int, consumer_id: int) -> bytes:
    """Close a consumer; also sent before a second attempt when the first had no answer."""
    command = pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id)
    return _frame(pb.BaseCommand(type=Type.CLOSE_CONSUMER, close_consumer=command))
