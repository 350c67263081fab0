"""The straight way of a Fetch: one partition, read from memory, or waited for at its end.

Nearly all Fetches of a consumer that keeps up with one partition are such. One that has waited goes on the general way
where something else has happened than that records came: it asks there for the rest of its time.
"""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Final

from bridge.apis import fetch
from bridge.connection.straight.found import Answers, FoundLog, OneWay, StraightRequest, Target
from bridge.errors import BridgeError
from bridge.fetch.pending_fetch import MAX_SHARED_BYTES, shared_key, stored
from bridge.fetch.waiting import WokenInTurn
from bridge.kafka import fetch_head, fetch_wire, frames
from bridge.kafka.fetch_messages import BY_ID, READ_COMMITTED, Request, Response, ResponseTopic
from bridge.kafka.primitives import DecodeError
from bridge.requests.api import Broker
from bridge.requests.encoded import EncodedBody
from bridge.requests.session import Session
from bridge.runtime.futures import TURN, loop_time
from bridge.security.acls import Operation
from bridge.telemetry.record_counts import sent

_MAX_FRAME: Final = 1024
_LEAST_BYTES: Final = 1
"""What a Fetch of this way asks for at least; Kafka's clients ask for that unless they are told otherwise."""


@dataclass(slots=True)
class FetchTarget(Target):
    """What the bytes of a Fetch stand for but for its offset."""

    request: Request
    """With any offset."""
    answer: fetch_head.AnswerFrame

    @property
    def committed(self) -> bool:
        """Whether only records of committed transactions, and of none, are wanted."""
        return self.request.isolation_level == READ_COMMITTED


class StraightPoll(StraightRequest):
    """One such request."""

    __slots__ = ("_answers", "_frame", "_offset", "_target", "_timer", "_until", "_waiter", "_way")

    api = fetch.API

    def __init__(
        self,
        way: "StraightFetch",
        answers: Answers,
        target: FetchTarget,
        offset: int,
        frame: memoryview,
        received: float,
    ) -> None:
        super().__init__(frame, received)
        self._way, self._answers, self._target, self._offset, self._frame = way, answers, target, offset, frame
        self._waiter: _Waiter | None = None  # while it waits
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0

    @property
    def version(self) -> int:
        """Of its API."""
        return self._target.version

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def wait(self, now: float) -> None:
        """Wait for records, or for the end of its time; `now`: loop time."""
        self._until = now + self._target.request.max_wait_ms / 1000
        self._timer = asyncio.get_running_loop().call_at(self._until, self._timed_out)
        self._waiter = waiter = _Waiter(self)
        self._target.found.log.end.add_waiter(waiter)
        self._way.broker.cluster.add_waiter(waiter)
        self._answers.poll(self)

    @property
    def waits(self) -> bool:
        """Whether it waits."""
        return self._waiter is not None

    def _timed_out(self) -> None:
        self._until = 0.0
        if self._waiter is not None:
            self._waiter.woken(None)

    def cancel(self) -> None:
        """It is cut short, or its client is gone."""
        if self.waits:
            self._leave()
            self._way.count(self._target, self._frame)
            self._answers.answer(self, partial(self._answers.nothing_yet, self))

    def _leave(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and self._timer is not None:
            self._timer.cancel()
            self._target.found.log.end.remove_waiter(waiter)
            self._way.broker.cluster.remove_waiter(waiter)
            self._way.broker.waiting_fetches.release(1)

    def look(self) -> None:
        """Something has happened that it waits for."""
        try:
            self._look_at_log()
        except Exception as error:  # noqa: BLE001 - whatever it is, the connection must get it
            self._leave()
            self._answers.answer(self, partial(_raise, error))

    def _look_at_log(self) -> None:
        found, now = self._target.found, loop_time()
        limits = self._way.limits(self._target) if found.holds(self._way.broker, now) else None
        if limits is None:
            return self._go_general(now)
        key = None
        if self._offset < found.log.end.offset:
            isolation = self._target.request.isolation_level
            key = shared_key(found.log, found.topic.name, found.index, self._offset, limits, self.version, isolation)
            shared = self._way.broker.shared_responses.get(key, _LEAST_BYTES)
            if shared is not None:
                shared.sent.count(found.log.traffic)
                return self._send(shared)
        records = found.log.read_nowait(self._offset, limits[0], now + TURN, committed=self._target.committed)
        if records is None:
            self._go_general(now)
        elif records or now >= self._until:
            self.answer(records, key)
        elif self._waiter is not None:
            found.log.end.add_waiter(self._waiter)

    def _go_general(self, now: float) -> None:
        """Go on the general way, for the rest of its time."""
        left = max(self._until - now, 0.0)
        self._leave()
        self._answers.go_general(self, fetch_head.with_max_wait(self._frame, int(left * 1000)))

    # ---- the answer --------------------------------------------------------------------------------------------------

    def answer(self, records: list[bytes], key: Hashable | None = None) -> None:
        """Answer with these batches; others that have waited for the same share them by this key."""
        target = self._target
        log = target.found.log
        read = sent(records)
        read.count(log.traffic)
        body = target.answer.body(log.end.offset, log.last_stable, log.known_start, records)
        if key is not None and 0 < read.size <= MAX_SHARED_BYTES:
            self._send(self._way.broker.shared_responses.put(key, read.size, (body,), read))
        else:
            self._send(EncodedBody((body,), read))

    def _send(self, response: EncodedBody) -> None:
        self._leave()
        self._way.count(self._target, self._frame)
        flexible = self._target.answer.flexible
        if not self._answers.answer_bytes(self, fetch_head.answer(self.correlation_id, response.body[0], flexible)):
            self._answers.answer(self, lambda: response)


class _Waiter(WokenInTurn):
    """Who waits for a poll at the log's end."""

    __slots__ = ("_poll",)

    def __init__(self, poll: StraightPoll) -> None:
        super().__init__()
        self._poll = poll

    @property
    def is_over(self) -> bool:
        """Whether the poll waits no more."""
        return not self._poll.waits

    def look(self) -> None:
        """Let it look."""
        self._poll.look()


def _raise(error: Exception) -> None:
    raise error


class StraightFetch(OneWay[FetchTarget]):
    """The straight way of one connection's Fetches."""

    __slots__ = ()

    def __init__(self, broker: Broker, session: Session) -> None:
        super().__init__(broker, session, fetch.API, Operation.READ)

    def take(self, frame: memoryview, received: float, answers: Answers) -> bool:
        """Answer a request, or let it wait; False: nothing has been done."""
        found = fetch_head.split(frame) if len(frame) <= _MAX_FRAME else None
        if found is None:
            return False
        head, offset = found
        now = loop_time()
        target = self.target(frame, head, now)
        records = None if target is None else self._read(target, offset, now)
        if target is None or records is None or not (records or self.broker.waiting_fetches.acquire(1)):
            return False
        poll = StraightPoll(self, answers, target, offset, frame, received)
        answers.in_flight.append(poll)
        if records:
            poll.answer(records)
        else:
            poll.wait(now)
        return True

    def _read(self, target: FetchTarget, offset: int, now: float) -> list[bytes] | None:
        limits = self.limits(target)
        try:
            if limits is None:
                return None
            return target.found.log.read_nowait(offset, limits[0], now + TURN, committed=target.committed)
        except BridgeError:  # what is stored there cannot be read: the general way meets it again, and answers
            return None

    def limits(self, target: FetchTarget) -> tuple[int, int] | None:
        """The most bytes of the partition, and of the answer; None where there is no room for an answer, or the client
        has reads under way that the general way takes up."""
        session, request = self._session, target.request
        most = min(request.max_bytes, self.broker.settings.kafka.max_fetch_bytes, session.remaining_response_bytes())
        if most < _LEAST_BYTES or session.has_pending_reads:
            return None
        return max(min(request.topics[0].partitions[0].partition_max_bytes, most), 1), most

    def _learned(self, frame: memoryview, head: bytes) -> FetchTarget | None:
        """What the general way reads in this request, if it is a plain one and all is at hand; None if not."""
        broker, version = self.broker, frame[3]
        if not fetch_head.OLDEST <= version <= fetch.API.max_version:
            return None
        try:
            header = frames.parse_header(frame, fetch.API.is_flexible(version))
            request = fetch_wire.read(frame[header.body_offset :], version)
        except DecodeError:
            return None
        if not _is_plain(request) or fetch_head.head(frame[: header.body_offset], request, version) != head:
            return None
        if request.rack_id and broker.cluster.snapshot.has_racks:  # it may be sent to another node
            return None
        ((topic,), (wanted,)) = request.topics, request.topics[0].partitions
        topics = broker.topics
        known = topics.cached_by_id(topic.topic_id) if version >= BY_ID else topics.cached(topic.topic)
        found = FoundLog.at_hand(broker, known, wanted.partition, wanted.current_leader_epoch)
        if found is None:
            return None
        empty = stored(wanted.partition, found.log, [], request.isolation_level)
        response = Response(responses=[ResponseTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=[empty])])
        return FetchTarget(version, header.client_id, found, request, fetch_head.answer_frame(response, version))


def _is_plain(request: Request) -> bool:
    """Whether a consumer asks for one partition, without a session, and waits for a single record."""
    return (
        len(request.topics) == 1
        and len(request.topics[0].partitions) == 1
        and request.replica_id < 0
        and request.replica_state is None
        and request.session_epoch in fetch.NO_SESSION_EPOCHS
        and request.min_bytes == _LEAST_BYTES
        and request.max_wait_ms > 0
        and not request.forgotten_topics_data
    )
