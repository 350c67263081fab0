"""A scripted broker that holds one topic."""

import struct

from bridge.pulsar import LATEST, Position
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import entry_head
from tests.pulsar.fake_broker import FakeBroker, Peer, Type

TOPIC = "persistent://public/default/t"
LEDGER = 7


def body(payload: bytes, messages: int = 1, index: int | None = None) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=messages)
    whole = entry_head(metadata.SerializeToString(), [payload]) + payload
    if index is None:
        return whole
    broker = pb.BrokerEntryMetadata(index=index, broker_timestamp=5).SerializeToString()
    return struct.pack(">HI", 0x0E02, len(broker)) + broker + whole


class Log(FakeBroker):
    """A scripted broker with a topic of entries, delivered as permits allow from where a subscription starts."""

    def __init__(self, entries: list[bytes]) -> None:
        super().__init__()
        self.entries = entries
        self.next: dict[int, int] = {}
        self.permits: dict[int, int] = {}
        self.on(Type.SUBSCRIBE, self._subscribe)
        self.on(Type.FLOW, self._flow)
        self.on(Type.GET_LAST_MESSAGE_ID, self._last)

    def _subscribe(self, peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        asked = command.subscribe
        start = Position.of(asked.start_message_id)
        if peer.subscribe(asked):
            self.next[asked.consumer_id] = max(start.entry, 0) if start != LATEST else len(self.entries)
            self.permits[asked.consumer_id] = 0

    def _flow(self, peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        consumer = command.flow.consumer_id
        self.permits[consumer] += command.flow.message_permits
        self.deliver(peer, consumer)

    def deliver(self, peer: Peer, consumer: int) -> None:
        while self.permits[consumer] > 0 and self.next[consumer] < len(self.entries):
            number = self.next[consumer]
            self.next[consumer] += 1
            self.permits[consumer] -= 1
            peer.send_entry(consumer, LEDGER, number, self.entries[number])

    def _last(self, peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        answer = pb.CommandGetLastMessageIdResponse(request_id=command.get_last_message_id.request_id)
        last = len(self.entries) - 1
        before = self.next[command.get_last_message_id.consumer_id] - 1
        answer.consumer_mark_delete_position.ledger_id = LEDGER
        answer.consumer_mark_delete_position.entry_id = before & (2**64 - 1)
        answer.last_message_id.ledger_id = LEDGER if last >= 0 else 2**64 - 1
        answer.last_message_id.entry_id = last if last >= 0 else 2**64 - 1
        peer.send(type=Type.GET_LAST_MESSAGE_ID_RESPONSE, get_last_message_id_response=answer)

    def close_consumer(self, consumer: int) -> None:
        self.peers[-1].close_consumer(consumer)

    @property
    def consumer(self) -> int:
        """The latest session's id."""
        return self.all(Type.SUBSCRIBE)[-1].subscribe.consumer_id
