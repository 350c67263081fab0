"""A broker that stores nothing, for topics whose names begin so: `python -m bench.stub_broker`; Pulsar has the rest.

What clients reach at the first port is Pulsar, frame by frame, but that a look-up of one of these topics is answered
with the second port. There producers are opened and sends are answered at once, in order, with an index and a position;
the last entries of each topic are kept for those who read them. So what a bridge asks of Pulsar as a cluster (views,
heartbeats, groups, the admin side) is real and costs little, and appending costs no disk, no bookie and no JVM.
"""

import argparse
import asyncio
import struct
import sys
import time
from collections import deque
from collections.abc import Callable

from bench.wire import run
from bridge.config import Address
from bridge.pulsar import protocol
from bridge.pulsar.commands import Type
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.standalone.ports import HOST

READY = "answering"
_KEPT = 16
"""Entries of each topic."""
_LEDGER = 1
_LONGEST_SECONDS = 600.0
_MAX_MESSAGE = 5 * 1024 * 1024
_U64 = (1 << 64) - 1


class Topic:
    """How far it is, and its last entries."""

    def __init__(self) -> None:
        self.entries = 0
        self.messages = 0
        self.kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self.readers: list[Reader] = []

    def append(self, count: int, body: memoryview) -> int:
        """The entry's number."""
        entry = self.entries
        self.entries += 1
        self.messages += count
        metadata = pb.BrokerEntryMetadata(broker_timestamp=int(time.time() * 1000), index=self.messages - 1)
        encoded = metadata.SerializeToString()
        head = struct.pack(">HI", protocol.MAGIC_BROKER_METADATA, len(encoded)) + encoded
        self.kept.append((entry, head + body))
        for reader in self.readers:
            reader.deliver()
        return entry


class Reader:
    """A consumer of a topic's kept entries."""

    def __init__(self, topic: Topic, start: int, send: Callable[[int, bytes], None]) -> None:
        self.next = start
        self.permits = 0
        self._topic = topic
        self._send = send

    def deliver(self) -> None:
        """What may be sent."""
        for entry, body in self._topic.kept:
            if entry >= self.next and self.permits > 0:
                self._send(entry, body)
                self.next = entry + 1
                self.permits -= 1


class Peer(asyncio.BufferedProtocol):
    """One connection of a bridge."""

    def __init__(self, topics: dict[str, Topic]) -> None:
        self._topics = topics
        self._buffer = protocol.FrameBuffer()
        self._producers: dict[int, Topic] = {}
        self._readers: dict[int, tuple[Topic, Reader]] = {}
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is said before CONNECT."""
        self._transport = transport  # type: ignore[assignment] # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        """Its readers go with it."""
        for topic, reader in self._readers.values():
            topic.readers.remove(reader)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Answer every frame that is whole; answers of one read go out together."""
        answers: list[bytes] = []
        for frame in self._buffer.received(nbytes):
            command, body = protocol.split(frame)
            answer = self._answer(command, body)
            if answer is not None:
                answers.append(protocol.simple_frame(answer.SerializeToString()))
        if answers:
            self._transport.write(b"".join(answers))

    def _answer(self, command: pb.BaseCommand, body: memoryview) -> pb.BaseCommand | None:
        match command.type:
            case Type.SEND:
                return self._stored(command.send, body)
            case Type.CONNECT:
                return pb.BaseCommand(type=Type.CONNECTED, connected=_connected())
            case Type.PING:
                return pb.BaseCommand(type=Type.PONG, pong=pb.CommandPong())
            case Type.PRODUCER:
                return self._opened(command.producer)
            case Type.FLOW:
                _, reader = self._readers[command.flow.consumer_id]
                reader.permits += command.flow.message_permits
                reader.deliver()
                return None
            case _:
                return self._consumer(command)

    def _stored(self, send: pb.CommandSend, body: memoryview) -> pb.BaseCommand:
        entry = self._producers[send.producer_id].append(max(send.num_messages, 1), body)
        receipt = pb.CommandSendReceipt(
            producer_id=send.producer_id, sequence_id=send.sequence_id, highest_sequence_id=send.highest_sequence_id,
            message_id=pb.MessageIdData(ledger_id=_LEDGER, entry_id=entry),
        )  # fmt: skip
        return pb.BaseCommand(type=Type.SEND_RECEIPT, send_receipt=receipt)

    def _opened(self, producer: pb.CommandProducer) -> pb.BaseCommand:
        self._producers[producer.producer_id] = self._topic(producer.topic)
        success = pb.CommandProducerSuccess(
            request_id=producer.request_id, producer_name=producer.producer_name, last_sequence_id=-1, topic_epoch=1,
            producer_ready=True,
        )  # fmt: skip
        return pb.BaseCommand(type=Type.PRODUCER_SUCCESS, producer_success=success)

    def _consumer(self, command: pb.BaseCommand) -> pb.BaseCommand | None:
        match command.type:
            case Type.SUBSCRIBE:
                self._subscribe(command.subscribe)
                request_id = command.subscribe.request_id
            case Type.GET_LAST_MESSAGE_ID:
                return self._last(command.get_last_message_id)
            case Type.CLOSE_CONSUMER:
                topic, reader = self._readers.pop(command.close_consumer.consumer_id)
                topic.readers.remove(reader)
                request_id = command.close_consumer.request_id
            case Type.CLOSE_PRODUCER:
                request_id = command.close_producer.request_id
            case _:
                print(f"not answered: command {command.type}", file=sys.stderr, flush=True)
                return None
        return pb.BaseCommand(type=Type.SUCCESS, success=pb.CommandSuccess(request_id=request_id))

    def _subscribe(self, asked: pb.CommandSubscribe) -> None:
        topic = self._topic(asked.topic)
        number = asked.consumer_id
        start = asked.start_message_id.entry_id
        first = (
            topic.entries
            if asked.start_message_id.ledger_id > _LEDGER or not asked.HasField("start_message_id")
            else start
        )
        reader = Reader(topic, 0 if first == _U64 else first, lambda entry, body: self._message(number, entry, body))
        topic.readers.append(reader)
        self._readers[number] = topic, reader

    def _message(self, number: int, entry: int, body: bytes) -> None:
        message = pb.CommandMessage(consumer_id=number, message_id=pb.MessageIdData(ledger_id=_LEDGER, entry_id=entry))
        command = pb.BaseCommand(type=Type.MESSAGE, message=message).SerializeToString()
        self._transport.write(protocol.entry_frame_head(command, b"", len(body)) + body)

    def _last(self, asked: pb.CommandGetLastMessageId) -> pb.BaseCommand:
        topic, reader = self._readers[asked.consumer_id]
        last = topic.entries - 1
        position = pb.MessageIdData(ledger_id=_LEDGER if topic.entries else _U64, entry_id=last & _U64)
        mark = pb.MessageIdData(ledger_id=_LEDGER, entry_id=(reader.next - 1) & _U64)
        answer = pb.CommandGetLastMessageIdResponse(
            request_id=asked.request_id, last_message_id=position, consumer_mark_delete_position=mark
        )
        return pb.BaseCommand(type=Type.GET_LAST_MESSAGE_ID_RESPONSE, get_last_message_id_response=answer)

    def _topic(self, name: str) -> Topic:
        return self._topics.setdefault(name, Topic())


def _connected() -> pb.CommandConnected:
    return pb.CommandConnected(
        server_version="stub", protocol_version=20, max_message_size=_MAX_MESSAGE, feature_flags=pb.FeatureFlags()
    )


class Relay(asyncio.Protocol):
    """One client's connection to Pulsar, of which some look-ups are answered here."""

    def __init__(self, pulsar: Address, prefix: str, url: str) -> None:
        self._pulsar = pulsar
        self._prefix = prefix
        self._url = url
        self._buffer = protocol.FrameBuffer()
        self._to_pulsar: asyncio.StreamWriter | None = None
        self._waiting: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to Pulsar, too."""
        self._transport = transport  # type: ignore[assignment] # uvloop's is no subclass
        task = asyncio.get_running_loop().create_task(self._back())
        self._tasks.add(task)

    async def _back(self) -> None:
        reader, self._to_pulsar = await asyncio.open_connection(self._pulsar.host, self._pulsar.port)
        self._to_pulsar.write(b"".join(self._waiting))
        while data := await reader.read(65536):
            self._transport.write(data)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Both ends go."""
        if self._to_pulsar is not None:
            self._to_pulsar.close()
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        """Pass on each frame, or answer it."""
        while data:
            space = self._buffer.space()
            count = min(len(space), len(data))
            space[:count] = data[:count]
            data = data[count:]
            for frame in self._buffer.received(count):
                self._frame(frame)

    def _frame(self, frame: memoryview) -> None:
        command, _ = protocol.split(frame)
        if command.type == Type.LOOKUP and f"/{self._prefix}" in command.lookup_topic.topic:
            answer = pb.CommandLookupTopicResponse(
                request_id=command.lookup_topic.request_id, response=pb.CommandLookupTopicResponse.Connect,
                broker_service_url=self._url, authoritative=True,
            )  # fmt: skip
            told = pb.BaseCommand(type=Type.LOOKUP_RESPONSE, lookup_topic_response=answer)
            self._transport.write(protocol.simple_frame(told.SerializeToString()))
            return
        whole = struct.pack(">I", len(frame)) + bytes(frame)
        if self._to_pulsar is None:
            self._waiting.append(whole)
        else:
            self._to_pulsar.write(whole)


async def serve(options: argparse.Namespace) -> None:
    """Until it is ended, as `apart` does, or for so long that it was forgotten."""
    loop = asyncio.get_running_loop()
    topics: dict[str, Topic] = {}
    pulsar = Address.parse(options.pulsar)
    url = f"pulsar://{HOST}:{options.data_port}"
    await loop.create_server(lambda: Peer(topics), HOST, options.data_port)
    await loop.create_server(lambda: Relay(pulsar, options.prefix, url), HOST, options.port)
    print(READY, file=sys.stderr, flush=True)
    await asyncio.sleep(_LONGEST_SECONDS)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pulsar", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data-port", type=int, required=True)
    run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
