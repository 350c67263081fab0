"""A producer that never repeats, in a process of its own: started and ended by a line, its outcomes printed as lines.

    {"op": "start", "name": …, "topic": …, "partitions": …, "rate": …}    {"op": "end", "name": …}

Each outcome is [number, partition, offset, error, when]: the record's number, where it is stored, else why it is not.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer

from bridge.apis import init_producer_id, metadata
from bridge.codec import NO_PRODUCER, Rebuild, Record, build_batch
from bridge.kafka import message, produce_wire
from tests.apis.wire import ask_at

LINGER_MS = 5
_TURN = 0.005
_TOLD_EVERY = 0.02
_MAX_OPEN = 20_000
_TIMEOUT_SECONDS = 60.0
_print_lock = threading.Lock()


def say(**line: object) -> None:
    with _print_lock:
        print(json.dumps(line), flush=True)


class Sender(threading.Thread, ABC):
    """Sends `name:0`, `name:1`, … round the partitions at a pace, whatever becomes of them."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, rate: int) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.rate = rate
        self.sent = 0
        self._told = 0
        self._outcomes: list[list[object]] = []
        self._lock = threading.Lock()
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            self._send_all()
        except Exception:  # noqa: BLE001 - whatever it is
            traceback.print_exc()
            os._exit(1)  # the test hears of it

    def _send_all(self) -> None:
        begin = said = time.monotonic()
        while not self._ending.is_set():
            due = int((time.monotonic() - begin) * self.rate)
            while self.sent < due and self.sent - self._told < _MAX_OPEN:
                number, self.sent = self.sent, self.sent + 1
                self.send(number, number % self.partitions, f"{self.name}:{number}".encode())
            self.serve(_TURN)
            begin = max(begin, time.monotonic() - self.sent / self.rate - 1)  # what was missed stays missed
            if time.monotonic() - said > _TOLD_EVERY:
                said = time.monotonic()
                self.tell()
        self.finish()
        self.tell()

    def end(self) -> int:
        """Send no more and wait for every outcome; how many were sent."""
        self._ending.set()
        self.join(_TIMEOUT_SECONDS)
        return self.sent

    def stored(self, number: int, where: int, offset: int) -> None:
        """One record is acknowledged."""
        self._outcome([number, where, offset, None])

    def lost(self, number: int, error: object) -> None:
        """One record has failed, forever."""
        self._outcome([number, -1, -1, str(error)])

    def _outcome(self, outcome: list[object]) -> None:
        with self._lock:
            self._told += 1
            self._outcomes.append([*outcome, time.monotonic()])

    def tell(self) -> None:
        with self._lock:
            outcomes, self._outcomes = self._outcomes, []
        if outcomes:
            say(member=self.name, outcomes=outcomes)

    @abstractmethod
    def send(self, number: int, where: int, value: bytes) -> None:
        """Hand one record to the client."""

    @abstractmethod
    def serve(self, seconds: float) -> None:
        """Let the client work for about so long."""

    @abstractmethod
    def finish(self) -> None:
        """Wait for what is on its way."""


class Confluent(Sender):
    """librdkafka: any number of requests in flight."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._producer = Producer(
            {"bootstrap.servers": self.bootstrap, "retries": 0, "linger.ms": LINGER_MS, "log_level": 0}
        )

    def send(self, number: int, where: int, value: bytes) -> None:
        self._producer.produce(self.topic, value, partition=where, on_delivery=partial(self._done, number))

    def _done(self, number: int, error: KafkaError | None, told: Message) -> None:
        where, offset = told.partition(), told.offset()
        if error is not None:
            self.lost(number, error)
        else:
            assert where is not None and offset is not None
            self.stored(number, where, offset)

    def serve(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._producer.poll(left)

    def finish(self) -> None:
        self._producer.flush(_TIMEOUT_SECONDS)


class KafkaPython(Sender):
    """kafka-python: five requests in flight."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, retries=0, enable_idempotence=False, linger_ms=LINGER_MS
        )

    def send(self, number: int, where: int, value: bytes) -> None:
        future = self._producer.send(self.topic, value, partition=where)
        future.add_callback(partial(self._stored, number))
        future.add_errback(partial(self.lost, number))

    def _stored(self, number: int, metadata: Any) -> None:
        self.stored(number, metadata.partition, metadata.offset)

    def serve(self, seconds: float) -> None:
        self._ending.wait(seconds)

    def finish(self) -> None:
        self._producer.flush(_TIMEOUT_SECONDS)
        self._producer.close(timeout=5)


@dataclass
class _Request:
    where: int
    numbers: list[int]


class Raw(Sender):
    """Requests over a socket, as many in flight as asked for; an idempotent one takes a new id with each connection."""

    def __init__(self, *arguments: Any, in_flight: int = 5, idempotent: bool = False) -> None:
        super().__init__(*arguments)
        self._most = in_flight
        self._idempotent = idempotent
        self._collected: list[list[tuple[int, bytes]]] = [[] for _ in range(self.partitions)]
        self._sequences: Counter[int] = Counter()
        self._producer_id = -1
        self._socket: socket.socket | None = None
        self._knows_leaders = False
        self._received = bytearray()
        self._on_their_way: list[_Request] = []  # in the order of their answers
        self._next = 0

    def send(self, number: int, where: int, value: bytes) -> None:
        self._collected[where].append((number, value))

    def serve(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        if not (self._knows_leaders or self._ask_for_leaders()) or (self._socket is None and not self._connect()):
            time.sleep(0.01)  # between two attempts to connect
            return
        for _ in range(self.partitions):
            self._next = (self._next + 1) % self.partitions
            if self._collected[self._next] and self._socket is not None and len(self._on_their_way) < self._most:
                sent, self._collected[self._next] = self._collected[self._next], []
                self._request(self._next, sent)
        # as librdkafka does, read all that is there, and be it the end, before sending again
        while self._socket is not None and select.select([self._socket], [], [], max(0.0, until - time.monotonic()))[0]:
            self._receive()

    def finish(self) -> None:
        until = time.monotonic() + _TIMEOUT_SECONDS
        while (self._on_their_way or any(self._collected)) and time.monotonic() < until:
            self.serve(_TURN)
        if self._socket is not None:
            self._socket.close()

    def _connect(self) -> bool:
        host, _, port = self.bootstrap.rpartition(":")
        try:
            if self._idempotent:
                request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=-1)
                answer = ask_at(self.bootstrap, init_producer_id.API, request)
                if answer.error_code:  # Kafka has none in its first moments
                    raise ConnectionError(f"no producer id: error {answer.error_code}")
                self._producer_id = answer.producer_id
                self._sequences.clear()
            self._socket = socket.create_connection((host, int(port)), timeout=10)
        except (OSError, struct.error):
            return False
        return True

    def _ask_for_leaders(self) -> bool:
        """As clients do before they send, and after an error: a Kafka that starts has none for a while."""
        request = metadata.Request(topics=[metadata.RequestTopic(name=self.topic)], allow_auto_topic_creation=False)
        try:
            (topic,) = ask_at(self.bootstrap, metadata.API, request, 1).topics
        except (OSError, struct.error):
            return False
        self._knows_leaders = len(topic.partitions) == self.partitions and not any(
            one.error_code for one in (topic, *topic.partitions)
        )
        return self._knows_leaders

    def _request(self, where: int, sent: list[tuple[int, bytes]]) -> None:
        assert self._socket is not None
        now = int(time.time() * 1000)
        records = [Record(at, now, None, value, []) for at, (_, value) in enumerate(sent)]
        producer = (self._producer_id, 0, self._sequences[where]) if self._idempotent else NO_PRODUCER
        self._sequences[where] += len(sent)
        batch = build_batch(records, Rebuild(0, len(records), 0, own=True, producer=producer))
        name = self.topic.encode()
        body = struct.pack(">hhihhhii", 0, 3, 1, -1, -1, -1, 30_000, 1) + struct.pack(">h", len(name)) + name
        body += struct.pack(">iii", 1, where, len(batch)) + batch
        self._on_their_way.append(_Request(where, [number for number, _ in sent]))
        try:
            self._socket.sendall(struct.pack(">i", len(body)) + body)
        except OSError as error:
            self._disconnected(error)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            piece = self._socket.recv(65536)
        except OSError as error:
            return self._disconnected(error)
        if not piece:
            return self._disconnected("the broker hung up")
        self._received += piece
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            self._answered(message.decode(produce_wire.Response, bytes(self._received[8 : 4 + size]), 3, False))
            del self._received[: 4 + size]

    def _answered(self, answer: produce_wire.Response) -> None:
        request = self._on_their_way.pop(0)
        told = answer.responses[0].partition_responses[0]
        self._knows_leaders = self._knows_leaders and not told.error_code
        for at, number in enumerate(request.numbers):
            if told.error_code:
                self.lost(number, f"error {told.error_code}")
            else:
                self.stored(number, told.index, told.base_offset + at)

    def _disconnected(self, reason: object) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._knows_leaders = False
        self._received.clear()
        for request in self._on_their_way:
            for number in request.numbers:
                self.lost(number, reason)
        self._on_their_way.clear()


KINDS: dict[str, Callable[..., Sender]] = {
    "librdkafka": Confluent,
    "kafka-python": KafkaPython,
    "raw-5": Raw,
    "raw-50": partial(Raw, in_flight=50),
    "raw-idempotent": partial(Raw, idempotent=True),
}


def main(kind: str, bootstrap: str) -> None:
    """Serve commands until the input ends."""
    sender: Sender | None = None
    for line in sys.stdin:
        command = json.loads(line)
        if command["op"] == "start":
            sender = KINDS[kind](command["name"], bootstrap, command["topic"], command["partitions"], command["rate"])
            sender.start()
            say(result=None)
        else:
            assert sender is not None
            say(result=sender.end())


if __name__ == "__main__":
    main(*sys.argv[1:])
