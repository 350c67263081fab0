"""The straight way of a Produce: a small plain batch for one partition takes its place at once.

Nearly all Produces of clients that send record by record are such.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bridge.apis import produce
from bridge.codec import NO_PRODUCER
from bridge.connection.straight.found import Answers, FoundLog, OneWay, StraightRequest, Target
from bridge.errors import KafkaError
from bridge.kafka import frames, produce_head, produce_wire
from bridge.kafka.primitives import DecodeError
from bridge.produce.partition_append import not_in_time
from bridge.requests.api import Broker
from bridge.requests.session import Session
from bridge.runtime.deadlines import deadlines
from bridge.runtime.futures import call_when_done
from bridge.security.acls import Operation
from bridge.storage.append.plain import prepare_plain
from bridge.storage.append.preparation import PreparedEntry, excess_bytes
from bridge.storage.error_mapping import translate

_MAX_FRAME: Final = 16 * 1024


@dataclass(slots=True)
class ProduceTarget(Target):
    """What the bytes before the records of a Produce stand for."""

    seconds: float
    """That the request may take."""
    stored: produce_head.AnswerFrame
    """The answer of success."""


class StraightAppend(StraightRequest):
    """One such request: its place among the answers of its connection, and in its partition's log (`Member`)."""

    __slots__ = ("_answers", "_give_up", "_place", "_received_bytes", "_target", "_way", "entry", "offset")

    api = produce.API
    batch: Final = None

    def __init__(
        self,
        way: "StraightProduce",
        answers: Answers,
        target: ProduceTarget,
        frame: memoryview,
        received: float,
        entry: PreparedEntry,
        size: int,
    ) -> None:
        """`size`: of its records, in bytes."""
        super().__init__(frame, received)
        self._way, self._answers, self._target, self._received_bytes = way, answers, target, size
        self._give_up: Callable[[], None] | None = None
        self._place = way.deadlines.add(self, received + target.seconds)
        self.entry = entry
        self.offset: Any = None  # the future of an idempotent producer's batch

    @property
    def version(self) -> int:
        """Of its API."""
        return self._target.version

    @property
    def is_wanted(self) -> bool:
        """Whether its client waits."""
        return self.response is None

    def sent(self, give_up: Callable[[], None]) -> None:
        """As `Member.sent`."""
        self._give_up = give_up

    def drop_data(self) -> None:
        """As `Member.drop_data`."""
        self.entry = self.entry._replace(data=b"")

    def succeed(self, base: int) -> None:
        """It is stored: answer."""
        if self.response is not None:
            return
        self._place.pop(self, None)
        target = self._target
        log = target.found.log
        traffic, start = log.traffic, log.known_start
        traffic.records_in += self.entry.record_count
        traffic.bytes_in += self._received_bytes
        if not self._answers.answer_bytes(self, target.stored.around(self.correlation_id, base, start)):
            topic, index = target.found.topic.name, target.found.index
            self._answers.answer(self, partial(produce.stored_alone, topic, index, base, start))

    def fail(self, error: BaseException) -> None:
        """It has no offset: answer."""
        if self.response is not None:
            return
        self._place.pop(self, None)
        self._answers.answer(self, partial(self._way.failed, self._target, translate(error)))

    def expired(self) -> None:
        """Its client waits no longer: it will send the batch again, so that need not be stored any more."""
        if self.offset is not None:
            self.offset.cancel()
            return
        self.fail(not_in_time(self._target.found.log))
        if self._give_up is not None:
            self._give_up()

    def follow(self, offset: Any) -> None:
        """Answer with the outcome of this future."""
        self.offset = offset
        call_when_done(offset, self._offset_known)

    def _offset_known(self, offset: Any) -> None:
        if offset.cancelled():
            self.fail(not_in_time(self._target.found.log))
        elif (error := offset.exception()) is not None:
            self.fail(error)
        else:
            self.succeed(offset.result())


class StraightProduce(OneWay[ProduceTarget]):
    """The straight way of one connection's Produces."""

    __slots__ = ("deadlines",)

    def __init__(self, broker: Broker, session: Session) -> None:
        super().__init__(broker, session, produce.API, Operation.WRITE)
        self.deadlines = deadlines()

    def take(self, frame: memoryview, received: float, answers: Answers) -> bool:
        """Give a request's batch its place, and the request its own; False: nothing has been done."""
        split = produce_head.split(frame) if len(frame) <= _MAX_FRAME else None
        if split is None:
            return False
        head, records = split
        target = self.target(frame, head, received)
        if target is None:
            return False
        log = target.found.log
        entry = prepare_plain(records, log.plan, time.time_ns() // 1_000_000)
        if entry is None or excess_bytes([entry], len(records)):
            return False
        if entry.producer == NO_PRODUCER:
            place, offset = log.open_entry(entry), None
        else:
            place, offset = None, self._appended(target.found, entry)
        if place is None and offset is None:
            return False
        self.count(target, frame)
        append = StraightAppend(self, answers, target, frame, received, entry, len(records))
        answers.in_flight.append(append)
        if place is not None:
            place.add(append)
        else:
            append.follow(offset)
        return True

    def failed(self, target: ProduceTarget, error: KafkaError) -> Any:
        """The answer to a batch that has no offset."""
        return produce.failed_alone(target.found.topic.name, target.found.index, error, self.broker, self._session)

    def _appended(self, found: FoundLog, entry: PreparedEntry) -> Any:
        """The future offset of an idempotent producer's batch; None if it has to be waited for, or is refused: the
        general way meets that again, and answers."""
        producer_id, epoch, _ = entry.producer
        if self.broker.transactions.has_open(producer_id, epoch, found.topic.id.hex, found.index):
            return None
        try:
            if not found.log.is_ready((entry.producer,), self._session):
                return None
            (offset,) = found.log.append_all([entry])
        except KafkaError:
            return None
        return offset

    def _learned(self, frame: memoryview, head: bytes) -> ProduceTarget | None:
        """What the general way reads in this request, if it is a plain one and all is at hand; None if not."""
        broker, version = self.broker, frame[3]
        if not max(produce_head.OLDEST, produce.API.min_version) <= version <= produce.API.max_version:
            return None
        try:
            header = frames.parse_header(frame, produce.API.is_flexible(version))
            request = produce_wire.read(frame[header.body_offset :], version)
        except DecodeError:
            return None
        if request.transactional_id is not None or request.acks not in (1, -1):
            return None
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return None
        if head != produce_head.head(frame[: header.body_offset], request, version):
            return None
        name, index = request.topic_data[0].name, request.topic_data[0].partition_data[0].index
        found = FoundLog.at_hand(broker, broker.topics.cached(name), index)
        if found is None:
            return None
        stored = produce_head.answer_frame(produce.stored_alone(name, index, 0, 0), version)
        seconds = produce.timeout_of(request, broker)
        return ProduceTarget(version, header.client_id, found, seconds, stored)
