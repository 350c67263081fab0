"""What the scripted broker of the producer tests answers."""

import asyncio
from collections.abc import Callable

from bridge.pulsar import Producer
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import parse_body
from tests.pulsar.fake_broker import FakeBroker, Peer, Type

TOPIC = "persistent://public/default/t"
NO_ANSWER = lambda *_: None  # noqa: E731


def send(producer: Producer, payload: bytes = b"x", messages: int = 1) -> "asyncio.Future[object]":
    return producer.send(pb.MessageMetadata(), payload, messages)  # type: ignore[return-value]


def stored(broker: FakeBroker) -> list[bytes]:
    return [bytes(parse_body(memoryview(body)).payload) for body in broker.stored]


def refuse(code: int, *, by_highest: bool = False) -> Callable[[Peer, pb.BaseCommand, memoryview], None]:
    """`by_highest`: it names the batch by its last sequence id, as brokers do once they have begun to store it."""

    def answer(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        named = command.send.highest_sequence_id if by_highest else command.send.sequence_id
        error = pb.CommandSendError(
            producer_id=command.send.producer_id, sequence_id=named, error=code, message="scripted"
        )
        peer.send(type=Type.SEND_ERROR, send_error=error)

    return answer


def close_producer(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
    """The broker unloads the topic instead of storing this entry."""
    peer.close_producer(command.send.producer_id)


def succeed_open(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
    success = pb.CommandProducerSuccess(request_id=command.producer.request_id, producer_name="mine")
    peer.send(type=Type.PRODUCER_SUCCESS, producer_success=success)


def refuse_open(code: int) -> Callable[[Peer, pb.BaseCommand, memoryview], None]:
    return lambda peer, command, _: peer.error(command.producer.request_id, code)
