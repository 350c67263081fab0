"""One client's connection as the model broker has it: frames in, commands acted on, answers out.

What each command does and refuses is Pulsar 4.0's `ServerCnx`, as far as the bridge uses it.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from bridge.pulsar import protocol
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, Position
from tests.schedules.broker.consumers import Consumer
from tests.schedules.broker.peer import Peer
from tests.schedules.broker.producers import Producer, Refusal
from tests.schedules.broker.topic import Topic
from tests.schedules.pipe import Endpoint

if TYPE_CHECKING:
    from tests.schedules.broker.server import Broker

Type = pb.BaseCommand
_U64: Final = (1 << 64) - 1
_RECENTLY: Final = 30.0  # keepAliveIntervalSeconds: so long sends to a producer that the broker closed are ignored


class Connection(Peer):
    """See the module."""

    def __init__(self, broker: "Broker", endpoint: Endpoint) -> None:
        super().__init__(broker, endpoint)
        self._buffer = protocol.FrameBuffer()
        endpoint.received = self._received

    # --- receiving --------------------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        while data and not self.closed:
            space = self._buffer.space()
            count = min(len(space), len(data))
            space[:count] = data[:count]
            data = data[count:]
            for frame in self._buffer.received(count):
                command, body = protocol.split(frame)
                if not self.closed:
                    _COMMANDS[command.type](self, command, body)

    def _on_connect(self, command: pb.BaseCommand, _: memoryview) -> None:
        features = pb.FeatureFlags(
            supports_topic_watchers=True, supports_get_partitioned_metadata_without_auto_creation=True
        )
        connected = pb.CommandConnected(
            server_version="model", protocol_version=20, max_message_size=self._broker.max_message_size,
            feature_flags=features,
        )  # fmt: skip
        self._broker.after("answer", lambda: self.send(type=Type.CONNECTED, connected=connected))

    def _on_ping(self, command: pb.BaseCommand, _: memoryview) -> None:
        self.send(type=Type.PONG, pong=pb.CommandPong())

    def _on_pong(self, command: pb.BaseCommand, _: memoryview) -> None:
        self._answer_checks(True)

    def _on_lookup(self, command: pb.BaseCommand, _: memoryview) -> None:
        self._broker.after("lookup", self._answer_lookup, command.lookup_topic)

    def _answer_lookup(self, lookup: pb.CommandLookupTopic) -> None:
        answer = pb.CommandLookupTopicResponse(request_id=lookup.request_id)
        answer.response = pb.CommandLookupTopicResponse.Connect
        if not self._broker.take_over():
            answer.response = pb.CommandLookupTopicResponse.Failed
            answer.error, answer.message = pb.ServiceNotReady, "The namespace is being loaded"
        answer.broker_service_url = self._broker.url_of(lookup.topic)
        self.send(type=Type.LOOKUP_RESPONSE, lookup_topic_response=answer)

    def _on_partitioned_metadata(self, command: pb.BaseCommand, _: memoryview) -> None:
        self._broker.after("metadata", self._answer_partitions, command.partition_metadata)

    def _answer_partitions(self, asked: pb.CommandPartitionedTopicMetadata) -> None:
        kinds = pb.CommandPartitionedTopicMetadataResponse
        answer = kinds(request_id=asked.request_id, response=kinds.Success)
        partitions = self._broker.namespace.partitions(asked.topic)
        if partitions is None:
            answer.response, answer.error, answer.message = kinds.Failed, pb.TopicNotFound, "Topic not found"
        else:
            answer.partitions = partitions
        self._trace(self._who, "> partitions of %s: %s", asked.topic.rpartition("/")[2], partitions)
        self.send(type=Type.PARTITIONED_METADATA_RESPONSE, partition_metadata_response=answer)

    def _on_topics(self, command: pb.BaseCommand, _: memoryview) -> None:
        asked = command.get_topics_of_namespace
        self._broker.listing("list topics", self._broker.namespace.stored, self._answer_topics, asked.request_id)

    def _answer_topics(self, topics: list[str], request_id: int) -> None:
        answer = pb.CommandGetTopicsOfNamespaceResponse(request_id=request_id, topics=topics)
        self._trace(self._who, "> topics: %s", " ".join(topic.rpartition("/")[2] for topic in topics))
        self.send(type=Type.GET_TOPICS_OF_NAMESPACE_RESPONSE, get_topics_of_namespace_response=answer)

    def _on_watch(self, command: pb.BaseCommand, _: memoryview) -> None:
        self.watches[command.watch_topic_list.watcher_id] = False
        self._broker.after("watch", self._answer_watch, command.watch_topic_list)

    def _answer_watch(self, asked: pb.CommandWatchTopicList) -> None:
        if asked.watcher_id not in self.watches:
            return  # closed before its creation was complete
        self.watches[asked.watcher_id] = True
        topics = self._broker.namespace.stored()
        answer = pb.CommandWatchTopicListSuccess(
            request_id=asked.request_id, watcher_id=asked.watcher_id, topic=topics, topics_hash=""
        )
        self.send(type=Type.WATCH_TOPIC_LIST_SUCCESS, watch_topic_list_success=answer)

    def _on_watch_close(self, command: pb.BaseCommand, _: memoryview) -> None:
        self.watches.pop(command.watch_topic_list_close.watcher_id, None)
        self.success(command.watch_topic_list_close.request_id)

    # --- producers --------------------------------------------------------------------------------------------------

    def _on_producer(self, command: pb.BaseCommand, _: memoryview) -> None:
        asked = command.producer
        name, topic = asked.producer_name, asked.topic
        self._trace(self._who, "< producer %s of %s, id %d", name, topic.rpartition("/")[2], asked.producer_id)
        old = self.producers.get(asked.producer_id)
        if old is not None:
            if old.open:
                self._producer_success(asked.request_id, old, -1)
            else:
                refusal = Refusal(pb.ServiceNotReady, "Producer is already present on the connection")
                self.error(asked.request_id, refusal)
            return
        epoch = asked.topic_epoch if asked.HasField("topic_epoch") else None
        producer = Producer(self, asked.producer_id, name, asked.epoch, asked.producer_access_mode, epoch)
        self.producers[producer.id] = producer

        def loaded(found: Topic | None, refusal: Refusal | None) -> None:
            if refusal is not None or found is None:
                added(refusal)
            else:
                found.add_producer(producer, added)

        def added(refusal: Refusal | None) -> None:
            self._producer_added(asked.request_id, producer, refusal)

        self._broker.open(topic, True, loaded)

    def _producer_added(self, request_id: int, producer: Producer, refusal: Refusal | None) -> None:
        if refusal is not None:
            if self.producers.get(producer.id) is producer:
                del self.producers[producer.id]
                self.error(request_id, refusal)
            return
        topic = producer.topic
        assert topic is not None
        if self.closed or producer.closed or self.producers.get(producer.id) is not producer:
            topic.drop_producer(producer)  # closed before its creation was complete
            return
        producer.open = True
        self._recently_closed.pop(producer.id, None)
        self._producer_success(request_id, producer, topic.log.pushed.get(producer.name, -1))

    def _producer_success(self, request_id: int, producer: Producer, last: int) -> None:
        self._trace(self._who, "> producer %s is open, last sequence %d", producer.name, last)
        success = pb.CommandProducerSuccess(
            request_id=request_id, producer_name=producer.name, last_sequence_id=last, topic_epoch=producer.topic_epoch
        )
        self.send(type=Type.PRODUCER_SUCCESS, producer_success=success)

    def _on_send(self, command: pb.BaseCommand, body: memoryview) -> None:
        send = command.send
        producer = self.producers.get(send.producer_id)
        if producer is not None and producer.open and producer.topic is not None:
            producer.topic.publish(producer, send, bytes(body))
            return
        closed_at = self._recently_closed.get(send.producer_id)
        if closed_at is None or self._broker.loop.now - closed_at > _RECENTLY:
            self._trace(self._who, "! a send to producer %d, which is not open", send.producer_id)
            self.close()

    def _on_close_producer(self, command: pb.BaseCommand, _: memoryview) -> None:
        close = command.close_producer
        producer = self.producers.get(close.producer_id)
        if producer is None or not producer.open or producer.topic is None:
            self.producers.pop(close.producer_id, None)
            if producer is not None:
                producer.closed = True
            self.success(close.request_id)
            return
        self._trace(self._who, "< close producer %s", producer.name)

        def closed() -> None:
            if self.producers.get(close.producer_id) is producer:
                del self.producers[close.producer_id]
            self.success(close.request_id)

        producer.topic.close_producer(producer, closed)

    # --- consumers --------------------------------------------------------------------------------------------------

    def _on_subscribe(self, command: pb.BaseCommand, _: memoryview) -> None:
        asked = command.subscribe
        if asked.durable:
            raise NotImplementedError("the model has no durable subscriptions")
        start = Position.of(asked.start_message_id) if asked.HasField("start_message_id") else EARLIEST
        consumer = Consumer(self, asked.consumer_id, asked.subscription, start)
        self.consumers[consumer.id] = consumer
        self._trace(self._who, "< subscribe %d to %s from %s", consumer.id, asked.topic.rpartition("/")[2], start)

        def loaded(found: Topic | None, refusal: Refusal | None) -> None:
            if refusal is not None or found is None:
                self._consumer_refused(asked.request_id, consumer, refusal)
            else:
                found.consumers.add(consumer, added)

        def added(taken: bool) -> None:
            if taken:
                self._consumer_added(asked.request_id, consumer)
            else:
                refusal = Refusal(pb.ConsumerBusy, "Exclusive consumer is already connected")
                self._consumer_refused(asked.request_id, consumer, refusal)

        self._broker.open(asked.topic, False, loaded)

    def _consumer_refused(self, request_id: int, consumer: Consumer, refusal: Refusal | None) -> None:
        if self.consumers.get(consumer.id) is consumer:
            del self.consumers[consumer.id]
            self.error(request_id, refusal or Refusal(pb.UnknownError, "refused"))

    def _consumer_added(self, request_id: int, consumer: Consumer) -> None:
        assert consumer.topic is not None
        if self.closed or consumer.closed or self.consumers.get(consumer.id) is not consumer:
            consumer.topic.consumers.remove(consumer)
            return
        consumer.open = True
        self.success(request_id)

    def _on_flow(self, command: pb.BaseCommand, _: memoryview) -> None:
        consumer = self.consumers.get(command.flow.consumer_id)
        if consumer is not None and consumer.topic is not None:
            consumer.permits += command.flow.message_permits
            consumer.topic.consumers.schedule(consumer)

    def _on_last_message_id(self, command: pb.BaseCommand, _: memoryview) -> None:
        asked = command.get_last_message_id
        consumer = self.consumers.get(asked.consumer_id)
        if consumer is None or not consumer.open or consumer.topic is None:
            self.error(asked.request_id, Refusal(pb.MetadataError, "Consumer not found"))
            return
        log = consumer.topic.log
        self._broker.listing(
            "last id", lambda: log.last, self._answer_last_message_id, asked.request_id, consumer.began
        )

    def _answer_last_message_id(self, last: Position, request_id: int, began: Position) -> None:
        self._trace(self._who, "> last message id %s", last)
        place = pb.MessageIdData(ledger_id=last.ledger & _U64, entry_id=last.entry & _U64)
        mark = pb.MessageIdData(ledger_id=began.ledger, entry_id=began.entry & _U64)
        answer = pb.CommandGetLastMessageIdResponse(
            request_id=request_id, last_message_id=place, consumer_mark_delete_position=mark
        )
        self.send(type=Type.GET_LAST_MESSAGE_ID_RESPONSE, get_last_message_id_response=answer)

    def _on_close_consumer(self, command: pb.BaseCommand, _: memoryview) -> None:
        close = command.close_consumer
        consumer = self.consumers.pop(close.consumer_id, None)
        if consumer is not None:
            consumer.closed = True
            if consumer.topic is not None:
                consumer.topic.consumers.remove(consumer)
        self.success(close.request_id)

    def _on_ack(self, command: pb.BaseCommand, _: memoryview) -> None:
        """Nothing depends on what a reader acknowledges."""


_COMMANDS: Final[Mapping[int, Callable[[Connection, pb.BaseCommand, memoryview], None]]] = {
    Type.CONNECT: Connection._on_connect,
    Type.PING: Connection._on_ping,
    Type.PONG: Connection._on_pong,
    Type.LOOKUP: Connection._on_lookup,
    Type.PARTITIONED_METADATA: Connection._on_partitioned_metadata,
    Type.GET_TOPICS_OF_NAMESPACE: Connection._on_topics,
    Type.WATCH_TOPIC_LIST: Connection._on_watch,
    Type.WATCH_TOPIC_LIST_CLOSE: Connection._on_watch_close,
    Type.PRODUCER: Connection._on_producer,
    Type.SEND: Connection._on_send,
    Type.CLOSE_PRODUCER: Connection._on_close_producer,
    Type.SUBSCRIBE: Connection._on_subscribe,
    Type.FLOW: Connection._on_flow,
    Type.GET_LAST_MESSAGE_ID: Connection._on_last_message_id,
    Type.CLOSE_CONSUMER: Connection._on_close_consumer,
    Type.ACK: Connection._on_ack,
}
